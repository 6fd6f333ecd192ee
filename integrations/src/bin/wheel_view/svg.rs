//! A series of moments as an animated SVG: rings that turn, and timers that move between them.
//!
//! A ring is a level. The time is at the top of each ring, and a ring turns towards it once in the
//! time of its slots. So a timer comes nearer to the top as its time comes. The picture has no
//! script and no font of its own. It has its own background, light or dark as the reader's system
//! is, because the page around it may be either.
//!
//! Each dot stays in one slot. It is drawn in the ring's own frame, so it turns with that. All
//! animations last as long as the picture. One that begins later has a negative delay, so dots
//! that stay equally long share their keyframes, and the file is small.
//!
//! Invariant: the same moments make the same bytes. Without animation it shows the first moment,
//! and so does a still of its beginning.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::TAU;
use std::fmt::Write;

use crate::draw::{grouped, short};
use crate::model::{Moment, Move, Place, Why};

const RADII: [f64; 4] = [64.0, 101.0, 138.0, 175.0];
const BAND: f64 = 33.0;
const CENTRE: (i32, i32) = (212, 206);

const STYLE: &str = "\
:root{--bg:#fbfcfe;--edge:#d5dbe5;--ring:#e9eef6;--line:#fff;--text:#1b2433;--soft:#5b6779;\
--dot:#2f6fde;--new:#15924f;--back:#c77700;--off:#a3adbb;--fire:#d6293e}
@media(prefers-color-scheme:dark){:root{--bg:#10151d;--edge:#2b3442;--ring:#1d2633;--line:#10151d;\
--text:#e8edf5;--soft:#97a3b6;--dot:#6ea8ff;--new:#3fcf86;--back:#f4ac3c;--off:#5d6878;--fire:#ff5d6c}}
text{font:14px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:var(--text)}
.s{fill:var(--soft);font-size:12.5px}.b{font-weight:600}.t{font-weight:700;font-size:21px}.e{text-anchor:end}\
.m{text-anchor:middle}.h{stroke:var(--ring);stroke-width:7;stroke-linejoin:round;paint-order:stroke;font-weight:600}
.n{font-variant-numeric:tabular-nums}
.band{fill:none;stroke:var(--ring);stroke-width:33}.cut{stroke:var(--line);stroke-width:2}
.d{fill:var(--dot);transform-box:fill-box;transform-origin:center;animation-duration:10s;\
animation-iteration-count:infinite;animation-delay:var(--t)}
.hit{fill:none;stroke:var(--fire);stroke-width:2.5;transform-box:fill-box;transform-origin:center;\
animation:hit 10s linear var(--t) infinite}
.v{fill:var(--dot);animation:v 10s linear var(--t) infinite}
.w{animation-duration:10s;animation-iteration-count:infinite;animation-delay:var(--t)}
.bar{transform-box:fill-box;transform-origin:left}
@keyframes scene{0%,97%{opacity:1}to{opacity:0}}
@keyframes new{0%{transform:scale(0);fill:var(--new)}2%{transform:scale(1.7);fill:var(--new)}\
5%{transform:none;fill:var(--new)}9%{fill:var(--dot)}}
@keyframes in{0%{transform:translate(var(--x),var(--y)) scale(1.4)}4%{transform:none}}
@keyframes back{0%{transform:translate(var(--x),var(--y)) scale(1.5);fill:var(--back)}\
6%{transform:none;fill:var(--back)}11%{fill:var(--dot)}}
@keyframes hit{0%{opacity:1;transform:scale(.3)}6%{opacity:0;transform:scale(1.6)}to{opacity:0}}
@keyframes v{0%{opacity:0}1%,4%{opacity:1}7%,to{opacity:0}}
@media(prefers-reduced-motion:reduce){*{animation:none!important}}
";

/// A dot in one slot, for a stretch of ticks from the first moment on.
struct Stay {
    place: Place,
    /// Which of the dots in the slot it is.
    nth: usize,
    from: u64,
    to: u64,
    came_from: Option<Place>,
    came: Why,
    went: Option<Why>,
}

/// The whole picture. There must be a moment for each tick, and two at the least.
pub fn write(moments: &[Moment]) -> String {
    let mut picture = Picture {
        moments,
        ticks: moments.len() as u64 - 1,
        begin: moments[0].now,
        slots: moments[0].levels[0].slots.len(),
        body: String::new(),
        keyframes: BTreeSet::new(),
    };
    picture.write_rings();
    picture.write_hand();
    picture.write_panel();
    let Picture {
        body, keyframes, ..
    } = picture;
    let mut style = STYLE.to_owned();
    for keyframe in keyframes {
        style += &keyframe;
        style.push('\n');
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 820 424\" width=\"820\" \
         height=\"424\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">Ten seconds of a hierarchical timing wheel</title>\n\
         <desc id=\"desc\">Each ring is a level. Timers cascade inwards from coarse rings to fine \
         ones. A ring is added for a timer of an hour. Most timers are cancelled or pushed back, \
         and few fire. Written by: wheel_view --svg</desc>\n\
         <style>\n{style}</style>\n\
         <rect x=\".5\" y=\".5\" width=\"819\" height=\"423\" rx=\"12\" fill=\"var(--bg)\" \
         stroke=\"var(--edge)\"/>\n{body}</svg>\n"
    )
}

struct Picture<'a> {
    moments: &'a [Moment],
    ticks: u64,
    begin: u64,
    slots: usize,
    body: String,
    keyframes: BTreeSet<String>,
}

/// Writes to the body of a picture, which refuses nothing.
macro_rules! put {
    ($picture:expr, $($text:tt)*) => {
        let _ = write!($picture.body, $($text)*);
    };
}

impl Picture<'_> {
    /// The way of each timer, cut where it changes its place.
    fn stays(&self) -> Vec<Stay> {
        let mut open: BTreeMap<u64, Stay> = BTreeMap::new();
        let mut taken: BTreeSet<(usize, usize, usize)> = BTreeSet::new();
        let mut stays = Vec::new();
        for (tick, moment) in (0..).zip(self.moments) {
            for &Move {
                timer,
                from,
                to,
                why,
            } in &moment.moves
            {
                if let Some(mut stay) = open.remove(&timer) {
                    taken.remove(&(stay.place.level, stay.place.slot, stay.nth));
                    (stay.to, stay.went) = (tick, Some(why));
                    stays.extend((stay.to > stay.from).then_some(stay));
                }
                if let Some(place) = to {
                    let is_taken = |nth: &usize| taken.contains(&(place.level, place.slot, *nth));
                    let nth = (0..).find(|nth| !is_taken(nth)).unwrap_or(0);
                    taken.insert((place.level, place.slot, nth));
                    let stay = Stay {
                        place,
                        nth,
                        from: tick,
                        to: self.ticks,
                        came_from: from,
                        came: why,
                        went: None,
                    };
                    open.insert(timer, stay);
                }
            }
        }
        let still = open.into_values().filter(|stay| stay.to > stay.from);
        stays.extend(still);
        stays.sort_by_key(|stay| (stay.place.level, stay.from, stay.place.slot, stay.nth));
        stays
    }

    /// How far a ring has turned at a tick, in turns.
    fn turned(&self, level: usize, tick: u64) -> f64 {
        let around = (self.slots as f64).powi(level as i32 + 1);
        (self.begin as f64 / around).fract() + tick as f64 / around
    }

    /// Where a dot lies in the frame of its ring.
    fn spot(&self, place: Place, nth: usize) -> (f64, f64) {
        let (along, out) = match (place.level, nth) {
            // A slot of level 0 is one tick, and its timers are due exactly then.
            (0, nth) => (0.0, [0.0, -10.0, 10.0][nth % 3]),
            (_, nth) => [
                (0.5, 0.0),
                (0.28, 8.5),
                (0.72, -8.5),
                (0.72, 8.5),
                (0.28, -8.5),
                (0.5, 11.5),
                (0.5, -11.5),
            ][nth % 7],
        };
        let turn = (place.slot as f64 + along) / self.slots as f64;
        at(turn, RADII[place.level.min(RADII.len() - 1)] + out)
    }

    fn write_rings(&mut self) {
        let (x, y) = CENTRE;
        let stays = self.stays();
        put!(
            self,
            "<g style=\"animation:scene 10s linear infinite\"><g transform=\"translate({x} {y})\">\n"
        );
        for (level, radius) in RADII.iter().enumerate().take(self.most_levels()).rev() {
            let shown = self.shown(level);
            let [begin, end] = [0, self.ticks].map(|tick| -360.0 * self.turned(level, tick));
            self.keyframes.insert(format!(
                "@keyframes r{level}{{0%{{transform:rotate({begin:.2}deg)}}\
                 to{{transform:rotate({end:.2}deg)}}}}"
            ));
            put!(
                self,
                "<g {shown}><g transform=\"rotate({begin:.2})\" \
                 style=\"animation:r{level} 10s linear infinite\">\n\
                 <circle class=\"band\" r=\"{radius}\"/><path class=\"cut\" d=\""
            );
            for slot in 0..self.slots {
                // The slots of level 0 are drawn around their tick.
                let edge = slot as f64 - if level == 0 { 0.5 } else { 0.0 };
                let turn = edge / self.slots as f64;
                let inner = at(turn, radius - BAND / 2.0);
                let outer = at(turn, radius + BAND / 2.0);
                put!(
                    self,
                    "M{:.1} {:.1}L{:.1} {:.1}",
                    inner.0,
                    inner.1,
                    outer.0,
                    outer.1
                );
            }
            put!(self, "\"/>\n");
            for stay in stays.iter().filter(|stay| stay.place.level == level) {
                self.write_dot(stay);
            }
            put!(
                self,
                "</g><text class=\"s m h\" x=\"-{radius}\" y=\"4.5\">{level}</text></g>\n"
            );
        }
    }

    fn write_dot(&mut self, stay: &Stay) {
        let (x, y) = self.spot(stay.place, stay.nth);
        let life = self.lasts(stay.to - stay.from, stay.went == Some(Why::Cancelled));
        let mut offset = String::new();
        let name = match (stay.came, stay.came_from) {
            // It is there from the beginning.
            _ if stay.from == 0 => life,
            (why @ (Why::Cascaded | Why::PushedBack), Some(from)) => {
                // Where it came from, seen in the frame of this ring.
                let (from_x, from_y) = self.spot(from, 0);
                let turn =
                    self.turned(stay.place.level, stay.from) - self.turned(from.level, stay.from);
                let (sin, cos) = (turn * TAU).sin_cos();
                let (from_x, from_y) = (from_x * cos - from_y * sin, from_x * sin + from_y * cos);
                offset = format!(";--x:{:.0}px;--y:{:.0}px", from_x - x, from_y - y);
                let came = if why == Why::Cascaded { "in" } else { "back" };
                format!("{life},{came}")
            }
            _ => format!("{life},new"),
        };
        let (hidden, delay) = begins(stay.from);
        put!(
            self,
            "<circle class=\"d\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.4\"{hidden} \
             style=\"animation-name:{name};{delay}{offset}\"/>\n"
        );
    }

    /// The time at the top, what fires there, and where cascades come down.
    fn write_hand(&mut self) {
        let top = RADII[RADII.len() - 1] + BAND / 2.0;
        let inner = RADII[0] - BAND / 2.0;
        put!(
            self,
            "<path d=\"M0 -{inner:.0}V-{top:.0}\" stroke=\"var(--fire)\" stroke-width=\"1.6\" \
             stroke-dasharray=\"3 3\"/>\n\
             <circle r=\"{:.0}\" fill=\"var(--bg)\" stroke=\"var(--edge)\"/>\n\
             <text class=\"s m\" y=\"-6\">now, tick</text>\n",
            inner - 3.0
        );
        for (tick, moment) in (0..).zip(self.moments).skip(1) {
            let (_, delay) = begins(tick);
            if moment.moves.iter().any(|moved| moved.why == Why::Fired) {
                put!(
                    self,
                    "<circle class=\"hit\" cy=\"-{}\" r=\"15\" opacity=\"0\" style=\"{delay}\"/>\n",
                    RADII[0]
                );
            }
            let from: BTreeSet<usize> = moment.moves.iter().filter_map(cascades_from).collect();
            for level in from.into_iter().filter(|&level| level < RADII.len()) {
                let y = (RADII[level] + RADII[level - 1]) / 2.0 + 6.0;
                put!(
                    self,
                    "<path class=\"v\" d=\"M-9 -{y:.0}h18l-9 13z\" opacity=\"0\" \
                     style=\"{delay}\"/>\n"
                );
            }
        }
        put!(self, "</g>\n");
    }

    fn write_panel(&mut self) {
        let moments = self.moments;
        let (x, y) = CENTRE;
        self.write_numbers((x, y + 16), "b m n", 1, |moment| Some(moment.now));
        put!(
            self,
            "<text class=\"t\" x=\"450\" y=\"48\">tickwheel</text>\n\
             <text class=\"s\" x=\"450\" y=\"70\">ten seconds; a tick is {}, a level has {} \
             slots</text>\n",
            short(moments[0].tick),
            self.slots
        );
        let most = self.most_levels();
        let fullest = moments.iter().find(|moment| moment.levels.len() >= most);
        let levels = fullest.map_or(&[][..], |moment| &moment.levels[..most]);
        for (number, level) in levels.iter().enumerate() {
            let y = 106 + 24 * (most - 1 - number);
            let shown = self.shown(number);
            let role = match number {
                0 => "turns each tick",
                _ if number >= moments[0].levels.len() => "overflow, on demand",
                _ => "",
            };
            put!(
                self,
                "<g {shown}><text class=\"b\" x=\"450\" y=\"{y}\">level {number}</text>\
                 <text class=\"s\" x=\"508\" y=\"{y}\">{} a slot</text>\
                 <text class=\"s\" x=\"606\" y=\"{y}\">{role}</text>\n",
                short(level.slot_width)
            );
            self.write_numbers((790, y as i32), "e n", 2, |moment| {
                Some(moment.levels.get(number)?.pending() as u64)
            });
            put!(self, "</g>\n");
        }
        type Count = fn(&Moment) -> u64;
        let rows: [(&str, &str, Count); 4] = [
            ("armed", "new", |moment| moment.counts.armed),
            ("pushed back", "back", |moment| moment.counts.pushed_back),
            ("cancelled", "off", |moment| moment.counts.cancelled),
            ("fired", "fire", |moment| moment.counts.fired),
        ];
        let last = &moments[moments.len() - 1];
        let most = rows.iter().map(|(_, _, count)| count(last)).max();
        let most = most.unwrap_or(0).max(1) as f64;
        for (row, (name, colour, count)) in rows.into_iter().enumerate() {
            let y = 232 + 28 * row as i32;
            let stops = (0..=20).map(|stop| {
                let share = count(&moments[(stop * self.ticks / 20) as usize]) as f64 / most;
                format!("{}%{{transform:scaleX({share:.3})}}", 5 * stop)
            });
            let stops: String = stops.collect();
            self.keyframes
                .insert(format!("@keyframes bar{row}{{{stops}}}"));
            put!(
                self,
                "<circle cx=\"455\" cy=\"{}\" r=\"4.4\" fill=\"var(--{colour})\"/>\
                 <text x=\"468\" y=\"{y}\">{name}</text>\
                 <rect class=\"bar\" x=\"572\" y=\"{}\" width=\"160\" height=\"9\" rx=\"2\" \
                 fill=\"var(--{colour})\" style=\"animation:bar{row} 10s linear infinite\"/>\n",
                y - 5,
                y - 9
            );
            self.write_numbers((790, y), "b e n", 5, |moment| Some(count(moment)));
        }
        for (from, to, lines) in CAPTIONS {
            let name = self.lasts(to - from, false);
            let (hidden, delay) = begins(from);
            put!(
                self,
                "<g class=\"w\"{hidden} style=\"animation-name:{name};{delay}\">\
                 <text class=\"b\" x=\"450\" y=\"366\">{}</text>\
                 <text class=\"b\" x=\"450\" y=\"387\">{}</text></g>\n",
                lines[0],
                lines[1]
            );
        }
        put!(self, "</g>\n");
    }

    /// A number that changes, looked at each so many ticks.
    fn write_numbers(
        &mut self,
        (x, y): (i32, i32),
        class: &str,
        each: usize,
        number: impl Fn(&Moment) -> Option<u64>,
    ) {
        let looks = (0..self.ticks).zip(self.moments).step_by(each);
        let mut shown: Vec<_> = looks.map(|(tick, moment)| (tick, number(moment))).collect();
        shown.dedup_by_key(|&mut (_, number)| number);
        let ends = shown.iter().skip(1).map(|&(tick, _)| tick);
        let ends: Vec<_> = ends.chain([self.ticks]).collect();
        for ((from, number), to) in shown.into_iter().zip(ends) {
            let Some(number) = number else { continue };
            let name = self.lasts(to - from, false);
            let (hidden, delay) = begins(from);
            put!(
                self,
                "<text class=\"w {class}\" x=\"{x}\" y=\"{y}\"{hidden} \
                 style=\"animation-name:{name};{delay}\">{}</text>\n",
                grouped(number)
            );
        }
    }

    fn most_levels(&self) -> usize {
        let levels = self.moments.iter().map(|moment| moment.levels.len());
        levels.max().unwrap_or(0).min(RADII.len())
    }

    /// The attributes of what is there only while a level is.
    fn shown(&mut self, level: usize) -> String {
        let opacity = |moment: &Moment| u8::from(moment.levels.len() > level);
        if self.moments.iter().all(|moment| opacity(moment) == 1) {
            return String::new();
        }
        let mut before = opacity(&self.moments[0]);
        let mut stops = format!("0%{{opacity:{before}}}");
        for (tick, now) in (0..).zip(self.moments.iter().map(opacity)) {
            if now != before {
                // It fades in and out.
                let end = tick + 3;
                stops += &format!("{tick}%{{opacity:{before}}}{end}%{{opacity:{now}}}");
                before = now;
            }
        }
        self.keyframes
            .insert(format!("@keyframes level{level}{{{stops}}}"));
        let first = opacity(&self.moments[0]);
        format!("opacity=\"{first}\" style=\"animation:level{level} 10s linear infinite\"")
    }

    /// The name of the keyframes that show something for so many ticks, each of which is one per
    /// cent.
    fn lasts(&mut self, ticks: u64, fades: bool) -> String {
        let (name, stops) = match ticks {
            _ if fades => {
                let gone = (ticks + 5).min(100);
                let stops = format!(
                    "0%,{ticks}%{{opacity:1}}{ticks}.1%{{fill:var(--off)}}\
                     {gone}%,to{{opacity:0;fill:var(--off)}}"
                );
                (format!("x{ticks}"), stops)
            }
            100.. => (format!("o{ticks}"), "0%,to{opacity:1}".to_owned()),
            _ => {
                // It has gone when what takes its place begins.
                let end = ticks - 1;
                let stops = format!("0%,{end}.99%{{opacity:1}}{ticks}%,to{{opacity:0}}");
                (format!("o{ticks}"), stops)
            }
        };
        self.keyframes
            .insert(format!("@keyframes {name}{{{stops}}}"));
        name
    }
}

/// The ticks in which each caption is shown.
const CAPTIONS: [(u64, u64, [&str; 2]); 4] = [
    (
        0,
        27,
        [
            "Level 0 turns by a slot each tick.",
            "The time is at the top.",
        ],
    ),
    (
        27,
        55,
        [
            "A timer of an hour fits no level:",
            "an overflow level appears for it.",
        ],
    ),
    (
        55,
        78,
        [
            "As a slot of a coarse ring comes to the top,",
            "its timers cascade inwards.",
        ],
    ),
    (
        78,
        100,
        [
            "Most timers are cancelled or pushed back.",
            "Few ever fire.",
        ],
    ),
];

/// The level from which a timer cascades.
fn cascades_from(moved: &Move) -> Option<usize> {
    let from = moved.from.filter(|_| moved.why == Why::Cascaded)?;
    Some(from.level)
}

/// Whether what begins at a tick is hidden without animation, and the delay of its animation.
fn begins(tick: u64) -> (&'static str, String) {
    match tick {
        0 => ("", "--t:0s".to_owned()),
        _ => (
            " opacity=\"0\"",
            format!("--t:{:.1}s", tick as f64 / 10.0 - 10.0),
        ),
    }
}

/// A place at so many turns from the top, clockwise.
fn at(turn: f64, radius: f64) -> (f64, f64) {
    let (sin, cos) = (turn * TAU).sin_cos();
    (radius * sin, -radius * cos)
}
