//! The line on the terminal while the server runs. Where there is no terminal, indicatif draws
//! nothing.

use std::convert::Infallible;

use indicatif::{HumanCount, ProgressBar, ProgressFinish, ProgressStyle};
use tickwheel::Duration;

use crate::counters::{Count, Counters};
use crate::timer::AnyTimer;

const REFRESH: Duration = Duration::from_millis(100);

const TEMPLATE: &str = "{spinner} {elapsed:>3} [{bar:20}] {msg}";

/// Draws the line until it is dropped; then the line vanishes.
pub(crate) async fn show(timer: &AnyTimer, run_time: Duration, counters: &Counters) -> Infallible {
    let style = ProgressStyle::with_template(TEMPLATE)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    let bar = ProgressBar::new(run_time.as_millis() as u64)
        .with_style(style)
        .with_finish(ProgressFinish::AndClear);
    loop {
        bar.set_position(bar.elapsed().min(run_time).as_millis() as u64);
        bar.set_message(describe(counters));
        timer.sleep(REFRESH).await;
    }
}

fn describe(counters: &Counters) -> String {
    let human = |count: &Count| HumanCount(count.get());
    format!(
        "{} open, {} heartbeats, {} resets, {} closed by deadline",
        human(&counters.open),
        human(&counters.heartbeats),
        human(&counters.resets),
        human(&counters.closed_by_deadline),
    )
}
