//! README's picture of a stall: how many live connections it closes, in each way of finding idle
//! ones. It is drawn from the table next to it, which `keepalive-server --compare` has counted.
//!
//! Each stall that closes any has a panel, and each way a row through all of them. The shorter
//! stalls are in the table alone.
//!
//! The picture is readable in a light and in a dark theme, and by a viewer that knows neither. The
//! same table gives the same bytes.

/// The head of the table's first column. Each other column is a stall.
const COLUMN: &str = "how the server finds idle connections";

// The runs behind the table, as README's section describes them.
const CLIENTS: f64 = 200.0;
const TIMEOUT_MS: f64 = 500.0;
const HEARTBEAT_MS: f64 = 50.0;

/// A longer stall closes live connections.
const LIMIT_MS: f64 = TIMEOUT_MS - HEARTBEAT_MS;

/// Where the names of the ways end, and where the panels begin.
const NAMES: f64 = 262.0;
const PANELS: f64 = 274.0;
/// What a panel keeps right of its longest bar, for the range in words.
const RANGE: f64 = 76.0;
const TOP: f64 = 116.0;
const ROW: f64 = 30.0;

// How text looks, as the style has it.
const QUIET: &str = r#"class="quiet""#;
const STRONG: &str = r#"class="strong""#;

/// README's table.
struct Table {
    /// As the head has them.
    stalls: Vec<Stall>,
    ways: Vec<Way>,
}

struct Stall {
    cause: String,
    seconds: f64,
}

impl Stall {
    /// `SIGSTOP, 0.9 s`
    fn read(cell: &str) -> Option<Stall> {
        let (cause, length) = cell.split_once(", ")?;
        let seconds = length.strip_suffix(" s")?.parse().ok()?;
        let cause = cause.to_owned();
        Some(Stall { cause, seconds })
    }

    fn is_longer_than_the_limit(&self) -> bool {
        self.seconds * 1e3 > LIMIT_MS
    }
}

struct Way {
    name: String,
    /// For each stall the fewest and the most that were closed.
    closed: Vec<[f64; 2]>,
}

impl Table {
    fn read(readme: &str) -> Table {
        let lines = readme.lines().skip_while(|line| !line.contains(COLUMN));
        let mut rows = lines.map_while(cells);
        let head = rows.next().expect("README has the table of stalls");
        let stalls = head[1..].iter();
        let stalls =
            stalls.map(|cell| Stall::read(cell).unwrap_or_else(|| panic!("no stall: {cell}")));
        let stalls: Vec<Stall> = stalls.collect();
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
        Table { stalls, ways }
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
pub fn picture(readme: &str) -> String {
    let Table { stalls, ways } = Table::read(readme);
    let bottom = TOP + ROW * ways.len() as f64;
    let title = format!("Live connections that a stall of the server closes, of {CLIENTS}");
    let condition = format!(
        "A stall closes some where it is longer than the timeout less the time between two \
         heartbeats, here {LIMIT_MS} ms."
    );
    let mut svg = Drawing::new(bottom + 10.0, &title, &condition);
    let shades = "Full colour: the fewest of five runs. Faded: the most.";
    svg.text(16.0, 58.0, QUIET, shades);
    let drawn = || {
        let numbered = stalls.iter().enumerate();
        numbered.filter(|(_, stall)| stall.is_longer_than_the_limit())
    };
    for (row, way) in ways.iter().enumerate() {
        let survives = drawn().all(|(number, _)| way.closed[number][1] == 0.0);
        let style = format!(r#"{} text-anchor="end""#, weight(survives));
        svg.text(NAMES, middle(row), &style, &way.name);
    }
    let width = (WIDTH - PANELS) / drawn().count() as f64;
    for (panel, (number, stall)) in drawn().enumerate() {
        let left = PANELS + width * panel as f64;
        head(&mut svg, left, stall);
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

/// Above a panel: what held up the server, and for how long.
fn head(svg: &mut Drawing, left: f64, stall: &Stall) {
    svg.text(left, 84.0, STRONG, &stall.cause);
    svg.text(left, 101.0, QUIET, &format!("for {} s", stall.seconds));
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

/// For a light ground and for a dark one. The colours can be told apart without red and green too.
const STYLE: &str = "\
text{fill:#1f2328}.quiet{fill:#59636e}.ground{fill:#fff}.grid{stroke:#d1d9e0}.strong{font-weight:600}\
.dot{fill:currentColor}.c0{color:#00728f}.c1{color:#d1570a}\
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.quiet{fill:#9198a1}.ground{fill:#0d1117}.grid{stroke:#3d444d}\
.c0{color:#4cc9e6}.c1{color:#ff9350}}";

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

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "\
Before.

| how the server finds idle connections | SIGSTOP, 0.45 s | blocked, 1.5 s |
|---------------------------------------|-------:|------:|
| `select!` of the read                 |      0 | 5 to 82 |
| **`Deadline`**                        |      0 | **0** |

| another | table |";

    #[test]
    fn each_stall_and_way_of_the_table_is_read() {
        let table = Table::read(README);
        let stalls: Vec<_> = table
            .stalls
            .iter()
            .map(|stall| (&*stall.cause, stall.seconds))
            .collect();
        assert_eq!(stalls, [("SIGSTOP", 0.45), ("blocked", 1.5)]);
        let names: Vec<_> = table.ways.iter().map(|way| &*way.name).collect();
        assert_eq!(names, ["select! of the read", "Deadline"]);
        assert_eq!(table.ways[0].closed, [[0.0, 0.0], [5.0, 82.0]]);
        assert_eq!(table.ways[1].closed, [[0.0, 0.0], [0.0, 0.0]]);
    }

    #[test]
    fn a_panel_is_of_a_stall_that_is_longer_than_the_limit() {
        let picture = picture(README);
        let places = [">blocked<", ">for 1.5 s<", ">5 to 82<"];
        let places = places.map(|words| picture.find(words));
        assert!(places[0].is_some() && places.is_sorted(), "{picture}");
        assert!(!picture.contains("SIGSTOP"), "{picture}");
    }

    #[test]
    #[should_panic(expected = "README has the table of stalls")]
    fn a_readme_without_the_table_is_refused() {
        picture("| another | table |");
    }
}
