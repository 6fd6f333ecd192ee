//! A manifest: tickwheel stands where tokio does, and all else stays as it is.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Dependency, DependencyKind};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// Where tickwheel comes from: the key and the value in the manifest.
pub(crate) struct Tickwheel(&'static str, String);

/// Tickwheel where a certain tokio stands.
pub(crate) struct Added<'a> {
    pub(crate) tokio: &'a Dependency,
    /// Whether the tests alone have it.
    pub(crate) for_tests: bool,
    pub(crate) features: Vec<&'static str>,
}

impl Tickwheel {
    pub(crate) fn new(directory: Option<&Path>) -> Result<Tickwheel> {
        let Some(directory) = directory else {
            let version = concat!(
                env!("CARGO_PKG_VERSION_MAJOR"),
                ".",
                env!("CARGO_PKG_VERSION_MINOR")
            );
            return Ok(Tickwheel("version", version.to_owned()));
        };
        let text = fs::read_to_string(directory.join("Cargo.toml"))
            .with_context(|| format!("no tickwheel is in {}", directory.display()))?;
        let name = text.parse::<DocumentMut>()?["package"]["name"].clone();
        ensure!(
            name.as_str() == Some("tickwheel"),
            "the package in {} is not tickwheel",
            directory.display()
        );
        let directory = fs::canonicalize(directory)?;
        Ok(Tickwheel("path", directory.display().to_string()))
    }

    fn with(&self, features: &[&str]) -> Value {
        let Tickwheel(key, value) = self;
        if *key == "version" && features.is_empty() {
            return Value::from(value);
        }
        let mut table = InlineTable::new();
        table.insert(*key, Value::from(value));
        if !features.is_empty() {
            table.insert("features", Value::Array(features.iter().copied().collect()));
        }
        Value::InlineTable(table)
    }
}

/// The manifest with tickwheel in it.
pub(crate) fn with_tickwheel(
    text: &str,
    added: &[Added<'_>],
    tickwheel: &Tickwheel,
) -> Result<String> {
    let mut document: DocumentMut = text.parse()?;
    for Added {
        tokio,
        for_tests,
        features,
    } in added
    {
        let mut table: &mut dyn TableLike = document.as_table_mut();
        if let Some(target) = &tokio.target {
            table = inner(table, "target")?;
            table = inner(table, &target.to_string())?;
        }
        let kind = match *for_tests || tokio.kind == DependencyKind::Development {
            true => "dev-dependencies",
            false => "dependencies",
        };
        let table = inner(table, kind)?;
        match table.get_mut("tickwheel") {
            Some(there) => add_features(there, features),
            None => {
                let is_sorted = table.iter().map(|(name, _)| name).is_sorted();
                table.insert("tickwheel", Item::Value(tickwheel.with(features)));
                if is_sorted {
                    table.sort_values();
                }
            }
        }
    }
    // What edits the document writes line ends of its own.
    let new = document.to_string().replace("\r\n", "\n");
    Ok(match text.contains("\r\n") {
        true => new.replace('\n', "\r\n"),
        false => new,
    })
}

fn inner<'a>(table: &'a mut dyn TableLike, name: &str) -> Result<&'a mut dyn TableLike> {
    let new = || {
        let mut table = Table::new();
        table.set_implicit(name == "target");
        Item::Table(table)
    };
    let item = table.entry(name).or_insert_with(new);
    item.as_table_like_mut()
        .with_context(|| format!("{name} is no table in the manifest"))
}

/// Turns on what is missing of a tickwheel that is there already.
fn add_features(there: &mut Item, features: &[&str]) {
    if features.is_empty() {
        return;
    }
    if let Some(version) = there.as_str() {
        let mut table = InlineTable::new();
        table.insert("version", version.into());
        *there = Item::Value(Value::InlineTable(table));
    }
    if let Some(table) = there.as_table_like_mut() {
        let list = table.entry("features");
        let list = list.or_insert(Item::Value(Value::Array(Array::new())));
        if let Some(list) = list.as_array_mut() {
            for feature in features {
                if !list.iter().any(|there| there.as_str() == Some(feature)) {
                    list.push(*feature);
                }
            }
        }
    }
}
