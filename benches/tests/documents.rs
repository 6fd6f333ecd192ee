//! The documents show the figures of the kept run, and no others.

use std::fs;

use tickwheel_bench::report::figures::{DOCUMENTS, path, updated};
use tickwheel_bench::report::{Run, charts, page};

const HINT: &str = "write it again: cargo run --release -p tickwheel-bench -- --kept";

#[test]
fn the_documents_show_the_figures_of_the_kept_run() {
    let run = Run::kept().unwrap();
    for document in DOCUMENTS {
        let text = fs::read_to_string(path(document)).unwrap();
        let updated = updated(&text, &run).unwrap_or_else(|error| panic!("{document}: {error}"));
        assert!(text == updated, "{document} shows another run; {HINT}");
    }
    let page = fs::read_to_string(Run::kept_in().join("RESULTS.md")).unwrap();
    for (file, chart) in charts::charts(&run.results) {
        let kept = fs::read_to_string(Run::kept_in().join("charts").join(&file)).unwrap();
        assert!(kept == chart, "{file} shows another run; {HINT}");
    }
    assert!(
        page == page::markdown(&run),
        "RESULTS.md shows another run; {HINT}"
    );
}

/// What a benchmark measures, but not what a clock or a limit is: `1 ms`, `50 ms and 16 ticks`.
#[test]
fn no_document_has_a_figure_that_nobody_measures() {
    for document in DOCUMENTS {
        let text = fs::read_to_string(path(document)).unwrap();
        let mut unmarked = String::new();
        let mut rest = &*text;
        while let Some((before, after)) = rest.split_once("<!-- figure ") {
            unmarked.push_str(before);
            rest = after.split_once("<!-- end -->").unwrap().1;
        }
        unmarked.push_str(rest);
        for line in unmarked.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            for three in words.windows(3) {
                let [number, unit, what] = [three[0], three[1], three[2]]
                    .map(|word| word.trim_matches(|c: char| c.is_ascii_punctuation()));
                let is_measured = ["ns", "us", "µs"].contains(&unit)
                    || unit == "times" && ["faster", "slower", "tokio's"].contains(&what);
                let is_figure = number.parse::<f64>().is_ok() && is_measured;
                assert!(!is_figure, "{document}: {line}");
            }
        }
    }
}
