//! A live picture of the wheels: levels that appear on overflow, cascades, resets.
//!
//! ```text
//!   running   a real timer under the load; it can be paused and stepped   -> a drawing
//!   load      connections with heartbeats, and requests
//!   drawing   what is shown at one moment
//!   draw      a drawing as text                            -> terminal, --frame
//!   svg       a series of drawings as an animated picture              -> --svg
//!   terminal  the keys, and the terminal's state
//! ```
//!
//! Invariant: only `running` turns a wheel, and only `draw` and `svg` say how it looks.

mod draw;
mod drawing;
mod load;
mod running;
mod svg;
mod terminal;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tickwheel::Duration;
use tickwheel_integrations::{parse_duration, parse_period};

use running::Running;

/// Shows a timer's wheels turning under a load that keys change.
///
/// The picture is of a real timer in this process, seen through its `snapshot` and `metrics`. Space
/// pauses its clock, and `s` steps it.
#[derive(Clone, Debug, Parser)]
struct Options {
    /// The load, as the keys 0 to 5: nothing, 20, 500, 10,000, 100,000 or 300,000 connections.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=5))]
    preset: u8,
    /// The length of a tick. At 1ms, the timer's own default, level 0 is too fast to see.
    #[arg(long, default_value = "20ms", value_parser = parse_period)]
    tick: Duration,
    /// The same seed makes the same load.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Adds a timer of this duration at the start, as a key does. May be repeated.
    #[arg(long, value_parser = parse_duration)]
    add: Vec<Duration>,
    /// Prints one frame as text in place of a live picture, after 30 s of virtual time. So it is
    /// the same each time.
    #[arg(long, conflicts_with = "svg")]
    frame: bool,
    /// Columns of `--frame`.
    #[arg(long, default_value_t = 80, requires = "frame", value_parser = clap::value_parser!(u16).range(80..=500))]
    width: u16,
    /// Lines of `--frame`.
    #[arg(long, default_value_t = 24, requires = "frame", value_parser = clap::value_parser!(u16).range(18..=500))]
    height: u16,
    /// Writes ten seconds of a small wheel as an animated picture, in place of a live one. `-` is
    /// stdout.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        // Who reads our output has had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wheel_view: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    if let Some(file) = &options.svg {
        let picture = svg::write(&running::ten_seconds(options.clone())?);
        return match file.to_str() {
            Some("-") => io::stdout().write_all(picture.as_bytes()),
            _ => std::fs::write(file, picture).map_err(|error| {
                io::Error::other(format!("cannot write {}: {error}", file.display()))
            }),
        };
    }
    if options.frame {
        let frame = frame(options)?;
        return io::stdout().write_all(frame.as_bytes());
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(io::Error::other(
            "the live picture needs a terminal; `--frame` prints one frame as text, and \
             `--svg FILE` writes an animated picture",
        ));
    }
    terminal::run(options.clone())
}

/// One frame, after a time that is virtual.
fn frame(options: &Options) -> io::Result<String> {
    let steps = 30_000_000_000 / options.tick.as_nanos();
    let mut running = Running::new(options.clone(), true)?;
    (0..steps).for_each(|_| running.step());
    let mut buffer = Buffer::empty(Rect::new(0, 0, options.width, options.height));
    draw::draw(&running.look(), false, buffer.area, &mut buffer);
    Ok(draw::to_text(&buffer))
}
