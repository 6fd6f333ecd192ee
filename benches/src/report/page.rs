//! `RESULTS.md`: first what a person reads, then every row.

use super::figures::filled;
use super::tables::{self, Style};
use super::{Loss, Run, TOKIO_LOCKS};
use crate::parts::name;
use crate::rows::Section;

/// What stands first, a line each. A line with a figure that the run does not have is left out.
const IN_SHORT: &[&str] = &[
    "**A program with 100,000 timeouts a second, in bursts**: {median bursts-100000 tickwheel} of a core with tickwheel, \
     {median bursts-100000 tokio} with tokio's timers, {median bursts-100000 no-timer} with none. \
     With a million a second: {median bursts-1000000 tickwheel}, {median bursts-1000000 tokio} and {median bursts-1000000 no-timer}.",
    "**A timeout whose future is ready at once**: {median ready-1 tickwheel} by a `Timer` that the task holds, \
     {median ready-1 drop-in} by the free function; tokio {median ready-1 tokio}, pingora-timeout {median ready-1 pingora}.",
    "**A timeout that is pending once and dropped**: {median pending-1 tickwheel}, tokio {median pending-1 tokio}. \
     Two threads at once: {median pending-2 tickwheel}, tokio {median pending-2 tokio}.",
    "**A reset of one of 10,000 deadlines, each in a new tick**: {median reset-many tickwheel}; \
     by its owner with tokio {median reset-many tokio}, with `DelayQueue` {median reset-many delay-queue}.",
    "**A reset by key, 100,000 keys**: {median map-1 tickwheel}; a `Mutex` around a map and a `DelayQueue` {median map-1 mutex-map}.",
    "**1,000,000 tasks that sleep within two seconds**: half of them are late by {median expire-p50 tickwheel} or less, \
     99 % by {median expire-p99 tickwheel}; tokio {median expire-p50 tokio} and {median expire-p99 tokio}.",
    "**An armed sleep** takes {median memory-sleep tickwheel}, tokio's {median memory-sleep tokio}, \
     a place in a `DelayQueue` {median memory-sleep delay-queue}.",
];

/// So many rows are named in which a peer is better.
const NAMED: usize = 4;

/// The whole of a run.
pub fn markdown(run: &Run) -> String {
    let (facts, results) = (&run.facts, &run.results);
    let packages: Vec<String> = facts
        .packages
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let in_short: Vec<String> = in_short(run).map(|line| format!("- {line}\n")).collect();
    let section = |section: Section| tables::rows(results, section, Style::Markdown);
    format!(
        "# Results\n\n\
         Written by `cargo run --release -p tickwheel-bench`; how it measures is told in `benches/src/lib.rs`.\n\
         Figures are medians. Where a peer is better in most rounds, it stands here too:\n\n\
         {}\n\
         ![CPU of a program against its rate of timeouts](charts/programs.svg)\n\n\
         The run:\n\n- {}\n- {}\n- {}\n- rustc {}, {} × {}, {}\n- {}\n\n\
         «tickwheel is»: how many times better tickwheel is, by a `Timer` that the task holds, or as a drop-in where it\n\
         takes part as that alone. It is the median of the rounds' ratios.\n\n\
         ## Whole programs\n\n{}\n\n\
         ## How late\n\n\
         In milliseconds, ours and then the peer's: each figure is the median of the rounds, and «max» is the latest timer of\n\
         a round. With 0 workers the runtime is on the current thread. `benches/src/parts/lateness/` tells the loads.\n\n\
         {}\n\n\
         ## Large futures\n\n{}\n\n\
         ## Operations\n\n\
         Nanoseconds are for each operation, of one core; with 4 threads on fewer cores the time that a thread waits for a\n\
         core is not counted.\n\n\
         ![bars](charts/rows.svg)\n\n![threads](charts/threads.svg)\n\n\
         {}\n\n\
         ![growth](charts/armed.svg)\n\n![growth, at random](charts/replace.svg)\n\n\
         ## Memory\n\n{}\n\n\
         ## Where others are better\n\n{}",
        in_short.concat(),
        facts.date,
        packages.join(", "),
        TOKIO_LOCKS,
        facts.rustc,
        facts.cores,
        facts.cpu,
        facts.system,
        tables::neighbours(results),
        section(Section::Programs),
        tables::lateness(results, Style::Markdown),
        section(Section::LargeFutures),
        section(Section::Operations),
        section(Section::Memory),
        tables::where_we_lose(results),
    )
}

fn in_short(run: &Run) -> impl Iterator<Item = String> {
    let lines = IN_SHORT.iter().filter_map(|line| filled(line, run).ok());
    let losses = run.results.losses();
    let peers = [name::TOKIO, name::DELAY_QUEUE, name::PINGORA];
    let better = peers.into_iter().filter_map(move |peer| {
        let of_peer = losses.iter().filter(|loss| loss.peer == peer);
        better_at(peer, of_peer.collect())
    });
    lines.chain(better)
}

fn better_at(peer: &str, mut losses: Vec<&Loss>) -> Option<String> {
    losses.sort_by(|one, other| other.times.total_cmp(&one.times));
    let more = losses.len().saturating_sub(NAMED);
    let named: Vec<String> = losses
        .iter()
        .take(NAMED)
        .map(|loss| format!("{} ({:.2} times)", loss.row, loss.times))
        .collect();
    let more = match more {
        0 => String::new(),
        1 => "; and in one more row".to_owned(),
        more => format!("; and in {more} more rows"),
    };
    (!named.is_empty()).then(|| format!("**{peer} is better** in: {}{more}.", named.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Record;
    use crate::report::{Facts, Results};

    #[test]
    fn a_run_of_some_parts_has_the_lines_of_these() {
        let record = |row, who, figure| Record::new(row, who, vec![figure]);
        let run = Run {
            facts: Facts::default(),
            results: Results {
                records: vec![
                    record("map-1", name::TICKWHEEL, 10.0),
                    record("map-1", name::MUTEX_MAP, 20.0),
                    record("memory-sleep", name::TICKWHEEL, 100.0),
                    record("memory-sleep", name::TOKIO, 120.0),
                    record("memory-sleep", name::DELAY_QUEUE, 50.0),
                ],
                ..Results::default()
            },
        };
        let lines: Vec<String> = in_short(&run).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("10 ns; a `Mutex`"), "{}", lines[0]);
        assert!(lines[1].contains("100 bytes, tokio's 120"), "{}", lines[1]);
        let expected = "**DelayQueue is better** in: an armed sleep, at 1,000,000 (2.00 times).";
        assert_eq!(lines[2], expected);
    }
}
