//! What each row is, in words, and in which unit.

use crate::parts::{ARMED_SIZES, FUTURE_SIZES, LOADS, RATES, lateness};

/// A line of the table for each contender.
#[derive(Clone, Debug)]
pub struct Row {
    pub id: String,
    pub title: String,
    pub unit: Unit,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    CpuNanoseconds,
    MillisecondsLate,
    Milliseconds,
    Early,
    Bytes,
    WakeUps,
    PercentOfACore,
    RequestsASecond,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::CpuNanoseconds => "ns of CPU",
            Unit::MillisecondsLate => "ms late",
            Unit::Milliseconds => "ms",
            Unit::Early => "early",
            Unit::Bytes => "bytes",
            Unit::WakeUps => "wake-ups/s",
            Unit::PercentOfACore => "% of a core",
            Unit::RequestsASecond => "requests/s",
        }
    }

    pub fn more_is_better(self) -> bool {
        self == Unit::RequestsASecond
    }

    /// Of two contenders, how many times better the first is: 2 if it takes half as long.
    pub fn times_better(self, one: f64, other: f64) -> f64 {
        if self.more_is_better() {
            one / other
        } else {
            other / one
        }
    }
}

/// A number as the tables show it: three digits, and thousands set apart.
pub fn readable(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let plain = format!("{value:.digits$}");
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// All rows, in the order of the tables.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |id: &str, unit, title: &str| {
        rows.push(Row {
            id: id.to_owned(),
            title: title.to_owned(),
            unit,
        });
    };
    use Unit::*;
    for workers in [1, 2] {
        let title =
            format!("one task that sleeps 1 ms again and again, {workers} workers: a sleep");
        row(&format!("sparse-{workers}"), CpuNanoseconds, &title);
    }
    row(
        "intervals",
        PercentOfACore,
        "100 tasks that tick every 10 ms",
    );
    for (load, pause) in LOADS {
        for rate in RATES {
            let rate_shown = readable(f64::from(*rate));
            let title = format!("{rate_shown} timeouts a second, every {pause:?}");
            row(&format!("{load}-{rate}"), PercentOfACore, &title);
        }
    }
    row(
        "hyper-cpu",
        CpuNanoseconds,
        "hyper server and its client, timeouts for heads and requests: a request",
    );
    row(
        "hyper-load-rate",
        RequestsASecond,
        "hyper server, 64 connections kept alive, a timeout for heads",
    );
    row(
        "hyper-load-cpu",
        CpuNanoseconds,
        "the same: a request, the server's side alone",
    );
    row("ready-1", Nanoseconds, "timeout, inner ready at once");
    row(
        "ready-2",
        Nanoseconds,
        "timeout, inner ready at once, 2 threads",
    );
    row(
        "ready-turns",
        Nanoseconds,
        "timeout, inner ready at once, on two timers by turns",
    );
    for size in FUTURE_SIZES {
        let title = format!("timeout, inner ready at once, of {size} bytes");
        row(&format!("large-{size}"), Nanoseconds, &title);
    }
    row(
        "pending-1",
        Nanoseconds,
        "timeout, inner pending once, dropped",
    );
    row(
        "pending-2",
        Nanoseconds,
        "timeout, inner pending once, dropped, 2 threads",
    );
    row(
        "pending-4",
        Nanoseconds,
        "timeout, inner pending once, dropped, 4 threads",
    );
    row(
        "alt-timer-1",
        Nanoseconds,
        "timeout, pending, dropped; built with tokio_unstable",
    );
    row(
        "alt-timer-2",
        Nanoseconds,
        "timeout, pending, dropped; built with tokio_unstable, 2 threads",
    );
    row(
        "alt-timer-4",
        Nanoseconds,
        "timeout, pending, dropped; built with tokio_unstable, 4 threads",
    );
    row(
        "kestrel-pending-1",
        Nanoseconds,
        "timeout, pending, dropped; built with tokio/test-util",
    );
    row(
        "kestrel-pending-2",
        Nanoseconds,
        "timeout, pending, dropped; built with tokio/test-util, 2 threads",
    );
    row(
        "kestrel-reset",
        Nanoseconds,
        "reset of one deadline; built with tokio/test-util",
    );
    row(
        "reset-one",
        Nanoseconds,
        "reset of one deadline while ticks pass",
    );
    row(
        "reset-after",
        Nanoseconds,
        "reset_after of one deadline while ticks pass",
    );
    row(
        "reset-at",
        Nanoseconds,
        "reset_at of one deadline while ticks pass",
    );
    row(
        "set-timeout",
        Nanoseconds,
        "set_timeout and reset of one deadline while ticks pass",
    );
    row(
        "reset-many",
        Nanoseconds,
        "reset of 10,000 deadlines at random, each in a new tick",
    );
    row("map-1", Nanoseconds, "reset by key, 100,000 keys at random");
    row(
        "map-2",
        Nanoseconds,
        "reset by key, 100,000 keys at random, 2 threads",
    );
    for (id, title) in [
        ("delay-map-1", "put a value under a key, and take it out"),
        (
            "delay-map-2",
            "put a value under a key, and take it out, 2 threads",
        ),
        (
            "delay-map-reset",
            "start the delay of a key anew, 100,000 keys at random",
        ),
    ] {
        row(id, Nanoseconds, title);
    }
    row(
        "values-cpu",
        CpuNanoseconds,
        "1,000,000 values through one stream: CPU for each, its insert included",
    );
    row(
        "values-p50",
        MillisecondsLate,
        "1,000,000 values through one stream: late, median",
    );
    row(
        "values-p99",
        MillisecondsLate,
        "1,000,000 values through one stream: late, 99 %",
    );
    row(
        "values-max",
        MillisecondsLate,
        "1,000,000 values through one stream: late, the latest",
    );
    row(
        "drain-delay-map",
        Milliseconds,
        "another's longest call while 1,000,000 values are drained",
    );
    row(
        "drain-deadline-map",
        Milliseconds,
        "another's longest call while 1,000,000 deadlines are drained",
    );
    for (id, what) in [
        ("armed", "arm and disarm one more"),
        ("replace", "replace one at random"),
    ] {
        for size in ARMED_SIZES {
            let title = format!("{what}, {} armed", readable(*size as f64));
            row(&format!("{id}-{size}"), Nanoseconds, &title);
        }
    }
    row(
        "memory-delay-map",
        Bytes,
        "a value of a DelayMap with its key, 16 bytes",
    );
    row(
        "memory-deadline-map",
        Bytes,
        "a deadline of a DeadlineMap with its two keys, 16 bytes",
    );
    row(
        "memory-sleep",
        Bytes,
        "memory for each armed sleep, at 1,000,000",
    );
    row(
        "memory-deadline",
        Bytes,
        "memory for each deadline with a handle, at 1,000,000",
    );
    row(
        "expire-cpu",
        CpuNanoseconds,
        "1,000,000 tasks that sleep: CPU for each, its task included",
    );
    row(
        "expire-p50",
        MillisecondsLate,
        "1,000,000 tasks that sleep: late, median",
    );
    row(
        "expire-p99",
        MillisecondsLate,
        "1,000,000 tasks that sleep: late, 99 %",
    );
    row(
        "expire-max",
        MillisecondsLate,
        "1,000,000 tasks that sleep: late, the latest",
    );
    row(
        "expire-early",
        Early,
        "1,000,000 tasks that sleep: fired early",
    );
    row(
        lateness::EARLY,
        Early,
        "under all the loads of the table of lateness: woken early",
    );
    row(
        "idle",
        WakeUps,
        "100,000 deadlines an hour away: the process",
    );
    row(
        "idle-driver",
        WakeUps,
        "100,000 deadlines an hour away: the driver",
    );
    row(
        "steady",
        PercentOfACore,
        "200,000 timeouts a second by one task",
    );
    row(
        "echo",
        RequestsASecond,
        "echo server, 200 connections, each read under a timeout",
    );
    for (part, what, whose) in [
        (
            "queries",
            "client, 256 queries in flight over one connection, each under a timeout",
            "a query, the client's side alone",
        ),
        (
            "proxy",
            "proxy, 32 connections with timeouts, messages of 64 bytes",
            "a message there and back, the proxy alone",
        ),
        (
            "quic",
            "quinn, 16 connections, a small stream for each request",
            "a request, both sides",
        ),
    ] {
        row(&format!("{part}-rate"), RequestsASecond, what);
        let title = format!("the same: {whose}");
        row(&format!("{part}-cpu"), CpuNanoseconds, &title);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn numbers_are_readable() {
        let shown = [0.0, 0.523, 7.24, 38.44, 382.4, 1234.0, 1_234_567.8, -2.5].map(readable);
        assert_eq!(
            shown,
            [
                "0",
                "0.52",
                "7.24",
                "38.4",
                "382",
                "1,234",
                "1,234,568",
                "-2.50"
            ]
        );
    }
}
