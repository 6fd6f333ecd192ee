//! A picture of the wheels: levels that appear on overflow, cascades, resets.
//!
//! ```text
//!   running   a real timer under a load, a tick at a time    -> the terminal, as `snapshot` shows it
//!   drawing   what is shown at one moment
//!   svg       a series of drawings as an animated picture    -> --svg
//! ```
//!
//! Invariant: only `running` turns a wheel, and only `svg` says how it looks.

mod drawing;
mod running;
mod svg;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::Parser;

use running::{Running, TICK};

/// Shows a timer's wheels turning under the load of a few connections, until it is interrupted.
#[derive(Debug, Parser)]
struct Options {
    /// The same seed makes the same load.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes ten seconds of it as an animated picture, in place of a live one. `-` is stdout.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.svg {
        None => show(options.seed),
        Some(file) => write(options.seed, file),
    };
    match outcome {
        // Who reads our output has had enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("wheel_view: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn show(seed: u64) -> io::Result<()> {
    let mut running = Running::new(seed)?;
    let mut stdout = io::stdout();
    let clear = if stdout.is_terminal() {
        "\x1b[H\x1b[J"
    } else {
        ""
    };
    loop {
        running.step();
        writeln!(stdout, "{clear}{}", running.timer.snapshot())?;
        stdout.flush()?;
        thread::sleep(TICK);
    }
}

fn write(seed: u64, file: &PathBuf) -> io::Result<()> {
    let picture = svg::write(&running::ten_seconds(seed)?);
    match file.to_str() {
        Some("-") => io::stdout().write_all(picture.as_bytes()),
        _ => std::fs::write(file, picture)
            .map_err(|error| io::Error::other(format!("cannot write {}: {error}", file.display()))),
    }
}
