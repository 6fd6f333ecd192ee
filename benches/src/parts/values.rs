//! A million values that wait and come out of one stream, and 10,000 at a time: what each costs
//! from its insert on, and how late it is.
//!
//! Both `DelayQueue`s know no keys of the program's, and one task alone can use them. The
//! `DelayMap` knows keys, and any task can use it. A program that has keys and one task holds them
//! in a `HashMap` next to a `DelayQueue`.

use std::collections::HashMap;
use std::future::Future;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use futures_util::StreamExt;
use hdrhistogram::Histogram;
use tickwheel::{DelayMap, Timer};
use tickwheel_util::time::DelayQueue as OurQueue;
use tokio_util::time::DelayQueue;

use crate::harness::{Standing, runtime};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "values",
    about: "1,000,000 values out of one stream over 2 s, and 10,000 at a time: CPU, lateness",
    state: "The values are due first, and a sleep stands behind them. Unlike a server: one task \
            inserts all values before it takes the first one, every value comes out, and none is \
            reset or removed.",
    how: How::Apart {
        contenders: &[
            name::TICKWHEEL,
            name::RECV_MANY,
            name::QUEUE,
            name::HASH_MAP,
            name::DELAY_QUEUE,
        ],
        rounds: 5,
        run,
    },
};

/// A million at once, and 10,000 at a time, a hundred times. Both are as dense: 500 are due in a
/// millisecond. With the name of the rows, and how many of the figures have one.
const SIZES: [(u32, u32, &str, usize); 2] = [
    (1_000_000, 1, "values", 4),
    (10_000, 100, "values-10000", 1),
];

/// Through a queue of either crate.
macro_rules! through {
    ($contender:ident, $queue:ident, $values:ident) => {
        measure($contender, async move {
            let mut queue = $queue::new();
            while $values.start() {
                for _ in 0..$values.count {
                    let (due, after) = $values.due();
                    queue.insert(due, after);
                }
                while $values.left > 0 {
                    let expired = queue.next().await.expect("there are more");
                    $values.took(expired.into_inner());
                }
            }
            $values
        })
    };
}

fn run(contender: &str, settings: &Settings) -> Vec<(String, f64)> {
    let figures = SIZES.into_iter().flat_map(|(count, times, name, rows)| {
        let mut values = Values::new(count, times, settings);
        let found = match contender {
            name::TICKWHEEL => measure(contender, through_map(values, 1)),
            name::RECV_MANY => measure(contender, through_map(values, 256)),
            name::QUEUE => through!(contender, OurQueue, values),
            name::HASH_MAP => measure(contender, through_hash_map(values)),
            _ => through!(contender, DelayQueue, values),
        };
        let row = |row: &str| format!("{name}-{row}");
        let rows = ["cpu", "p50", "p99", "max"].into_iter().map(row).take(rows);
        rows.zip(found).collect::<Vec<_>>()
    });
    figures.collect()
}

/// `limit` values are taken at once.
async fn through_map(mut values: Values, limit: usize) -> Values {
    let (map, mut expired) = DelayMap::new(&Timer::current());
    let mut some = Vec::with_capacity(limit);
    while values.start() {
        for key in 0..values.count {
            let (due, after) = values.due();
            map.insert(key, due, after).expect("the map is open");
        }
        while values.left > 0 {
            if limit == 1 {
                values.took(expired.recv().await.expect("the map is open").value);
                continue;
            }
            assert_ne!(expired.recv_many(&mut some, limit).await, 0);
            some.drain(..)
                .for_each(|expired| values.took(expired.value));
        }
    }
    values
}

/// By key too, as a program writes it that has one task. The key in the queue is for a removal.
async fn through_hash_map(mut values: Values) -> Values {
    let (mut map, mut queue) = (HashMap::new(), DelayQueue::new());
    while values.start() {
        for key in 0..values.count {
            let (due, after) = values.due();
            map.insert(key, (due, queue.insert(key, after)));
        }
        while values.left > 0 {
            let expired = queue.next().await.expect("there are more");
            let (due, _) = map.remove(expired.get_ref()).expect("its key is there");
            values.took(due);
        }
    }
    values
}

/// CPU, and how late the values were: the median, 99 % and the latest.
fn measure(contender: &str, values: impl Future<Output = Values> + Send + 'static) -> [f64; 4] {
    let runtime = runtime(2);
    let _standing = Standing::of(contender, &runtime);
    runtime.block_on(async {
        let cpu = ProcessTime::now();
        let values = tokio::spawn(values).await.expect("the task does not panic");
        let cpu = cpu.elapsed().as_nanos() as f64 / values.late.len() as f64;
        let late = |quantile| values.late.value_at_quantile(quantile) as f64 / 1e3;
        [cpu, late(0.5), late(0.99), late(1.0)]
    })
}

/// When the values are due, and how late the values were that came out.
struct Values {
    count: u32,
    times: u32,
    left: u32,
    begin: Instant,
    /// All values are to be in before the first one is due.
    before: Duration,
    span: Duration,
    /// In microseconds.
    late: Histogram<u64>,
}

impl Values {
    fn new(count: u32, times: u32, settings: &Settings) -> Values {
        let count = settings.either(count, count / 20);
        Values {
            count,
            times: settings.either(times, 1),
            left: 0,
            begin: Instant::now(),
            before: Duration::from_micros(settings.either(1, 2)) * count,
            span: Duration::from_micros(2) * count,
            late: Histogram::new(3).expect("three digits are allowed"),
        }
    }

    /// Whether there is one more time.
    fn start(&mut self) -> bool {
        self.left = self.count;
        self.begin = Instant::now() + self.before;
        self.times = self.times.wrapping_sub(1);
        self.times != u32::MAX
    }

    /// The value, which is the instant at which it is due, and its delay.
    fn due(&self) -> (Instant, Duration) {
        let due = self.begin + self.span.mul_f64(fastrand::f64());
        (due, due.saturating_duration_since(Instant::now()))
    }

    fn took(&mut self, due: Instant) {
        self.left -= 1;
        let late = Instant::now().duration_since(due).as_micros() as u64;
        self.late.record(late).expect("it grows by itself");
    }
}
