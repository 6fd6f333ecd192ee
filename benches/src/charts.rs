//! The drawings, as SVG files: CPU of a program against its rate of timeouts, cost against armed
//! timers, and README's picture of a stall.
//!
//! Each is readable in a light and in a dark theme, and by a viewer that knows neither. A contender
//! has the same colour in every drawing; ours are of one hue, and what is no peer is grey. The same
//! figures give the same bytes.

mod stalls;

pub use stalls::stalls;

use crate::part::name;
use crate::parts::{ARMED_SIZES, LOADS, RATES};
use crate::results::{Results, shown};
use crate::rows::readable;

/// The contenders that are drawn. The class of each is its number here.
const CONTENDERS: [&str; 4] = [name::TICKWHEEL, name::TOKIO, name::DROP_IN, name::NO_TIMER];

/// For a light ground and for a dark one. The colours can be told apart without red and green too.
const STYLE: &str = "\
text{fill:#1f2328}.quiet{fill:#59636e}.ground{fill:#fff}.grid{stroke:#d1d9e0}.strong{font-weight:600}\
.line{fill:none;stroke:currentColor;stroke-width:2.5;stroke-linejoin:round}.dot{fill:currentColor}\
.c0{color:#00728f}.c1{color:#d1570a}.c2{color:#3f9db5}.c3{color:#818b95}\
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.quiet{fill:#9198a1}.ground{fill:#0d1117}.grid{stroke:#3d444d}\
.c0{color:#4cc9e6}.c1{color:#ff9350}.c2{color:#2b9cb8}.c3{color:#8d96a0}}";

const WIDTH: f64 = 760.0;

/// A drawing that is not ended yet.
struct Drawing(String);

impl Drawing {
    fn new(height: f64, title: &str, below: &str) -> Drawing {
        let mut drawing = Drawing(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
             font-family=\"system-ui,-apple-system,'Segoe UI','Liberation Sans',sans-serif\" font-size=\"13\">\n\
             <style>{STYLE}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n"
        ));
        drawing.text(16.0, 20.0, r#"class="strong""#, title);
        drawing.text(16.0, 39.0, r#"class="quiet""#, below);
        drawing
    }

    fn text(&mut self, x: f64, y: f64, style: &str, words: &str) {
        let words = words.replace('&', "&amp;").replace('<', "&lt;");
        let y = y + 4.5;
        self.add(format!(
            r#"<text x="{x:.1}" y="{y:.1}" {style}>{words}</text>"#
        ));
    }

    fn add(&mut self, element: String) {
        self.0 += &element;
        self.0 += "\n";
    }

    fn end(self) -> String {
        self.0 + "</svg>\n"
    }
}

// Cost against a number. The upward axis begins at zero, and the other one is logarithmic.

/// Each chart for which there are figures, with the name of its file.
pub fn charts(results: &Results) -> Vec<(&'static str, String)> {
    let (load, pause) = LOADS[0];
    let rate = |rate: &u32| (f64::from(*rate), format!("{load}-{rate}"));
    let pause = pause.as_millis();
    let title = format!("CPU of a program that makes timeouts in bursts, every {pause} ms");
    let axes = ["timeouts a second (logarithmic)", "% of a core", "%"];
    let rates: Vec<Point> = RATES.iter().map(rate).collect();
    let of_sizes = |id: &str, title| {
        let size = |size: &usize| (*size as f64, format!("{id}-{size}"));
        let sizes: Vec<Point> = ARMED_SIZES.iter().map(size).collect();
        let axes = ["timers armed (logarithmic)", "ns", "ns"];
        draw(title, axes, &sizes, results)
    };
    let [armed, replace] = [
        "Arm and disarm one more timer",
        "Replace one of the timers at random",
    ];
    let charts = [
        ("charts/programs.svg", draw(&title, axes, &rates, results)),
        ("charts/armed.svg", of_sizes("armed", armed)),
        ("charts/replace.svg", of_sizes("replace", replace)),
    ];
    let drawn = charts
        .into_iter()
        .filter_map(|(file, chart)| Some((file, chart?)));
    drawn.collect()
}

/// Where on the axis a row stands, and the row.
type Point = (f64, String);

const HEIGHT: f64 = 400.0;
/// The edges of the plot: left, top, right, bottom. The names stand right of it, with what each
/// takes at the end of its line.
const PLOT: [f64; 4] = [58.0, 66.0, 448.0, 342.0];

fn draw(
    title: &str,
    [along, up, unit]: [&str; 3],
    points: &[Point],
    results: &Results,
) -> Option<String> {
    let mut series: Vec<(usize, Vec<(f64, f64)>)> = Vec::new();
    for (number, contender) in CONTENDERS.iter().enumerate() {
        let cost = |(at, row): &Point| Some((*at, results.median(row, contender)?));
        series.push((number, points.iter().filter_map(cost).collect()));
    }
    series.retain(|(_, line)| !line.is_empty());
    let end = |line: &[(f64, f64)]| line.last().map_or(0.0, |(_, cost)| *cost);
    series.sort_by(|(_, one), (_, other)| end(other).total_cmp(&end(one)));

    let costs = series.iter().flat_map(|(_, line)| line);
    let most = costs.map(|(_, cost)| *cost).max_by(f64::total_cmp)?;
    let step = step(most);
    let steps = (most / step).ceil();
    let [left, top, right, bottom] = PLOT;
    let (first, last) = (points.first()?.0.ln(), points.last()?.0.ln());
    let x = |at: f64| left + 12.0 + (at.ln() - first) / (last - first) * (right - left - 24.0);
    let y = |cost: f64| bottom - cost / (steps * step) * (bottom - top);

    let mut svg = Drawing::new(HEIGHT, title, up);
    let quiet = |anchor| format!(r#"class="quiet" text-anchor="{anchor}""#);
    svg.text((left + right) / 2.0, bottom + 38.0, &quiet("middle"), along);
    for (at, _) in points.iter().filter(|(at, _)| at.log10().fract() == 0.0) {
        svg.text(x(*at), bottom + 16.0, &quiet("middle"), &short(*at));
    }
    for mark in (0..=steps as u32).map(|n| step * f64::from(n)) {
        let at = y(mark);
        svg.text(left - 8.0, at, &quiet("end"), &short(mark));
        svg.add(format!(
            r#"<line x1="{left}" y1="{at:.1}" x2="{right}" y2="{at:.1}" class="grid"/>"#
        ));
    }
    for (place, (number, line)) in series.iter().enumerate() {
        let contender = CONTENDERS[*number];
        let is_ours = contender.starts_with(name::TICKWHEEL);
        let style = if is_ours { r#"class="strong""# } else { "" };
        let words = format!("{}, {} {unit}", shown(contender), readable(end(line)));
        let name_at = top + 17.0 * place as f64;
        svg.text(right + 30.0, name_at, style, &words);
        let mut places: Vec<_> = line.iter().map(|(at, cost)| (x(*at), y(*cost))).collect();
        let path = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
        let path = path.collect::<Vec<_>>().join(" ");
        svg.add(format!(
            r#"<polyline points="{path}" class="line c{number}"/>"#
        ));
        places.push((right + 20.0, name_at));
        for (x, y) in places {
            svg.add(format!(
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" class="dot c{number}"/>"#
            ));
        }
    }
    Some(svg.end())
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
