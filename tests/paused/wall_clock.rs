//! `wall_clock::sleep_until`, with a wall clock that is set forward and back, and that goes on
//! while the machine is suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use fastrand::Rng;
use tickwheel::wall_clock::{SleepUntil, WallClock, sleep_until};
use tickwheel::{Duration, Instant, sleep};
use tokio_test::{assert_pending, task};

use crate::common::{HOUR, MS, SECOND, assert_nothing_armed};

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

#[tokio::test(start_paused = true)]
async fn a_method_sets_how_late_it_is_after_a_jump() {
    for every in [100 * MS, SECOND, 10 * MINUTE, Duration::MAX] {
        let wall = Wall::new();
        operate(&wall, vec![(30 * MINUTE + MS, HOUR.as_millis() as i64)]);
        wall.sleep(HOUR).check_every(every).await;
        let due = (30 * MINUTE).saturating_add(every).min(HOUR);
        let took = wall.start.elapsed();
        assert!(due <= took && took <= due + 2 * MS, "{every:?}: {took:?}");
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
                match watched.time() >= due {
                    true => since = since.or(Some(Instant::now())),
                    false => since = None,
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
    (&mut over).await;
    sleep_until(SystemTime::UNIX_EPOCH).await;
    let mut dropped = task::spawn(wall.sleep(HOUR));
    assert_pending!(dropped.poll());
    drop(dropped);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stands_is_read_once_a_minute() {
    let (readings, now) = (Arc::new(AtomicI64::new(0)), WallClock::now());
    let counted = readings.clone();
    let standing = sleep_until(SystemTime::now() + HOUR).with_clock(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        now
    });
    assert!(tickwheel::timeout(2 * HOUR, standing).await.is_err());
    let readings = readings.load(Ordering::Relaxed);
    assert!((110..=125).contains(&readings), "{readings}");
}
