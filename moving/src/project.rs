//! What to write into a project, and what to say of it. Nothing is written here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{Dependency, DependencyKind, Edition, Package, TargetKind};
use ignore::WalkBuilder;

use crate::manifest::{Added, Tickwheel, with_tickwheel};
use crate::rewrite::{Rewritten, rewrite};

/// A file to write.
pub(crate) struct Change {
    pub(crate) path: PathBuf,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// All that is to be done, once nothing can fail any more but the writing.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) manifests: Vec<Change>,
    pub(crate) sources: Vec<Change>,
    /// What is moved, what is left, and why: a line for each.
    pub(crate) said: Vec<String>,
    pub(crate) moved: usize,
    /// A file did not read as Rust.
    pub(crate) has_unreadable: bool,
}

impl Plan {
    pub(crate) fn add(&mut self, package: &Package, tickwheel: &Tickwheel) -> Result<()> {
        let tokios: Vec<&Dependency> = package
            .dependencies
            .iter()
            .filter(|d| is_tokio(d))
            .collect();
        if tokios.is_empty() {
            return Ok(());
        }
        self.say(format!("== {} {}", package.name, package.version));
        if package.edition == Edition::E2015 {
            self.say("left   all of it: the edition 2015 names other crates in another way");
            return Ok(());
        }
        let name = |tokio: &&Dependency| tokio.rename.as_ref().unwrap_or(&tokio.name).clone();
        let names: BTreeSet<String> = tokios
            .iter()
            .map(|tokio| name(tokio).replace('-', "_"))
            .collect();
        let root = package.manifest_path.parent();
        let root = root
            .context("a manifest lies in a directory")?
            .as_std_path();
        let shown = |path: &Path| {
            path.strip_prefix(root)
                .unwrap_or(path)
                .display()
                .to_string()
        };

        let mut read: BTreeMap<PathBuf, (String, Rewritten)> = BTreeMap::new();
        let known = sources(root, true);
        for path in sources(root, false) {
            match read_rust(&path, &names) {
                Err(_) if !known.contains(&path) => {}
                Err(why) => {
                    self.has_unreadable = true;
                    self.say(format!("left   {}: {why}", shown(&path)));
                }
                Ok((_, rewritten)) if !known.contains(&path) => {
                    if !rewritten.moved.is_empty() {
                        let path = shown(&path);
                        self.say(format!("left   {path}: git ignores it, or it is hidden"));
                    }
                }
                Ok(file) => drop(read.insert(path, file)),
            }
        }
        for target in &package.targets {
            let path = target.src_path.as_std_path();
            let goes_up = path.components().any(|part| part == Component::ParentDir);
            if goes_up || !path.starts_with(root) {
                self.say(format!(
                    "left   {}: it lies outside of the package",
                    path.display()
                ));
            }
            let is_build_script = target.kind.contains(&TargetKind::CustomBuild);
            if is_build_script
                && read
                    .remove(path)
                    .is_some_and(|(_, new)| !new.moved.is_empty())
            {
                self.say(format!("left   {}: a build script", shown(path)));
            }
        }

        let test_modules: Vec<PathBuf> = read
            .iter()
            .flat_map(|(path, (_, rewritten))| {
                let directory = directory_of_modules(path);
                let names = rewritten.test_modules.iter();
                names.map(move |name| directory.join(name))
            })
            .collect();
        let (mut in_code, mut streams, mut moved) = (false, false, 0);
        for (path, (old, rewritten)) in read {
            let shown = shown(&path);
            for (line, what) in &rewritten.moved {
                self.say(format!("moved  {shown}:{line}: {what}"));
            }
            for (line, why) in &rewritten.left {
                self.say(format!("left   {shown}:{line}: {why}"));
            }
            if rewritten.moved.is_empty() {
                continue;
            }
            moved += rewritten.moved.len();
            streams |= rewritten.streams;
            let module = path.with_extension("");
            let is_of_tests = is_of_tests(path.strip_prefix(root).unwrap_or(&path))
                || test_modules.iter().any(|test| module.starts_with(test));
            in_code |= rewritten.in_code && !is_of_tests;
            let new = rewritten.text;
            self.sources.push(Change { path, old, new });
        }
        if moved == 0 {
            return Ok(());
        }
        self.moved += moved;
        let added = self.dependencies(package, &tokios, in_code, streams);
        let path = package.manifest_path.as_std_path().to_owned();
        let old = fs::read_to_string(&path)?;
        let new = with_tickwheel(&old, &added, tickwheel)?;
        self.manifests.push(Change { path, old, new });
        Ok(())
    }

    fn say(&mut self, line: impl Into<String>) {
        self.said.push(line.into());
    }

    /// Tickwheel for each tokio, with the paused clock where that has it.
    fn dependencies<'a>(
        &mut self,
        package: &Package,
        tokios: &[&'a Dependency],
        in_code: bool,
        streams: bool,
    ) -> Vec<Added<'a>> {
        const MINIMUM: (u64, u64) = (1, 85);
        let rust = package.rust_version.as_ref();
        if let Some(rust) = rust.filter(|rust| (rust.major, rust.minor) < MINIMUM) {
            self.say(format!(
                "note   the package names Rust {rust}, and tickwheel needs 1.85"
            ));
        }
        for (feature, parts) in &package.features {
            if parts.iter().any(|part| part.ends_with("/test-util")) {
                self.say(format!(
                    "note   the feature {feature} turns on tokio's paused clock: \
                     add `tickwheel/test-util` to it by hand"
                ));
            }
        }
        // One for each target.
        let of_kind = |kind| tokios.iter().filter(move |tokio| tokio.kind == kind);
        let can_pause = |tokio: &Dependency| tokio.features.iter().any(|f| f == "test-util");
        let add = |tokio: &&'a Dependency, for_tests: bool| Added {
            tokio,
            for_tests,
            features: [(streams, "stream"), (can_pause(tokio), "test-util")]
                .into_iter()
                .filter_map(|(has, feature)| has.then_some(feature))
                .collect(),
        };
        let mut added: Vec<Added<'a>> = Vec::new();
        if in_code {
            added.extend(of_kind(DependencyKind::Normal).map(|tokio| add(tokio, false)));
        }
        if added.iter().any(|added| added.tokio.optional) {
            self.say(
                "note   tokio is optional here, and tickwheel is not: make it so by hand if you like, \
                 with `dep:tickwheel` in each feature that has `tokio/time`",
            );
        }
        let is_only_for_tests = added.is_empty();
        let development = of_kind(DependencyKind::Development);
        added.extend(
            development
                .filter(|tokio| is_only_for_tests || can_pause(tokio))
                .map(|tokio| add(tokio, true)),
        );
        if added.is_empty() {
            // The tests use a tokio that stands among the dependencies.
            added.extend(tokios.first().map(|tokio| add(tokio, true)));
        }
        for added in &added {
            let tests = if added.for_tests {
                " for the tests"
            } else {
                ""
            };
            self.said.push(format!(
                "moved  Cargo.toml: tickwheel{tests} {:?}",
                added.features
            ));
        }
        added
    }
}

/// A file, and what becomes of it. An error says why it is left alone.
fn read_rust(path: &Path, names: &BTreeSet<String>) -> Result<(String, Rewritten), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    match rewrite(&text, names) {
        Ok(rewritten) => Ok((text, rewritten)),
        Err(_) => Err("it does not read as Rust".to_owned()),
    }
}

/// A tokio of version 1, under any name.
fn is_tokio(dependency: &Dependency) -> bool {
    dependency.name == "tokio"
        && dependency.kind != DependencyKind::Build
        && dependency.req.comparators.iter().all(|c| c.major == 1)
}

/// All Rust files of the package: not those of packages within it, and not what cargo has built.
/// Known ones are neither hidden nor ignored by git.
fn sources(root: &Path, known: bool) -> BTreeSet<PathBuf> {
    let is_of_package = |path: &Path| {
        !path.join("Cargo.toml").is_file()
            && !path.join("CACHEDIR.TAG").is_file()
            && !path.ends_with(".git")
    };
    let top = root.to_owned();
    WalkBuilder::new(root)
        .standard_filters(known)
        .filter_entry(move |entry| entry.path() == top || is_of_package(entry.path()))
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_none_or(|kind| !kind.is_dir()))
        .map(ignore::DirEntry::into_path)
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect()
}

/// Where the files of the modules lie that a file declares.
fn directory_of_modules(file: &Path) -> PathBuf {
    let is_root = ["lib.rs", "main.rs", "mod.rs"];
    let is_root = is_root.iter().any(|name| file.ends_with(name));
    let parent = file.parent().unwrap_or(Path::new(""));
    match is_root {
        true => parent.to_owned(),
        false => file.with_extension(""),
    }
}

/// Whether development dependencies are enough for a file.
fn is_of_tests(path: &Path) -> bool {
    ["tests", "examples", "benches"]
        .iter()
        .any(|directory| path.starts_with(directory))
}
