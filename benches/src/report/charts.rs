//! The charts, as SVG files: CPU of a program against its rate of timeouts, and cost against armed
//! timers. The upward axis begins at zero, and the other one is logarithmic.
//!
//! Each is readable in a light and in a dark theme. A contender has the same colour in every chart;
//! ours are of one hue, and what is no peer is grey. The same results give the same bytes.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::{Results, how_called, shown};
use crate::parts::{ARMED_SIZES, LOADS, RATES, name};
use crate::rows::readable;

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
        points: RATES.iter().map(rate).collect(),
    };
    add("programs", programs.draw(results));
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
            points: ARMED_SIZES.iter().map(row).collect(),
        };
        add(id, lines.draw(results));
    }
    charts
}

// Colours: one for a light ground and one for a dark one.

/// Ours stand out by their hue. The others can be told apart without red and green too.
const COLORS: [(&str, &str, &str); 7] = [
    (name::TICKWHEEL, "#00728f", "#4cc9e6"),
    (name::DROP_IN, "#3f9db5", "#2b9cb8"),
    (name::GLOBAL, "#6db3c4", "#8adcee"),
    (name::TOKIO, "#d1570a", "#ff9350"),
    (name::QUEUE, "#4a4f6b", "#aab0d6"),
    (name::DELAY_QUEUE, "#b5173f", "#ff7b93"),
    (name::PINGORA, "#7a4aa5", "#bd95ea"),
];
/// Of a character, with the font's size of 13.
const WIDEST: f64 = 0.6 * 13.0;
const GREY: (&str, &str) = ("#818b95", "#8d96a0");

/// The class of a contender's colour.
fn class(contender: &str) -> String {
    let known = COLORS.iter().position(|(name, ..)| *name == contender);
    known.map_or_else(|| "grey".to_owned(), |number| format!("c{number}"))
}

/// Plain colours alone: viewers of images know no `var()`, and draw black.
fn style() -> String {
    let colors = |dark: bool| {
        let of = |(light, other): (&'static str, &'static str)| if dark { other } else { light };
        let mut rules = String::new();
        let mut rule = |class: &str, color: &str| {
            let _ = write!(
                rules,
                ".dot.{class}{{fill:{color}}}.line.{class}{{stroke:{color}}}"
            );
        };
        rule("grey", of(GREY));
        for (number, (_, light, other)) in COLORS.iter().enumerate() {
            rule(&format!("c{number}"), of((light, other)));
        }
        rules
    };
    format!(
        "<style>text{{fill:#1f2328}}.quiet{{fill:#59636e}}.ground{{fill:#fff}}.grid{{stroke:#d1d9e0}}\
         .strong{{font-weight:600}}.line{{fill:none;stroke-width:2.5;stroke-linejoin:round}}{}\
         @media(prefers-color-scheme:dark){{text{{fill:#f0f6fc}}.quiet{{fill:#9198a1}}.ground{{fill:#0d1117}}\
         .grid{{stroke:#3d444d}}{}}}</style>\n",
        colors(false),
        colors(true)
    )
}

/// What stands below a chart that shows the contender: how it is called.
const LEGEND: [(&str, &str); 3] = [
    (name::TICKWHEEL, "a Timer that the task keeps."),
    (name::DROP_IN, "as after a change of use."),
    (name::GLOBAL, "Timer::global."),
];
/// Its height.
const LEGEND_ROOM: f64 = 24.0;

/// A drawing, of which text is added.
struct Svg {
    width: f64,
    height: f64,
    body: String,
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
    fn text(&mut self, (x, y): (f64, f64), anchor: &str, class: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let y = y + 4.5;
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{text}</text>"#
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
        let names = LEGEND
            .iter()
            .filter(|(name, _)| self.body.contains(&format!(">{},", shown(name))));
        let notes: Vec<String> = names
            .map(|(name, note)| format!("{}: {note}", how_called(name)))
            .collect();
        self.text(place, "start", "quiet", &notes.join(" "));
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

const MARGIN: f64 = 16.0;

// Lines: cost against something that grows, with the contenders' names at the ends.

struct Lines {
    title: String,
    along: &'static str,
    up: &'static str,
    unit: &'static str,
    /// Where on the axis each row stands.
    points: Vec<(f64, String)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
/// The plot's edges. The names stand right of it, with what each takes at the end of its line.
const PLOT: (f64, f64, f64, f64) = (58.0, 66.0, 448.0, 342.0);
/// How far apart names stand at least.
const BETWEEN_NAMES: f64 = 17.0;

impl Lines {
    fn draw(&self, results: &Results) -> Option<Svg> {
        let series = self.series(results);
        if series.is_empty() {
            return None;
        }
        let costs = series
            .iter()
            .flat_map(|(_, points)| points)
            .map(|(_, cost)| *cost);
        let most = costs.fold(0.0, f64::max);
        let (left, top, right, bottom) = PLOT;
        let (first, last) = (self.points.first()?.0.ln(), self.points.last()?.0.ln());
        let x = |at: f64| left + 12.0 + (at.ln() - first) / (last - first) * (right - left - 24.0);
        let marks = marks(most);
        let highest = *marks.last()?;
        let y = |cost: f64| bottom - cost / highest * (bottom - top);

        let mut svg = Svg::new(WIDTH, HEIGHT);
        svg.text((MARGIN, 20.0), "start", "strong", &self.title);
        svg.text((MARGIN, 39.0), "start", "quiet", self.up);
        for mark in marks {
            svg.line((left, y(mark)), (right, y(mark)), "grid");
            svg.text((left - 8.0, y(mark)), "end", "quiet", &short(mark));
        }
        // From the last one back, each that keeps clear of the one after it.
        let mut free = f64::MAX;
        for (at, _) in self.points.iter().rev() {
            let (place, label) = (x(*at), short(*at));
            let half = label.chars().count() as f64 * WIDEST / 2.0;
            if place + half <= free {
                svg.text((place, bottom + 16.0), "middle", "quiet", &label);
                free = place - half - WIDEST;
            }
        }
        let middle = ((left + right) / 2.0, bottom + 38.0);
        let along = format!("{} (logarithmic)", self.along);
        svg.text(middle, "middle", "quiet", &along);

        for (number, (contender, points)) in series.iter().enumerate() {
            let class = class(contender);
            let places: Vec<String> = points
                .iter()
                .map(|(at, cost)| format!("{:.1},{:.1}", x(*at), y(*cost)))
                .collect();
            let path = places.join(" ");
            let _ = writeln!(
                svg.body,
                r#"<polyline points="{path}" class="line {class}"/>"#
            );
            let mut dot = |(x, y): (f64, f64)| {
                let at = format!(r#"cx="{x:.1}" cy="{y:.1}" r="3.5""#);
                let _ = writeln!(svg.body, r#"<circle {at} class="dot {class}"/>"#);
            };
            points.iter().for_each(|(at, cost)| dot((x(*at), y(*cost))));
            let name_at = top + BETWEEN_NAMES * number as f64;
            dot((right + 20.0, name_at));
            let ours = contender.starts_with(name::TICKWHEEL);
            let emphasis = if ours { "strong" } else { "" };
            let cost = points.last().map_or(0.0, |(_, cost)| *cost);
            let text = format!("{}, {} {}", shown(contender), readable(cost), self.unit);
            svg.text((right + 30.0, name_at), "start", emphasis, &text);
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
        // The names stand in the order of the lines' ends.
        let end = |points: &[(f64, f64)]| points.last().map_or(0.0, |(_, cost)| *cost);
        series.sort_by(|(_, one), (_, other)| end(other).total_cmp(&end(one)));
        series
    }
}

/// The marks of the upward axis, from zero to the greatest cost or beyond it.
fn marks(most: f64) -> Vec<f64> {
    let powers = (-2..8).map(|power| 10_f64.powi(power));
    let mut steps = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * power));
    let step = steps.find(|step| most / step <= 7.0).unwrap_or(1.0);
    let count = (most / step).ceil() as u32;
    (0..=count).map(|number| step * f64::from(number)).collect()
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

    fn lines(points: Vec<(f64, String)>) -> Lines {
        Lines {
            title: String::new(),
            along: "timers armed",
            up: "ns",
            unit: "ns",
            points,
        }
    }

    fn results(contenders: &[&str], rows: impl Iterator<Item = String>) -> Results {
        let of_row = |row: String| {
            let each = contenders.iter().enumerate();
            each.map(|(number, name)| Record::new(&row, name, vec![10.0 + number as f64]))
                .collect::<Vec<_>>()
        };
        Results {
            records: rows.flat_map(of_row).collect(),
            ..Results::default()
        }
    }

    #[test]
    fn names_have_room() {
        for (name, ..) in COLORS {
            let wide = shown(name).chars().count() as f64 * WIDEST;
            assert!(wide + 9.0 * WIDEST <= WIDTH - PLOT.2 - 30.0, "{name}");
        }
    }

    /// With the wide unit of most of the labels, `10 M` beside `5 M`.
    #[test]
    fn the_labels_of_an_axis_do_not_touch() {
        let rows = || ARMED_SIZES.iter().map(|size| format!("armed-{size}"));
        let points = ARMED_SIZES.iter().map(|size| *size as f64).zip(rows());
        let results = results(&[name::TOKIO], rows());
        let svg = lines(points.collect()).draw(&results).unwrap();
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
    fn peers_have_colours_of_their_own_and_the_same_results_the_same_bytes() {
        for (number, (name, light, dark)) in COLORS.iter().enumerate() {
            for (other, also_light, also_dark) in &COLORS[..number] {
                assert!(light != also_light && dark != also_dark, "{name}, {other}");
            }
        }
        let rows = || ARMED_SIZES.iter().map(|size| format!("armed-{size}"));
        let results = results(&COLORS.map(|(name, ..)| name), rows());
        assert_eq!(charts(&results), charts(&results));
    }

    #[test]
    fn the_marks_of_an_axis_go_from_zero_beyond_all_costs() {
        assert_eq!(marks(34.0), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0]);
        assert_eq!(marks(970.0), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
    }

    #[test]
    fn a_chart_explains_the_names_that_it_shows() {
        let one = [(1.0, "ready-1".to_owned()), (2.0, "ready-2".to_owned())];
        for (name, other) in [
            (name::DROP_IN, name::TICKWHEEL),
            (name::TICKWHEEL, name::GLOBAL),
        ] {
            let results = results(&[name], one.iter().map(|(_, row)| row.clone()));
            let svg = lines(one.to_vec()).draw(&results).unwrap().finish();
            assert!(svg.contains(&format!("{}: ", how_called(name))), "{svg}");
            assert!(!svg.contains(how_called(other)), "{svg}");
        }
    }
}
