//! README's picture of a pause: how many live connections a pause of the server closes, in each way
//! of finding idle ones. It is drawn from the table beside it, which `keepalive-server --compare`
//! has counted.

use std::fmt::Write;

/// The head of the table in README.
const COLUMN: &str = "live connections closed";
const CLIENTS: f64 = 200.0;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 300.0;
const RIGHT: f64 = 650.0;
const ROW: f64 = 30.0;
const TOP: f64 = 58.0;

/// The ways in README's table, each with the fewest and the most that were closed.
fn rows(readme: &str) -> Vec<(String, [f64; 2])> {
    let lines = readme.lines().skip_while(|line| !line.contains(COLUMN));
    let lines = lines.skip(2).map_while(|line| line.strip_prefix('|'));
    let row = |line: &str| {
        let plain = line.replace(['*', '`'], "");
        let mut cells = plain.split('|').map(str::trim);
        let (way, closed) = (cells.next()?, cells.next()?);
        let (least, most) = closed.split_once(" to ").unwrap_or((closed, closed));
        Some((way.to_owned(), [least.parse().ok()?, most.parse().ok()?]))
    };
    lines
        .map(|line| row(line).unwrap_or_else(|| panic!("no row of a way: {line}")))
        .collect()
}

/// The picture for that README.
pub fn chart(readme: &str) -> String {
    let rows = rows(readme);
    let height = TOP + ROW * rows.len() as f64 + 10.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui,-apple-system,'Segoe UI','Liberation Sans',sans-serif\" font-size=\"13\">\n\
         <style>text{{fill:#1f2328}}.quiet{{fill:#59636e}}.ground{{fill:#fff}}.strong{{font-weight:600}}\
         .least{{fill:#d1570a}}.most{{fill:#d1570a;fill-opacity:.4}}.none{{fill:#00728f}}\
         @media(prefers-color-scheme:dark){{text{{fill:#f0f6fc}}.quiet{{fill:#9198a1}}.ground{{fill:#0d1117}}\
         .least,.most{{fill:#ff9350}}.none{{fill:#4cc9e6}}}}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n\
         <text x=\"16\" y=\"24\" class=\"strong\">Live connections that a pause of the server closes, of {CLIENTS}</text>\n\
         <text x=\"16\" y=\"43\" class=\"quiet\">Dark: the fewest of five pauses. Pale: the most.</text>\n"
    );
    for (number, (way, [least, most])) in rows.iter().enumerate() {
        let middle = TOP + ROW * (number as f64 + 0.5);
        let (text, bar) = (middle + 4.5, middle - 9.0);
        let width = |closed: &f64| (RIGHT - LEFT) * closed / CLIENTS;
        let closed = match least == most {
            true => format!("{most}"),
            false => format!("{least} to {most}"),
        };
        let end = LEFT + width(most) + 10.0;
        let emphasis = if *most == 0.0 { "strong" } else { "" };
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\" class=\"{emphasis}\">{way}</text>",
            LEFT - 12.0
        );
        for (class, wide) in [("most", width(most)), ("least", width(least))] {
            let (class, wide) = if *most == 0.0 {
                ("none", 2.0)
            } else {
                (class, wide)
            };
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{bar}\" width=\"{wide:.1}\" height=\"18\" class=\"{class}\"/>"
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{end:.1}\" y=\"{text}\" class=\"{emphasis}\">{closed}</text>"
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn each_way_of_the_table_has_its_range() {
        let readme = "a\n\n| how | live connections closed |\n|---|---:|\n| `b`, c | 3 to 40 |\n\
                      | **`d`** | **0** |\n\n| other | x |\n";
        let found = [
            ("b, c".to_owned(), [3.0, 40.0]),
            ("d".to_owned(), [0.0, 0.0]),
        ];
        assert_eq!(rows(readme), found);
    }
}
