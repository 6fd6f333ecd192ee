//! `RESULTS.md`: first what a person reads, then every row.

use super::tables::{self, Style};
use super::{Run, TOKIO_LOCKS, summary};
use crate::goals::Mark;
use crate::rows::Section;

/// Measured apart, because the flag changes the build of all contenders.
const ALTERNATIVE: &str = "\
    tokio's alternative timer is a contender in a build with `--cfg tokio_unstable` alone. For a timeout that is armed and\n\
    dropped on 2 threads, `RUSTFLAGS=\"--cfg tokio_unstable\" cargo run --release -p tickwheel-bench -- --only pending`\n\
    measured 379 ns with tokio's usual timer, 188 ns with the alternative one, and 82 to 83 ns with a held timer on either\n\
    (2026-11-26, two cores that were shared).";

/// The whole of a run.
pub fn markdown(run: &Run) -> String {
    let (facts, results) = (&run.facts, &run.results);
    let packages: Vec<String> = facts
        .packages
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let section = |section: Section| tables::rows(results, section, Style::Markdown);
    let (goals, missed) =
        tables::the_goals(results, Style::Markdown, &[Mark::Missed, Mark::OnTheLine]);
    format!(
        "# Results\n\n\
         Written whole by `cargo run --release -p tickwheel-bench`. `benches/src/lib.rs` says how it measures.\n\
         Figures are medians.\n\n\
         - **held timer**: a `Timer` that the task keeps, its deadlines and its maps.\n\
         - **free function**: `tickwheel::timeout` and the like, as after a change of `use`.\n\
         - **global timer**: `Timer::global`.\n\
         - **tickwheel is**: how many times better tickwheel is. This is the median of the rounds\' ratios, and not the\n  \
           ratio of the medians. Below 1 the peer is ahead. «equal» is a ratio whose quartiles lie on both sides of 1.\n\n\
         {}\n\n\
         ![CPU of a program against its rate of timeouts](charts/programs.svg)\n\n\
         The run:\n\n- {}\n- {}\n- {}\n- rustc {}, {} cores of {}, {}\n\n\
         ## Where others are better\n\n\
         Every row in which a peer is ahead, but those of lateness:\n\n{}\n\
         ## Goals that are not reached\n\n\
         {missed} are missed. On the line is a goal that lies between the quartiles.\n\n{goals}\n\n\
         ## Idioms\n\n\
         With the free functions, the time of the channel included.\n\n{}\n\n\
         ## Whole programs\n\n{}\n\n\
         ## How late\n\n\
         In milliseconds, ours and then the peer\'s: each figure is the median of the rounds, and «max» is the latest timer of\n\
         a round. With 0 workers the runtime is on the current thread. `benches/src/parts/lateness/` has the loads.\n\n\
         {}\n\n\
         ## Operations\n\n\
         Nanoseconds are for each operation, of one core; with 4 threads on fewer cores the time that a thread waits for a\n\
         core is not counted.\n\n\
         {}\n\n\
         {}\n\n\
         ![growth](charts/armed.svg)\n\n![growth, at random](charts/replace.svg)\n\n\
         ## Memory\n\n{}\n\n\
         ## What is counted\n\n\
         Atomic writes are instructions with `lock`, and `xchg` with memory, that a call on a worker executes. Shared are those\n\
         to cache lines that calls on two workers write.\n\n{}\n",
        summary::table(results),
        facts.date,
        packages.join(", "),
        TOKIO_LOCKS,
        facts.rustc,
        facts.cores,
        facts.cpu,
        facts.system,
        tables::where_we_lose(results),
        section(Section::Idioms),
        section(Section::Programs),
        tables::lateness(results, Style::Markdown),
        section(Section::Operations),
        ALTERNATIVE,
        section(Section::Memory),
        section(Section::Costs),
    )
}
