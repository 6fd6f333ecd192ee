//! Counts and stretches of time for people: two digits that matter, and a unit.
//!
//! Invariant: a number is rounded before its unit is chosen. So nothing is "60 s" or "1,000 ms".

/// What a unit is worth, its name, and how many of it are one of the next.
type Unit = (f64, &'static str, f64);

const UNITS_OF_TIME: [Unit; 8] = [
    (1.0, "ns", 1_000.0),
    (1e3, "µs", 1_000.0),
    (1e6, "ms", 1_000.0),
    (1e9, "s", 60.0),
    (60e9, "min", 60.0),
    (3_600e9, "h", 24.0),
    (DAY, "days", 365.0),
    (YEAR, "years", 10_000.0),
];

const DAY: f64 = 86_400e9;
const YEAR: f64 = 365.25 * DAY;

const PREFIXES: [Unit; 7] = [
    (1e3, "k", 1_000.0),
    (1e6, "M", 1_000.0),
    (1e9, "G", 1_000.0),
    (1e12, "T", 1_000.0),
    (1e15, "P", 1_000.0),
    (1e18, "E", 1_000.0),
    (1e21, "Z", f64::INFINITY),
];

/// A stretch of time, in at most 11 columns: `1.2 days`.
pub(super) fn duration(nanos: u128) -> String {
    duration_of(nanos, false)
}

/// A stretch of time that keeps up to three digits if it is exact with them: `12.5 ms`.
pub(super) fn exact_duration(nanos: u128) -> String {
    duration_of(nanos, true)
}

fn duration_of(nanos: u128, exactly: bool) -> String {
    match in_units(nanos as f64, &UNITS_OF_TIME, exactly) {
        Some((1.0, "days")) => "1 day".to_owned(),
        Some((1.0, "years")) => "1 year".to_owned(),
        // Only whole numbers are this large.
        Some((value, unit)) if value >= 1_000.0 => format!("{} {unit}", separated(value as u64)),
        Some((value, unit)) => format!("{value} {unit}"),
        None => format!("{} years", prefixed(nanos as f64 / YEAR)),
    }
}

/// A count: exact in at most so many columns, and else rounded: `12 M`.
pub(super) fn count(number: u64, columns: usize) -> String {
    let exact = separated(number);
    if exact.len() <= columns {
        exact
    } else {
        prefixed(number as f64)
    }
}

/// A count, and what is counted: `1 timer`, `12,000 timers`.
pub(super) fn counted(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{} {what}s", separated(number as u64)),
    }
}

/// In at most five columns.
fn prefixed(number: f64) -> String {
    let (value, prefix) = in_units(number, &PREFIXES, false).unwrap_or((f64::INFINITY, "Z"));
    format!("{value} {prefix}")
}

/// The number in the smallest unit that is not too small for it.
fn in_units(number: f64, units: &[Unit], exactly: bool) -> Option<(f64, &'static str)> {
    units.iter().find_map(|&(worth, unit, limit)| {
        let value = rounded(number / worth, exactly);
        (value < limit).then_some((value, unit))
    })
}

/// Two digits that matter, or all digits of a whole number. With `exactly` three digits, if these
/// are all that there are.
fn rounded(value: f64, exactly: bool) -> f64 {
    let to = |parts: f64| (value * parts).round() / parts;
    let three_digits = to(if value < 10.0 { 100.0 } else { 10.0 });
    if exactly && value < 100.0 && (three_digits - value).abs() < 1e-9 {
        three_digits
    } else if value < 9.95 {
        to(10.0)
    } else {
        to(1.0)
    }
}

/// All digits, in groups of three.
fn separated(number: u64) -> String {
    let digits = number.to_string();
    let mut separated = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            separated.push(',');
        }
        separated.push(digit);
    }
    separated
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_stretch_of_time_has_a_unit_that_people_use() {
        let of = |seconds: f64| duration((seconds * 1e9) as u128);
        let wide = |level| duration(1_000_000_u128 << (6 * level));
        let widths: Vec<_> = (0..11).map(wide).collect();
        assert_eq!(
            widths,
            [
                "1 ms",
                "64 ms",
                "4.1 s",
                "4.4 min",
                "4.7 h",
                "12 days",
                "2.2 years",
                "139 years",
                "8,919 years",
                "571 k years",
                "37 M years"
            ]
        );
        assert_eq!(of(0.0), "0 ns");
        assert_eq!(of(107_374.182_4), "1.2 days");
        assert_eq!((of(59.4), of(59.6)), ("59 s".into(), "1 min".into()));
        assert_eq!((of(0.999_4), of(0.999_6)), ("999 ms".into(), "1 s".into()));
        assert_eq!(
            (of(23.4 * 3_600.0), of(86_000.0)),
            ("23 h".into(), "1 day".into())
        );
        assert_eq!(of(365.25 * 86_400.0), "1 year");
        assert_eq!(duration(12_500_000), "13 ms");
        assert_eq!(exact_duration(12_500_000), "12.5 ms");
        assert_eq!(exact_duration(1_250_000), "1.25 ms");
        assert_eq!(exact_duration(1_255_000), "1.3 ms");
        assert_eq!(duration(Duration::MAX.as_nanos()), "585 G years");
        assert_eq!(duration(u128::MAX), "11 Z years");
    }

    #[test]
    fn a_count_that_does_not_fit_is_rounded() {
        assert_eq!(count(0, 7), "0");
        assert_eq!(count(999_999, 7), "999,999");
        assert_eq!(count(1_000_000, 7), "1 M");
        assert_eq!(count(12_345_678, 7), "12 M");
        assert_eq!(count(999_999_999, 7), "1 G");
        assert_eq!(count(u64::MAX, 7), "18 E");
        assert_eq!(count(u64::MAX, 26), "18,446,744,073,709,551,615");
        assert_eq!(counted(1, "timer"), "1 timer");
        assert_eq!(counted(1_024, "shard"), "1,024 shards");
    }
}
