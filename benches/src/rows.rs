//! What each row is, in words, and in which unit.

use crate::parts::{ARMED_SIZES, FUTURE_SIZES, LOADS, RATES, RESET_RATES, lateness};

/// A line of the table for each contender.
#[derive(Clone, Debug)]
pub struct Row {
    pub id: String,
    pub title: String,
    pub unit: Unit,
    pub section: Section,
}

/// Which table a row stands in. [`Section::ALL`] has their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Programs,
    LargeFutures,
    Operations,
    Memory,
}

impl Section {
    pub const ALL: [Section; 4] = [
        Section::Programs,
        Section::LargeFutures,
        Section::Operations,
        Section::Memory,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Section::Programs => "Whole programs",
            Section::LargeFutures => "Large futures",
            Section::Operations => "Operations",
            Section::Memory => "Memory",
        }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    CpuNanoseconds,
    CpuMillisecondsASecond,
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
            Unit::CpuMillisecondsASecond => "ms of CPU/s",
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
    let mut rows = programs();
    rows.extend(large_futures());
    rows.extend(operations());
    rows.extend(memory());
    rows
}

fn row(section: Section, id: impl Into<String>, unit: Unit, title: impl Into<String>) -> Row {
    Row {
        id: id.into(),
        title: title.into(),
        unit,
        section,
    }
}

fn programs() -> Vec<Row> {
    use Unit::*;
    let mut rows = Vec::new();
    let mut add = |id: &str, unit, title: &str| rows.push(row(Section::Programs, id, unit, title));
    for workers in [1, 2] {
        let title =
            format!("one task that sleeps 1 ms again and again, {workers} workers: a sleep");
        add(&format!("sparse-{workers}"), CpuNanoseconds, &title);
    }
    add(
        "by-task-lone",
        CpuNanoseconds,
        "a sleep of 1 ms again and again, also by a wheel that a task turns",
    );
    add(
        "by-task-blocked",
        MillisecondsLate,
        "the latest sleep of 1 ms while tasks block their worker for 500 ms",
    );
    add(
        "intervals",
        PercentOfACore,
        "100 tasks that tick every 10 ms",
    );
    for (load, pause) in LOADS {
        for rate in RATES {
            let rate_shown = readable(f64::from(*rate));
            let title = format!("{rate_shown} timeouts a second, every {pause:?}");
            add(&format!("{load}-{rate}"), PercentOfACore, &title);
        }
    }
    for rate in RESET_RATES {
        let rate_shown = readable(f64::from(*rate));
        let title = format!("{rate_shown} resets a second, every 5ms");
        add(&format!("resets-{rate}"), CpuMillisecondsASecond, &title);
    }
    add(
        "steady",
        PercentOfACore,
        "200,000 timeouts a second by one task",
    );
    add(
        "hyper-cpu",
        CpuNanoseconds,
        "hyper server and its client, timeouts for heads and requests: a request",
    );
    for (part, rate, cpu) in [
        (
            "hyper-load",
            "hyper server, 64 connections kept alive, a timeout for heads",
            "hyper server: a request, the server's side alone",
        ),
        (
            "queries",
            "client, 256 queries in flight over one connection, each under a timeout",
            "client with queries in flight: a query, the client's side alone",
        ),
        (
            "proxy",
            "proxy, 32 connections with timeouts, messages of 64 bytes",
            "proxy: a message there and back, the proxy alone",
        ),
        (
            "quic",
            "quinn, 16 connections, a small stream for each request",
            "quinn: a request, both sides",
        ),
    ] {
        add(&format!("{part}-rate"), RequestsASecond, rate);
        add(&format!("{part}-cpu"), CpuNanoseconds, cpu);
    }
    add(
        "echo",
        RequestsASecond,
        "echo server, 200 connections, each read under a timeout",
    );
    add(
        "expire-cpu",
        CpuNanoseconds,
        "1,000,000 tasks that sleep: CPU for each, its task included",
    );
    for (id, what) in [("p50", "median"), ("p99", "99 %"), ("max", "the latest")] {
        let title = format!("1,000,000 tasks that sleep: late, {what}");
        add(&format!("expire-{id}"), MillisecondsLate, &title);
    }
    add(
        "expire-early",
        Early,
        "1,000,000 tasks that sleep: fired early",
    );
    add(
        lateness::EARLY,
        Early,
        "under all the loads of the table of lateness: woken early",
    );
    add(
        "values-cpu",
        CpuNanoseconds,
        "1,000,000 values through one stream: CPU for each, its insert included",
    );
    for (id, what) in [("p50", "median"), ("p99", "99 %"), ("max", "the latest")] {
        let title = format!("1,000,000 values through one stream: late, {what}");
        add(&format!("values-{id}"), MillisecondsLate, &title);
    }
    add(
        "idle",
        WakeUps,
        "100,000 deadlines an hour away: the process",
    );
    add(
        "idle-driver",
        WakeUps,
        "100,000 deadlines an hour away: the driver",
    );
    for (id, unit, what) in [
        ("driver", PercentOfACore, "the driver"),
        ("wake-ups", WakeUps, "the driver"),
        ("reset", Nanoseconds, "a heartbeat"),
    ] {
        let title = format!("1,000,000 deadlines of 5 to 15 s, reset every 3 s: {what}");
        add(&format!("sizing-{id}"), unit, &title);
    }
    rows
}

fn large_futures() -> Vec<Row> {
    let size = |size: &usize| {
        let title = format!("timeout, inner ready at once, of {size} bytes");
        let id = format!("large-{size}");
        row(Section::LargeFutures, id, Unit::Nanoseconds, title)
    };
    FUTURE_SIZES.iter().map(size).collect()
}

fn operations() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |id: &str, title: &str| {
        rows.push(row(Section::Operations, id, Unit::Nanoseconds, title));
    };
    for (id, title) in [
        ("ready-1", "timeout, inner ready at once"),
        ("ready-2", "timeout, inner ready at once, 2 threads"),
        ("ready-4", "timeout, inner ready at once, 4 threads"),
        ("pending-1", "timeout, inner pending once, dropped"),
        (
            "pending-2",
            "timeout, inner pending once, dropped, 2 threads",
        ),
        (
            "pending-4",
            "timeout, inner pending once, dropped, 4 threads",
        ),
        (
            "alt-timer-1",
            "timeout, pending, dropped; built with tokio_unstable",
        ),
        (
            "alt-timer-2",
            "timeout, pending, dropped; built with tokio_unstable, 2 threads",
        ),
        (
            "alt-timer-4",
            "timeout, pending, dropped; built with tokio_unstable, 4 threads",
        ),
        ("reset-one", "reset of one deadline while ticks pass"),
        (
            "reset-after",
            "reset_after of one deadline while ticks pass",
        ),
        (
            "reset-many",
            "reset of 10,000 deadlines at random, each in a new tick",
        ),
        ("map-1", "reset by key, 100,000 keys at random"),
        ("map-2", "reset by key, 100,000 keys at random, 2 threads"),
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
        add(id, title);
    }
    for (id, what) in [
        ("armed", "arm and disarm one more"),
        ("replace", "replace one at random"),
    ] {
        for size in ARMED_SIZES {
            let title = format!("{what}, {} armed", readable(*size as f64));
            add(&format!("{id}-{size}"), &title);
        }
    }
    for (id, what) in [
        ("insert", "arming of a sleep"),
        ("reset", "reset of a sleep"),
        ("drop", "drop of a sleep"),
        ("turn", "turn"),
    ] {
        let title = format!("the longest {what}, 2,000,000 armed");
        let id = format!("longest-{id}");
        rows.push(row(Section::Operations, id, Unit::Milliseconds, title));
    }
    for (id, what) in [
        ("drain-delay-map", "values"),
        ("drain-deadline-map", "deadlines"),
    ] {
        let title = format!("another's longest call while 1,000,000 {what} are drained");
        rows.push(row(Section::Operations, id, Unit::Milliseconds, title));
    }
    rows
}

fn memory() -> Vec<Row> {
    [
        (
            "memory-delay-map",
            "a value of a DelayMap with its key, 16 bytes",
        ),
        (
            "memory-deadline-map",
            "a deadline of a DeadlineMap with its two keys, 16 bytes",
        ),
        ("memory-sleep", "an armed sleep, at 1,000,000"),
        ("memory-sleep-1060000", "an armed sleep, at 1,060,000"),
        ("memory-deadline", "a deadline with a handle, at 1,000,000"),
        (
            "survivors-sleep",
            "what eleven of 1,000,000 sleeps keep, the others dropped",
        ),
        ("survivors-deadline", "the same of deadlines with a handle"),
        ("survivors-delay-map", "the same of values of a DelayMap"),
        (
            "survivors-deadline-map",
            "the same of deadlines of a DeadlineMap",
        ),
    ]
    .map(|(id, title)| row(Section::Memory, id, Unit::Bytes, title))
    .into()
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
