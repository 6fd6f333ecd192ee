//! `wheel_view`: its animated picture, and what it shows in a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

const PATH: &str = env!("CARGO_BIN_EXE_wheel_view");

#[test]
fn the_levels_are_shown_until_nobody_reads() {
    let mut command = Command::new(PATH);
    let mut program = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("level 1")));
    drop(lines);
    assert!(program.wait().unwrap().success());
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let output = run(&["--svg", "/nowhere/a.svg"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot write /nowhere"), "{error}");
}

#[test]
fn the_picture_is_the_one_in_the_documents() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/wheel.svg");
    let kept = std::fs::read_to_string(file).expect("docs/wheel.svg is there");
    // Not by `assert_eq`: nobody reads the difference.
    assert!(
        svg(&[]) == kept,
        "write it anew: cargo run -p tickwheel-integrations --bin wheel_view -- --svg docs/wheel.svg"
    );
    assert!(svg(&[]) != svg(&["--seed", "2"]));
}

#[test]
fn the_picture_is_small_well_formed_needs_nothing_else_and_begins_visible() {
    let svg = svg(&[]);
    assert!(svg.len() < 150_000);
    let document = roxmltree::Document::parse(&svg).expect("it is XML");
    assert!(document.root_element().has_tag_name("svg"));
    for foreign in ["<script", "<image", "url(", "@import"] {
        assert!(!svg.contains(foreign), "{foreign}");
    }
    let keyframes = svg.split("@keyframes ").skip(1);
    let keyframes = keyframes.filter_map(|keyframes| keyframes.split_once('{'));
    let keyframes: BTreeMap<&str, &str> = keyframes.collect();
    let (mut used, mut seen_at_first) = (BTreeSet::new(), 0);
    for node in document.descendants() {
        let style = node.attribute("style").unwrap_or_default();
        let Some((_, name)) = style.split_once("animation-name:") else {
            continue;
        };
        let name = name.split(';').next().unwrap();
        let stops = keyframes.get(name).unwrap_or_else(|| panic!("no {name}"));
        let is_hidden = node.attribute("opacity") == Some("0");
        let first = stops.split('}').next().unwrap();
        assert!(is_hidden || first.ends_with("{opacity:1"), "{node:?}");
        seen_at_first += usize::from(!is_hidden);
        used.insert(name);
    }
    assert!(used.len() > 20 && seen_at_first > 40);
}

fn run(options: &[&str]) -> Output {
    let mut command = Command::new(PATH);
    command.args(options).output().expect("the program starts")
}

fn svg(options: &[&str]) -> String {
    let output = run(&[&["--svg", "-"], options].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is UTF-8")
}
