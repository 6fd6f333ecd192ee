#!/usr/bin/env bash
# Library: ntex 3.12.3, `ntex::time::sleep(Millis(1))`
# Guess: a millisecond, or two by the rounding.
# Seen: 16 ms. The timer of each thread has slots of 16 ms, and never fires early.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
mkdir src
cat >src/main.rs <<'END'
use std::time::{Duration, Instant};

use ntex::time::{Millis, sleep};

fn main() {
    ntex::rt::System::new("finding", ntex::rt::DefaultRuntime).block_on(async {
        for asked in [1, 10] {
            let mut shortest = Duration::MAX;
            for _ in 0..50 {
                let start = Instant::now();
                sleep(Millis(asked)).await;
                shortest = shortest.min(start.elapsed());
            }
            println!("{asked} ms: at least {} ms", shortest.as_millis());
        }
    });
}
END
rust_program <<'END'
ntex = { version = "=3.12.3", features = ["tokio"] }
END
expect "$("$program")" <<'END'
1 ms: at least 16 ms
10 ms: at least 16 ms
END
