//! Durations as people write them, on the command line and to the admin port.

use tickwheel::Duration;

/// The longest duration that is allowed, so that the run ends and no instant overflows.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Milliseconds (`1500`), or with units (`1500ms`, `2s`, `1m 30s`). The error says what is wrong,
/// as half a sentence.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let duration = match text.trim().parse() {
        Ok(millis) => Duration::from_millis(millis),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string())?,
    };
    if duration < Duration::from_millis(1) {
        return Err("it must be one millisecond at least".to_string());
    }
    if duration > LONGEST {
        return Err("it must be a day at most".to_string());
    }
    Ok(duration)
}
