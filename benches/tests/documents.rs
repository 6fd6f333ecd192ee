//! The tables and the picture that the program writes show the kept run, and each link of a
//! document leads somewhere.

use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{BrokenLink, Event, Options, Parser, Tag, TagEnd};
use tickwheel_bench::limits;
use tickwheel_bench::part::name;
use tickwheel_bench::parts::PARTS;
use tickwheel_bench::report;
use tickwheel_bench::results::Run;
use tickwheel_bench::stalls;

const HINT: &str = "write it again: cargo run --release -p tickwheel-bench -- --kept";

/// The documents that rustdoc includes name other files of the repository by this address.
const REPOSITORY: &str = "https://github.com/tickwheel/tickwheel/blob/main/";

/// Of the extensions that rustdoc turns on, those that have brackets.
const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_TASKLISTS);

#[test]
fn readme_and_results_show_the_kept_run() {
    let run = Run::load(Run::kept_in()).unwrap();
    let readme = read("README.md");
    let pages = [
        ("README.md", report::readme(&readme, &run.results).unwrap()),
        ("benches/RESULTS.md", report::page(&run)),
        ("benches/charts/stalls.svg", stalls::picture(&readme)),
    ];
    for (name, page) in pages {
        let kept = read(name);
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

/// A link to a file of the repository leads to a file, and to a heading of it if it names one.
#[test]
fn each_link_of_a_document_leads_somewhere() {
    for (name, text) in pages() {
        let broken = broken_links(&name, &text);
        assert!(broken.is_empty(), "{name}: {broken:?}");
    }
    let page = "[a](src/lib.rs) [b](nowhere.rs) [c](#here) [d](#there) [e]\n\n# Here\n";
    let broken = ["nowhere.rs", "#there", "[e]"];
    assert_eq!(broken_links("README.md", page), broken);
}

fn broken_links(name: &str, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for link in links(text) {
        let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
        let file = match file.strip_prefix(REPOSITORY) {
            Some(file) => root().join(file),
            None if file.is_empty() => root().join(name),
            None => root().join(name).parent().unwrap().join(file),
        };
        let has_heading = |page: &str| heading.is_empty() || headings(page).any(|it| it == heading);
        let leads_somewhere = if link.starts_with("#") {
            has_heading(text)
        } else if file.extension().is_some_and(|extension| extension == "md") {
            fs::read_to_string(file).is_ok_and(|page| has_heading(&page))
        } else {
            file.exists()
        };
        if !leads_somewhere {
            broken.push(link);
        }
    }
    broken.extend(undefined_references(text));
    broken
}

/// The targets within the repository.
fn links(text: &str) -> impl Iterator<Item = String> {
    Parser::new_ext(text, OPTIONS).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. })
            if dest_url.starts_with(REPOSITORY) || !dest_url.contains(':') =>
        {
            Some(dest_url.into_string())
        }
        _ => None,
    })
}

/// The headings of a page, as a link to one names it.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let mut heading = None;
    Parser::new_ext(text, OPTIONS).filter_map(move |event| match event {
        Event::Start(Tag::Heading { .. }) => {
            heading = Some(String::new());
            None
        }
        Event::Text(text) | Event::Code(text) => {
            heading.as_mut()?.push_str(&text);
            None
        }
        Event::End(TagEnd::Heading(_)) => {
            let words = heading.take()?.to_lowercase().replace(' ', "-");
            Some(words.replace(|c: char| !c.is_alphanumeric() && c != '-' && c != '_', ""))
        }
        _ => None,
    })
}

fn undefined_references(text: &str) -> Vec<String> {
    let mut undefined = Vec::new();
    let found = |link: BrokenLink<'_>| {
        undefined.push(format!("[{}]", link.reference));
        None
    };
    Parser::new_with_broken_link_callback(text, OPTIONS, Some(found)).for_each(drop);
    undefined
}

/// Every document.
fn pages() -> impl Iterator<Item = (String, String)> {
    const FOLDERS: [&str; 10] = [
        ".",
        "benches",
        "benches/cores",
        "docs",
        "examples",
        "findings",
        "integrations",
        "soak",
        "tests/oracle",
        "tickwheel-util",
    ];
    FOLDERS.into_iter().flat_map(|folder| {
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
