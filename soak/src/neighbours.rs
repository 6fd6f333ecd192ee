//! How much of the machine other programs took meanwhile. On a busy machine, threads that should
//! contend do not run at once, and no median helps against that, so the program tells it.

use std::fs;

/// How much time of all cores had passed when it was read, in the units of `/proc/stat`.
#[derive(Clone, Copy)]
pub struct Neighbours {
    all: u64,
    busy: u64,
    /// The share of the busy time that this process took, with those that it started and waited
    /// for.
    own: u64,
}

impl Neighbours {
    /// `None` where the system does not tell it. Linux does.
    pub fn now() -> Option<Neighbours> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let cores: Vec<u64> = numbers(stat.lines().next()?.strip_prefix("cpu")?)
            .take(8) // The rest is counted among these already.
            .collect();
        let all = cores.iter().sum();
        let idle = cores.get(3)? + cores.get(4)?;

        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name may have blanks, and ends with the last bracket. Of the fields after it, the
        // 12th to 15th are our time and our children's.
        let own = numbers(stat.rsplit_once(") ")?.1.split_once(' ')?.1)
            .skip(10)
            .take(4)
            .sum();
        Some(Neighbours {
            all,
            busy: all - idle,
            own,
        })
    }

    /// The share of the machine that others took since `earlier`, from 0 to 1.
    pub fn share_since(&self, earlier: &Neighbours) -> f64 {
        let busy = (self.busy - earlier.busy) as f64;
        let own = (self.own - earlier.own) as f64;
        let all = (self.all - earlier.all).max(1) as f64;
        ((busy - own) / all).clamp(0.0, 1.0)
    }
}

fn numbers(text: &str) -> impl Iterator<Item = u64> {
    // Some fields can be negative. None of those counts here.
    text.split_whitespace()
        .map(|number| number.parse().unwrap_or(0))
}
