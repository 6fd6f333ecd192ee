//! After the end: what is made says that the runtime has gone.

use std::future::pending;
use std::pin::pin;
use std::sync::{Barrier, mpsc};
use std::task::{Poll, Waker};
use std::thread;

use futures::executor::block_on;
use tickwheel::error::Cancelled;
use tickwheel::{DelayMap, Duration, Timer};

use super::{OnDrop, bounded};
use crate::common::{HOUR, MS, arm, current_thread, multi_thread, poll_once};

#[test]
fn a_stream_of_a_timer_built_by_a_dropped_task_ends() {
    for runtime in [current_thread(), multi_thread(1)] {
        let (sender, built) = mpsc::channel();
        let builds = OnDrop(Some(move || {
            let timer = Timer::current();
            let (map, mut expired) = DelayMap::<u8, ()>::new(&timer);
            assert!(poll_once(&mut pin!(expired.recv())).is_pending());
            sender.send((map, expired)).unwrap();
        }));
        runtime.spawn(async move {
            let _builds = builds;
            pending::<()>().await;
        });
        drop(runtime);
        let (map, mut expired) = built.recv().unwrap();
        bounded(move || assert!(block_on(expired.recv()).is_none()));
        drop(map);
    }
}

#[test]
fn timers_made_on_a_runtime_that_is_gone_say_so_at_once() {
    let runtime = current_thread();
    let handle = runtime.handle().clone();
    let before = Timer::builder().build_on(&handle).unwrap();
    drop(runtime);
    let after = Timer::builder().build_on(&handle).unwrap();
    let _context = handle.enter();
    for timer in [before, after, Timer::current()] {
        let (map, mut expired) = DelayMap::<u8, ()>::new(&timer);
        assert!(poll_once(&mut pin!(expired.recv())) == Poll::Ready(None)); // Nothing was armed.
        assert!(map.insert(1, (), MS).is_err());
        let mut deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
        assert!(!handle.reset() && !handle.reset_after(MS) && !handle.set_timeout(MS));
        let is_told =
            |result: Result<(), Cancelled>| result.is_err_and(|error| error.is_shutdown());
        assert!(poll_once(&mut deadline).map(is_told) == Poll::Ready(true));
        assert!(poll_once(&mut timer.sleep(Duration::ZERO)).is_ready());
        assert!(timer.metrics().pending() == 0 && timer.snapshot().pending() == 0);
    }
}

#[test]
fn threads_that_first_use_a_runtime_at_once_share_its_timer() {
    const THREADS: usize = 8;
    let (begin, are_armed) = (Barrier::new(THREADS), Barrier::new(THREADS));
    for _ in 0..100 {
        let runtime = multi_thread(1);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let _context = runtime.enter();
                    begin.wait();
                    let timer = Timer::current();
                    let _deadline = timer.deadline(HOUR);
                    are_armed.wait();
                    assert_eq!(timer.metrics().armed(), THREADS as u64);
                });
            }
        });
    }
}

/// Whether it was armed before the end, or is first polled after it.
#[test]
fn a_sleep_that_was_due_before_the_end_is_ready_after_it() {
    for runtime in [multi_thread(2), current_thread()] {
        let [mut unpolled, mut armed] = {
            let _context = runtime.enter();
            [(); 2].map(|()| Timer::current().sleep(2 * MS))
        };
        let polled = poll_once(&mut armed);
        thread::sleep(10 * MS);
        drop(runtime);
        assert!(poll_once(&mut unpolled).is_ready());
        assert!(poll_once(&mut armed).is_ready(), "it was {polled:?}");
    }
}

/// tokio ends its timers in batches, so the alarm may fire before the end shows elsewhere.
#[test]
fn an_end_that_only_the_alarm_shows_yet_expires_nothing() {
    bounded(|| {
        let runtime = multi_thread(1);
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let mut deadline = timer.deadline(HOUR);
        arm(&mut deadline, Waker::noop());
        let context = runtime.enter();
        let mut between = [(); 100].map(|()| Box::pin(tokio::time::sleep(2 * HOUR)));
        between
            .iter_mut()
            .for_each(|sleep| arm(sleep, Waker::noop()));
        drop(context);
        drop(runtime);
        assert!(block_on(deadline).unwrap_err().is_shutdown());
    });
}
