//! The program on small projects: what it writes, what it names, and that it writes all or nothing.
//!
//! Their tokio and tickwheel are empty packages, so that cargo needs no registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const MANIFEST: &str = "[package]\nname = \"moved\"\nedition = \"2021\"\n\n\
                        [dependencies]\ntokio = { path = \"../tokio\", version = \"1\" }\n";

struct Project {
    directory: TempDir,
}

impl Project {
    fn new(manifest: &str, sources: &[(&str, &str)]) -> Project {
        let project = Project {
            directory: TempDir::new().unwrap(),
        };
        for (name, version) in [("tokio", "1.0.0"), ("tickwheel", "0.1.0")] {
            let manifest = format!(
                "[package]\nname = \"{name}\"\nversion = \"{version}\"\n\
                 [features]\nstream = []\ntest-util = []\n"
            );
            project.write(&format!("{name}/Cargo.toml"), manifest);
            project.write(&format!("{name}/src/lib.rs"), "");
        }
        project.write("moved/Cargo.toml", manifest);
        project.write("moved/src/lib.rs", "");
        for (path, text) in sources {
            project.write(&format!("moved/{path}"), text);
        }
        project
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path("moved").join(path)).unwrap()
    }

    fn run(&self, options: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_move-to-tickwheel"))
            .args(options)
            .arg("moved")
            .current_dir(self.directory.path())
            .env("CARGO_NET_OFFLINE", "true")
            .output()
            .unwrap()
    }

    /// Moves the project, and returns what was said.
    #[track_caller]
    fn moved(&self) -> String {
        let output = self.run(&["--tickwheel", "tickwheel"]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Nothing is written. Returns what was said of the error.
    #[track_caller]
    fn refused(&self, options: &[&str]) -> String {
        let before = self.files();
        let output = self.run(options);
        assert!(!output.status.success(), "{output:?}");
        assert_eq!(self.files(), before);
        String::from_utf8(output.stderr).unwrap()
    }

    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn add(directory: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    add(&path, files);
                } else if let Ok(text) = fs::read(&path) {
                    files.push((path, text));
                }
            }
        }
        let mut files = Vec::new();
        add(&self.path("moved"), &mut files);
        files.sort();
        files
    }
}

#[test]
fn a_manifest_keeps_its_comments_and_order_and_gets_features() {
    let manifest = "# The head.\n[package]\nname = \"moved\"\nedition = \"2021\"\n\n[dependencies]\n\
                    tokio = { path = \"../tokio\", version = \"1\", features = [\"test-util\"] } # why\n";
    let source = "use tokio_stream::wrappers::IntervalStream;\nuse tokio::time;\n";
    let project = Project::new(manifest, &[("src/lib.rs", source)]);
    let said = project.moved();
    let path = fs::canonicalize(project.path("tickwheel")).unwrap();
    let line = format!(
        "tickwheel = {{ path = \"{}\", features = [\"stream\", \"test-util\"] }}\ntokio",
        path.display()
    );
    assert_eq!(
        project.read("Cargo.toml"),
        manifest.replace("tokio = ", &format!("{line} = "))
    );
    let moved = "use tickwheel::stream::IntervalStream;\nuse tickwheel::time;\n";
    assert_eq!(project.read("src/lib.rs"), moved);
    assert!(
        said.contains("moved  src/lib.rs:2: use tokio::time;"),
        "{said}"
    );
    // Once more changes nothing.
    assert!(project.moved().contains("nothing here uses tokio::time"));
}

#[test]
fn what_the_tests_alone_use_is_a_dependency_for_the_tests() {
    let project = Project::new(
        MANIFEST,
        &[
            (
                "src/lib.rs",
                "mod a;\n#[cfg(test)]\nmod t { use tokio::time; }\n",
            ),
            ("src/a.rs", "#[cfg(test)]\nmod tests;\n"),
            ("src/a/tests.rs", "use tokio::time;\n"),
            ("tests/whole.rs", "use tokio::time;\n"),
        ],
    );
    project.moved();
    let manifest = project.read("Cargo.toml");
    let (normal, development) = manifest.split_once("[dev-dependencies]").unwrap();
    assert!(development.contains("tickwheel"), "{manifest}");
    assert!(!normal.contains("tickwheel"), "{manifest}");
}

#[test]
fn line_ends_of_windows_stay_in_both_kinds_of_files() {
    let manifest = MANIFEST.replace('\n', "\r\n");
    let project = Project::new(&manifest, &[("src/lib.rs", "use tokio::{task, time};\r\n")]);
    project.moved();
    for path in ["Cargo.toml", "src/lib.rs"] {
        let text = project.read(path);
        assert!(text.contains("tickwheel"), "{text}");
        assert!(!text.replace("\r\n", "").contains(['\r', '\n']), "{text:?}");
    }
}

#[test]
fn nothing_is_written_where_tickwheel_cannot_be_had() {
    let project = Project::new(MANIFEST, &[("src/lib.rs", "use tokio::time;\n")]);
    let told = project.refused(&["--tickwheel", "nowhere"]);
    assert!(told.contains("no tickwheel is in nowhere"), "{told}");
    let told = project.refused(&["--tickwheel", "tokio"]);
    assert!(
        told.contains("the package in tokio is not tickwheel"),
        "{told}"
    );
    // A tickwheel that the manifests name, and that cargo does not take.
    project.write(
        "tickwheel/Cargo.toml",
        "[package]\nname = \"tickwheel\"\nedition = 7\n",
    );
    let told = project.refused(&["--tickwheel", "tickwheel"]);
    assert!(told.contains("all is as it was"), "{told}");
}

#[cfg(unix)]
#[test]
fn odd_files_are_named_and_the_others_move() {
    let project = Project::new(
        MANIFEST,
        &[
            ("src/lib.rs", "use tokio::time;\n"),
            ("src/template.rs", "use tokio::time; }}\n"),
            ("src/dir.rs/inner.rs", "use tokio::time;\n"),
            (".hidden/a.rs", "use tokio::time;\n"),
            (".ignore", "made.rs\n"),
            ("src/made.rs", "use tokio::time;\n"),
            ("build.rs", "fn main() { tokio::time::sleep(d); }\n"),
        ],
    );
    project.write("moved/src/latin.rs", b"// \xe9\n");
    std::os::unix::fs::symlink("nowhere", project.path("moved/src/link.rs")).unwrap();
    let output = project.run(&["--tickwheel", "tickwheel"]);
    assert_eq!(output.status.code(), Some(1), "a file did not read as Rust");
    let said = String::from_utf8(output.stdout).unwrap();
    for line in [
        "moved  src/lib.rs:1: ",
        "moved  src/dir.rs/inner.rs:1: ",
        "left   src/template.rs: it does not read as Rust",
        "left   src/latin.rs: ",
        "left   src/link.rs: ",
        "left   src/made.rs: git ignores it, or it is hidden",
        "left   .hidden/a.rs: git ignores it, or it is hidden",
        "left   build.rs: a build script",
    ] {
        assert!(said.contains(line), "no {line:?} in\n{said}");
    }
    assert_eq!(project.read("src/lib.rs"), "use tickwheel::time;\n");
    assert_eq!(project.read("src/made.rs"), "use tokio::time;\n");
}

#[test]
fn sources_elsewhere_and_an_old_rust_are_named() {
    let manifest = MANIFEST.replace(
        "edition = \"2021\"",
        "edition = \"2021\"\nrust-version = \"1.70\"\n[lib]\npath = \"../shared.rs\"",
    );
    let project = Project::new(&manifest, &[("tests/a.rs", "use tokio::time;\n")]);
    project.write("shared.rs", "use tokio::time;\n");
    let said = project.moved();
    assert!(
        said.contains("shared.rs: it lies outside of the package"),
        "{said}"
    );
    assert!(
        said.contains("names Rust 1.70.0, and tickwheel needs 1.85"),
        "{said}"
    );
}

#[test]
fn changes_that_git_does_not_know_are_refused_without_force() {
    let project = Project::new(MANIFEST, &[("src/lib.rs", "use tokio::time;\n")]);
    let git = Command::new("git")
        .arg("init")
        .arg(project.path("moved"))
        .output();
    if git.is_err() {
        return; // without git nothing is refused
    }
    let tickwheel = ["--tickwheel", "tickwheel"];
    let told = project.refused(&tickwheel);
    assert!(told.contains("give --force"), "{told}");
    assert!(project.run(&["--dry-run"]).status.success());
    assert_eq!(project.read("src/lib.rs"), "use tokio::time;\n");
    assert!(
        project
            .run(&["--force", tickwheel[0], tickwheel[1]])
            .status
            .success()
    );
    assert_eq!(project.read("src/lib.rs"), "use tickwheel::time;\n");
}

#[test]
fn the_version_is_that_of_tickwheel() {
    let version = env!("CARGO_PKG_VERSION");
    let tickwheel = include_str!("../../Cargo.toml");
    assert!(tickwheel.contains(&format!("\nversion = \"{version}\"\n")));
    let project = Project::new(MANIFEST, &[]);
    let said = project.run(&["--version"]).stdout;
    assert_eq!(
        String::from_utf8(said).unwrap(),
        format!("move-to-tickwheel {version}\n")
    );
}
