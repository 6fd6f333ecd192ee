//! Cutting a failing program down: leave out a part, and keep what still fails.

use std::fmt;

use super::program::{Op, Program};
use super::replay;

/// Returns the shortest failing program that at most so many runs found, and how it fails.
pub(super) fn shrink(program: Program, message: String, runs: usize) -> (Program, String) {
    let mut best = (program, message);
    let mut left = runs;
    let mut part = best.0.ops.len().div_ceil(2);
    while part > 0 && left > 0 {
        let mut has_shrunk = false;
        let mut from = 0;
        while from < best.0.ops.len() && left > 0 {
            let mut ops = best.0.ops.clone();
            ops.drain(from..(from + part).min(best.0.ops.len()));
            let candidate = Program {
                ops,
                ..best.0.clone()
            };
            left -= 1;
            match replay(&candidate) {
                Err(message) => {
                    best = (candidate, message);
                    has_shrunk = true;
                }
                Ok(_) => from += part,
            }
        }
        if !has_shrunk || part > best.0.ops.len() {
            part /= 2;
        }
    }
    simplify(&mut best, left);
    best
}

/// Runs operations, and cuts them down if they fail: one after the other, for as long as that
/// helps. An error has the fewest that were found.
pub(crate) fn one_by_one<Op: Clone + fmt::Debug, R>(
    mut ops: Vec<Op>,
    run: impl Fn(&[Op]) -> Result<R, String>,
) -> Result<R, String> {
    let mut outcome = run(&ops);
    let mut before = usize::MAX;
    while outcome.is_err() && ops.len() < before {
        before = ops.len();
        for number in (0..before).rev() {
            let mut fewer = ops.clone();
            fewer.remove(number);
            if let Err(message) = run(&fewer) {
                (ops, outcome) = (fewer, Err(message));
            }
        }
    }
    outcome.map_err(|message| format!("{ops:#?}\n{message}"))
}

/// Tries smaller numbers, and one timer.
fn simplify(best: &mut (Program, String), mut left: usize) {
    let try_it = |candidate: Program, best: &mut (Program, String)| {
        if let Err(message) = replay(&candidate) {
            *best = (candidate, message);
        }
    };
    let alone = Program {
        timers: best.0.timers[..1].to_vec(),
        ..best.0.clone()
    };
    try_it(alone, best);
    for timer in 0..best.0.timers.len() {
        let mut plain = best.0.clone();
        plain.timers[timer].1 = 1;
        try_it(plain, best);
    }
    for number in 0..best.0.ops.len() {
        for smaller in smaller(&best.0.ops[number]) {
            if left == 0 {
                return;
            }
            left -= 1;
            let mut candidate = best.0.clone();
            candidate.ops[number] = smaller;
            try_it(candidate, best);
        }
    }
}

fn smaller(op: &Op) -> Vec<Op> {
    match *op {
        Op::Burst(timer, count, after, spread, seed) => [1, 20, 255, 257]
            .into_iter()
            .filter(|&fewer| fewer < count)
            .map(|count| Op::Burst(timer, count, after, spread, seed))
            .collect(),
        Op::Churn(keys, count, seed) => [1, 20, 255]
            .into_iter()
            .filter(|&fewer| fewer < count)
            .map(|count| Op::Churn(keys, count, seed))
            .collect(),
        Op::Advance(by) => vec![Op::Advance(by / 1_000 * 1_000)],
        Op::RunFor(by) => vec![Op::RunFor(by / 1_000 * 1_000)],
        _ => Vec::new(),
    }
}
