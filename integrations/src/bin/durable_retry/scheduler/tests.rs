//! The scheduler under tokio's paused clock, with a wall clock that the test sets.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::UNIX_EPOCH;

use futures::FutureExt;

use super::*;
use crate::job::{Backoff, Finished};
use crate::store::Clock;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A clock on the wall that follows the paused one, unless it is set.
#[derive(Clone)]
struct Wall {
    start: Instant,
    shown: Arc<Mutex<SystemTime>>,
}

impl Wall {
    fn new() -> Wall {
        let shown = UNIX_EPOCH + 500_000 * HOUR;
        Wall {
            start: Instant::now(),
            shown: Arc::new(Mutex::new(shown)),
        }
    }

    fn clock(&self) -> Clock {
        let wall = self.clone();
        Arc::new(move || WallClock::at(wall.start, *wall.shown.lock().unwrap()))
    }
}

/// A scheduler whose runner notes when each run began, and says how it ends.
struct Bench {
    scheduler: Arc<Scheduler>,
    wall: Wall,
    start: Instant,
    began: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl Bench {
    async fn new(end: impl Fn(&Run) -> Result<(), String> + Send + Sync + 'static) -> Bench {
        let (wall, start) = (Wall::new(), Instant::now());
        let began = Arc::<Mutex<Vec<_>>>::default();
        let noted = began.clone();
        let runner: Runner = Arc::new(move |run| {
            noted
                .lock()
                .unwrap()
                .push((run.job.id.clone(), start.elapsed()));
            std::future::ready(end(&run)).boxed()
        });
        let store = Store::in_memory(wall.clock()).await;
        let settings = Settings {
            workers: 2,
            horizon: 10 * SECOND,
            grace: SECOND,
        };
        let scheduler = Scheduler::new(store, runner, settings, Output::default());
        Bench {
            scheduler,
            wall,
            start,
            began,
        }
    }

    async fn add(&self, id: &str, delay: Duration) {
        let backoff = Backoff {
            first: SECOND,
            longest: HOUR,
            attempts: 3,
        };
        let job = Job {
            id: id.to_owned(),
            payload: String::new(),
            backoff,
        };
        assert_eq!(self.scheduler.add(vec![(job, delay)]).await.unwrap(), 1);
    }

    /// Runs until all is finished. Gives what the store has then, and when each run began.
    async fn finish(self) -> (Vec<Finished>, Vec<(String, Duration)>) {
        self.start().await.unwrap();
        let ledger = self.scheduler.store.ledger().await.unwrap();
        (ledger, self.began.lock().unwrap().clone())
    }

    fn start(&self) -> tokio::task::JoinHandle<()> {
        let scheduler = self.scheduler.clone();
        scheduler.end_when_finished();
        tokio::spawn(async move { scheduler.run(tickwheel::sleep(3 * HOUR)).await.unwrap() })
    }
}

type Result<T, E> = std::result::Result<T, E>;

fn succeeds(_: &Run) -> Result<(), String> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn jobs_run_at_their_dues_and_never_before() {
    let bench = Bench::new(succeeds).await;
    let dues = [0, 1, 9_999, 10_000, 10_001, 60_000, 3_600_123];
    for due in dues {
        bench
            .add(&due.to_string(), Duration::from_millis(due))
            .await;
    }
    let (ledger, began) = bench.finish().await;
    assert_eq!(ledger.len(), dues.len());
    assert_eq!(began.len(), dues.len());
    for (id, at) in began {
        let due = Duration::from_millis(id.parse().unwrap());
        assert!(
            (due..due + SECOND / 2).contains(&at),
            "{id} ran after {at:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn only_near_jobs_are_in_memory() {
    let bench = Bench::new(succeeds).await;
    bench.add("near", 9 * SECOND).await;
    bench.add("far", HOUR).await;
    let running = bench.start();
    tickwheel::sleep(2 * SECOND).await;
    assert_eq!(bench.scheduler.near.keys(), ["near"]);
    assert!(
        bench
            .scheduler
            .report()
            .await
            .unwrap()
            .contains("next is near in 7")
    );
    tickwheel::sleep(HOUR - 5 * SECOND).await;
    assert_eq!(bench.scheduler.near.keys(), ["far"]);
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_fails_runs_again_after_its_backoff() {
    let bench = Bench::new(|run| match run.job.id == "hopeless" || run.attempt() < 3 {
        true => Err("not yet".to_owned()),
        false => Ok(()),
    });
    let bench = bench.await;
    bench.add("slow", Duration::ZERO).await;
    bench.add("hopeless", Duration::ZERO).await;
    let (ledger, began) = bench.finish().await;
    let outcome = |id: &str| {
        let line = ledger.iter().find(|line| line.id == id).unwrap();
        (line.succeeded, line.attempts, line.runs)
    };
    assert_eq!(outcome("slow"), (true, 3, 3));
    assert_eq!(outcome("hopeless"), (false, 3, 3));
    for id in ["slow", "hopeless"] {
        let at: Vec<_> = began
            .iter()
            .filter(|run| run.0 == id)
            .map(|run| run.1)
            .collect();
        let waits = [at[1] - at[0], at[2] - at[1]];
        assert!(waits[0] >= SECOND && waits[1] >= 2 * SECOND, "{waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_panics_is_a_run_that_fails() {
    let bench = Bench::new(|run| {
        assert!(run.attempt() > 1, "the first attempt panics on purpose");
        Ok(())
    });
    let bench = bench.await;
    bench.add("job", Duration::ZERO).await;
    let (ledger, _) = bench.finish().await;
    assert_eq!((ledger[0].succeeded, ledger[0].attempts), (true, 2));
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_forward_makes_dues_come_sooner() {
    let bench = Bench::new(succeeds).await;
    bench.add("far", HOUR).await;
    bench.add("near", 9 * SECOND).await;
    let running = bench.start();
    tickwheel::sleep(2 * SECOND).await;
    *bench.wall.shown.lock().unwrap() += HOUR - 10 * SECOND;
    running.await.unwrap();
    let began = bench.began.lock().unwrap().clone();
    let ids: Vec<_> = began.iter().map(|run| &*run.0).collect();
    assert_eq!(ids, ["near", "far"]);
    assert!(began[0].1 < 4 * SECOND, "{began:?}");
    assert!(
        (10 * SECOND..11 * SECOND).contains(&began[1].1),
        "{began:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_makes_dues_come_later() {
    let bench = Bench::new(succeeds).await;
    bench.add("job", 9 * SECOND).await;
    let running = bench.start();
    tickwheel::sleep(2 * SECOND).await;
    *bench.wall.shown.lock().unwrap() -= HOUR;
    tickwheel::sleep(2 * SECOND).await;
    let armed = bench.scheduler.near.remaining("job").unwrap();
    assert!(armed > HOUR, "what is armed was moved: {armed:?}");
    running.await.unwrap();
    let at = bench.start.elapsed();
    assert!(
        (HOUR + 9 * SECOND..HOUR + 10 * SECOND).contains(&at),
        "{at:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_armed_too_early_is_not_run_early() {
    let bench = Bench::new(succeeds).await;
    let due = 5 * SECOND + SECOND / 2;
    bench.add("job", due).await;
    bench.add("other", 9 * SECOND).await;
    let running = bench.start();
    tickwheel::sleep(due - SECOND / 5).await;
    assert!(bench.scheduler.near.expire("job"));
    running.await.unwrap();
    let began = bench.began.lock().unwrap().clone();
    assert_eq!(began.len(), 2);
    // And it does not wait for the next load.
    assert!((due..due + SECOND / 5).contains(&began[0].1), "{began:?}");
}

#[tokio::test(start_paused = true)]
async fn what_the_map_loses_is_loaded_again() {
    let bench = Bench::new(succeeds).await;
    bench.add("job", 5 * SECOND).await;
    let running = bench.start();
    tickwheel::sleep(SECOND).await;
    assert_eq!(bench.scheduler.near.drain().len(), 1);
    running.await.unwrap();
    assert_eq!(bench.began.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_dies_is_started_again() {
    let (near, stream) = DelayMap::new(&Timer::current());
    drop(stream);
    for number in 1..=3 {
        near.insert(number.to_string(), UNIX_EPOCH, number * SECOND)
            .unwrap();
    }
    let taken = Arc::new(AtomicUsize::new(0));
    let supervisor = async {
        let consume = |mut due: Expirations<String, SystemTime>| {
            let taken = taken.clone();
            async move {
                while let Some(job) = due.recv().await {
                    taken.fetch_add(1, Ordering::Relaxed);
                    assert_ne!(job.key, "2", "this one kills its consumer");
                }
            }
        };
        supervise(&near, consume).await;
    };
    let close = async {
        tickwheel::sleep(4 * SECOND).await;
        near.close();
    };
    tokio::join!(supervisor, close);
    assert_eq!(taken.load(Ordering::Relaxed), 3);
}
