//! README's picture of a pause: how many live connections it closes, in each way of finding idle
//! ones. It is drawn from the table beside it, which `keepalive-server --compare` has counted.
//!
//! Each pause has a panel, and each way a row through all of them.

use super::{Drawing, WIDTH};

/// The head of the table's first column. Each other column is a pause.
const COLUMN: &str = "how the server finds idle connections";

// The runs behind the table, as README's section describes them.
const CLIENTS: f64 = 200.0;
const TIMEOUT_MS: f64 = 500.0;
const HEARTBEAT_MS: f64 = 50.0;

/// A longer pause closes live connections.
const LIMIT_MS: f64 = TIMEOUT_MS - HEARTBEAT_MS;

/// Where the names of the ways end, and where the panels begin.
const NAMES: f64 = 262.0;
const PANELS: f64 = 274.0;
/// What a panel keeps right of its longest bar, for the range in words.
const RANGE: f64 = 76.0;
const TOP: f64 = 116.0;
const ROW: f64 = 30.0;

// How text looks, as the drawings' style has it.
const QUIET: &str = r#"class="quiet""#;
const STRONG: &str = r#"class="strong""#;

/// README's table.
struct Table {
    /// In seconds, as the head has them.
    pauses: Vec<f64>,
    ways: Vec<Way>,
}

struct Way {
    name: String,
    /// For each pause the fewest and the most that were closed.
    closed: Vec<[f64; 2]>,
}

impl Table {
    fn read(readme: &str) -> Table {
        let lines = readme.lines().skip_while(|line| !line.contains(COLUMN));
        let mut rows = lines.map_while(cells);
        let head = rows.next().expect("README has the table of pauses");
        let pauses = head[1..].iter().map(|cell| {
            let pause = cell.strip_suffix(" s").and_then(|pause| pause.parse().ok());
            pause.unwrap_or_else(|| panic!("no pause: {cell}"))
        });
        let pauses: Vec<f64> = pauses.collect();
        let way = |row: Vec<String>| {
            assert_eq!(row.len(), head.len(), "a row of another table: {row:?}");
            let range = |cell: &String| {
                range(cell).unwrap_or_else(|| panic!("no range in a row of a way: {row:?}"))
            };
            let closed = row[1..].iter().map(range).collect();
            let name = row[0].clone();
            Way { name, closed }
        };
        // The rule below the head is no row.
        let ways = rows.skip(1).map(way).collect();
        Table { pauses, ways }
    }
}

/// The cells of a line, without their marks for bold text and code. `None` below the table.
fn cells(line: &str) -> Option<Vec<String>> {
    let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cell = |cell: &str| cell.replace(['*', '`'], "").trim().to_owned();
    Some(line.split('|').map(cell).collect())
}

/// `5 to 82`, or one number.
fn range(cell: &str) -> Option<[f64; 2]> {
    let (least, most) = cell.split_once(" to ").unwrap_or((cell, cell));
    Some([least.parse().ok()?, most.parse().ok()?])
}

/// The picture for that README.
pub fn pauses(readme: &str) -> String {
    let Table { pauses, ways } = Table::read(readme);
    let bottom = TOP + ROW * ways.len() as f64;
    let title = format!("Live connections that a pause of the server closes, of {CLIENTS}");
    let condition = "A pause closes some where it is longer than the timeout less the time between \
                     two heartbeats.";
    let mut svg = Drawing::new(bottom + 10.0, &title, condition);
    let shades = "Full colour: the fewest of five runs. Faded: the most.";
    svg.text(16.0, 58.0, QUIET, shades);
    for (row, way) in ways.iter().enumerate() {
        let survives = way.closed.iter().all(|[_, most]| *most == 0.0);
        let style = format!(r#"{} text-anchor="end""#, weight(survives));
        svg.text(NAMES, middle(row), &style, &way.name);
    }
    let width = (WIDTH - PANELS) / pauses.len() as f64;
    for (number, pause) in pauses.into_iter().enumerate() {
        let left = PANELS + width * number as f64;
        head(&mut svg, left, pause);
        svg.add(format!(
            r#"<line x1="{left:.1}" y1="{TOP}" x2="{left:.1}" y2="{bottom}" class="grid"/>"#
        ));
        for (row, way) in ways.iter().enumerate() {
            let closed = way.closed[number];
            bar(&mut svg, [left, middle(row)], width - RANGE, closed);
        }
    }
    svg.end()
}

/// Above a panel: its pause, and whether that closes any live connection.
fn head(svg: &mut Drawing, left: f64, pause: f64) {
    let is_longer = pause * 1e3 > LIMIT_MS;
    let compared = if is_longer { "longer" } else { "not longer" };
    let limit = format!("{compared} than {LIMIT_MS} ms");
    svg.text(left, 84.0, STRONG, &format!("a pause of {pause} s"));
    svg.text(left, 101.0, QUIET, &limit);
}

fn middle(row: usize) -> f64 {
    TOP + ROW * (row as f64 + 0.5)
}

fn weight(is_bold: bool) -> &'static str {
    if is_bold {
        r#"font-weight="600""#
    } else {
        r#"font-weight="400""#
    }
}

/// One bar over the other, and the range in words. `longest` is a bar for all clients.
fn bar(svg: &mut Drawing, [left, middle]: [f64; 2], longest: f64, [least, most]: [f64; 2]) {
    let closes_none = most == 0.0;
    let class = if closes_none { "c0" } else { "c1" };
    // A mark stands where there is no bar.
    let length = |closed: f64| {
        if closes_none {
            2.0
        } else {
            longest * closed / CLIENTS
        }
    };
    let top = middle - 9.0;
    for (closed, opacity) in [(most, 0.4), (least, 1.0)] {
        let wide = length(closed);
        svg.add(format!(
            r#"<rect x="{left:.1}" y="{top}" width="{wide:.1}" height="18" class="dot {class}" fill-opacity="{opacity}"/>"#
        ));
    }
    let range = if least == most {
        format!("{most}")
    } else {
        format!("{least} to {most}")
    };
    svg.text(
        left + length(most) + 8.0,
        middle,
        weight(closes_none),
        &range,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "\
Before.

| how the server finds idle connections | 0.45 s | 1.5 s |
|---------------------------------------|-------:|------:|
| `select!` of the read                 |      0 | 5 to 82 |
| **`Deadline`**                        |      0 | **0** |

| another | table |";

    #[test]
    fn each_pause_and_way_of_the_table_is_read() {
        let table = Table::read(README);
        assert_eq!(table.pauses, [0.45, 1.5]);
        let names: Vec<_> = table.ways.iter().map(|way| &*way.name).collect();
        assert_eq!(names, ["select! of the read", "Deadline"]);
        assert_eq!(table.ways[0].closed, [[0.0, 0.0], [5.0, 82.0]]);
        assert_eq!(table.ways[1].closed, [[0.0, 0.0], [0.0, 0.0]]);
    }

    #[test]
    fn a_panel_says_on_which_side_of_the_limit_its_pause_is() {
        let picture = pauses(README);
        let places =
            ["a pause of 0.45 s", "not longer than 450 ms"].map(|words| picture.find(words));
        assert!(places[0].is_some() && places[0] < places[1], "{picture}");
        let after = &picture[picture.find("a pause of 1.5 s").unwrap()..];
        assert!(after.contains(">longer than 450 ms"), "{picture}");
    }

    #[test]
    #[should_panic(expected = "README has the table of pauses")]
    fn a_readme_without_the_table_is_refused() {
        pauses("| another | table |");
    }
}
