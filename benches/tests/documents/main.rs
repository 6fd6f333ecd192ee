//! The documents are whole when they are rendered, and show the figures of the kept run alone.

mod marks;
mod prose;

use std::fs;
use std::path::{Path, PathBuf};

use marks::Claim;
use pulldown_cmark::{BrokenLink, Options, Parser};
use tickwheel_bench::charts;
use tickwheel_bench::harness::Record;
use tickwheel_bench::limits;
use tickwheel_bench::part::name;
use tickwheel_bench::parts::PARTS;
use tickwheel_bench::reasons;
use tickwheel_bench::report::{self, BEGIN, END};
use tickwheel_bench::results::{Results, Run};

const HINT: &str = "write it again: cargo run --release -p tickwheel-bench -- --kept";

#[test]
fn readme_results_and_charts_show_the_kept_run() {
    let run = Run::load(Run::kept_in()).unwrap();
    let readme = read("README.md");
    let pages = [
        ("README.md", report::readme(&readme, &run.results).unwrap()),
        ("benches/RESULTS.md", report::page(&run)),
        ("charts/stalls.svg", charts::stalls(&readme)),
    ];
    for (name, page) in pages.into_iter().chain(charts::charts(&run.results)) {
        let kept = read(&name.replace("charts/", "benches/charts/"));
        assert!(kept == page, "{name} shows another run; {HINT}");
    }
}

#[test]
fn a_row_of_ours_alone_says_what_it_is_for() {
    for (row, records) in Run::load(Run::kept_in()).unwrap().results.rows() {
        let has_peer = records
            .iter()
            .any(|record| name::is_peer(&record.contender));
        assert!(has_peer || !row.purpose.is_empty(), "{}", row.id);
    }
}

#[test]
fn each_part_says_in_which_state_its_contenders_are() {
    for part in PARTS {
        assert!(!part.state.is_empty(), "{}", part.name);
    }
}

#[test]
fn each_limit_is_of_a_row_that_the_kept_run_has() {
    let without = limits::without_figures(&Run::load(Run::kept_in()).unwrap().results);
    assert!(without.is_empty(), "{}", without.join("\n"));
}

/// To see the reasons that the kept run does not need: `-- --nocapture`. Each may be right, because
/// small losses come and go from run to run.
#[test]
fn each_row_in_which_a_peer_is_ahead_has_its_reason() {
    let losses = reasons::losses(&Run::load(Run::kept_in()).unwrap().results);
    for line in reasons::unneeded(&losses) {
        println!("the kept run does not need the reason: {line}");
    }
    let without = losses.iter().filter(|loss| loss.reason().is_none());
    let without: Vec<String> = without.map(|loss| loss.text()).collect();
    let all = without.join("\n");
    assert!(without.is_empty(), "no line of reasons.txt covers:\n{all}");
}

#[test]
fn each_reference_of_a_document_is_defined() {
    for (name, text) in pages() {
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
    // Of the extensions that rustdoc turns on, those that have brackets.
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_TASKLISTS;
    Parser::new_with_broken_link_callback(text, options, Some(found)).for_each(drop);
    undefined
}

/// A figure that is measured has a mark, which tells the claim. The kept run shows each claim.
#[test]
fn each_figure_in_prose_is_one_of_the_kept_run() {
    let results = Run::load(Run::kept_in()).unwrap().results;
    let prose = pages().filter(|(name, _)| !name.ends_with("RESULTS.md"));
    let source = "src/guarantees.rs".to_owned();
    let documentation = prose::documentation(&read(&source));
    let faults = prose
        .chain([(source, documentation)])
        .flat_map(|(name, text)| faults(&name, &text, &results));
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n\n"));
}

/// In their sentences, also words such as «half» or «from 1,000 on» need a mark.
const STRICT: [&str; 5] = [
    "README.md",
    "src/guarantees.rs",
    "docs/SIZING.md",
    "docs/UPSTREAM.md",
    "docs/COMPARE.md",
];

/// Each sentence of a document whose figures are not marked, or not those of the run.
fn faults(name: &str, text: &str, results: &Results) -> Vec<String> {
    let name = name.trim_start_matches("./");
    let sentences = match prose::sentences(&without_the_table(text)) {
        Ok(sentences) => sentences,
        Err(torn) => return torn.iter().map(|error| format!("{name}:{error}")).collect(),
    };
    let mut faults = Vec::new();
    for sentence in sentences {
        let (line, text) = (sentence.line, &sentence.text);
        let is_none = |(_, mark): &(usize, String)| mark == "none";
        let figure = prose::figure(&sentence, STRICT.contains(&name));
        match figure {
            Some(figure) if sentence.marks.is_empty() => faults.push(format!(
                "{name}:{line}: {text}\n  «{figure}» has no mark `<!-- figure: .. -->`"
            )),
            None if sentence.marks.iter().any(is_none) => faults.push(format!(
                "{name}:{line}: {text}\n  it has no figure, so `figure: none` says nothing"
            )),
            _ => {}
        }
        for (line, mark) in &sentence.marks {
            let fault = |error: String| format!("{name}:{line}: {text}\n  {error}");
            match Claim::parse_all(mark) {
                Err(error) => faults.push(fault(error)),
                Ok(claims) => faults.extend(claims.iter().filter_map(|claim| {
                    let found = claim.check(results).err()?;
                    Some(fault(format!("claimed: {claim}\n  found:   {found}")))
                })),
            }
        }
    }
    faults
}

/// The tables that the program writes show the run by themselves. The lines of what follows stay.
fn without_the_table(page: &str) -> String {
    match page.split_once(BEGIN) {
        None => page.to_owned(),
        Some((before, rest)) => {
            let (table, after) = rest.split_once(END).expect("the table ends");
            format!(
                "{before}{}{after}",
                "\n".repeat(table.matches('\n').count())
            )
        }
    }
}

#[test]
fn a_wrong_figure_a_missing_mark_and_an_idle_one_are_faults() {
    let record = |who, cost| Record::new("ready-1", who, vec![cost; 3]);
    let results = Results {
        records: vec![record(name::TICKWHEEL, 10.0), record(name::TOKIO, 20.0)],
        failures: Vec::new(),
    };
    for (text, expected) in [
        (
            "It takes 10 ns. <!-- figure: ready-1 held-timer = 10 ns -->",
            "",
        ),
        (
            "It takes half. <!-- figure: ready-1 held-timer/tokio = 2 -->",
            "",
        ),
        ("A stall takes 50 ms. <!-- figure: none -->", ""),
        (
            "It takes 30 ns. <!-- figure: ready-1 held-timer = 30 ns -->",
            "found:   ready-1: 10.0 ns",
        ),
        (
            "It is equal. <!-- figure: ready-1 held-timer/tokio <= 1 -->",
            "found:   ready-1: 2.00×",
        ),
        ("It takes half.", "«half» has no mark"),
        ("It fires. <!-- figure: none -->", "it has no figure"),
        (
            "It takes half. <!-- figure: ready-1 held-timer -->",
            "says nothing of what",
        ),
        (
            "A line.\n<!-- figure: none -->",
            "page.md:2: a mark tears the page",
        ),
    ] {
        let name = if text.contains("tears") || text.starts_with("A line") {
            "page.md"
        } else {
            STRICT[0]
        };
        let faults = faults(name, text, &results);
        let is_as_expected = match expected {
            "" => faults.is_empty(),
            expected => matches!(&faults[..], [fault] if fault.contains(expected)),
        };
        assert!(is_as_expected, "{text}: {faults:?}");
    }
}

/// Every document.
fn pages() -> impl Iterator<Item = (String, String)> {
    let folders = [".", "docs", "benches", "examples", "integrations"];
    folders.into_iter().flat_map(|folder| {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let documents = names.filter(|name| name.ends_with(".md"));
        documents.map(move |name| {
            let name = format!("{folder}/{name}");
            (name.clone(), read(&name))
        })
    })
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
