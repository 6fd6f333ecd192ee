//! A million values that wait and come out of one stream: what each costs from its insert on, and
//! how late it is.
//!
//! The `DelayQueue` is bare: it knows no keys of the program's, and one task alone can use it.

use std::future::Future;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use futures_util::StreamExt;
use hdrhistogram::Histogram;
use tickwheel::{DelayMap, Timer};
use tokio_util::time::DelayQueue;

use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "values",
    about: "1,000,000 values that come out of one stream over 2 s: CPU, lateness",
    how: How::Apart {
        contenders: &[name::TICKWHEEL, name::DELAY_QUEUE],
        rounds: 5,
        run,
    },
};

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
    let settings = settings.clone();
    match contender {
        name::TICKWHEEL => measure(contender, async move {
            let (map, mut expired) = DelayMap::new(&Timer::current());
            let mut values = Values::new(&settings);
            for key in 0..values.count {
                let due = values.due();
                let after = due.saturating_duration_since(Instant::now());
                map.insert(key, due, after).expect("the map is open");
            }
            while values.left > 0 {
                values.took(expired.recv().await.expect("the map is open").value);
            }
            values
        }),
        _ => measure(contender, async move {
            let mut queue = DelayQueue::new();
            let mut values = Values::new(&settings);
            for _ in 0..values.count {
                let due = values.due();
                queue.insert(due, due.saturating_duration_since(Instant::now()));
            }
            while values.left > 0 {
                let expired = queue.next().await.expect("there are more");
                values.took(expired.into_inner());
            }
            values
        }),
    }
}

fn measure(contender: &str, values: impl Future<Output = Values> + Send + 'static) -> Vec<Record> {
    runtime(2).block_on(async {
        let cpu = ProcessTime::now();
        let values = tokio::spawn(values).await.expect("the task does not panic");
        let cpu = cpu.elapsed().as_nanos() as f64 / f64::from(values.count);
        let late = |quantile| values.late.value_at_quantile(quantile) as f64 / 1e3;
        let record = |row, value| Record::new(row, contender, vec![value]);
        vec![
            record("values-cpu", cpu),
            record("values-p50", late(0.5)),
            record("values-p99", late(0.99)),
            record("values-max", late(1.0)),
        ]
    })
}

/// When the values are due, and how late the values were that came out.
struct Values {
    count: u32,
    left: u32,
    /// All values are to be in the map before the first one is due.
    begin: Instant,
    span: Duration,
    /// In microseconds.
    late: Histogram<u64>,
}

impl Values {
    fn new(settings: &Settings) -> Values {
        let count = settings.either(1_000_000, 50_000);
        let before = settings.either(Duration::from_millis(1_000), Duration::from_millis(100));
        Values {
            count,
            left: count,
            begin: Instant::now() + before,
            span: settings.either(Duration::from_millis(2_000), Duration::from_millis(100)),
            late: Histogram::new(3).expect("three digits are allowed"),
        }
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
