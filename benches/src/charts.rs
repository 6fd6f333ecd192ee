//! The charts, as SVG files: CPU of a program against its rate of timeouts, and cost against armed
//! timers. The upward axis begins at zero, and the other one is logarithmic.
//!
//! Each is readable in a light and in a dark theme, and by a viewer that knows neither. A contender
//! has the same colour in every chart; ours are of one hue, and what is no peer is grey. The same
//! results give the same bytes.

use std::fmt::Write;

use crate::parts::{ARMED_SIZES, LOADS, RATES, name};
use crate::results::{Results, shown};
use crate::rows::readable;

/// Each chart for which there are figures, with the name of its file.
pub fn charts(results: &Results) -> Vec<(&'static str, String)> {
    let (load, pause) = LOADS[0];
    let rate = |rate: &u32| (f64::from(*rate), format!("{load}-{rate}"));
    let pause = pause.as_millis();
    let title = format!("CPU of a program that makes timeouts in bursts, every {pause} ms");
    let axes = ["timeouts a second (logarithmic)", "% of a core", "%"];
    let rates: Vec<Point> = RATES.iter().map(rate).collect();
    let mut charts = vec![("programs.svg", draw(&title, axes, &rates, results))];
    for (file, id, title) in [
        ("armed.svg", "armed", "Arm and disarm one more timer"),
        (
            "replace.svg",
            "replace",
            "Replace one of the timers at random",
        ),
    ] {
        let size = |size: &usize| (*size as f64, format!("{id}-{size}"));
        let sizes: Vec<Point> = ARMED_SIZES.iter().map(size).collect();
        let axes = ["timers armed (logarithmic)", "ns", "ns"];
        charts.push((file, draw(title, axes, &sizes, results)));
    }
    let drawn = charts
        .into_iter()
        .filter_map(|(file, chart)| Some((file, chart?)));
    drawn.collect()
}

/// Where on the axis a row stands, and the row.
type Point = (f64, String);

/// For a light ground and for a dark one. They can be told apart without red and green too.
const COLORS: [(&str, &str, &str); 7] = [
    (name::TICKWHEEL, "#00728f", "#4cc9e6"),
    (name::DROP_IN, "#3f9db5", "#2b9cb8"),
    (name::GLOBAL, "#6db3c4", "#8adcee"),
    (name::TOKIO, "#d1570a", "#ff9350"),
    (name::QUEUE, "#4a4f6b", "#aab0d6"),
    (name::DELAY_QUEUE, "#b5173f", "#ff7b93"),
    (name::PINGORA, "#7a4aa5", "#bd95ea"),
];
const GREY: (&str, &str) = ("#818b95", "#8d96a0");

const SIZE: (f64, f64) = (760.0, 400.0);
/// The edges of the plot: left, top, right, bottom. The names stand right of it, with what each
/// takes at the end of its line.
const PLOT: [f64; 4] = [58.0, 66.0, 448.0, 342.0];
/// How far apart the labels of the axis along stand at least.
const APART: f64 = 36.0;

fn draw(
    title: &str,
    [along, up, unit]: [&str; 3],
    points: &[Point],
    results: &Results,
) -> Option<String> {
    let series = series(points, results);
    let costs = series
        .iter()
        .flat_map(|(_, line)| line)
        .map(|(_, cost)| *cost);
    let most = costs.max_by(f64::total_cmp)?;
    let step = step(most);
    let highest = (most / step).ceil() * step;
    let [left, top, right, bottom] = PLOT;
    let (first, last) = (points.first()?.0.ln(), points.last()?.0.ln());
    let x = |at: f64| left + 12.0 + (at.ln() - first) / (last - first) * (right - left - 24.0);
    let y = |cost: f64| bottom - cost / highest * (bottom - top);

    let mut svg = head();
    let mut text = |x: f64, y: f64, style: &str, words: &str| {
        let words = words.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            svg,
            r#"<text x="{x:.1}" y="{:.1}" {style}>{words}</text>"#,
            y + 4.5
        );
    };
    text(16.0, 20.0, r#"class="strong""#, title);
    text(16.0, 39.0, r#"class="quiet""#, up);
    text(
        (left + right) / 2.0,
        bottom + 38.0,
        r#"class="quiet" text-anchor="middle""#,
        along,
    );
    let mut free = f64::MAX;
    for (at, _) in points.iter().rev().filter(|(at, _)| {
        let has_room = free - x(*at) >= APART;
        if has_room {
            free = x(*at);
        }
        has_room
    }) {
        text(
            x(*at),
            bottom + 16.0,
            r#"class="quiet" text-anchor="middle""#,
            &short(*at),
        );
    }
    let marks: Vec<f64> = (0..=(highest / step).round() as u32)
        .map(|n| step * f64::from(n))
        .collect();
    for mark in &marks {
        text(
            left - 8.0,
            y(*mark),
            r#"class="quiet" text-anchor="end""#,
            &short(*mark),
        );
    }
    for (number, (contender, line)) in series.iter().enumerate() {
        let style = if contender.starts_with(name::TICKWHEEL) {
            r#"class="strong""#
        } else {
            ""
        };
        let cost = line.last().map_or(0.0, |(_, cost)| *cost);
        let words = format!("{}, {} {unit}", shown(contender), readable(cost));
        text(right + 30.0, top + 17.0 * number as f64, style, &words);
    }
    for mark in &marks {
        let at = y(*mark);
        let _ = writeln!(
            svg,
            r#"<line x1="{left}" y1="{at:.1}" x2="{right}" y2="{at:.1}" class="grid"/>"#
        );
    }
    for (number, (contender, line)) in series.iter().enumerate() {
        let known = COLORS.iter().position(|(name, ..)| name == contender);
        let class = known.map_or("grey".to_owned(), |number| format!("c{number}"));
        let mut places: Vec<(f64, f64)> =
            line.iter().map(|(at, cost)| (x(*at), y(*cost))).collect();
        let path: Vec<String> = places
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            svg,
            r#"<polyline points="{}" class="line {class}"/>"#,
            path.join(" ")
        );
        places.push((right + 20.0, top + 17.0 * number as f64));
        for (x, y) in places {
            let _ = writeln!(
                svg,
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" class="dot {class}"/>"#
            );
        }
    }
    Some(svg + "</svg>\n")
}

/// The contenders of these rows with their medians, in the order of the ends of their lines.
fn series<'a>(points: &[Point], results: &'a Results) -> Vec<(&'a str, Vec<(f64, f64)>)> {
    let mut series: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
    for (at, row) in points {
        for record in results.records.iter().filter(|record| record.row == *row) {
            let Some(found) = record.quartiles() else {
                continue;
            };
            let point = (*at, found.median);
            match series
                .iter_mut()
                .find(|(name, _)| *name == record.contender)
            {
                Some((_, line)) => line.push(point),
                None => series.push((&record.contender, vec![point])),
            }
        }
    }
    let end = |line: &[(f64, f64)]| line.last().map_or(0.0, |(_, cost)| *cost);
    series.sort_by(|(_, one), (_, other)| end(other).total_cmp(&end(one)));
    series
}

/// From one mark of the upward axis to the next: 1, 2 or 5 times a power of ten, and seven at most.
fn step(most: f64) -> f64 {
    let powers = (-2..8).map(|power| 10_f64.powi(power));
    let mut steps = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * power));
    steps.find(|step| most / step <= 7.0).unwrap_or(most)
}

fn short(number: f64) -> String {
    match number {
        1e6.. => format!("{} M", number / 1e6),
        10_000.0.. => format!("{} k", number / 1e3),
        100.0.. => readable(number),
        _ => format!("{}", (number * 100.0).round() / 100.0),
    }
}

/// Up to the ground.
fn head() -> String {
    let (width, height) = SIZE;
    let colors = |is_dark: bool| {
        let rule = |class: String, (light, dark): (&str, &str)| {
            let color = if is_dark { dark } else { light };
            format!(".dot.{class}{{fill:{color}}}.line.{class}{{stroke:{color}}}")
        };
        let known = COLORS.iter().enumerate();
        let rules =
            known.map(|(number, (_, light, dark))| rule(format!("c{number}"), (*light, *dark)));
        rules
            .chain([rule("grey".to_owned(), GREY)])
            .collect::<String>()
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui,-apple-system,'Segoe UI','Liberation Sans',sans-serif\" font-size=\"13\">\n\
         <style>text{{fill:#1f2328}}.quiet{{fill:#59636e}}.ground{{fill:#fff}}.grid{{stroke:#d1d9e0}}\
         .strong{{font-weight:600}}.line{{fill:none;stroke-width:2.5;stroke-linejoin:round}}{}\
         @media(prefers-color-scheme:dark){{text{{fill:#f0f6fc}}.quiet{{fill:#9198a1}}.ground{{fill:#0d1117}}\
         .grid{{stroke:#3d444d}}{}}}</style>\n<rect class=\"ground\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\n",
        colors(false),
        colors(true)
    )
}
