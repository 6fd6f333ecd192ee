//! The documents are whole when they are rendered, and show the figures of the kept run alone.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pulldown_cmark::{BrokenLink, Event, Options, Parser, Tag, html};
use tickwheel_bench::parts::name;
use tickwheel_bench::report::summary::{self, BEGIN, END};
use tickwheel_bench::report::{Run, charts, page};

const HINT: &str = "write it again: cargo run --release -p tickwheel-bench -- --kept";

#[test]
fn readme_results_and_charts_show_the_kept_run() {
    let run = Run::kept().unwrap();
    let readme = read("README.md");
    let updated = summary::updated(&readme, &summary::table(&run.results)).unwrap();
    assert!(readme == updated, "README.md shows another run; {HINT}");
    for (file, chart) in charts::charts(&run.results) {
        let kept = read(&format!("benches/charts/{file}"));
        assert!(kept == chart, "{file} shows another run; {HINT}");
    }
    let results = read("benches/RESULTS.md");
    assert!(
        results == page::markdown(&run),
        "RESULTS.md shows another run; {HINT}"
    );
}

#[test]
fn a_row_of_ours_alone_says_what_it_is_for() {
    for (row, records) in Run::kept().unwrap().results.rows() {
        let has_peer = records
            .iter()
            .any(|record| name::is_peer(&record.contender));
        assert_eq!(row.purpose.is_empty(), has_peer, "{}", row.id);
    }
}

/// A comment that begins a line makes an HTML block, which ends the paragraph above it and takes
/// the rest of its line out of the text.
#[test]
fn no_page_is_torn_by_a_mark() {
    for (name, text) in pages() {
        let faults = torn(&text);
        assert!(faults.is_empty(), "{name}: {faults:?}");
        let mut rendered = String::new();
        html::push_html(&mut rendered, Parser::new_ext(&text, as_rustdoc()));
        assert!(!rendered.contains("&lt;!--"), "{name} shows a mark");
    }
    let readme = read("README.md");
    let marks: Vec<&str> = readme
        .lines()
        .filter(|line| line.contains("<!--"))
        .collect();
    assert_eq!(marks, [BEGIN, END], "README has other marks than two");
}

/// The source's own pages are left out: rustdoc knows what the names there are.
#[test]
fn each_reference_of_a_document_is_defined() {
    for (name, text) in pages().filter(|(name, _)| name.ends_with(".md")) {
        let undefined = undefined_references(&text);
        assert!(undefined.is_empty(), "{name}: {undefined:?}");
    }
    assert_eq!(undefined_references("See [a] and [b].\n\n[a]: c"), ["b"]);
}

fn undefined_references(text: &str) -> Vec<String> {
    let mut undefined = Vec::new();
    let found = |link: BrokenLink<'_>| {
        undefined.push(link.reference.to_string());
        None
    };
    Parser::new_with_broken_link_callback(text, as_rustdoc(), Some(found)).for_each(drop);
    undefined
}

#[test]
fn a_torn_paragraph_and_a_mark_within_one_are_found() {
    assert!(torn("words\n\n<!-- a -->\n\nwords\n\n<!-- b -->\n```rust\n```\n").is_empty());
    for text in [
        "It takes\n<!-- figure -->58 bytes<!-- end --> each.",
        "It takes <!-- figure -->58 bytes<!-- end --> each.",
        "A list:\n\n- of\n  <!-- figure -->58<!-- end -->\n  things",
        "words\n<!-- a -->\n\nwords",
        "<!-- a -->\nwords",
    ] {
        assert!(!torn(text).is_empty(), "{text}");
    }
}

/// What a benchmark measures, but not what a clock or a limit is: `1 ms`, `50 ms and a tick`.
#[test]
fn no_prose_has_a_figure_of_a_benchmark() {
    for (name, text) in pages().filter(|(name, _)| !name.ends_with("RESULTS.md")) {
        let prose = text
            .split_once(BEGIN)
            .map_or(text.clone(), |(before, rest)| {
                format!("{before}{}", rest.split_once(END).expect("it ends").1)
            });
        for line in prose.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            for three in words.windows(3) {
                let [number, unit, what] = [three[0], three[1], three[2]]
                    .map(|word| word.trim_matches(|c: char| c.is_ascii_punctuation()));
                let is_measured = ["ns", "us", "µs"].contains(&unit)
                    || unit == "times" && ["faster", "slower", "tokio's"].contains(&what);
                let is_figure = number.parse::<f64>().is_ok() && is_measured;
                assert!(!is_figure, "{name}: {line}");
            }
        }
    }
}

/// The raw HTML that is more than a comment on a line of its own, between blank lines or above
/// code.
fn torn(text: &str) -> Vec<&str> {
    let mut faults = Vec::new();
    for (event, place) in Parser::new_ext(text, as_rustdoc()).into_offset_iter() {
        match event {
            Event::InlineHtml(_) => faults.push(&text[place]),
            Event::Start(Tag::HtmlBlock) if !stands_alone(text, &place) => {
                faults.push(&text[place]);
            }
            _ => {}
        }
    }
    faults
}

fn stands_alone(text: &str, place: &Range<usize>) -> bool {
    let block = text[place.clone()].trim();
    let before = text[..place.start].lines().next_back().unwrap_or_default();
    let after = text[place.end..].lines().next().unwrap_or_default();
    let is_comment = block.starts_with("<!--") && block.ends_with("-->") && !block.contains('\n');
    is_comment
        && before.is_empty()
        && (after.is_empty() || after.starts_with("```"))
        && block.matches("-->").count() == 1
}

/// The extensions that rustdoc turns on.
fn as_rustdoc() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_SMART_PUNCTUATION
}

/// Every document, and the doc comments at the head of each file that is a page.
fn pages() -> impl Iterator<Item = (String, String)> {
    let folders = [".", "docs", "benches", "examples", "integrations"];
    let documents = folders.into_iter().flat_map(|folder| {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let documents = names.filter(|name| name.ends_with(".md"));
        documents.map(move |name| format!("{folder}/{name}"))
    });
    let documents = documents.map(|name| (read(&name), name));
    let landing = ["src/lib.rs", "src/guarantees.rs", "src/time.rs"];
    let heads = landing.into_iter().map(|name| {
        let source = read(name);
        let lines = source.lines().filter_map(|line| line.strip_prefix("//!"));
        let head = lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)));
        (head.collect(), name.to_owned())
    });
    documents.chain(heads).map(|(text, name)| (name, text))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
