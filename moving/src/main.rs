//! Moves a project from `tokio::time` to `tickwheel::time`: its sources, and its manifests.
//!
//! It changes paths and nothing else, in the code of every package of the workspace, macros
//! included. `cargo add` edits the manifests. What it leaves alone, it names.
//!
//! Invariant: a file is written only after it was read as Rust, and a package without a change gets
//! no dependency.

mod rewrite;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Dependency, DependencyKind, Edition, MetadataCommand, Package};
use clap::Parser;
use ignore::WalkBuilder;

use crate::rewrite::{Rewritten, rewrite};

/// Moves a project from `tokio::time` to `tickwheel::time`. Commit first, then look at the diff.
#[derive(Debug, Parser)]
struct Options {
    /// The directory of the project, or of one package, with its `Cargo.toml`.
    #[arg(default_value = ".")]
    project: PathBuf,
    /// Says what it would do, and writes nothing.
    #[arg(long)]
    dry_run: bool,
    /// Depends on the tickwheel in this directory, instead of the registry's.
    #[arg(long, value_name = "DIRECTORY")]
    tickwheel: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let manifest = options.project.join("Cargo.toml");
    ensure!(
        manifest.is_file(),
        "{} has no Cargo.toml: give the directory of a project",
        options.project.display()
    );
    let metadata = MetadataCommand::new()
        .manifest_path(&manifest)
        .no_deps()
        .exec()?;
    let mut moved = 0;
    for package in metadata.workspace_packages() {
        moved += move_package(package, &options)
            .with_context(|| format!("the package {} was not moved", package.name))?;
    }
    match (moved, options.dry_run) {
        (0, _) => println!("nothing here uses tokio::time"),
        (_, true) => println!("{moved} places would be moved; nothing was written"),
        (_, false) => println!(
            "{moved} places are moved. Now run `cargo fmt`, your tests, and `cargo clippy` with the \
             clippy.toml of the guide, docs/MIGRATION.md"
        ),
    }
    Ok(())
}

/// Returns how many places it has moved.
fn move_package(package: &Package, options: &Options) -> Result<usize> {
    let tokios: Vec<&Dependency> = package
        .dependencies
        .iter()
        .filter(|d| is_tokio(d))
        .collect();
    if tokios.is_empty() {
        return Ok(0);
    }
    println!("== {} {}", package.name, package.version);
    if package.edition == Edition::E2015 {
        println!("left   all of it: the edition 2015 names other crates in another way");
        return Ok(0);
    }
    let names: BTreeSet<String> = tokios
        .iter()
        .map(|tokio| {
            tokio
                .rename
                .as_ref()
                .unwrap_or(&tokio.name)
                .replace('-', "_")
        })
        .collect();
    let root = package
        .manifest_path
        .parent()
        .context("a manifest lies in a directory")?;
    let mut moved = 0;
    let mut moved_library = false;
    for path in sources(root.as_std_path()) {
        let shown = path.strip_prefix(root).unwrap_or(&path);
        let text = fs::read_to_string(&path).with_context(|| shown.display().to_string())?;
        let Ok(Rewritten {
            text,
            moved: places,
            left,
        }) = rewrite(&text, &names)
        else {
            println!("left   {}: it does not read as Rust", shown.display());
            continue;
        };
        for (line, what) in &places {
            println!("moved  {}:{line}: {what}", shown.display());
        }
        for (line, why) in &left {
            println!("left   {}:{line}: {why}", shown.display());
        }
        if places.is_empty() {
            continue;
        }
        moved += places.len();
        moved_library |= !is_of_tests(shown);
        if !options.dry_run {
            fs::write(&path, text)?;
        }
    }
    if moved > 0 {
        depend(package, &tokios, moved_library, options)?;
    }
    Ok(moved)
}

/// Adds tickwheel where tokio stands, with the paused clock where tokio has it.
fn depend(
    package: &Package,
    tokios: &[&Dependency],
    in_library: bool,
    options: &Options,
) -> Result<()> {
    // One for each target.
    let of_kind = |kind| tokios.iter().filter(move |tokio| tokio.kind == kind);
    let normal: Vec<_> = of_kind(DependencyKind::Normal)
        .filter(|_| in_library)
        .collect();
    let mut development = of_kind(DependencyKind::Development).peekable();
    let can_pause = |tokio: &Dependency| tokio.features.iter().any(|f| f == "test-util");
    for tokio in &normal {
        add(package, tokio, can_pause(tokio), options)?;
        if tokio.optional {
            println!(
                "note   tokio is optional here, and tickwheel is not: make it so by hand if you like, \
                 with `dep:tickwheel` in each feature that has `tokio/time`"
            );
        }
    }
    for (feature, parts) in &package.features {
        if parts.iter().any(|part| part.ends_with("/test-util")) {
            println!(
                "note   the feature {feature} turns on tokio's paused clock: \
                 add `tickwheel/test-util` to it by hand"
            );
        }
    }
    if development.peek().is_none() && normal.is_empty() {
        // The tests use a tokio that stands among the dependencies.
        let mut tokio = Dependency::clone(tokios[0]);
        tokio.kind = DependencyKind::Development;
        return add(package, &tokio, can_pause(&tokio), options);
    }
    for tokio in development {
        if normal.is_empty() || can_pause(tokio) {
            add(package, tokio, can_pause(tokio), options)?;
        }
    }
    Ok(())
}

fn add(package: &Package, tokio: &Dependency, can_pause: bool, options: &Options) -> Result<()> {
    let mut arguments = vec!["add".to_owned(), "--quiet".to_owned()];
    if tokio.kind == DependencyKind::Development {
        arguments.push("--dev".to_owned());
    }
    if let Some(target) = &tokio.target {
        arguments.extend(["--target".to_owned(), target.to_string()]);
    }
    if can_pause {
        arguments.extend(["--features".to_owned(), "test-util".to_owned()]);
    }
    arguments.push("tickwheel".to_owned());
    println!("moved  Cargo.toml: cargo {}", arguments.join(" "));
    if options.dry_run {
        return Ok(());
    }
    if let Some(directory) = &options.tickwheel {
        let directory = fs::canonicalize(directory)?;
        arguments.extend(["--path".to_owned(), directory.display().to_string()]);
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(arguments)
        .arg("--manifest-path")
        .arg(&package.manifest_path)
        .status()?;
    ensure!(
        status.success(),
        "`cargo add` failed: add tickwheel to Cargo.toml by hand"
    );
    Ok(())
}

/// A tokio of version 1, under any name.
fn is_tokio(dependency: &Dependency) -> bool {
    dependency.name == "tokio"
        && dependency.kind != DependencyKind::Build
        && dependency.req.comparators.iter().all(|c| c.major == 1)
}

/// All Rust files of the package: not those of packages within it, and not what cargo has built.
fn sources(root: &Path) -> Vec<PathBuf> {
    let is_of_package =
        |path: &Path| !path.join("Cargo.toml").is_file() && !path.join("CACHEDIR.TAG").is_file();
    let top = root.to_owned();
    let mut sources: Vec<PathBuf> = WalkBuilder::new(root)
        .filter_entry(move |entry| entry.path() == top || is_of_package(entry.path()))
        .build()
        .filter_map(Result::ok)
        .map(ignore::DirEntry::into_path)
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect();
    sources.sort();
    sources
}

/// Whether development dependencies are enough for a file.
fn is_of_tests(path: &Path) -> bool {
    ["tests", "examples", "benches"]
        .iter()
        .any(|directory| path.starts_with(directory))
}
