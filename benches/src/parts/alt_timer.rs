//! tokio's alternative timer, which is unstable. This program is built once more for it, with
//! `--cfg tokio_unstable`.
//!
//! It runs against tickwheel and against tokio's usual timer in the same build. So the ratios are
//! of one run.

use std::process::Command;

use super::{How, Part};
use crate::conductor::cargo_run;
use crate::harness::Record;
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "alt-timer",
    about: "the same against tokio's unstable alternative timer, in a build of its own",
    how: How::Built(build),
};

fn build() -> Command {
    let mut command = cargo_run(
        env!("CARGO_MANIFEST_DIR"),
        "tickwheel-bench",
        "tokio-unstable",
    );
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command
        .env("RUSTFLAGS", format!("{flags} --cfg tokio_unstable"))
        .args(["--", "--inside", PART.name]);
    command
}

#[cfg(tokio_unstable)]
pub fn run(settings: &Settings) -> Vec<Record> {
    use super::pending::{enter_tickwheel, enter_tokio};
    use super::timeouts::polled_once;
    use crate::harness::{Never, Race};
    use std::rc::Rc;
    use tokio::runtime::Builder;

    let race = |threads: usize| {
        let mut race = Race::new(format!("alt-timer-{threads}"), threads);
        enter_tickwheel(&mut race);
        enter_tokio(&mut race);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(2))
            .enable_all()
            .enable_alt_timer()
            .build()
            .expect("the runtime starts");
        race.enter_on(Rc::new(runtime), super::name::ALT_TIMER, || {
            polled_once(false, |after| tokio::time::timeout(after, Never))
        });
        race
    };
    [1, 2, 4]
        .into_iter()
        .flat_map(|threads| race(threads).run(settings))
        .collect()
}

#[cfg(not(tokio_unstable))]
pub fn run(_: &Settings) -> Vec<Record> {
    panic!("this build has no alternative timer: it needs RUSTFLAGS=\"--cfg tokio_unstable\"");
}
