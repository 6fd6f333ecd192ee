//! The scheduler under tokio's paused clock, with a wall clock that the test sets.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use super::*;
use crate::job::tests::sample;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A scheduler whose runner notes when each run began, and says how it ends.
struct Bench {
    scheduler: Arc<Scheduler>,
    /// What the clock on the wall showed at the start. It follows the paused one.
    wall: Arc<Mutex<SystemTime>>,
    began: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl Bench {
    /// Its jobs are due after so many milliseconds.
    async fn new(
        jobs: &[(&str, u64)],
        end: impl Fn(&Job) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Bench {
        let start = Instant::now();
        let wall = Arc::new(Mutex::new(UNIX_EPOCH + 500_000 * HOUR));
        let began = Arc::<Mutex<Vec<_>>>::default();
        let (noted, shown) = (began.clone(), wall.clone());
        let runner: Runner = Arc::new(move |job| {
            let mut noted = noted.lock().unwrap();
            noted.push((job.id.clone(), start.elapsed()));
            drop(noted);
            std::future::ready(end(&job)).boxed()
        });
        let clock = move || WallClock::at(start, *shown.lock().unwrap());
        let store = Store::in_memory(Arc::new(clock)).await;
        let now = store.clock().system_time(start);
        let jobs = jobs.iter();
        let jobs = jobs.map(|&(id, delay)| (sample(id), now + Duration::from_millis(delay)));
        store.add(jobs.collect()).await.unwrap();
        let settings = Settings {
            workers: 2,
            horizon: 10 * SECOND,
            grace: SECOND,
            until_finished: true,
        };
        Bench {
            scheduler: Scheduler::new(store, runner, settings),
            wall,
            began,
        }
    }

    fn start(&self) -> tokio::task::JoinHandle<()> {
        let scheduler = self.scheduler.clone();
        tokio::spawn(async move { scheduler.run(tickwheel::sleep(3 * HOUR)).await.unwrap() })
    }

    fn began(&self) -> Vec<(String, Duration)> {
        self.began.lock().unwrap().clone()
    }
}

fn succeeds(_: &Job) -> std::result::Result<(), String> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn jobs_run_at_their_dues_never_before_and_only_near_ones_are_in_memory() {
    let jobs = [("1", 1), ("9999", 9_999), ("3600123", 3_600_123)];
    let bench = Bench::new(&jobs, succeeds).await;
    let running = bench.start();
    tickwheel::sleep(SECOND / 2).await;
    assert_eq!(bench.scheduler.near.keys(), ["9999"]);
    running.await.unwrap();
    let began = bench.began();
    assert_eq!(began.len(), jobs.len());
    for (id, at) in began {
        let due = Duration::from_millis(id.parse().unwrap());
        assert!(
            (due..due + SECOND / 2).contains(&at),
            "{id} ran after {at:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_or_panics_runs_again_after_its_backoff() {
    let bench = Bench::new(&[("slow", 0), ("hopeless", 0)], |job| {
        match (&*job.id, job.attempt()) {
            ("slow", 1) => panic!("the first attempt panics on purpose"),
            ("slow", 3) => Ok(()),
            _ => Err("not yet".to_owned()),
        }
    });
    let bench = bench.await;
    bench.start().await.unwrap();
    let ledger = bench.scheduler.store.ledger().await.unwrap();
    let outcomes = ledger
        .iter()
        .map(|(job, is_done)| (&*job.id, job.attempt(), *is_done));
    let outcomes: HashSet<_> = outcomes.collect();
    assert_eq!(
        outcomes,
        HashSet::from([("slow", 3, true), ("hopeless", 3, false)])
    );
    for id in ["slow", "hopeless"] {
        let began = bench.began().into_iter().filter(|run| run.0 == id);
        let at: Vec<_> = began.map(|run| run.1).collect();
        let waits = [at[1] - at[0], at[2] - at[1]];
        assert!(waits[0] >= SECOND && waits[1] >= 2 * SECOND, "{waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_moves_what_is_armed_and_what_is_not() {
    // Set forward by 5 s, and back by an hour.
    for (forward, back, dues) in [
        (5 * SECOND, Duration::ZERO, [4, 95]),
        (Duration::ZERO, HOUR, [3609, 3700]),
    ] {
        let bench = Bench::new(&[("near", 9_000), ("far", 100_000)], succeeds).await;
        let running = bench.start();
        tickwheel::sleep(2 * SECOND).await;
        let shown = *bench.wall.lock().unwrap();
        *bench.wall.lock().unwrap() = shown + forward - back;
        running.await.unwrap();
        for ((id, at), due) in bench.began().into_iter().zip(dues) {
            let due = due * SECOND;
            assert!((due..due + SECOND).contains(&at), "{id} ran after {at:?}");
        }
        assert_eq!(bench.began().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_map_loses_is_loaded_again() {
    let bench = Bench::new(&[("job", 5_000)], succeeds).await;
    let running = bench.start();
    tickwheel::sleep(SECOND).await;
    assert_eq!(bench.scheduler.near.drain().len(), 1);
    running.await.unwrap();
    assert_eq!(bench.began().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_dies_is_started_again() {
    let (near, stream) = DelayMap::new(&Timer::current());
    drop(stream);
    for number in 1..=3 {
        let _ = near.insert(number.to_string(), (), number * SECOND);
    }
    let taken = Arc::new(AtomicUsize::new(0));
    let consume = |mut due: Expirations<String, ()>| {
        let taken = taken.clone();
        async move {
            while let Some(job) = due.recv().await {
                taken.fetch_add(1, Ordering::Relaxed);
                assert_ne!(job.key, "2", "this one kills its consumer");
            }
        }
    };
    let close = async {
        tickwheel::sleep(4 * SECOND).await;
        near.close();
    };
    tokio::join!(supervise(near.clone(), consume), close);
    assert_eq!(taken.load(Ordering::Relaxed), 3);
}
