//! What `futures::select!` asks of a future: one that has been ready and was not armed again is
//! left out.

use std::future::ready;
use std::time::SystemTime;

use futures::future::FusedFuture;
use tickwheel::wall_clock::sleep_until;
use tickwheel::warn_before::Stage;
use tickwheel::{DeadlineMap, Timer, sleep, timeout};
use tokio::sync::oneshot;

use crate::common::{HOUR, MS, poll_once};

/// What has elapsed and was not polled has yet to be taken.
#[tokio::test(start_paused = true)]
async fn a_future_is_terminated_from_a_ready_poll_until_armed_again() {
    let timer = Timer::current();
    let map = DeadlineMap::new(&timer);
    let mut nap = sleep(MS);
    let mut deadline = timer.deadline(MS);
    let mut keyed = map.insert(1, MS).unwrap();
    let mut bounded = timeout(HOUR, ready(1));
    let (sender, receiver) = oneshot::channel();
    let mut armed = timeout(HOUR, receiver);
    let mut clock = sleep_until(SystemTime::UNIX_EPOCH);
    assert!(poll_once(&mut nap).is_pending() && poll_once(&mut deadline).is_pending());
    assert!(poll_once(&mut keyed).is_pending() && poll_once(&mut armed).is_pending());
    sleep(2 * MS).await;
    assert!(nap.is_elapsed() && !deadline.handle().is_pending());
    assert!(!deadline.is_terminated() && !keyed.is_terminated());
    assert!(!nap.is_terminated() && !bounded.is_terminated() && !clock.is_terminated());
    assert!(!armed.is_terminated());

    sender.send(1).unwrap();
    assert!(poll_once(&mut armed).is_ready() && armed.is_terminated());
    assert!(poll_once(&mut nap).is_ready() && poll_once(&mut deadline).is_ready());
    assert!(poll_once(&mut keyed).is_ready() && poll_once(&mut bounded).is_ready());
    assert!(poll_once(&mut clock).is_ready());
    assert!(bounded.is_terminated() && clock.is_terminated());
    assert!(nap.is_terminated() && deadline.is_terminated() && keyed.is_terminated());

    nap.reset_after(MS);
    deadline.restart();
    keyed.restart();
    assert!(!nap.is_terminated() && !deadline.is_terminated() && !keyed.is_terminated());
    let (mut deadline, mut keyed) = (deadline.warn_before(MS / 2), keyed.warn_before(MS / 2));
    assert!(deadline.handle().expire() && keyed.handle().expire());
    assert_eq!(deadline.wait().await, Ok(Stage::Expired));
    assert_eq!(keyed.wait().await, Ok(Stage::Expired));
    assert!(deadline.as_ref().is_terminated() && keyed.as_ref().is_terminated());
    deadline.restart();
    keyed.restart();
    assert!(!deadline.as_ref().is_terminated() && !keyed.as_ref().is_terminated());
}
