//! The obvious shape of a timer on tokio, beside the one that was built: a task that turns a wheel.
//! It sleeps until something is due, and is woken when something earlier is armed.
//!
//! What is compared is a lone sleep of a millisecond, again and again, and how late the latest of
//! such sleeps is while other tasks, each of which has just armed a sleep of its own, block a
//! worker for half a second. docs/DESIGN.md, «Why no task turns the wheels», has both figures.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tickwheel::wheel::Wheel;
use tokio::sync::{Notify, oneshot};

use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "by-task",
    about: "a lone sleep, and one beside blocked workers, against a task that turns a wheel",
    how: How::Apart {
        contenders: &[name::DROP_IN, name::TOKIO, name::BY_TASK],
        rounds: 3,
        run,
    },
};

const SLEEP: Duration = Duration::from_millis(1);
/// How long a task blocks its worker, and how long later the next one does.
const BLOCKS: Duration = Duration::from_millis(500);
const BETWEEN: Duration = Duration::from_millis(50);

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
    match contender {
        name::DROP_IN => measure(contender, settings, || tickwheel::sleep),
        name::TOKIO => measure(contender, settings, || tokio::time::sleep),
        _ => measure(contender, settings, || {
            let wheel = TurnedByTask::spawn();
            move |duration| wheel.clone().sleep(duration)
        }),
    }
}

fn measure<S, F>(contender: &str, settings: &Settings, make: fn() -> S) -> Vec<Record>
where
    S: Fn(Duration) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let sleeps = settings.either(500_u32, 100);
    let lone = runtime(2).block_on(async {
        let sleep = make();
        let cpu = ProcessTime::now();
        let task = tokio::spawn(async move {
            for _ in 0..sleeps {
                sleep(SLEEP).await;
            }
        });
        task.await.expect("no task panics");
        cpu.elapsed().as_nanos() as f64 / f64::from(sleeps)
    });
    let blocked = runtime(2);
    let sleep = blocked.block_on(async { make() });
    let is_over = Arc::new(AtomicBool::new(false));
    let sleeper = blocked.spawn({
        let (sleep, is_over) = (sleep.clone(), is_over.clone());
        async move {
            let mut latest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let due = Instant::now() + SLEEP;
                sleep(SLEEP).await;
                latest = latest.max(due.elapsed());
            }
            latest
        }
    });
    for _ in 0..settings.either(3, 1) {
        let sleep = sleep.clone();
        // Spawned from outside. So it comes to a worker that does not turn tokio's timers just
        // then, and has them behind it.
        blocked.spawn(async move {
            let mut armed = pin!(sleep(SLEEP / 2));
            poll_fn(|cx| Poll::Ready(armed.as_mut().poll(cx).is_ready())).await;
            thread::sleep(BLOCKS);
        });
        thread::sleep(BLOCKS + BETWEEN);
    }
    is_over.store(true, Ordering::Relaxed);
    let latest = blocked.block_on(sleeper).expect("no task panics");
    let latest = latest.as_secs_f64() * 1e3;
    vec![
        Record::new("by-task-lone", contender, vec![lone]),
        Record::new("by-task-blocked", contender, vec![latest]),
    ]
}

/// A wheel, and the task that turns it.
struct TurnedByTask {
    wheel: Mutex<Turned>,
    earlier: Notify,
    begin: Instant,
}

struct Turned {
    wheel: Wheel<oneshot::Sender<()>>,
    /// Up to which tick the task sleeps.
    sleeps_until: u64,
}

impl TurnedByTask {
    /// The task lives as long as its runtime.
    fn spawn() -> Arc<TurnedByTask> {
        let turned = Arc::new(TurnedByTask {
            wheel: Mutex::new(Turned {
                wheel: Wheel::new(),
                sleeps_until: u64::MAX,
            }),
            earlier: Notify::new(),
            begin: Instant::now(),
        });
        tokio::spawn(turned.clone().turn());
        turned
    }

    async fn turn(self: Arc<Self>) {
        loop {
            let next = self.fire();
            let due = next.map(|tick| self.begin + Duration::from_millis(tick));
            let due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = self.earlier.notified() => {}
            }
        }
    }

    /// Fires what is due. Returns when to do so next.
    fn fire(&self) -> Option<u64> {
        let now = self.begin.elapsed().as_millis() as u64;
        let mut turned = self.lock();
        for (_, waits) in turned.wheel.advance(now) {
            let _ = waits.send(());
        }
        let next = turned.wheel.next_turn();
        turned.sleeps_until = next.unwrap_or(u64::MAX);
        next
    }

    async fn sleep(self: Arc<Self>, duration: Duration) {
        let (fire, fired) = oneshot::channel();
        // Rounded up, so that it is never early.
        let due = (self.begin.elapsed() + duration)
            .as_micros()
            .div_ceil(1_000) as u64;
        let is_earlier = {
            let mut turned = self.lock();
            turned.wheel.insert(due, fire);
            due < turned.sleeps_until
        };
        if is_earlier {
            self.earlier.notify_one();
        }
        fired.await.expect("the task that turns the wheel lives on");
    }

    fn lock(&self) -> MutexGuard<'_, Turned> {
        self.wheel.lock().expect("nothing panics under it")
    }
}
