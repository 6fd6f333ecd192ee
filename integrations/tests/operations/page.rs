//! What the page says can be looked up: its alerts, its table, and the tests and files that it
//! names. So can the tests that a guarantee names.

use std::fs;
use std::path::Path;

use tickwheel::Timer;

use crate::recipes::exported_to_prometheus;

const PAGE: &str = include_str!("../../../docs/OPERATIONS.md");

/// The names of what the recipe for Prometheus exports, each as a query has it.
fn exported() -> Vec<String> {
    let page = exported_to_prometheus(vec![Timer::current()]);
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let names = samples.filter_map(|line| Some(line.split_once('{')?.0.to_owned()));
    names.collect()
}

#[tokio::test]
async fn every_alert_uses_what_the_recipe_exports() {
    let exported = exported();
    let (_, rules) = PAGE.split_once("```yaml\n").expect("the page has rules");
    let (rules, _) = rules.split_once("```").expect("the rules have an end");
    let queries = rules.lines();
    let queries = queries.filter_map(|line| line.trim().strip_prefix("expr: "));
    let queries: Vec<_> = queries.collect();
    assert_eq!(queries.len(), rules.matches("- alert: ").count());
    assert!(queries.len() >= 6, "{rules}");
    for query in queries {
        let words = query.split(|c: char| !c.is_alphanumeric() && c != '_');
        let names: Vec<_> = words
            .filter(|word| word.starts_with("tickwheel_"))
            .collect();
        assert!(!names.is_empty(), "{query}");
        for name in names {
            let is_known = exported.iter().any(|known| known == name);
            assert!(is_known, "{query}: no {name}");
        }
    }
}

#[tokio::test]
async fn the_table_has_a_row_for_every_metric() {
    for name in exported() {
        let suffix = ["_sum", "_count", "_bucket"].into_iter();
        let name = suffix
            .filter_map(|it| name.strip_suffix(it))
            .next()
            .unwrap_or(&name);
        let row = format!("\n| `{name}` | ");
        assert!(PAGE.contains(&row), "no row for {name}");
    }
}

#[test]
fn every_test_and_file_that_the_page_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Every second piece stands between backticks. Those of blocks of code are left out.
    let text: String = PAGE.split("```").step_by(2).collect();
    let pieces: Vec<_> = text.split('`').collect();
    let (mut tests, mut files) = (0, 0);
    for piece in 0..pieces.len() {
        let path = pieces[piece];
        if piece % 2 == 0 || !path.ends_with(".rs") || path.contains(' ') {
            continue;
        }
        let source = fs::read_to_string(root.join(path));
        let source = source.unwrap_or_else(|error| panic!("{path}: {error}"));
        files += 1;
        if pieces[piece - 1].split_whitespace().eq(["in"]) {
            let name = pieces[piece - 2];
            let [plain, generic] = ["(", "<"].map(|end| format!("fn {name}{end}"));
            let is_there = source.contains(&plain) || source.contains(&generic);
            assert!(is_there, "{path} has no {name}");
            tests += 1;
        }
    }
    assert!(
        tests > 40 && files > tests,
        "{tests} tests in {files} files"
    );
}

#[test]
fn every_test_that_a_guarantee_names_is_there() {
    const GUARANTEES: &str = include_str!("../../../src/guarantees.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = [
        "benches",
        "examples",
        "integrations",
        "soak",
        "src",
        "tests",
    ];
    let sources: String = folders.map(|folder| source(&root.join(folder))).concat();
    let promises = GUARANTEES.lines();
    let promises = promises.filter(|line| line.starts_with("//! | **"));
    for promise in promises {
        let tests: Vec<_> = promise.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "nothing shows it: {promise}");
        for test in tests.into_iter().filter(|name| name.contains('_')) {
            assert!(sources.contains(&format!("fn {test}(")), "no {test}");
        }
    }
}

/// Every file of Rust in a folder, one after the other.
fn source(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap();
    let entries = entries.map(|entry| entry.unwrap().path());
    entries
        .map(|path| match path.extension() {
            _ if path.is_dir() => source(&path),
            Some(extension) if extension == "rs" => fs::read_to_string(&path).unwrap(),
            _ => String::new(),
        })
        .collect()
}

#[test]
fn every_part_of_the_page_has_its_tests_and_its_entry() {
    const TESTS: &str = "The tests behind this page";
    let parts = PAGE.split("\n## ").skip(1);
    for part in parts {
        let title = part.lines().next().unwrap_or_default();
        let row = format!("\n| {title} | `");
        assert!(title == TESTS || PAGE.contains(&row), "no row: {title}");
        let link = title.to_lowercase().replace(' ', "-");
        let entry = format!("- [{title}](#{link})\n");
        assert!(PAGE.contains(&entry), "no entry in the contents: {entry}");
    }
}
