//! What becomes of a future that was ready: in a loop around `futures::select!`, which asks for
//! `.fuse()` as with tokio's timers, and at another poll.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::task::Poll;
use std::time::SystemTime;

use futures::FutureExt;
use tickwheel::wall_clock::{self, WallClock};
use tickwheel::{DeadlineMap, Instant, Timer, sleep, timeout, with_deadline};

use crate::common::{HOUR, MS, SECOND, poll_once};

#[tokio::test(start_paused = true)]
async fn a_fused_future_is_ready_once_in_a_loop_around_select() {
    let timer = Timer::current();
    let map = DeadlineMap::new(&timer);
    let mut slept = sleep(SECOND).fuse();
    let mut bounded = timeout(2 * SECOND, pending::<()>()).fuse();
    let mut deadline = timer.deadline(3 * SECOND).fuse();
    let mut keyed = map.insert(1, 4 * SECOND).unwrap().fuse();
    let opened = with_deadline(Instant::now() + 5 * SECOND, pending::<()>());
    let mut opened = Box::pin(opened.fuse());
    let start = WallClock::at(Instant::now(), SystemTime::UNIX_EPOCH);
    let clock = move || WallClock::at(Instant::now(), start.system_time(Instant::now()));
    let sixth = wall_clock::sleep_until(SystemTime::UNIX_EPOCH + 6 * SECOND);
    let mut sixth = sixth.with_clock(clock).fuse();
    let mut done = Vec::new();
    loop {
        futures::select! {
            () = slept => done.push(1),
            end = bounded => done.push(if end.is_err() { 2 } else { 0 }),
            end = deadline => done.push(if end.is_ok() { 3 } else { 0 }),
            end = keyed => done.push(if end.is_ok() { 4 } else { 0 }),
            end = opened => done.push(if end.is_err() { 5 } else { 0 }),
            () = sixth => done.push(6),
            complete => break,
        }
    }
    assert_eq!(done, [1, 2, 3, 4, 5, 6]);
}

/// Its own branch takes the sleep by `&mut`, fused anew in each round.
#[tokio::test(start_paused = true)]
async fn a_sleep_that_each_branch_resets_is_fused_by_reference() {
    let start = Instant::now();
    let mut idle = sleep(3 * SECOND);
    let mut beats = Vec::new();
    loop {
        futures::select! {
            () = (&mut idle).fuse() => break,
            () = sleep(2 * SECOND).fuse() => {
                beats.push(start.elapsed().as_secs());
                if beats.len() < 3 {
                    idle.reset_after(3 * SECOND);
                }
            }
        }
    }
    assert_eq!((beats, start.elapsed()), (vec![2, 4, 6], 7 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_sleep_and_a_timeout_polled_after_they_were_ready_do_as_tokios() {
    macro_rules! polled_again {
        ($time:path) => {{
            use $time as time;
            let mut nap = Box::pin(time::sleep(SECOND));
            nap.as_mut().await;
            let naps = [poll_once(&mut nap), poll_once(&mut nap)];

            let is_ready = Cell::new(false);
            let output = || {
                if is_ready.get() {
                    Poll::Ready(7)
                } else {
                    Poll::Pending
                }
            };
            let mut late = Box::pin(time::timeout(SECOND, poll_fn(|_| output())));
            let mut elapsed = vec![late.as_mut().await.ok()];
            for now_ready in [false, true, false] {
                is_ready.set(now_ready);
                elapsed.push(late.as_mut().await.ok());
            }

            let mut polls = 0;
            let inner = poll_fn(|_| {
                polls += 1;
                if polls % 2 == 1 {
                    Poll::Ready(polls)
                } else {
                    Poll::Pending
                }
            });
            let mut ready = Box::pin(time::timeout(HOUR, inner));
            let outputs = [(); 3].map(|()| poll_once(&mut ready).map(Result::ok));
            (naps, elapsed, outputs)
        }};
    }
    let (ours, theirs) = (polled_again!(tickwheel::time), polled_again!(tokio::time));
    assert_eq!(ours, theirs);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_polled_after_it_was_ready_gives_the_same_answer() {
    let timer = Timer::current();
    let map = DeadlineMap::new(&timer);
    let mut deadline = timer.deadline(MS);
    let mut keyed = map.insert(1, MS).unwrap();
    for _ in 0..2 {
        sleep(2 * MS).await;
        for _ in 0..3 {
            assert_eq!(poll_once(&mut deadline), Poll::Ready(Ok(())));
            assert_eq!(poll_once(&mut keyed), Poll::Ready(Ok(())));
        }
        deadline.restart();
        keyed.restart();
        assert!(poll_once(&mut deadline).is_pending() && poll_once(&mut keyed).is_pending());
    }
    assert!(deadline.handle().cancel() && map.remove(&1));
    for _ in 0..3 {
        let ends = (poll_once(&mut deadline), poll_once(&mut keyed));
        assert!(matches!(ends, (Poll::Ready(Err(_)), Poll::Ready(Err(_)))));
    }
}
