//! The charts, as SVG files: bars for the main rows, cost against armed timers, cost against
//! threads.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Results;
use crate::harness::Record;
use crate::parts::{ARMED_SIZES, name};
use crate::rows::{Row, readable};

type Outcome = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The rows that have bars.
const BARS: [&str; 6] = [
    "ready-1",
    "reset-one",
    "pending-1",
    "reset-many",
    "pending-2",
    "map-1",
];
const THREADS: [usize; 3] = [1, 2, 4];

/// Draws the charts for which there are figures.
pub fn draw(results: &Results, folder: &Path) -> Outcome {
    bars(results, &folder.join("rows.svg"))?;
    for (id, title) in [
        ("armed", "arm and disarm one more, ns"),
        ("replace", "replace one of them at random, ns"),
    ] {
        let row = |size: &usize| (*size as f64, format!("{id}-{size}"));
        Lines {
            title,
            along: "timers armed",
            points: ARMED_SIZES.iter().map(row).collect(),
        }
        .draw(results, &folder.join(format!("{id}.svg")))?;
    }
    let threads: Vec<(f64, String)> = THREADS
        .iter()
        .map(|threads| (*threads as f64, format!("pending-{threads}")))
        .collect();
    Lines {
        title: "timeout, inner pending once, dropped: ns of a core for each",
        along: "threads at once",
        points: threads,
    }
    .draw(results, &folder.join("threads.svg"))
}

/// Our colour stands out; a peer has the same one in every chart.
fn color(contender: &str) -> RGBColor {
    match contender {
        name::TICKWHEEL => RGBColor(0, 110, 160),
        name::DROP_IN => RGBColor(90, 175, 215),
        name::TOKIO => RGBColor(215, 120, 30),
        name::PINGORA => RGBColor(130, 100, 160),
        name::DELAY_QUEUE | name::MUTEX_MAP => RGBColor(190, 80, 80),
        name::HIERARCHICAL => RGBColor(110, 140, 80),
        _ => RGBColor(130, 130, 130),
    }
}

fn bars(results: &Results, path: &Path) -> Outcome {
    let rows: Vec<(Row, Vec<&Record>)> = results
        .rows()
        .into_iter()
        .filter(|(row, _)| BARS.contains(&row.id.as_str()))
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let lines = rows.len().div_ceil(2);
    let root = SVGBackend::new(path, (1_000, 230 * lines as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, (row, records)) in root.split_evenly((lines, 2)).iter().zip(&rows) {
        bars_of(area, row, records)?;
    }
    root.present()?;
    Ok(())
}

/// One bar for each contender, its name before it and its median after it.
fn bars_of(area: &Area<'_>, row: &Row, records: &[&Record]) -> Outcome {
    const LEFT: i32 = 215;
    const TOP: i32 = 44;
    const STEP: i32 = 28;
    const THICK: i32 = 18;
    let room = area.dim_in_pixel().0 as i32 - LEFT - 75;
    let title = format!("{}, {}", row.title, row.unit.name());
    area.draw(&Text::new(title, (14, 14), text(15)))?;
    let medians = records
        .iter()
        .filter_map(|record| Some((record, record.quartiles()?.median)));
    let longest = medians
        .clone()
        .map(|(_, median)| median)
        .fold(0.0, f64::max);
    for (line, (record, median)) in medians.enumerate() {
        let top = TOP + STEP * line as i32;
        let middle = top + THICK / 2;
        let end = LEFT + (median / longest * f64::from(room)).max(1.0) as i32;
        area.draw(&Rectangle::new(
            [(LEFT, top), (end, top + THICK)],
            color(&record.contender).filled(),
        ))?;
        let before = text(13).pos(Pos::new(HPos::Right, VPos::Center));
        let after = text(13).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(
            record.contender.clone(),
            (LEFT - 8, middle),
            before,
        ))?;
        area.draw(&Text::new(readable(median), (end + 6, middle), after))?;
    }
    Ok(())
}

/// Cost against something that grows; both axes are logarithmic.
struct Lines {
    title: &'static str,
    along: &'static str,
    /// Where on the axis each row stands.
    points: Vec<(f64, String)>,
}

impl Lines {
    fn draw(&self, results: &Results, path: &Path) -> Outcome {
        let series = self.series(results);
        let places = || series.iter().flat_map(|(_, points)| points);
        if places().next().is_none() {
            return Ok(());
        }
        let along: Vec<i32> = self.points.iter().map(|(at, _)| place(*at)).collect();
        let (first, last) = (along[0], along[along.len() - 1]);
        let margin = (last - first) / 20;
        let lowest = places().map(|(_, cost)| *cost).fold(f64::MAX, f64::min) / 1.5;
        // Room for the names above the lines.
        let above = 1.3 + 0.2 * series.len() as f64;
        let highest = places().map(|(_, cost)| *cost).fold(0.0, f64::max) * above;
        let up: Vec<i32> = (-1..7)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)))
            .filter(|cost| (lowest..highest).contains(cost))
            .map(place)
            .collect();

        let root = SVGBackend::new(path, (760, 420)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(self.title, text(17))
            .margin(14)
            .x_label_area_size(42)
            .y_label_area_size(62)
            .build_cartesian_2d(
                (first - margin..last + margin).with_key_points(along),
                (place(lowest)..place(highest)).with_key_points(up),
            )?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .label_style(text(13))
            .x_desc(self.along)
            .x_label_formatter(&|at| short(number(*at)))
            .y_label_formatter(&|cost| short(number(*cost)))
            .draw()?;
        for (contender, points) in &series {
            let points: Vec<_> = points.iter().map(|(x, y)| (place(*x), place(*y))).collect();
            let color = color(contender);
            chart
                .draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?
                .label(*contender)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2))
                });
            chart.draw_series(
                points
                    .into_iter()
                    .map(|at| Circle::new(at, 4, color.filled())),
            )?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE)
            .border_style(RGBColor(200, 200, 200))
            .label_font(text(13))
            .draw()?;
        root.present()?;
        Ok(())
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
}

/// Where a number lies on a logarithmic axis, in thousandths of a doubling.
fn place(number: f64) -> i32 {
    (number.log2() * 1_000.0).round() as i32
}

/// The number that lies there, to two digits. A number at a mark of the axis has no more.
fn number(place: i32) -> f64 {
    let number = (f64::from(place) / 1_000.0).exp2();
    let unit = 10_f64.powf(number.log10().floor() - 1.0);
    (number / unit).round() * unit
}

fn short(number: f64) -> String {
    if number >= 1e6 {
        return format!("{} M", number / 1e6);
    }
    if number >= 100.0 {
        return readable(number);
    }
    format!("{}", (number * 100.0).round() / 100.0)
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size)
        .into_text_style(&(1_000, 1_000))
        .color(&RGBColor(40, 40, 40))
}
