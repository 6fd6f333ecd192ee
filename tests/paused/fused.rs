//! `futures::select!` without `.fuse()`: what has been ready is left out until it is armed again.

use std::future::ready;
use std::time::SystemTime;

use futures::future::FusedFuture;
use futures::select;
use tickwheel::wall_clock::sleep_until;
use tickwheel::{DeadlineMap, Instant, Timer, sleep, timeout};

use crate::common::{HOUR, MS, poll_once};

#[tokio::test(start_paused = true)]
async fn select_takes_each_once_and_is_complete_after_the_last() {
    let timer = Timer::current();
    let map = DeadlineMap::new(&timer);
    let mut nap = sleep(3 * MS);
    let mut deadline = timer.deadline(5 * MS);
    let mut keyed = map.insert(1, 7 * MS).unwrap();
    let mut over = timeout(9 * MS, sleep(HOUR));
    let mut in_time = std::pin::pin!(timeout(HOUR, async { sleep(11 * MS).await }));
    let mut clock = sleep_until(SystemTime::now() + 13 * MS);
    let start = Instant::now();
    let mut order = Vec::new();
    loop {
        select! {
            () = nap => order.push("nap"),
            outcome = deadline => order.push(outcome.map_or("cancelled", |()| "deadline")),
            outcome = keyed => order.push(outcome.map_or("cancelled", |()| "keyed")),
            end = over => order.push(end.map_or("over", |()| "in time")),
            end = in_time => order.push(end.map_or("over", |()| "in time")),
            () = clock => order.push("clock"),
            complete => break,
        }
    }
    assert_eq!(
        order,
        ["nap", "deadline", "keyed", "over", "in time", "clock"]
    );
    assert!(start.elapsed() < 20 * MS);
}

/// What has elapsed and was not polled has yet to be taken.
#[tokio::test(start_paused = true)]
async fn a_future_is_terminated_from_a_ready_poll_until_armed_again() {
    let timer = Timer::current();
    let map = DeadlineMap::new(&timer);
    let mut nap = sleep(MS);
    let mut deadline = timer.deadline(MS);
    let mut keyed = map.insert(1, MS).unwrap();
    let mut bounded = timeout(HOUR, ready(1));
    assert!(poll_once(&mut nap).is_pending() && poll_once(&mut deadline).is_pending());
    assert!(poll_once(&mut keyed).is_pending());
    sleep(2 * MS).await;
    assert!(nap.is_elapsed() && !deadline.handle().is_pending());
    let all: [&dyn FusedFuture<Output = _>; 2] = [&deadline, &keyed];
    assert!(all.iter().all(|one| !one.is_terminated()));
    assert!(!nap.is_terminated() && !bounded.is_terminated());

    assert!(poll_once(&mut nap).is_ready() && poll_once(&mut deadline).is_ready());
    assert!(poll_once(&mut keyed).is_ready() && poll_once(&mut bounded).is_ready());
    assert!(bounded.is_terminated());
    assert!(nap.is_terminated() && deadline.is_terminated() && keyed.is_terminated());

    nap.reset_after(MS);
    deadline.restart();
    keyed.restart();
    assert!(!nap.is_terminated() && !deadline.is_terminated() && !keyed.is_terminated());
}
