//! How many atomic writes a call makes, and how many of them go to lines that all workers write:
//! what holds up a machine with many cores, counted on one with few.
//!
//! Counted are the instructions with the prefix `lock`, and `xchg` with memory, that a call
//! executes on a worker. valgrind's tool lackey runs this program and prints each instruction with
//! the addresses that it reads and writes. The bytes of an instruction are those of the program's
//! file, so an allocator in another file does not count. First one worker makes the calls, and then
//! another. A line that the calls of both write is shared.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::future::poll_fn;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use tickwheel::Timer;
use tokio::time::Instant;

use super::pending::hand;
use super::reset::{connect, owned, reset_owned};
use crate::harness::{Hand, Standing, TIMEOUT, operation, runtime};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "writes",
    about: "atomic writes of a call, and how many of them go to shared lines",
    state: "A standing sleep is due before all others. Unlike a server: a call is made over and \
            over, first on one worker and then on another, and never on both at once. Nearly all \
            resets are not the first in their tick, and write nothing; a server's is the first, \
            and writes once.",
    how: How::Apart {
        contenders: &[name::TICKWHEEL, name::DROP_IN, name::TOKIO],
        rounds: 1,
        run,
    },
};

/// With it the program is the one that is watched: it says which row.
const WATCHED: &str = "TICKWHEEL_WATCHED";
const ROWS: [&str; 3] = ["ready", "armed", "reset"];
const CALLS: usize = 200;

fn run(contender: &str, _: &Settings) -> Vec<(String, f64)> {
    if let Ok(row) = env::var(WATCHED) {
        be_watched(&row, contender);
        return Vec::new();
    }
    let works = Command::new("valgrind").arg("--version").output().is_ok();
    if !works || cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        eprintln!("skipped: needs valgrind, on Linux and x86-64");
        return Vec::new();
    }
    let mut figures = Vec::new();
    for row in ROWS {
        let (all, shared) = watch(row, contender);
        figures.push((format!("writes-{row}"), all));
        figures.push((format!("writes-{row}-shared"), shared));
    }
    figures
}

// The program that is watched.

/// Its writes divide what is counted from what is not.
static MARK: AtomicUsize = AtomicUsize::new(0);

fn be_watched(row: &str, contender: &str) {
    println!("mark {:p}", &MARK);
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux has it");
    maps.lines().for_each(|line| println!("map {line}"));
    let runtime = runtime(2);
    let _standing = Standing::of(contender, &runtime);
    let (ended, wait) = mpsc::channel();
    let mut held = Vec::new();
    for _ in 0..2 {
        let (release, until) = mpsc::channel::<()>();
        let (ended, row, contender) = (ended.clone(), row.to_owned(), contender.to_owned());
        // A task's own waker is counted, as it is armed in a program.
        runtime.spawn(poll_fn(move |cx| {
            let mut call = call(&row, &contender);
            call.run(cx, CALLS); // What is made at first does not count.
            thread::sleep(Duration::from_millis(100));
            MARK.store(1, Ordering::SeqCst);
            call.run(cx, CALLS);
            MARK.store(2, Ordering::SeqCst);
            ended.send(()).expect("the other side waits");
            // So the other task runs on the other worker.
            until.recv().ok();
            Poll::Ready(())
        }));
        wait.recv().expect("no call panics");
        held.push(release);
    }
}

/// Within a task, what the row is about.
fn call(row: &str, contender: &str) -> Hand {
    match (row, contender) {
        ("ready", _) => hand::<true>(contender, Timer::current()),
        ("armed", _) => hand::<false>(contender, Timer::current()),
        (_, name::TICKWHEEL) => {
            let handle = connect();
            operation(move |_, times| (0..times).for_each(|_| assert!(handle.reset())))
        }
        (_, name::DROP_IN) => {
            let mut sleep = Box::pin(tickwheel::sleep(TIMEOUT));
            assert!(sleep.as_mut().now_or_never().is_none());
            operation(move |_, times| {
                (0..times).for_each(|_| sleep.as_mut().reset(Instant::now() + TIMEOUT));
            })
        }
        _ => {
            let mut sleep = owned();
            operation(move |_, times| (0..times).for_each(|_| reset_owned(&mut sleep)))
        }
    }
}

// The program that watches.

/// Atomic writes of a call, and those of them that go to shared lines.
fn watch(row: &str, contender: &str) -> (f64, f64) {
    let program = env::current_exe().expect("the program has a path");
    let mut valgrind = Command::new("valgrind")
        .args([
            "--tool=lackey",
            "--trace-mem=yes",
            "--fair-sched=yes",
            "--log-fd=1",
        ])
        .arg(&program)
        .args(["--inside", PART.name, "--contender", contender])
        .env(WATCHED, row)
        .stdout(Stdio::piped())
        .spawn()
        .expect("valgrind starts");
    let mut trace = Trace {
        bytes: fs::read(&program).expect("the program can be read"),
        program: program.display().to_string(),
        ..Trace::default()
    };
    let printed = BufReader::new(valgrind.stdout.take().expect("it is piped"));
    printed
        .lines()
        .map_while(Result::ok)
        .for_each(|line| trace.line(&line));
    assert!(valgrind.wait().is_ok_and(|status| status.success()));
    assert_eq!(
        trace.marks, 4,
        "each worker makes its calls between two marks"
    );
    let calls = |times: usize| (times as f64 / CALLS as f64).round();
    let lines = trace.writes.values();
    let is_shared = |each: &&[usize; 2]| each.iter().all(|times| *times >= CALLS / 2);
    (
        calls(lines.clone().map(|[_, times]| times).sum()),
        calls(lines.filter(is_shared).map(|[_, times]| times).sum()),
    )
}

#[derive(Default)]
struct Trace {
    program: String,
    bytes: Vec<u8>,
    /// Where the code of the program lies in memory, and where in the file.
    code: Range<usize>,
    offset: usize,
    mark: usize,
    marks: usize,
    /// Whether the present instruction is an atomic write.
    is_atomic: bool,
    /// For each line of 64 bytes, how often each of the two workers wrote it atomically.
    writes: HashMap<usize, [usize; 2]>,
}

impl Trace {
    fn line(&mut self, line: &str) {
        let hex = |text: &str| usize::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["mark", address] => self.mark = hex(address).expect("an address"),
            ["map", range, "r-xp", offset, .., path] if path == self.program => {
                let (start, end) = range.split_once('-').expect("a range");
                self.code = hex(start).expect("a number")..hex(end).expect("a number");
                self.offset = hex(offset).expect("a number");
            }
            [kind @ ("I" | "S" | "M"), access] => {
                let Some((address, size)) = access.split_once(',') else {
                    return;
                };
                let (Some(address), Ok(size)) = (hex(address), size.parse()) else {
                    return;
                };
                match kind {
                    "I" => self.is_atomic = self.is_atomic_at(address, size),
                    _ if address == self.mark => self.marks += 1,
                    _ if self.is_atomic && self.marks % 2 == 1 => {
                        let times = self.writes.entry(address / 64).or_default();
                        times[self.marks / 2] += 1;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn is_atomic_at(&self, address: usize, size: usize) -> bool {
        let at = || address - self.code.start + self.offset;
        self.code.contains(&address) && is_atomic(&self.bytes[at()..at() + size])
    }
}

/// Whether an instruction of x86-64 has the prefix `lock`, or is an `xchg` with memory.
fn is_atomic(instruction: &[u8]) -> bool {
    const LOCK: u8 = 0xf0;
    let is_prefix = |byte: &u8| {
        matches!(
            *byte,
            0x66 | 0x67 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0xf2 | 0xf3 | LOCK
        )
    };
    let prefixes = instruction
        .iter()
        .take_while(|byte| is_prefix(byte))
        .count();
    let (prefixes, rest) = instruction.split_at(prefixes);
    let rest = match rest {
        [0x40..=0x4f, rest @ ..] => rest, // REX
        rest => rest,
    };
    prefixes.contains(&LOCK) || matches!(rest, [0x86 | 0x87, modrm, ..] if modrm >> 6 != 3)
}

#[cfg(test)]
mod tests {
    use super::is_atomic;

    #[test]
    fn an_atomic_write_is_known_by_its_bytes() {
        for (bytes, atomic) in [
            (&[0xf0, 0x48, 0x0f, 0xb1, 0x0f][..], true), // lock cmpxchg [rdi], rcx
            (&[0x48, 0x87, 0x07], true),                 // xchg [rdi], rax
            (&[0x48, 0x87, 0xc3], false),                // xchg rbx, rax
            (&[0x48, 0x89, 0x07], false),                // mov [rdi], rax
            (&[0x0f, 0xf0, 0x07], false),                // lddqu, whose opcode has that byte
        ] {
            assert_eq!(is_atomic(bytes), atomic, "{bytes:x?}");
        }
    }
}
