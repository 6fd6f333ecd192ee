//! Runs the parts, each in processes of its own, and gathers what they record.
//!
//! A measured process is this program with `--inside`, or another program that takes `--quick` too.
//! It prints its records, one line of JSON each, and nothing else.

use std::env;
use std::process::{Command, Stdio};

use crate::harness::Record;
use crate::parts::{How, PARTS, Part};
use crate::settings::{Settings, target_folder};

/// Measures a part, or tells why that cannot be done.
pub fn measure(part: &Part, settings: &Settings) -> Result<Vec<Record>, String> {
    match part.how {
        How::Together(_) => records_of(inside(part.name)?, settings),
        How::Built(program, arguments) => records_of(cargo_run(program, arguments), settings),
        How::Apart {
            contenders, rounds, ..
        } => {
            let mut all = Vec::new();
            let mut order = contenders.to_vec();
            for _ in 0..settings.either(rounds, 1) {
                fastrand::shuffle(&mut order);
                for contender in &order {
                    let mut command = inside(part.name)?;
                    command.args(["--contender", contender]);
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

/// The other side of [`measure`]: measures within this process, and tells.
pub fn measure_inside(part: &str, contender: Option<&str>, settings: &Settings) {
    let part = PARTS
        .iter()
        .find(|known| known.name == part)
        .expect("the part is one of those listed");
    tell(&match part.how {
        How::Together(run) => run(settings),
        How::Apart { run, .. } => run(contender.expect("a contender is named"), settings),
        How::Built(..) => unreachable!("another program measures it"),
    });
}

/// Prints records for the process that waits for them.
pub fn tell(records: &[Record]) {
    for record in records {
        println!(
            "{}",
            serde_json::to_string(record).expect("a record is plain data")
        );
    }
}

/// A program of this package, which cargo builds first.
fn cargo_run(program: &str, arguments: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args([
        "run",
        "--release",
        "--quiet",
        "--bin",
        program,
        "--manifest-path",
    ]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    if let Some(own) = target_folder() {
        command.env("CARGO_TARGET_DIR", own);
    }
    command.arg("--").args(arguments.split_whitespace());
    command
}

fn inside(part: &str) -> Result<Command, String> {
    let program = env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    let mut command = Command::new(program);
    command.args(["--inside", part]);
    Ok(command)
}

fn records_of(mut command: Command, settings: &Settings) -> Result<Vec<Record>, String> {
    if settings.quick {
        command.arg("--quick");
    }
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{command:?} does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}")))
        .collect()
}
