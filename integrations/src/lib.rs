//! What is shared by the programs and tests of this package: times on the command line, and
//! [`quic`]'s runtime.

pub mod quic;

use tickwheel::Duration;

/// Durations of the command line are bounded, so that no sum of a time and a few of them overflows.
pub const LONGEST_DURATION: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);

/// Milliseconds (`1500`), or with units (`1500ms`, `2s`, `1m 30s`), for the command line.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err("it cannot be negative; give a time such as 1500ms or 30s".to_owned());
    }
    let duration = match text.parse() {
        Ok(millis) => Duration::from_millis(millis),
        Err(_) => humantime::parse_duration(text)
            .map_err(|error| format!("{error}; give a time such as 1500ms or 30s"))?,
    };
    if duration > LONGEST_DURATION {
        Err("it is longer than a thousand years; give a time such as 30s".to_owned())
    } else {
        Ok(duration)
    }
}

/// As [`parse_duration`], for a timeout or a period: longer than zero, and a year at most.
pub fn parse_period(text: &str) -> Result<Duration, String> {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    match parse_duration(text)? {
        Duration::ZERO => Err("it must be longer than zero, such as 30s".to_owned()),
        period if period > YEAR => Err("it must be a year at most, such as 30s".to_owned()),
        period => Ok(period),
    }
}

/// The examples of the migration guide: what they move from is a dependency of this package only.
#[cfg(doctest)]
#[doc = include_str!("../../docs/MIGRATION.md")]
struct MigrationExamples;

/// The recipes of the page on operations. The test `operations` runs them too.
#[cfg(doctest)]
#[doc = include_str!("../../docs/OPERATIONS.md")]
struct OperationsRecipes;
