//! Moves a project from `tokio::time` to `tickwheel::time`: its sources, and its manifests.
//!
//! It changes paths and nothing else, in the code of every package of the workspace, macros
//! included. What it leaves alone, it names.
//!
//! Invariant: everything is read and planned before anything is written. Then come the manifests,
//! and the sources once cargo has found what the manifests ask for. Where any of this fails, each
//! file is put back as it was.

mod manifest;
mod project;
mod rewrite;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::MetadataCommand;
use clap::Parser;

use crate::manifest::Tickwheel;
use crate::project::{Change, Plan};

/// Moves a project from `tokio::time` to `tickwheel::time`. Look at the diff after it.
///
/// It exits with 1 if a file did not read as Rust, and so was left alone.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The directory of the project, or of one package, with its `Cargo.toml`.
    #[arg(default_value = ".")]
    project: PathBuf,
    /// Says what it would do, and writes nothing.
    #[arg(long)]
    dry_run: bool,
    /// Moves a project that has changes which git does not know.
    #[arg(long)]
    force: bool,
    /// Depends on the tickwheel in this directory, instead of the registry's.
    #[arg(long, value_name = "DIRECTORY")]
    tickwheel: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let manifest = options.project.join("Cargo.toml");
    ensure!(
        manifest.is_file(),
        "{} has no Cargo.toml: give the directory of a project",
        options.project.display()
    );
    if !options.force && !options.dry_run {
        refuse_uncommitted(&options.project)?;
    }
    let tickwheel = Tickwheel::new(options.tickwheel.as_deref())?;
    let metadata = MetadataCommand::new()
        .manifest_path(&manifest)
        .no_deps()
        .exec()?;
    let mut plan = Plan::default();
    for package in metadata.workspace_packages() {
        plan.add(package, &tickwheel)
            .with_context(|| format!("nothing is written, because of {}", package.name))?;
    }
    plan.said.iter().for_each(|line| println!("{line}"));
    match (plan.moved, options.dry_run) {
        (0, _) => println!("nothing here uses tokio::time"),
        (moved, true) => println!("{moved} places would be moved; nothing was written"),
        (moved, false) => {
            let lock = metadata.workspace_root.join("Cargo.lock");
            write(&plan, &manifest, lock.as_std_path())?;
            println!(
                "{moved} places are moved. Now run `cargo fmt`, your tests, and `cargo clippy` with \
                 the clippy.toml of the guide, docs/MIGRATION.md"
            );
        }
    }
    Ok(match plan.has_unreadable {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Where there is no git, or no repository, nothing is refused.
fn refuse_uncommitted(project: &Path) -> Result<()> {
    let status = Command::new("git")
        .args(["status", "--porcelain", "--", "."])
        .current_dir(project)
        .output();
    if let Ok(status) = status {
        ensure!(
            status.stdout.is_empty(),
            "there are changes that are not committed: commit them, so that `git diff` shows the \
             move alone, or give --force"
        );
    }
    Ok(())
}

/// Writes all of the plan, or nothing.
fn write(plan: &Plan, manifest: &Path, lock: &Path) -> Result<()> {
    let lock_before = fs::read(lock).ok();
    let written = write_files(&plan.manifests)
        .and_then(|()| ask_cargo(manifest))
        .and_then(|()| write_files(&plan.sources));
    let Err(error) = written else {
        return Ok(());
    };
    for change in plan.manifests.iter().chain(&plan.sources) {
        let is_written = fs::read_to_string(&change.path).is_ok_and(|text| text != change.old);
        if is_written {
            fs::write(&change.path, &change.old)
                .with_context(|| format!("{} could not be put back", change.path.display()))?;
        }
    }
    match lock_before {
        Some(text) => fs::write(lock, text)?,
        None => drop(fs::remove_file(lock)), // it may not be there
    }
    Err(error.context("all is as it was"))
}

fn write_files(changes: &[Change]) -> Result<()> {
    for change in changes {
        fs::write(&change.path, &change.new).with_context(|| change.path.display().to_string())?;
    }
    Ok(())
}

/// Whether there is what the manifests ask for, such as a tickwheel in the registry.
fn ask_cargo(manifest: &Path) -> Result<()> {
    match MetadataCommand::new().manifest_path(manifest).exec() {
        Ok(_) => Ok(()),
        Err(error) => bail!("cargo does not take the manifests with tickwheel: {error}"),
    }
}
