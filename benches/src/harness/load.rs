//! Contenders that stand in a server, a client or a proxy: how many requests a second they let
//! through, and what a request costs on the thread whose timers are compared.
//!
//! A contender is set up again for each of its turns. So no timer of another contender is armed
//! meanwhile, and the luck of a set-up, in ports and in the heap, stays with none.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::{Record, Standing, in_turn};
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
    /// Runs the clients, and whatever else is not measured.
    pub other: Runtime,
    /// Has the timers that are compared, and one worker. The CPU of that thread counts.
    pub measured: Runtime,
}

/// Lets contenders take turns, each next to a [`Standing`] sleep on the measured runtime. Records
/// for each the rows `<part>-rate` and `<part>-cpu`.
pub fn load<C: Client>(
    part: &str,
    contenders: &[&'static str],
    settings: &Settings,
    mut set_up: impl FnMut(&'static str) -> Scene<C>,
) -> Vec<Record> {
    let rounds = settings.either(25, 3);
    let [warm_up, sample] = settings
        .either([30, 90], [20, 40])
        .map(Duration::from_millis);
    let rows = ["rate", "cpu"].map(|row| format!("{part}-{row}"));
    in_turn(&rows, contenders, rounds, |index| {
        let contender = contenders[index];
        set_up(contender).turn(contender, warm_up, sample)
    })
}

impl<C: Client> Scene<C> {
    /// Requests a second, and nanoseconds of the measured thread for each.
    fn turn(self, contender: &str, warm_up: Duration, sample: Duration) -> [f64; 2] {
        let standing = Standing::of(contender, &self.measured);
        let requests = Arc::new(AtomicU64::new(0));
        let send = |mut client: C| {
            let requests = requests.clone();
            self.other.spawn(async move {
                loop {
                    client.request().await.expect("the request is answered");
                    requests.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let tasks: Vec<JoinHandle<()>> = self.clients.into_iter().map(send).collect();
        // From a task: that is on the one worker, so the time of its thread is the worker's.
        let look = || {
            let requests = requests.clone();
            let look = self.measured.spawn(async move {
                let cpu = ThreadTime::now().as_duration();
                (Instant::now(), requests.load(Ordering::Relaxed), cpu)
            });
            self.measured.block_on(look).expect("a look does not panic")
        };
        sleep(warm_up);
        let before = look();
        sleep(sample);
        let after = look();
        assert!(
            tasks.iter().all(|task| !task.is_finished()),
            "a client failed"
        );
        standing.end();
        let requests = (after.1 - before.1) as f64;
        [
            requests / (after.0 - before.0).as_secs_f64(),
            (after.2 - before.2).as_nanos() as f64 / requests,
        ]
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::super::runtime;
    use super::*;
    use crate::part::name;

    const WORK: Duration = Duration::from_millis(1);

    /// A request takes that much time of a thread of this runtime.
    struct Works(Handle);

    impl Client for Works {
        async fn request(&mut self) -> io::Result<()> {
            let work = self.0.spawn(async {
                let begin = ThreadTime::now().as_duration();
                while ThreadTime::now().as_duration() - begin < WORK {}
            });
            Ok(work.await?)
        }
    }

    #[test]
    fn only_the_time_of_the_measured_thread_counts() {
        for is_measured in [true, false] {
            let (measured, other) = (runtime(1), runtime(1));
            let at_work = if is_measured { &measured } else { &other };
            let clients = vec![Works(at_work.handle().clone())];
            let scene = Scene {
                clients,
                other,
                measured,
            };
            let [rate, cpu] = scene.turn(
                name::TOKIO,
                Duration::from_millis(10),
                Duration::from_millis(300),
            );
            assert!(rate > 0.0);
            let half = WORK.as_nanos() as f64 / 2.0;
            assert_eq!(cpu > half, is_measured, "{cpu} ns");
        }
    }
}
