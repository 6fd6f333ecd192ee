//! What a program pays to carry a timer: its size, and the CPU of its build. The program is of few
//! lines and has tokio's features as most programs have them. Only its `use` differs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::part::{How, Part, name};
use crate::settings::{Settings, target_folder};

pub const PART: Part = Part {
    name: "build",
    about: "a small program with tokio's timers and with these: its size, and its build",
    state: "The program is built, and not measured as it runs.",
    how: How::Apart {
        contenders: &[name::DROP_IN, name::TOKIO],
        rounds: 1,
        run,
    },
};

const MANIFEST: &str = r#"[package]
name = "small"
version = "0.0.0"
edition = "2024"

[dependencies]
tokio = { version = "1.54", features = ["full"] }
OURS

[profile.release]
strip = true

[workspace]
"#;

const PROGRAM: &str = r#"use CRATE::time::{Duration, interval, sleep, timeout};

#[tokio::main]
async fn main() {
    let mut ticks = interval(Duration::from_millis(10));
    let (sender, mut receiver) = tokio::sync::mpsc::channel(8);
    tokio::spawn(async move {
        for tick in 0..10 {
            ticks.tick().await;
            sender.send(tick).await.ok();
        }
    });
    while let Ok(Some(tick)) = timeout(Duration::from_secs(1), receiver.recv()).await {
        println!("{tick}");
    }
    tokio::select! {
        () = sleep(Duration::from_millis(5)) => println!("slept"),
        _ = receiver.recv() => println!("closed"),
    }
}
"#;

/// The bytes of the program, and the seconds of CPU that a build from nothing takes.
fn run(contender: &str, _: &Settings) -> Vec<(String, f64)> {
    let (from, dependency) = match contender {
        name::DROP_IN => ("tickwheel", "tickwheel = { path = 'ROOT' }"),
        _ => ("tokio", ""),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = target_folder().expect("the program has a path");
    let folder = target.join("small").join(from);
    // What an earlier build left would be spared.
    fs::remove_dir_all(folder.join("target")).ok();
    fs::create_dir_all(folder.join("src")).expect("the target folder can be written");
    let ours = dependency.replace("ROOT", &root.display().to_string());
    for (file, text) in [
        ("Cargo.toml", MANIFEST.replace("OURS", &ours)),
        ("src/main.rs", PROGRAM.replace("CRATE", from)),
    ] {
        fs::write(folder.join(file), text).expect("the target folder can be written");
    }
    // The versions that all else here is measured with.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).ok();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new("sh")
        // POSIX: the second line is of the children, user and system, as in 0m1.234s.
        .args(["-c", "\"$@\" >&2 && times", "sh"])
        .arg(cargo)
        .args(["build", "--release", "--quiet"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env_remove("RUSTFLAGS")
        .stderr(Stdio::inherit())
        .output()
        .expect("there is a shell");
    assert!(output.status.success(), "the program is not built");
    let printed = String::from_utf8_lossy(&output.stdout);
    let line = printed.lines().nth(1).expect("the shell prints it");
    let cpu = line.split_whitespace().map(seconds).sum();
    let program = fs::metadata(folder.join("target/release/small")).expect("it is built");
    let size = program.len() as f64 / 1e3;
    vec![
        ("build-size".to_owned(), size),
        ("build-cpu".to_owned(), cpu),
    ]
}

fn seconds(text: &str) -> f64 {
    let (minutes, seconds) = text.trim_end_matches('s').split_once('m').expect("minutes");
    let number = |text: &str| text.replace(',', ".").parse::<f64>().expect("a number");
    60.0 * number(minutes) + number(seconds)
}
