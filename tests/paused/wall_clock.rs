//! `wall_clock::sleep_until`, with a wall clock that is set forward and back, and that goes on
//! while the machine is suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use fastrand::Rng;
use tickwheel::wall_clock::{SleepUntil, WallClock, sleep_until};
use tickwheel::{Duration, Instant, Timer, sleep};
use tokio::runtime::Runtime;
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{
    HOUR, MS, PATIENCE, SECOND, assert_nothing_armed, current_thread, multi_thread, poll_once,
    tells_workers,
};
use crate::paused_clock::{paused, settle};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

const MINUTE: Duration = Duration::from_secs(60);

/// A wall clock that goes with the paused one, and jumps.
#[derive(Clone)]
struct Wall {
    start: Instant,
    /// By how many milliseconds it was moved.
    moved: Arc<AtomicI64>,
}

impl Wall {
    fn new() -> Wall {
        Wall {
            start: Instant::now(),
            moved: Arc::default(),
        }
    }

    fn time(&self) -> SystemTime {
        let (passed, moved) = (self.start.elapsed(), self.moved.load(Ordering::Relaxed));
        let by = Duration::from_millis(moved.unsigned_abs());
        let time = SystemTime::UNIX_EPOCH + 1_000 * HOUR + passed;
        if moved < 0 { time - by } else { time + by }
    }

    /// Waits until it shows that much more than in the beginning.
    fn sleep(&self, until: Duration) -> SleepUntil {
        let wall = self.clone();
        let clock = move || WallClock::at(Instant::now(), wall.time());
        sleep_until(SystemTime::UNIX_EPOCH + 1_000 * HOUR + until).with_clock(clock)
    }

    fn jump(&self, millis: i64) {
        self.moved.fetch_add(millis, Ordering::Relaxed);
    }
}

/// Moves the clock at these times, by so many milliseconds.
fn operate(wall: &Wall, jumps: Vec<(Duration, i64)>) {
    let wall = wall.clone();
    tokio::spawn(async move {
        for (at, by) in jumps {
            tokio::time::sleep_until(wall.start + at).await;
            wall.jump(by);
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_sleep_follows_a_clock_that_is_set() {
    let (half, hour) = (30 * MINUTE, HOUR.as_millis() as i64);
    let cases = [
        (vec![], 2 * HOUR),
        // Forward, also by a suspension. It is seen at the next look.
        (vec![(half, hour)], HOUR),
        (vec![(half + SECOND, 2 * hour)], half + MINUTE),
        // In the last minute.
        (vec![(2 * HOUR - SECOND, hour)], 2 * HOUR),
        (vec![(half, -hour)], 3 * HOUR),
        (vec![(2 * HOUR - MS, -hour)], 3 * HOUR),
        (vec![(half, -hour), (HOUR, hour)], 2 * HOUR),
        (
            vec![(half, 10 * hour), (half + SECOND, -10 * hour)],
            2 * HOUR,
        ),
    ];
    for (jumps, due) in cases {
        let wall = Wall::new();
        operate(&wall, jumps.clone());
        wall.sleep(2 * HOUR).await;
        let took = wall.start.elapsed();
        assert!(due <= took && took <= due + 2 * MS, "{jumps:?}: {took:?}");
    }
}

/// By random jumps, many of them near the time.
#[tokio::test(start_paused = true)]
async fn a_sleep_is_never_early_and_late_by_a_minute_at_most() {
    for seed in 0..100 {
        let mut random = Rng::with_seed(seed);
        let wall = Wall::new();
        let mut at = Duration::ZERO;
        let jumps: Vec<_> = (0..random.u32(..8))
            .map(|_| {
                at += random.u32(..20) * MINUTE + random.u32(..60_000) * MS;
                (at, random.i64(-3_600_000..3_600_000))
            })
            .collect();
        let end = at + 10 * HOUR;
        operate(&wall, jumps.clone());
        let until = HOUR;
        let due = SystemTime::UNIX_EPOCH + 1_000 * HOUR + until;
        // How long the clock has shown the time.
        let watched = wall.clone();
        let shown = tokio::spawn(async move {
            let mut since = None;
            while watched.start.elapsed() < end {
                if watched.time() >= due {
                    since = since.or(Some(Instant::now()));
                } else {
                    since = None;
                }
                if since.is_some_and(|since| since.elapsed() > 2 * MINUTE) {
                    break;
                }
                tokio::time::sleep(5 * SECOND).await;
            }
            since.unwrap_or(watched.start + end)
        });
        wall.sleep(until).await;
        assert!(wall.time() >= due, "early: seed {seed}, {jumps:?}");
        let (ready, shown) = (Instant::now(), shown.await.unwrap());
        let late = ready.saturating_duration_since(shown);
        assert!(
            late <= MINUTE + SECOND,
            "{late:?} late: seed {seed}, {jumps:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn under_a_paused_clock_it_follows_the_system_clock() {
    for time in [HOUR, 400 * 24 * HOUR] {
        let start = Instant::now();
        sleep_until(SystemTime::now() + time).await;
        let took = start.elapsed();
        assert!(time - SECOND < took && took <= time + 2 * MS, "{took:?}");
    }
    let mut far = task::spawn(sleep_until(SystemTime::now() + HOUR));
    assert_pending!(far.poll());
    sleep(30 * MINUTE).await;
    assert!(!far.is_woken(), "there is no other clock to look at");
}

#[tokio::test(start_paused = true)]
async fn a_ready_sleep_stays_ready_and_a_dropped_one_is_not_armed() {
    let wall = Wall::new();
    let mut over = wall.sleep(Duration::ZERO);
    (&mut over).await;
    wall.jump(-1_000_000);
    assert!(poll_once(&mut over).is_ready());
    sleep_until(SystemTime::UNIX_EPOCH).await;
    // The system's clock has not come to that time.
    let shows = || WallClock::at(Instant::now(), SystemTime::now() + 2 * HOUR);
    assert!(poll_once(&mut in_an_hour().with_clock(shows)).is_ready());
    let mut dropped = task::spawn(wall.sleep(HOUR));
    assert_pending!(dropped.poll());
    drop(dropped);
    assert_nothing_armed();
}

/// A clock that stands, and how often it was read.
fn standing(until: Duration) -> (SleepUntil, Arc<AtomicI64>) {
    let (readings, now) = (Arc::new(AtomicI64::new(0)), WallClock::now());
    let counted = readings.clone();
    let standing = sleep_until(SystemTime::now() + until).with_clock(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        now
    });
    (standing, readings)
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stands_is_read_once_a_minute() {
    let (standing, readings) = standing(HOUR);
    assert!(tickwheel::timeout(2 * HOUR, standing).await.is_err());
    let readings = readings.load(Ordering::Relaxed);
    assert!((110..=125).contains(&readings), "{readings}");
}

/// A reading of a clock that stands just before the time must not follow another without a pause.
#[tokio::test(start_paused = true)]
async fn a_clock_that_stands_just_before_the_time_does_not_spin() {
    for before in [Duration::from_nanos(1), MS] {
        let (standing, readings) = standing(before);
        assert!(tickwheel::timeout(100 * MS, standing).await.is_err());
        let readings = readings.load(Ordering::Relaxed);
        assert!(readings <= 102, "{before:?}: {readings}");
    }
}

/// A runtime whose clock is a day ahead of the system's.
fn ahead() -> Runtime {
    let runtime = paused();
    runtime.block_on(tokio::time::advance(24 * HOUR));
    runtime
}

/// How long the paused clock of the runtime goes on until it is ready.
fn took(sleep: SleepUntil, runtime: &Runtime) -> Duration {
    runtime.block_on(async {
        let start = Instant::now();
        sleep.await;
        start.elapsed()
    })
}

fn is_an_hour(took: Duration) -> bool {
    HOUR - SECOND < took && took <= HOUR + 2 * MS
}

fn in_an_hour() -> SleepUntil {
    sleep_until(SystemTime::now() + HOUR)
}

#[test]
fn on_a_paused_clock_ahead_it_takes_the_time_left() {
    let runtime = ahead();
    let made_within = {
        let _context = runtime.enter();
        in_an_hour()
    };
    let took_within = took(made_within, &runtime);
    assert!(is_an_hour(took_within), "{took_within:?}");
    // By a worker of another runtime, which the system's clock drives.
    let make = async { tokio::spawn(async { [in_an_hour()] }).await.unwrap() };
    let [made] = multi_thread(1).block_on(make);
    if tells_workers() {
        let took = took(made, &runtime);
        assert!(is_an_hour(took), "{took:?}");
    }
}

#[test]
fn time_counts_from_the_call_also_if_the_clock_is_paused_later() {
    current_thread().block_on(async {
        let (unpolled, mut polled) = (in_an_hour(), task::spawn(in_an_hour()));
        assert_pending!(polled.poll());
        tokio::time::pause();
        let start = Instant::now();
        tokio::time::advance(30 * MINUTE).await;
        unpolled.await;
        assert!(is_an_hour(start.elapsed()), "{:?}", start.elapsed());
        polled.await;
        assert!(is_an_hour(start.elapsed()), "{:?}", start.elapsed());
    });
}

/// The timer is that of the runtime where it was made, and the poller's clock is another.
#[test]
fn on_a_timer_of_the_system_clock_it_is_not_early_elsewhere() {
    for system in [multi_thread(1), current_thread()] {
        let time = SystemTime::now() + 50 * MS;
        let [mut soon, mut late] = {
            let _context = system.enter();
            [sleep_until(time), in_an_hour()].map(task::spawn)
        };
        let (start, elsewhere) = (std::time::Instant::now(), ahead());
        elsewhere.block_on(async { assert_pending!(late.poll()) });
        while elsewhere.block_on(async { soon.poll().is_pending() }) {
            assert!(start.elapsed() < PATIENCE, "it is late");
            system.block_on(async { tokio::time::sleep(MS).await });
        }
        assert!(SystemTime::now() >= time, "it is early");
        elsewhere.block_on(async {
            sleep(2 * HOUR).await;
            assert_pending!(late.poll());
        });
    }
}

/// On a plain thread, and where another runtime's clock is further ahead.
#[test]
fn on_a_paused_timer_it_goes_by_that_clock_elsewhere_too() {
    let (runtime, further) = (ahead(), ahead());
    further.block_on(tokio::time::advance(24 * HOUR));
    let pass = |time| {
        runtime.block_on(async {
            tokio::time::advance(time).await;
            settle().await;
        });
    };
    for is_plain in [true, false] {
        let [mut made, mut read] = {
            let _context = runtime.enter();
            [in_an_hour(), standing(HOUR).0].map(task::spawn)
        };
        assert_pending!(made.poll());
        let _elsewhere = (!is_plain).then(|| further.enter());
        pass(HOUR - SECOND);
        assert!(!made.is_woken());
        assert_pending!(made.poll());
        pass(2 * SECOND);
        assert!(made.is_woken());
        assert_ready!(made.poll());
        // The driver shows where its clock is.
        for _ in 0..3 {
            assert_pending!(read.poll());
            pass(Duration::ZERO);
        }
        pass(MINUTE - SECOND);
        assert!(!read.is_woken());
        pass(2 * SECOND);
        assert!(read.is_woken());
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_end_of_time_it_stays_pending() {
    let timer = Timer::current();
    let mut before = task::spawn(sleep_until(SystemTime::now() + 300 * YEAR));
    assert_pending!(before.poll());
    tokio::time::advance(101 * YEAR).await;
    assert!(!before.is_woken());
    tokio::time::advance(50 * YEAR).await;
    assert_pending!(before.poll());
    let wall = Wall::new();
    for sleep in [in_an_hour(), wall.sleep(HOUR), standing(HOUR).0] {
        let mut sleep = task::spawn(sleep);
        for _ in 0..3 {
            assert_pending!(sleep.poll());
        }
        settle().await;
        assert!(!sleep.is_woken());
    }
    drop(before);
    assert_eq!(timer.metrics().pending(), 0);
}
