//! `known CASE THREADS TIMES`: cases whose number of transfers for each operation is known, to
//! check the plugin.

use std::env;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;

use tickwheel_cores::{begin, end};

/// On cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Own<T>(T);

#[derive(Default)]
struct Shared {
    there: Own<AtomicU64>,
    done: Own<AtomicU64>,
    count: Own<AtomicU64>,
    near: Own<[AtomicU64; 8]>,
}

impl Shared {
    fn once(&self, case: &str, thread: usize, own: &Mutex<u64>) {
        match case {
            // 0: each thread has its own.
            "own-mutex" => *own.lock().unwrap() += 1,
            // 0: no thread writes.
            "shared-read" => _ = black_box(self.count.0.load(Relaxed)),
            // 1 for each, from two threads on.
            "shared-count" => _ = self.count.0.fetch_add(1, Relaxed),
            // 1 for each, from two threads on: the eight words lie in one line.
            "false-sharing" => _ = self.near.0[thread % 8].fetch_add(1, Relaxed),
            _ => panic!("there is no case {case}"),
        }
    }
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let [_, case, threads, times] = &arguments[..] else {
        panic!("known CASE THREADS TIMES");
    };
    let threads: usize = threads.parse().expect("a number");
    let times: u64 = times.parse().expect("a number");
    let shared = Shared::default();
    let run = |thread: usize| {
        let own = Own(Mutex::new(0));
        let once = |_| shared.once(case, thread, &own.0);
        // It goes on until all are there, and until all are done, so that none counts alone.
        let go_on = |here: &AtomicU64| {
            here.fetch_add(1, SeqCst);
            while here.load(SeqCst) < threads as u64 {
                (0..4).for_each(once);
            }
        };
        go_on(&shared.there.0);
        begin();
        (0..times).for_each(once);
        end();
        go_on(&shared.done.0);
    };
    thread::scope(|scope| {
        for thread in 0..threads {
            let run = &run;
            scope.spawn(move || run(thread));
        }
    });
}
