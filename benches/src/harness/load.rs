//! Contenders that stand in a server, a client or a proxy: how many requests a second they let
//! through, and what a request costs on the thread whose timers are compared.
//!
//! A contender is set up anew for each of its turns. So no timer of another contender is armed
//! meanwhile, and the luck of a set-up, in ports and in the heap, stays with nobody.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use tokio::runtime::{Handle, Runtime};

use super::Record;
use crate::settings::Settings;

/// Sends requests, one after the other.
pub trait Client: Send + 'static {
    /// Sends a request and waits for its answer.
    fn request(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

/// What a contender needs for one turn. Fields are dropped in this order.
pub struct Scene<C> {
    /// They all have a request under way during the turn.
    pub clients: Vec<C>,
    /// The runtime of the clients: one of the two below.
    pub clients_on: Handle,
    /// The other side of the sockets, if it has a thread of its own.
    pub other: Option<Runtime>,
    /// Has the timers that are compared, and one worker. The CPU of that thread counts.
    pub measured: Runtime,
}

/// Lets contenders take turns, and records for each the rows `<part>-rate` and `<part>-cpu`.
pub fn load<C: Client>(
    part: &str,
    contenders: &[&'static str],
    settings: &Settings,
    mut set_up: impl FnMut(&'static str) -> Scene<C>,
) -> Vec<Record> {
    let rounds = settings.either(51, 3);
    let warm_up = settings.either(Duration::from_millis(30), Duration::from_millis(20));
    let sample = settings.either(Duration::from_millis(90), Duration::from_millis(40));
    let mut samples: Vec<Vec<Took>> = contenders.iter().map(|_| Vec::new()).collect();
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    for _ in 0..rounds {
        fastrand::shuffle(&mut order);
        for &index in &order {
            samples[index].push(set_up(contenders[index]).turn(warm_up, sample));
        }
    }
    let record = |row: &str, contender: &str, samples: &[Took], figure: fn(&Took) -> f64| {
        let samples = samples.iter().map(figure).collect();
        Record::new(&format!("{part}-{row}"), contender, samples)
    };
    let each = contenders.iter().zip(&samples);
    each.flat_map(|(contender, samples)| {
        [
            record("rate", contender, samples, |took| took.rate),
            record("cpu", contender, samples, |took| took.cpu),
        ]
    })
    .collect()
}

/// What one contender did in one turn.
struct Took {
    /// Requests a second.
    rate: f64,
    /// Nanoseconds of the measured thread for each request.
    cpu: f64,
}

#[derive(Default)]
struct Turn {
    is_over: AtomicBool,
    requests: AtomicU64,
}

/// What the measured thread has done up to a moment.
struct Look {
    at: Instant,
    requests: u64,
    cpu: Duration,
}

impl<C: Client> Scene<C> {
    fn turn(mut self, warm_up: Duration, sample: Duration) -> Took {
        let turn = Arc::new(Turn::default());
        let tasks: Vec<_> = std::mem::take(&mut self.clients)
            .into_iter()
            .map(|client| self.clients_on.spawn(requests(client, turn.clone())))
            .collect();
        sleep(warm_up);
        let before = self.look(&turn);
        sleep(sample);
        let after = self.look(&turn);
        turn.is_over.store(true, Ordering::Relaxed);
        for task in tasks {
            let client = self.clients_on.block_on(task);
            self.clients.push(client.expect("no client panics"));
        }
        let requests = (after.requests - before.requests) as f64;
        Took {
            rate: requests / (after.at - before.at).as_secs_f64(),
            cpu: (after.cpu - before.cpu).as_nanos() as f64 / requests,
        }
    }

    /// Looks from a task: that is on the one worker, so the time of its thread is the worker's.
    fn look(&self, turn: &Arc<Turn>) -> Look {
        let turn = turn.clone();
        let look = self.measured.spawn(async move {
            Look {
                at: Instant::now(),
                requests: turn.requests.load(Ordering::Relaxed),
                cpu: ThreadTime::now().as_duration(),
            }
        });
        self.measured.block_on(look).expect("a look does not panic")
    }
}

async fn requests<C: Client>(mut client: C, turn: Arc<Turn>) -> C {
    while !turn.is_over.load(Ordering::Relaxed) {
        client.request().await.expect("the request is answered");
        turn.requests.fetch_add(1, Ordering::Relaxed);
    }
    client
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;

    use super::super::runtime;
    use super::*;

    const WORK: Duration = Duration::from_millis(1);

    /// Takes that much of its thread's time for a request.
    struct Works;

    impl Client for Works {
        async fn request(&mut self) -> io::Result<()> {
            let begin = ThreadTime::now().as_duration();
            while ThreadTime::now().as_duration() - begin < WORK {}
            yield_now().await;
            Ok(())
        }
    }

    #[test]
    fn the_time_of_the_measured_thread_counts_alone() {
        for is_measured in [true, false] {
            let (measured, other) = (runtime(1), runtime(1));
            let scene = Scene {
                clients: vec![Works],
                clients_on: if is_measured { &measured } else { &other }
                    .handle()
                    .clone(),
                other: Some(other),
                measured,
            };
            let took = scene.turn(Duration::from_millis(10), Duration::from_millis(300));
            assert!(took.rate > 0.0);
            let half = WORK.as_nanos() as f64 / 2.0;
            assert_eq!(took.cpu > half, is_measured, "{} ns", took.cpu);
        }
    }
}
