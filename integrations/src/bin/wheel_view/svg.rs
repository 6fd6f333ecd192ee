//! A series of drawings as an animated SVG: rings that turn, and timers that move between them.
//!
//! A ring is a level. The time is at the top of each ring, and a ring turns towards it once in the
//! time of its slots. So a timer comes nearer to the top as its time comes. The picture has no
//! script and no font of its own. It has its own background, light or dark as the reader's system
//! is, because the page around it may be either. `frame.svg` has the style, and what never moves.
//!
//! The drawings count the timers of a slot, and do not tell them apart. A slot shows a dot for
//! each. Where a dot comes from is read off the slots that were emptied in the same tick.
//!
//! All animations last as long as the picture. One that begins later has a negative delay, so what
//! stays equally long shares its keyframes, and the file is small.
//!
//! Invariant: the same drawings make the same bytes. Without animation it shows the first drawing,
//! and so does a still of its beginning.

use std::collections::BTreeSet;
use std::f64::consts::TAU;

use crate::drawing::{Drawing, Level, Look, grouped};
use crate::running::LOAD;

const RADII: [f64; 4] = [64.0, 101.0, 138.0, 175.0];
const BAND: f64 = 33.0;
/// Ticks for which it is shown that something has fired or cascaded.
const MARKED: usize = 6;

/// The whole picture. There must be a drawing for each tick, and two at the least.
pub fn write(drawings: &[Drawing]) -> String {
    let levels = drawings.iter().map(|drawing| drawing.levels().count());
    let film = Film {
        drawings,
        levels: levels.max().unwrap_or(0).min(RADII.len()),
        slots: drawings[0].levels().next().map_or(0, |it| it.slots.len()),
    };
    let mut svg = Svg {
        ticks: drawings.len() - 1,
        body: String::new(),
        keyframes: BTreeSet::new(),
    };
    svg.write_rings(film);
    let rings = std::mem::take(&mut svg.body);
    svg.write_hand(film);
    svg.write_panel(film);
    let style = svg.keyframes.into_iter().collect::<String>() + "</style>";
    include_str!("frame.svg")
        .replace("</style>", &style)
        .replace("<!-- rings -->\n", &rings)
        .replace("<!-- hand and panel -->\n", &svg.body)
}

/// What the drawings tell about the wheel.
#[derive(Clone, Copy)]
struct Film<'a> {
    drawings: &'a [Drawing],
    levels: usize,
    slots: usize,
}

impl<'a> Film<'a> {
    fn level(self, level: usize, tick: usize) -> Option<&'a Level> {
        self.drawings[tick].levels().nth(level)
    }

    fn timers(self, row: &str, tick: usize) -> Option<u64> {
        Some(self.drawings[tick].row(row)?.timers)
    }

    /// Whether a tick has made a count larger.
    fn grows(self, row: &str, tick: usize) -> bool {
        self.timers(row, tick) > self.timers(row, tick.saturating_sub(1))
    }

    /// Whether a tick has emptied the present slot of a level.
    fn empties(self, level: usize, tick: usize) -> bool {
        let before = self.level(level, tick.saturating_sub(1));
        let both = before.zip(self.level(level, tick));
        both.is_some_and(|(before, after)| {
            before.slots[after.now] > 0 && after.slots[after.now] == 0
        })
    }

    /// How far a ring has turned at a tick, in turns.
    fn turned(self, level: usize, tick: usize) -> f64 {
        let around = (self.slots as f64).powi(level as i32 + 1);
        (self.drawings[0].now as f64 / around).fract() + tick as f64 / around
    }

    /// A dot that comes into a slot at a tick, in the frame of its ring.
    fn dot(self, level: usize, slot: usize, nth: usize, tick: usize) -> String {
        // A slot of level 0 is one tick, and its timers are due exactly then.
        let (along, out) = match level {
            0 => (0.0, [0.0, -10.0, 10.0][nth % 3]),
            _ => (
                [0.5, 0.28, 0.72, 0.72, 0.28, 0.5, 0.5][nth % 7],
                [0.0, 8.5, -8.5, 8.5, -8.5, 11.5, -11.5][nth % 7],
            ),
        };
        let (x, y) = at(
            (slot as f64 + along) / self.slots as f64,
            RADII[level] + out,
        );
        let outer = (level + 1..self.levels).find(|&outer| self.empties(outer, tick));
        let (class, from) = match outer {
            _ if tick == 0 => ("d", None),
            Some(outer) => ("d in", Some(outer)),
            // Its first due has come, and it was pushed back before.
            None if self.empties(0, tick) && !self.grows("armed", tick) => ("d back", Some(0)),
            None => ("d new", None),
        };
        let style = from.map_or(String::new(), |from| {
            // The slot that was emptied was at the top.
            let (from_x, from_y) = at(self.turned(level, tick), RADII[from]);
            format!(" style=\"--x:{:.0}px;--y:{:.0}px\"", from_x - x, from_y - y)
        });
        format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.4\"{style}/>")
    }
}

struct Svg {
    ticks: usize,
    body: String,
    keyframes: BTreeSet<String>,
}

impl Svg {
    /// Draws a value each time that it changes, looked at each so many ticks. While there is none,
    /// nothing is shown.
    fn put<T: PartialEq>(
        &mut self,
        each: usize,
        value: impl Fn(usize) -> Option<T>,
        draw: impl Fn(usize, T) -> String,
    ) {
        let mut from = 0;
        while from < self.ticks {
            let present = value(from);
            let mut looks = (from + each..self.ticks).step_by(each);
            let to = looks.find(|&tick| value(tick) != present);
            let to = to.unwrap_or(self.ticks);
            if let Some(present) = present {
                let (lasts, opacity) = (self.lasts(to - from), u8::from(from == 0));
                let delay = (from as f64 - self.ticks as f64) / 10.0;
                self.body += &format!(
                    "<g class=\"w\" opacity=\"{opacity}\" style=\"animation-name:{lasts};\
                     --t:{delay:.1}s\">{}</g>\n",
                    draw(from, present)
                );
            }
            from = to;
        }
    }

    /// The name of the keyframes that show something for so many ticks, each of which is one per
    /// cent.
    fn lasts(&mut self, ticks: usize) -> String {
        let stops = match ticks {
            100.. => "0%,to{opacity:1}".to_owned(),
            // It has gone when what takes its place begins.
            end => format!("0%,{}.99%{{opacity:1}}{end}%,to{{opacity:0}}", end - 1),
        };
        self.keyframes
            .insert(format!("@keyframes o{ticks}{{{stops}}}\n"));
        format!("o{ticks}")
    }

    fn write_rings(&mut self, film: Film<'_>) {
        for level in (0..film.levels).rev() {
            let [begin, end] = [0, self.ticks].map(|tick| -360.0 * film.turned(level, tick));
            self.keyframes.insert(format!(
                "@keyframes r{level}{{0%{{transform:rotate({begin:.2}deg)}}\
                 to{{transform:rotate({end:.2}deg)}}}}\n"
            ));
            self.body += &format!(
                "<g transform=\"translate(212 206)\"><g transform=\"rotate({begin:.2})\" \
                 style=\"animation:r{level} 10s linear infinite\">\n"
            );
            let is_there = |tick| film.level(level, tick).map(|_| ());
            self.put(1, is_there, |_, ()| {
                // The slots of level 0 are drawn around their tick.
                let first = if level == 0 { -0.5 } else { 0.0 };
                let cuts = (0..film.slots).map(|slot| {
                    let turn = (slot as f64 + first) / film.slots as f64;
                    let inner = at(turn, RADII[level] - BAND / 2.0);
                    let outer = at(turn, RADII[level] + BAND / 2.0);
                    format!(
                        "M{:.1} {:.1}L{:.1} {:.1}",
                        inner.0, inner.1, outer.0, outer.1
                    )
                });
                format!(
                    "<circle class=\"band\" r=\"{}\"/><path class=\"cut\" d=\"{}\"/>",
                    RADII[level],
                    cuts.collect::<String>()
                )
            });
            for slot in 0..film.slots {
                let timers = |tick| Some(film.level(level, tick)?.slots[slot]);
                let most = (0..self.ticks).filter_map(timers).max().unwrap_or(0);
                for nth in 0..most {
                    let is_there = |tick| timers(tick).filter(|&it| it > nth).map(|_| ());
                    self.put(1, is_there, |tick, ()| film.dot(level, slot, nth, tick));
                }
            }
            self.body += "</g>\n";
            let name = format!("<text class=\"s m h\" x=\"-{}\" y=\"4.5\">", RADII[level]);
            self.put(1, is_there, |_, ()| format!("{name}{level}</text>"));
            self.body += "</g>\n";
        }
    }

    /// The time at the top, what fires there, and where cascades come down.
    fn write_hand(&mut self, film: Film<'_>) {
        self.body += "<g transform=\"translate(212 206)\">\n";
        let now = |tick: usize| Some(film.drawings[tick].now);
        let text = |number| format!("<text class=\"b m n\" y=\"16\">{}</text>", grouped(number));
        self.put(1, now, |_, number| text(number));
        let marked = |tick: usize, begins: &dyn Fn(usize) -> bool| {
            (tick.saturating_sub(MARKED)..=tick)
                .rev()
                .find(|&it| begins(it))
        };
        let fires = |tick| film.grows("fired", tick);
        self.put(
            1,
            |tick| marked(tick, &fires),
            |_, _| "<circle class=\"hit\" cy=\"-64\" r=\"15\"/>".to_owned(),
        );
        for level in 1..film.levels {
            let y = (RADII[level] + RADII[level - 1]) / 2.0 + 6.0;
            let cascades = |tick| film.empties(level, tick);
            self.put(
                1,
                |tick| marked(tick, &cascades),
                |_, _| format!("<path class=\"v\" d=\"M-9 -{y:.0}h18l-9 13z\"/>"),
            );
        }
        self.body += "</g>\n";
    }

    fn write_panel(&mut self, film: Film<'_>) {
        self.body += &format!("<text class=\"s\" x=\"450\" y=\"70\">{LOAD}</text>\n");
        let fullest = film.drawings.iter().max_by_key(|it| it.rows.len());
        let rows = fullest.map_or(&[][..], |fullest| &fullest.rows);
        let counts = rows.iter().map(|row| film.timers(&row.name, self.ticks));
        let most = counts.max().flatten().unwrap_or(1) as f64;
        for (row, y) in rows.iter().zip((106..).step_by(26)) {
            let (name, about) = (&row.name, &row.about);
            let timers = |tick| film.timers(name, tick);
            let colour = match row.look {
                Look::Level(_) => None,
                Look::Count(colour) => Some(colour),
            };
            self.put(
                1,
                |tick| timers(tick).map(|_| ()),
                |_, ()| match colour {
                    None => format!(
                        "<text class=\"b\" x=\"450\" y=\"{y}\">{name}</text>\
                     <text class=\"s\" x=\"508\" y=\"{y}\">{about}</text>"
                    ),
                    Some(colour) => format!(
                        "<circle cx=\"455\" cy=\"{}\" r=\"4.4\" class=\"c-{colour}\"/>\
                     <text x=\"468\" y=\"{y}\">{name}</text>",
                        y - 5
                    ),
                },
            );
            self.put(2, timers, |_, timers| {
                let bar = colour.map_or(String::new(), |colour| {
                    format!(
                        "<rect x=\"572\" y=\"{}\" width=\"{:.0}\" height=\"9\" rx=\"2\" \
                         class=\"c-{colour}\"/>",
                        y - 9,
                        160.0 * timers as f64 / most
                    )
                });
                let number = grouped(timers);
                format!("{bar}<text class=\"b e n\" x=\"790\" y=\"{y}\">{number}</text>")
            });
        }
    }
}

/// A place at so many turns from the top, clockwise.
fn at(turn: f64, radius: f64) -> (f64, f64) {
    let (sin, cos) = (turn * TAU).sin_cos();
    (radius * sin, -radius * cos)
}
