//! The charts, as SVG files: CPU of a program against its rate of timeouts, bars for the main rows,
//! cost against armed timers, and cost against threads.
//!
//! Each is readable in a light and in a dark theme. A contender has the same colour in every chart;
//! ours are of one hue, and what is no peer is grey. The same results give the same bytes.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::{Results, shown};
use crate::parts::{ARMED_SIZES, LOADS, RATES, name};
use crate::rows::{Row, readable};

/// The rows that have bars, of which the last two are lost.
const BARS: [&str; 8] = [
    "ready-1",
    "reset-one",
    "pending-1",
    "reset-many",
    "pending-2",
    "map-1",
    "reset-after",
    "replace-10000000",
];
const THREADS: [usize; 3] = [1, 2, 4];

/// Draws the charts for which there are figures.
pub fn draw(results: &Results, folder: &Path) -> Result<(), Box<dyn Error>> {
    for (file, chart) in charts(results) {
        fs::write(folder.join(file), chart)?;
    }
    Ok(())
}

/// Each chart for which there are figures, with the name of its file.
pub fn charts(results: &Results) -> Vec<(String, String)> {
    let mut charts = Vec::new();
    let mut add = |file: &str, chart: Option<Svg>| {
        charts.extend(chart.map(|chart| (format!("{file}.svg"), chart.finish())));
    };
    let (load, pause) = LOADS[0];
    let rate = |rate: &u32| (f64::from(*rate), format!("{load}-{rate}"));
    let programs = Lines {
        title: format!(
            "CPU of a program that makes timeouts in bursts, every {} ms",
            pause.as_millis()
        ),
        along: "timeouts a second",
        up: "% of a core",
        unit: "%",
        is_linear: true,
        points: RATES.iter().map(rate).collect(),
    };
    add("programs", programs.draw(results));
    add("rows", bars(results));
    for (id, title) in [
        ("armed", "Arm and disarm one more timer"),
        ("replace", "Replace one of the timers at random"),
    ] {
        let row = |size: &usize| (*size as f64, format!("{id}-{size}"));
        let lines = Lines {
            title: title.to_owned(),
            along: "timers armed",
            up: "ns",
            unit: "ns",
            is_linear: false,
            points: ARMED_SIZES.iter().map(row).collect(),
        };
        add(id, lines.draw(results));
    }
    let row = |threads: &usize| (*threads as f64, format!("pending-{threads}"));
    let threads = Lines {
        title: "A timeout that is pending once and dropped".to_owned(),
        along: "threads at once",
        up: "ns of a core for each",
        unit: "ns",
        is_linear: false,
        points: THREADS.iter().map(row).collect(),
    };
    add("threads", threads.draw(results));
    charts
}

// Colours: one for a light ground and one for a dark one.

/// Ours stand out by their hue. The others can be told apart without red and green too.
const COLORS: [(&str, &str, &str); 12] = [
    (name::TICKWHEEL, "#00728f", "#4cc9e6"),
    (name::DROP_IN, "#3f9db5", "#2b9cb8"),
    (name::GLOBAL, "#6db3c4", "#8adcee"),
    (name::TOKIO, "#d1570a", "#ff9350"),
    (name::ALT_TIMER, "#8f5b2a", "#d3a373"),
    (name::DELAY_QUEUE, "#b5173f", "#ff7b93"),
    (name::MUTEX_MAP, "#73503f", "#d1a48c"),
    (name::PINGORA, "#7a4aa5", "#bd95ea"),
    (name::TOKIO_IO_TIMEOUT, "#8a6d00", "#dcbb42"),
    (name::LAST_SEEN, "#3f5fb8", "#93abf5"),
    (name::NOTIFY, "#1f7a4d", "#6fcf9b"),
    (name::BY_TASK, "#4a4f6b", "#aab0d6"),
];
/// Of a character, with the font's size of 13.
const WIDEST: f64 = 0.6 * 13.0;
const GREY: (&str, &str) = ("#818b95", "#8d96a0");

/// The class of a contender's colour.
fn class(contender: &str) -> String {
    let known = COLORS.iter().position(|(name, ..)| *name == contender);
    known.map_or_else(|| "grey".to_owned(), |number| format!("c{number}"))
}

fn style() -> String {
    let colors = |dark: bool| {
        let of = |(light, other): (&'static str, &'static str)| if dark { other } else { light };
        let mut rules = format!(".grey{{--c:{}}}", of(GREY));
        for (number, (_, light, other)) in COLORS.iter().enumerate() {
            let _ = write!(rules, ".c{number}{{--c:{}}}", of((light, other)));
        }
        rules
    };
    format!(
        "<style>text{{fill:#1f2328}}.quiet{{fill:#59636e}}.ground{{fill:#fff}}.grid{{stroke:#d1d9e0}}\
         .bar,.dot{{fill:var(--c)}}.strong{{font-weight:600}}\
         .line{{fill:none;stroke:var(--c);stroke-width:2.5;stroke-linejoin:round}}.lead{{stroke:var(--c);stroke-width:1}}{}\
         @media(prefers-color-scheme:dark){{text{{fill:#f0f6fc}}.quiet{{fill:#9198a1}}.ground{{fill:#0d1117}}\
         .grid{{stroke:#3d444d}}{}}}</style>\n",
        colors(false),
        colors(true)
    )
}

/// What stands below a chart: how ours are called.
const LEGEND: &str = "held timer: a Timer that the task keeps. free function: as after a change of \
                      use. global timer: tickwheel::global.";
/// Its height.
const LEGEND_ROOM: f64 = 24.0;

/// A drawing, of which text is added.
struct Svg {
    width: f64,
    height: f64,
    body: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    fn new(width: f64, height: f64) -> Svg {
        Svg {
            width,
            height,
            body: String::new(),
        }
    }

    /// `y` is the middle of the text.
    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let y = y + 4.5;
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{text}</text>"#
        );
    }

    /// A contender's name, and how much it takes.
    fn name(&mut self, place: (f64, f64), is_ours: bool, contender: &str, figure: &str) {
        let class = if is_ours { "strong" } else { "" };
        self.text(place, Anchor::Start, class, contender);
        let end = "</text>\n";
        self.body.truncate(self.body.len() - end.len());
        let _ = write!(
            self.body,
            r#"<tspan dx="6" class="quiet" font-weight="400">{figure}</tspan>{end}"#
        );
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.body,
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
        );
    }

    fn finish(mut self) -> String {
        self.height += LEGEND_ROOM;
        let place = (MARGIN, self.height - 14.0);
        self.text(place, Anchor::Start, "quiet", LEGEND);
        let Svg {
            width,
            height,
            body,
        } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             font-family=\"system-ui,-apple-system,'Segoe UI','Liberation Sans',sans-serif\" font-size=\"13\">\n\
             {}<rect class=\"ground\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\n{body}</svg>\n",
            style()
        )
    }
}

// Bars: a panel for each row, two beside each other.

const PANEL: f64 = 490.0;
const MARGIN: f64 = 16.0;
const STEP: f64 = 25.0;
/// Where the bars of a panel begin. The longest name has its place before it.
const LEFT: f64 = 240.0;
/// For the figure after a bar.
const FIGURE: f64 = 56.0;

fn bars(results: &Results) -> Option<Svg> {
    let rows: Vec<(Row, Vec<Bar>)> = results
        .rows()
        .into_iter()
        .filter(|(row, _)| BARS.contains(&row.id.as_str()))
        .map(|(row, records)| {
            let bars = records.iter().filter_map(|record| {
                let median = record.quartiles()?.median;
                Some((record.contender.clone(), median))
            });
            let mut bars: Vec<Bar> = bars.collect();
            bars.sort_by(|(_, one), (_, other)| one.total_cmp(other));
            (row, bars)
        })
        .collect();
    let height_of = |pair: &[(Row, Vec<Bar>)]| {
        let bars = pair.iter().map(|(_, bars)| bars.len()).max();
        STEP * bars.unwrap_or(0) as f64 + 58.0
    };
    let height: f64 = rows.chunks(2).map(height_of).sum();
    let mut svg = Svg::new(2.0 * PANEL, height + MARGIN);
    let mut top = MARGIN;
    for pair in rows.chunks(2) {
        for ((row, bars), left) in pair.iter().zip([0.0, PANEL]) {
            panel(&mut svg, (left, top), row, bars);
        }
        top += height_of(pair);
    }
    (!rows.is_empty()).then_some(svg)
}

/// A contender and its median.
type Bar = (String, f64);

fn panel(svg: &mut Svg, (left, top): (f64, f64), row: &Row, bars: &[Bar]) {
    let title = format!("{}, {}", row.title, row.unit.name());
    svg.text((left + MARGIN, top + 8.0), Anchor::Start, "strong", &title);
    let longest = bars.iter().map(|(_, median)| *median).fold(0.0, f64::max);
    let room = PANEL - LEFT - FIGURE - MARGIN;
    for (number, (contender, median)) in bars.iter().enumerate() {
        let (x, y) = (left + LEFT, top + 28.0 + STEP * number as f64);
        let (width, middle) = ((median / longest * room).max(1.0), y + STEP / 2.0);
        let class = class(contender);
        let _ = writeln!(
            svg.body,
            r#"<rect x="{x:.1}" y="{:.1}" width="{width:.1}" height="{:.1}" rx="2" class="bar {class}"/>"#,
            y + 3.0,
            STEP - 6.0
        );
        let ours = contender.starts_with(name::TICKWHEEL);
        let emphasis = if ours { "strong" } else { "" };
        svg.text((x - 8.0, middle), Anchor::End, emphasis, &shown(contender));
        svg.text(
            (x + width + 6.0, middle),
            Anchor::Start,
            "quiet",
            &readable(*median),
        );
    }
}

// Lines: cost against something that grows, with the contenders' names at the ends.

struct Lines {
    title: String,
    along: &'static str,
    up: &'static str,
    unit: &'static str,
    /// Whether the upward axis begins at zero. If not, it is logarithmic, as the other one always
    /// is.
    is_linear: bool,
    /// Where on the axis each row stands.
    points: Vec<(f64, String)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
/// The plot's edges. The names stand right of it.
const PLOT: (f64, f64, f64, f64) = (58.0, 66.0, 448.0, 342.0);
/// How far apart names stand at least.
const BETWEEN_NAMES: f64 = 17.0;

impl Lines {
    fn draw(&self, results: &Results) -> Option<Svg> {
        let series = self.series(results);
        if series.is_empty() {
            return None;
        }
        let costs = || {
            series
                .iter()
                .flat_map(|(_, points)| points)
                .map(|(_, cost)| *cost)
        };
        let (least, most) = (
            costs().fold(f64::MAX, f64::min),
            costs().fold(0.0, f64::max),
        );
        let (left, top, right, bottom) = PLOT;
        let (first, last) = (self.points.first()?.0.ln(), self.points.last()?.0.ln());
        let x = |at: f64| left + 12.0 + (at.ln() - first) / (last - first) * (right - left - 24.0);
        let marks = self.marks(least, most);
        let (lowest, highest) = (*marks.first()?, *marks.last()?);
        let up = |cost: f64| if self.is_linear { cost } else { cost.ln() };
        let share = |cost: f64| (up(cost) - up(lowest)) / (up(highest) - up(lowest));
        let y = |cost: f64| bottom - share(cost) * (bottom - top);

        let mut svg = Svg::new(WIDTH, HEIGHT);
        svg.text((MARGIN, 20.0), Anchor::Start, "strong", &self.title);
        svg.text((MARGIN, 39.0), Anchor::Start, "quiet", self.up);
        for mark in marks {
            svg.line((left, y(mark)), (right, y(mark)), "grid");
            svg.text((left - 8.0, y(mark)), Anchor::End, "quiet", &short(mark));
        }
        // From the last one back, each that keeps clear of the one after it.
        let mut free = f64::MAX;
        for (at, _) in self.points.iter().rev() {
            let (place, label) = (x(*at), short(*at));
            let half = label.chars().count() as f64 * WIDEST / 2.0;
            if place + half <= free {
                svg.text((place, bottom + 16.0), Anchor::Middle, "quiet", &label);
                free = place - half - WIDEST;
            }
        }
        let middle = ((left + right) / 2.0, bottom + 38.0);
        svg.text(middle, Anchor::Middle, "quiet", self.along);

        let ends: Vec<f64> = series
            .iter()
            .map(|(_, points)| points.last().map_or(bottom, |(_, cost)| y(*cost)))
            .collect();
        for ((contender, points), name_at) in
            series.iter().zip(spread(&ends, top - 20.0, HEIGHT - 14.0))
        {
            let class = class(contender);
            let places: Vec<(f64, f64)> =
                points.iter().map(|(at, cost)| (x(*at), y(*cost))).collect();
            let mut path = String::new();
            for (x, y) in &places {
                let _ = write!(path, "{x:.1},{y:.1} ");
            }
            let _ = writeln!(
                svg.body,
                r#"<polyline points="{}" class="line {class}"/>"#,
                path.trim_end()
            );
            for (x, y) in &places {
                let _ = writeln!(
                    svg.body,
                    r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" class="dot {class}"/>"#
                );
            }
            if let Some((x, y)) = places.last() {
                svg.line(
                    (x + 6.0, *y),
                    (right + 10.0, name_at),
                    &format!("lead {class}"),
                );
            }
            let figure = points
                .last()
                .map_or_else(String::new, |(_, cost)| readable(*cost));
            let ours = contender.starts_with(name::TICKWHEEL);
            let place = (right + 14.0, name_at);
            let figure = format!("{figure} {}", self.unit);
            svg.name(place, ours, &shown(contender), &figure);
        }
        Some(svg)
    }

    /// Each contender of these rows, and its medians.
    fn series<'a>(&self, results: &'a Results) -> Vec<(&'a str, Vec<(f64, f64)>)> {
        let mut series: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
        for (at, row) in &self.points {
            for record in results.records.iter().filter(|record| record.row == *row) {
                let Some(found) = record.quartiles() else {
                    continue;
                };
                let point = (*at, found.median);
                match series
                    .iter_mut()
                    .find(|(name, _)| *name == record.contender)
                {
                    Some((_, points)) => points.push(point),
                    None => series.push((&record.contender, vec![point])),
                }
            }
        }
        series
    }

    /// The marks of the upward axis, of which the outer two enclose all costs.
    fn marks(&self, least: f64, most: f64) -> Vec<f64> {
        let powers = (-2..8).map(|power| 10_f64.powi(power));
        if self.is_linear {
            let steps = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * power));
            let step = steps.clone().find(|step| most / step <= 7.0).unwrap_or(1.0);
            return (0..=(most / step).ceil() as u32)
                .map(|number| step * f64::from(number))
                .collect();
        }
        let all: Vec<f64> = powers
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * power))
            .collect();
        let from = all.iter().rposition(|mark| *mark <= least).unwrap_or(0);
        let to = all.iter().position(|mark| *mark >= most);
        all[from..=to.unwrap_or(all.len() - 1)].to_vec()
    }
}

/// Where names stand that would be at `ends`: in the same order, far enough apart, within the
/// bounds.
fn spread(ends: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by(|one, other| ends[*one].total_cmp(&ends[*other]));
    let mut places = vec![0.0; ends.len()];
    let mut next = top;
    for &index in &order {
        places[index] = ends[index].max(next);
        next = places[index] + BETWEEN_NAMES;
    }
    let mut next = bottom;
    for &index in order.iter().rev() {
        places[index] = places[index].min(next);
        next = places[index] - BETWEEN_NAMES;
    }
    places
}

fn short(number: f64) -> String {
    match number {
        1e6.. => format!("{} M", number / 1e6),
        10_000.0.. => format!("{} k", number / 1e3),
        100.0.. => readable(number),
        _ => format!("{}", (number * 100.0).round() / 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Record;

    fn results() -> Results {
        let contenders = COLORS.map(|(name, ..)| name);
        let rows = BARS.map(str::to_owned).into_iter();
        let rows = rows.chain(THREADS.map(|threads| format!("pending-{threads}")));
        let rows = rows.chain(RATES.iter().map(|rate| format!("{}-{rate}", LOADS[0].0)));
        let of_row = |row: String| {
            let record =
                |(number, name): (usize, &str)| Record::new(&row, name, vec![10.0 + number as f64]);
            contenders
                .iter()
                .copied()
                .enumerate()
                .map(record)
                .collect::<Vec<_>>()
        };
        let mut seen = std::collections::HashSet::new();
        Results {
            records: rows
                .filter(|row| seen.insert(row.clone()))
                .flat_map(of_row)
                .collect(),
            ..Results::default()
        }
    }

    #[test]
    fn every_contender_has_a_bar_and_a_name_in_its_panel() {
        let svg = bars(&results()).unwrap();
        assert_eq!(
            svg.body.matches("class=\"bar").count(),
            BARS.len() * COLORS.len()
        );
        for (name, ..) in COLORS {
            let name = shown(name).replace('<', "&lt;");
            assert_eq!(
                svg.body.matches(&format!(">{name}<")).count(),
                BARS.len(),
                "{name}"
            );
        }
        let bottoms = svg.body.lines().filter_map(|line| {
            let (_, y) = line.strip_prefix("<rect ")?.split_once("y=\"")?;
            y.split_once('"')?.0.parse::<f64>().ok()
        });
        assert!(bottoms.fold(0.0, f64::max) + STEP <= svg.height);
    }

    #[test]
    fn names_and_titles_have_room() {
        for (name, ..) in COLORS {
            let wide = shown(name).chars().count() as f64 * WIDEST;
            assert!(wide <= LEFT - 8.0, "{name}");
            assert!(wide + 9.0 * WIDEST <= WIDTH - PLOT.2 - 14.0, "{name}");
        }
        for (row, _) in results().rows() {
            let title = format!("{}, {}", row.title, row.unit.name());
            assert!(
                title.chars().count() as f64 * WIDEST <= PANEL - MARGIN,
                "{title}"
            );
        }
    }

    /// With the wide unit of most of the labels, `10 M` beside `5 M`.
    #[test]
    fn the_labels_of_an_axis_do_not_touch() {
        let row = |size: &usize| (*size as f64, format!("armed-{size}"));
        let lines = Lines {
            title: String::new(),
            along: "timers armed",
            up: "ns",
            unit: "ns",
            is_linear: false,
            points: ARMED_SIZES.iter().map(row).collect(),
        };
        let of = |size: &usize| Record::new(&row(size).1, name::TOKIO, vec![10.0]);
        let results = Results {
            records: ARMED_SIZES.iter().map(of).collect(),
            ..Results::default()
        };
        let svg = lines.draw(&results).unwrap();
        let along = format!("y=\"{:.1}\" text-anchor=\"middle\"", PLOT.3 + 20.5);
        let mut labels: Vec<(f64, f64)> = svg
            .body
            .lines()
            .filter(|line| line.contains(&along))
            .map(|line| {
                let x = line.split('"').nth(1).unwrap().parse::<f64>().unwrap();
                let text = line.split(['>', '<']).nth(2).unwrap();
                let half = text.chars().count() as f64 * WIDEST / 2.0;
                (x - half, x + half)
            })
            .collect();
        labels.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(labels.len() > 3, "{labels:?}");
        for two in labels.windows(2) {
            assert!(two[0].1 < two[1].0, "{labels:?}");
        }
    }

    #[test]
    fn names_at_the_ends_of_lines_keep_apart_and_in_order() {
        for ends in [
            vec![100.0; 8],
            vec![300.0, 299.0, 40.0, 41.0],
            vec![0.0, 999.0],
        ] {
            let places = spread(&ends, 30.0, 390.0);
            let mut pairs: Vec<_> = ends.iter().zip(&places).collect();
            pairs.sort_by(|one, other| one.1.total_cmp(other.1));
            for two in pairs.windows(2) {
                assert!(two[1].1 - two[0].1 >= BETWEEN_NAMES, "{places:?}");
                assert!(two[0].0 <= two[1].0, "{places:?}");
            }
            assert!(places.iter().all(|place| (30.0..=390.0).contains(place)));
        }
    }

    #[test]
    fn peers_have_colours_of_their_own_and_the_same_results_the_same_bytes() {
        for (number, (name, light, dark)) in COLORS.iter().enumerate() {
            for (other, also_light, also_dark) in &COLORS[..number] {
                assert!(light != also_light && dark != also_dark, "{name}, {other}");
            }
        }
        assert_eq!(charts(&results()), charts(&results()));
    }

    #[test]
    fn the_marks_of_an_axis_enclose_all_costs() {
        let lines = |is_linear| Lines {
            title: String::new(),
            along: "",
            up: "",
            unit: "",
            is_linear,
            points: Vec::new(),
        };
        assert_eq!(
            lines(true).marks(3.0, 34.0),
            [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0]
        );
        assert_eq!(
            lines(false).marks(26.0, 480.0),
            [20.0, 50.0, 100.0, 200.0, 500.0]
        );
    }
}
