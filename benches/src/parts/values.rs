//! A million values that wait and come out of one stream, and 10,000 at a time: what each costs
//! from its insert on, and how late it is.
//!
//! Both `DelayQueue`s know no keys of the program's, and one task alone can use them. The
//! `DelayMap` knows keys, and any task can use it.

use std::future::Future;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use futures_util::{Stream, StreamExt};
use hdrhistogram::Histogram;
use tickwheel::{DelayMap, Timer};
use tokio_util::time::DelayQueue;

use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "values",
    about: "1,000,000 values out of one stream over 2 s, and 10,000 at a time: CPU, lateness",
    how: How::Apart {
        contenders: &[
            name::TICKWHEEL,
            name::RECV_MANY,
            name::PARTS_256,
            name::QUEUE,
            name::DELAY_QUEUE,
        ],
        rounds: 5,
        run,
    },
};

/// A million at once, and 10,000 at a time, a hundred times. Both are as dense: 500 are due in a
/// millisecond.
const SIZES: [(u32, u32, &[&str]); 2] = [
    (
        1_000_000,
        1,
        &["values-cpu", "values-p50", "values-p99", "values-max"],
    ),
    (10_000, 100, &["values-10000-cpu"]),
];

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
    let sizes = SIZES.into_iter();
    sizes
        .flat_map(|(count, times, rows)| {
            let values = Values::new(count, settings);
            let times = settings.either(times, 1);
            let found = match contender {
                name::TICKWHEEL => measure(through_map(values, times, (None, 1))),
                name::RECV_MANY => measure(through_map(values, times, (None, 256))),
                name::PARTS_256 => measure(through_map(values, times, (Some(256), 1))),
                name::QUEUE => measure(through(
                    values,
                    times,
                    tickwheel::DelayQueue::new,
                    |queue, due, after| _ = queue.insert(due, after),
                    |expired| expired.into_inner(),
                )),
                _ => measure(through(
                    values,
                    times,
                    DelayQueue::new,
                    |queue, due, after| _ = queue.insert(due, after),
                    |expired| expired.into_inner(),
                )),
            };
            let record = |(row, value): (&&str, _)| Record::new(row, contender, vec![value]);
            rows.iter().zip(found).map(record).collect::<Vec<_>>()
        })
        .collect()
}

/// How many shards the timer has, and how many values are taken at once.
type Way = (Option<usize>, usize);

async fn through_map(mut values: Values, times: u32, (shards, limit): Way) -> Values {
    let timer = match shards {
        Some(shards) => Timer::builder().shards(shards).build(),
        None => Ok(Timer::current()),
    };
    let (map, mut expired) = DelayMap::new(&timer.expect("so many are allowed"));
    let mut some = Vec::with_capacity(limit);
    for _ in 0..times {
        values.start();
        for key in 0..values.count {
            let due = values.due();
            let after = due.saturating_duration_since(Instant::now());
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

/// Through a queue of either crate.
async fn through<Q: Stream + Unpin>(
    mut values: Values,
    times: u32,
    queue: fn() -> Q,
    insert: fn(&mut Q, Instant, Duration),
    into_inner: fn(Q::Item) -> Instant,
) -> Values {
    let mut queue = queue();
    for _ in 0..times {
        values.start();
        for _ in 0..values.count {
            let due = values.due();
            let after = due.saturating_duration_since(Instant::now());
            insert(&mut queue, due, after);
        }
        while values.left > 0 {
            let expired = queue.next().await.expect("there are more");
            values.took(into_inner(expired));
        }
    }
    values
}

/// CPU, and how late the values were: the median, 99 % and the latest.
fn measure(values: impl Future<Output = Values> + Send + 'static) -> [f64; 4] {
    runtime(2).block_on(async {
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
    left: u32,
    begin: Instant,
    /// All values are to be in before the first one is due.
    before: Duration,
    span: Duration,
    /// In microseconds.
    late: Histogram<u64>,
}

impl Values {
    fn new(count: u32, settings: &Settings) -> Values {
        let count = settings.either(count, count / 20);
        Values {
            count,
            left: 0,
            begin: Instant::now(),
            before: settings.either(Duration::from_micros(1), Duration::from_micros(2)) * count,
            span: Duration::from_micros(2) * count,
            late: Histogram::new(3).expect("three digits are allowed"),
        }
    }

    fn start(&mut self) {
        self.left = self.count;
        self.begin = Instant::now() + self.before;
    }

    fn due(&self) -> Instant {
        self.begin + self.span.mul_f64(fastrand::f64())
    }

    fn took(&mut self, due: Instant) {
        self.left -= 1;
        let late = Instant::now().duration_since(due).as_micros() as u64;
        self.late.record(late).expect("it grows by itself");
    }
}
