//! Which timer belongs to which runtime, what becomes of it, and by which clock it goes where it is
//! used outside of that runtime.

use std::io;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;

use futures::executor;
use futures::future::poll_immediate;
use tickwheel::error::{Cancelled, InsertError, ShutDown};
use tickwheel::{DelayMap, Duration, Instant, Timer, sleep};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, PATIENCE, current_thread, multi_thread, panic_of, tells_workers};
use crate::paused_clock::{move_the_clock_only, paused};

#[test]
fn each_runtime_has_one_timer_of_its_own() {
    let (first, second) = (multi_thread(2), multi_thread(2));
    let armed = |runtime: &Runtime| runtime.block_on(async { Timer::current().metrics().armed() });
    // Nothing uses them between the rounds.
    for _ in 0..3 {
        // Of an hour, so that each is armed however busy the machine is.
        first.block_on(async { assert!(poll_immediate(sleep(HOUR)).await.is_none()) });
        second.block_on(async { assert!(poll_immediate(sleep(HOUR)).await.is_none()) });
        first.block_on(async {
            let polled = tokio::spawn(async { poll_immediate(sleep(HOUR)).await });
            assert!(polled.await.unwrap().is_none());
        });
    }
    assert_eq!((armed(&first), armed(&second)), (6, 3));
    let nested = first.block_on(async {
        let _context = second.enter();
        Timer::current().metrics().armed()
    });
    assert_eq!(nested, 3, "the entered runtime is the current one");
}

#[test]
fn a_sleep_reset_by_a_plain_thread_goes_by_its_pollers_clock() {
    if !tells_workers() {
        return;
    }
    let workers = multi_thread(1);
    let made = workers.spawn(async { [sleep(MS)] });
    let [mut nap] = workers.block_on(made).unwrap();
    nap.reset_at(Instant::now() - MS);
    assert!(nap.is_elapsed());
    nap.reset_after(HOUR);
    assert!(!nap.is_elapsed());
    let polled = paused().block_on(async { tokio::time::timeout(2 * HOUR, nap).await });
    assert!(polled.is_ok(), "an hour of the paused clock is over");
}

/// By a plain thread, and by a worker of another runtime, whose index is not one of the paused one.
#[test]
fn a_timer_built_from_elsewhere_moves_no_paused_clock() {
    for is_on_worker in [false, true] {
        let (sender, handle) = mpsc::channel();
        let (ends, end) = oneshot::channel();
        let paused = thread::spawn(move || {
            paused().block_on(async {
                let start = Instant::now();
                sender.send(Handle::current()).unwrap();
                end.await.unwrap();
                start.elapsed()
            })
        });
        let handle = handle.recv().unwrap();
        let build = move || (0..2_000).for_each(|_| drop(Timer::builder().build_on(&handle)));
        if is_on_worker {
            let workers = multi_thread(1);
            let built = workers.spawn(async move { build() });
            workers.block_on(built).unwrap();
        } else {
            build();
        }
        ends.send(()).unwrap();
        assert_eq!(paused.join().unwrap(), Duration::ZERO);
    }
}

/// A local of a thread, which is destroyed after tokio's own, pushes back a deadline of a runtime
/// that runs, and drops a sleep.
#[test]
fn a_reset_from_a_thread_that_ends_ends_no_running_timer() {
    struct ResetsAtTheEnd(Option<(tickwheel::ResetHandle, tickwheel::Sleep)>);
    impl Drop for ResetsAtTheEnd {
        fn drop(&mut self) {
            if let Some((handle, sleep)) = self.0.take() {
                assert!(handle.reset_after(30 * MS));
                drop(sleep);
            }
        }
    }
    thread_local! {
        static KEPT: std::cell::RefCell<ResetsAtTheEnd> =
            const { std::cell::RefCell::new(ResetsAtTheEnd(None)) };
    }
    for tokio_first in [false, true] {
        let runtime = current_thread();
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let other = timer.deadline(HOUR);
        let deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
        let mut dropped = timer.sleep(HOUR);
        assert_pending!(task::spawn(&mut dropped).poll());
        runtime.block_on(async {
            tokio::time::sleep(20 * MS).await;
            let start = Instant::now();
            thread::spawn(move || {
                // What is used first is destroyed last.
                let _tokios = tokio_first.then(Handle::try_current);
                KEPT.with_borrow_mut(|kept| kept.0 = Some((handle, dropped)));
                let _ = Handle::try_current();
            })
            .join()
            .unwrap();
            assert_eq!(timer.metrics().pending(), 2);
            assert_eq!(deadline.await, Ok(()));
            assert!(start.elapsed() >= 30 * MS);
            assert!(other.handle().is_pending());
        });
    }
}

/// The paused clock is ahead of the system's, or comes to an hour from it later.
#[test]
fn used_from_another_runtime_a_timer_reads_that_clock_and_fires_by_its_own() {
    for is_ahead in [false, true] {
        let (frozen, real) = (paused(), current_thread());
        let timer = Timer::builder().build_on(frozen.handle()).unwrap();
        if is_ahead {
            frozen.block_on(tokio::time::advance(2 * HOUR));
        }
        let (nap, deadline) = (timer.sleep(HOUR), timer.deadline(HOUR));
        let left = nap.deadline() - Instant::now();
        assert!(left <= HOUR && left > HOUR / 2);
        let waiting = thread::spawn(move || real.block_on(async { (nap.await, deadline.await) }));
        frozen.block_on(async {
            if !is_ahead {
                tokio::time::sleep(2 * HOUR).await;
            }
            while !waiting.is_finished() {
                tokio::time::sleep(MS).await;
            }
        });
        assert_eq!(waiting.join().unwrap(), ((), Ok(())), "ahead: {is_ahead}");
    }
}

#[test]
fn a_plain_thread_reads_the_systems_clock_and_hastens_nothing() {
    let runtime = paused();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        tokio::time::advance(HOUR / 2).await;
        let deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
        let due = handle.deadline();
        let elsewhere = thread::spawn(move || {
            let now = std::time::Instant::now();
            assert!(timer.sleep(MS).deadline().into_std() < now + HOUR / 4);
            let left = handle.remaining().unwrap();
            assert!(left > HOUR && left <= 3 * HOUR / 2, "{left:?}");
            assert!(handle.reset() && handle.deadline() == due);
            assert!(handle.extend(HOUR));
        });
        elsewhere.join().unwrap();
        deadline.await.unwrap();
        assert_eq!(start.elapsed(), HOUR / 2 + 2 * HOUR);
    });
}

/// The clock stands still, while by the thread's own clock the driver has come to nothing for long.
#[test]
fn a_plain_thread_sees_no_stall_on_a_paused_clock() {
    for pauses_late in [false, true] {
        let runtime = if pauses_late {
            current_thread()
        } else {
            paused()
        };
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        runtime.block_on(async {
            if pauses_late {
                tokio::time::pause();
                timer.sleep(MS).await;
            }
        });
        let deadline = timer.deadline(50 * MS);
        thread::sleep(200 * MS);
        assert!(!deadline.handle().reset(), "by this clock it has passed");
        assert_eq!((timer.metrics().spared(), timer.metrics().stalls()), (0, 0));
    }
}

#[test]
fn a_stream_on_a_plain_thread_takes_what_the_driver_came_to() {
    let frozen = paused();
    let timer = Timer::builder().build_on(frozen.handle()).unwrap();
    let (map, mut due) = DelayMap::new(&timer);
    frozen.block_on(async {
        map.insert("first", (), HOUR).unwrap();
        map.insert("second", (), 2 * HOUR).unwrap();
        tokio::time::advance(3 * HOUR).await;
    });
    let taking = thread::spawn(move || executor::block_on(due.recv_many(&mut Vec::new(), 2)));
    let deadline = std::time::Instant::now() + PATIENCE;
    while !taking.is_finished() {
        assert!(std::time::Instant::now() < deadline, "it tries for ever");
        frozen.block_on(async { tokio::time::sleep(MS).await });
    }
    assert!(taking.join().unwrap() > 0);
}

/// A stream is taken to a clock that is ahead, and back.
#[test]
fn a_stream_is_not_early_by_the_clock_of_its_caller() {
    let runtime = paused();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let (map, mut due) = DelayMap::new(&timer);
    runtime.block_on(async {
        map.insert("first", (), 20 * MS).unwrap();
        thread::sleep(50 * MS);
    });
    let first = due.try_recv().expect("the system's clock is ahead");
    assert_eq!(first.key, "first");
    runtime.block_on(async {
        let start = Instant::now();
        map.insert("sooner", (), 10 * MS).unwrap();
        assert!(due.try_recv().is_err());
        assert_eq!(due.recv().await.unwrap().key, "sooner");
        assert_eq!(start.elapsed(), 10 * MS);
    });
}

/// The driver never comes to the tick of that deadline.
#[test]
fn a_sleep_that_was_due_when_its_runtime_ended_is_ready() {
    let delay = 10 * MS + Duration::from_micros(500);
    for early in [Duration::ZERO, Duration::from_nanos(1)] {
        let runtime = paused();
        let mut sleep = {
            let _context = runtime.enter();
            sleep(delay)
        };
        runtime.block_on(async {
            assert_pending!(task::spawn(&mut sleep).poll());
            move_the_clock_only(delay - early);
        });
        drop(runtime);
        let polled = sleep.try_poll(&mut Context::from_waker(Waker::noop()));
        let ended = assert_ready!(polled, "it reports the end");
        assert_eq!(ended.is_ok(), early.is_zero());
    }
}

/// By a clock that goes on: the one of the runtime that polls it.
#[test]
fn a_sleep_that_was_shut_down_is_so_after_its_deadline_too() {
    let (ended, other) = (paused(), paused());
    let timer = Timer::builder().build_on(ended.handle()).unwrap();
    drop(ended);
    other.block_on(async {
        let mut nap = timer.sleep_until(Instant::now() + HOUR);
        for _ in 0..2 {
            let polled = nap.try_poll(&mut Context::from_waker(Waker::noop()));
            assert!(assert_ready!(polled).is_err());
            tokio::time::advance(2 * HOUR).await;
        }
    });
}

#[test]
fn the_error_of_a_shutdown_names_the_remedy_and_converts() {
    let runtime = paused();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let mut nap = timer.sleep(HOUR);
    drop(runtime);
    let polled = nap.try_poll(&mut Context::from_waker(Waker::noop()));
    let end: ShutDown = assert_ready!(polled).unwrap_err();
    assert!(end.to_string().contains("keep that runtime running"));
    let (message, _) = panic_of(|| task::spawn(&mut nap).poll());
    assert!(message.contains(&end.to_string()), "{message}");
    assert!(Cancelled::from(end).is_shutdown());
    let error = io::Error::from(end);
    assert_eq!(error.kind(), io::ErrorKind::Other);
    assert_eq!(error.get_ref().unwrap().downcast_ref(), Some(&end));
}

/// The driver never comes to its tick.
#[test]
fn a_deadline_that_had_passed_when_its_runtime_ended_has_expired() {
    for early in [Duration::ZERO, Duration::from_nanos(1)] {
        let runtime = paused();
        let timer = runtime.block_on(async { Timer::current() });
        let mut deadline = {
            let _context = runtime.enter();
            timer.deadline(10 * MS)
        };
        runtime.block_on(async { move_the_clock_only(10 * MS - early) });
        drop(runtime);
        let outcome = assert_ready!(task::spawn(&mut deadline).poll());
        assert_eq!(outcome.is_ok(), early.is_zero());
    }
}

#[test]
fn a_map_is_closed_once_another_wait_has_noticed_the_end() {
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::current() });
    let (map, _stream) = DelayMap::new(&timer);
    let mut other = task::spawn(timer.sleep(HOUR));
    assert_pending!(other.poll());
    drop(runtime);
    assert!(other.is_woken());
    let inserted = map.insert(1, (), HOUR);
    assert_eq!(inserted, Err(InsertError::Closed((1, ()))));
}

/// Its time driver fires while the context of the other one is entered, whose clock is another.
#[test]
fn a_root_future_may_wait_within_another_runtime() {
    let build = |is_paused| {
        if is_paused {
            paused()
        } else {
            current_thread()
        }
    };
    // Each of a clock that runs on its own, and of one that stands.
    for (is_own_paused, wait) in [(true, 60_000), (false, 20)] {
        let (own, other) = (build(is_own_paused), build(!is_own_paused));
        let wait = Duration::from_millis(wait);
        if !is_own_paused {
            other.block_on(tokio::time::advance(HOUR));
        }
        let begun = own.block_on(async { Instant::now() });
        let of_system = std::time::Instant::now();
        own.block_on(async {
            let [mut sleep, mut longer] = [wait, wait + HOUR / 2].map(tickwheel::sleep);
            assert!(poll_immediate(&mut sleep).await.is_none());
            assert!(poll_immediate(&mut longer).await.is_none());
            let _context = other.enter();
            sleep.await;
            assert!(poll_immediate(longer).await.is_none());
        });
        let waited = own.block_on(async { begun.elapsed() });
        assert!(waited >= wait, "{waited:?}");
        assert!(is_own_paused || of_system.elapsed() >= wait);
    }
}
