//! Runs the parts, each in processes of its own, and gathers what they record.
//!
//! A measured process is this program with `--inside`, or another program that takes `--quick` too.
//! It prints its records, one line of JSON each, and nothing else.

use std::env;
use std::process::{Command, Stdio};

use crate::harness::Record;
use crate::part::{Build, How, Part, name};
use crate::parts::PARTS;
use crate::rows::rows;
use crate::settings::{Settings, target_folder};

/// Measures a part, or returns why that cannot be done.
pub fn measure(part: &Part, settings: &Settings) -> Result<Vec<Record>, String> {
    match part.how {
        How::Together(_) => records_of(inside(part.name), settings),
        How::Built {
            program,
            arguments,
            build,
        } => {
            let records = records_of(cargo_run(program, arguments, build), settings);
            records.map_err(|error| match build.environment {
                [] => error,
                environment => format!("{program}, built with {environment:?}: {error}"),
            })
        }
        How::Apart {
            contenders, rounds, ..
        } => {
            let mut all = Vec::new();
            let mut order = contenders.to_vec();
            for _ in 0..settings.either(rounds, 1) {
                fastrand::shuffle(&mut order);
                for contender in &order {
                    let mut command = inside(part.name);
                    command.args(["--contender", contender]);
                    command.envs(name::environment(contender));
                    for record in records_of(command, settings)? {
                        Record::gather(&mut all, record);
                    }
                }
            }
            all.sort_by_key(|record| contenders.iter().position(|name| *name == record.contender));
            Ok(all)
        }
    }
}

/// The other side of [`measure`]: measures within this process, and prints.
pub fn measure_inside(part: &str, contender: Option<&str>, settings: &Settings) {
    let part = PARTS.iter().find(|known| known.name == part);
    print(&match part.expect("it is one of those listed").how {
        How::Together(run) => run(settings),
        How::Apart { run, .. } => {
            let contender = contender.expect("a contender is named");
            let record = |(row, figure): (String, _)| Record::new(&row, contender, vec![figure]);
            run(contender, settings).into_iter().map(record).collect()
        }
        How::Built { .. } => unreachable!("another program measures it"),
    });
}

/// Prints records for the process that waits for them.
pub fn print(records: &[Record]) {
    for record in records {
        let line = serde_json::to_string(record).expect("a record is plain data");
        println!("{line}");
    }
}

/// A program of this package, which cargo builds first.
fn cargo_run(program: &str, arguments: &str, build: Build) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    command.args(["run", "--release", "--quiet", "--bin", program]);
    command.args(["--manifest-path", manifest]);
    if let Some(own) = target_folder() {
        command.env("CARGO_TARGET_DIR", own.join(build.folder));
    }
    for &(variable, value) in build.environment {
        // Flags for the compiler that this program was given hold there too.
        let value = match env::var(variable) {
            Ok(given) if variable == "RUSTFLAGS" => format!("{given} {value}"),
            _ => value.to_owned(),
        };
        command.env(variable, value);
    }
    command.arg("--").args(arguments.split_whitespace());
    command
}

fn inside(part: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("the program has a path"));
    command.args(["--inside", part]);
    command
}

fn records_of(mut command: Command, settings: &Settings) -> Result<Vec<Record>, String> {
    if settings.quick {
        command.arg("--quick");
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{command:?} does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status));
    }
    let rows = rows();
    let record = |line: &str| {
        let record: Record = serde_json::from_str(line).map_err(|e| format!("{line}: {e}"))?;
        let is_late = record.row.starts_with("lateness-");
        if is_late || rows.iter().any(|row| row.id == record.row) {
            Ok(record)
        } else {
            Err(format!("{} is not in rows.txt", record.row))
        }
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.lines().map(record).collect()
}
