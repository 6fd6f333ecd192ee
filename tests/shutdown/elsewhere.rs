//! Waits from elsewhere, of every kind and at every place: each is told that the runtime has shut
//! down.

use std::future::pending;
use std::sync::mpsc;
use std::thread;

use tickwheel::{DelayMap, Duration, Timer};
use tokio::runtime::{Handle, Runtime};
use tokio::task::block_in_place;

use crate::common::{MS, current_thread, multi_thread};
use crate::waits::{End, Kind, Places, begin_everywhere, end_of, made_on};
use crate::{MINUTE, bounded};

#[test]
fn what_waits_from_elsewhere_is_told_of_the_shutdown() {
    for kind in Kind::ALL {
        bounded(move || {
            let other = multi_thread(1);
            for runtime in [multi_thread(2), current_thread()] {
                let places = begin_everywhere(&runtime, &other, kind);
                thread::sleep(30 * MS);
                drop(runtime);
                places.assert_told(kind);
            }
        });
    }
}

/// Sends when it is dropped.
struct SaysWhenDropped(Vec<mpsc::Sender<()>>);

impl Drop for SaysWhenDropped {
    fn drop(&mut self) {
        for sender in &self.0 {
            let _ = sender.send(());
        }
    }
}

#[test]
fn a_wait_that_begins_while_the_runtime_shuts_down_is_told() {
    for kind in Kind::ALL {
        bounded(move || {
            for round in 0..20 {
                begin_during_a_shutdown_of(multi_thread(2), kind, round);
                begin_during_a_shutdown_of(current_thread(), kind, round);
            }
        });
    }
}

/// The waits begin when the shutdown drops a task, which is before it ends the timers, or a little
/// later.
fn begin_during_a_shutdown_of(runtime: Runtime, kind: Kind, round: u32) {
    // The timer is in use.
    let first = runtime.spawn(async { tickwheel::sleep(MS).await });
    runtime.block_on(first).unwrap();
    let mut places = Places::default();
    let mut says = SaysWhenDropped(Vec::new());
    let mut add = |name| {
        let (say, said) = mpsc::channel::<()>();
        says.0.push(say);
        let place = places.add(name);
        move |wait: &dyn Fn() -> End| {
            place.wait(|| {
                said.recv().unwrap();
                thread::sleep(round / 2 * Duration::from_micros(20));
                wait()
            });
        }
    };
    let in_context =
        move |context: &Handle| context.block_on(async { end_of((kind.wait)()).await });

    let (place, handle) = (add("in a blocking task"), runtime.handle().clone());
    runtime.spawn_blocking(move || place(&|| in_context(&handle)));
    if runtime.metrics().num_workers() > 1 {
        let place = add("in place");
        runtime.spawn(async move { block_in_place(|| place(&|| in_context(&Handle::current()))) });
    }
    let place = add("on a plain thread in the context");
    let handle = runtime.handle().clone();
    thread::spawn(move || place(&|| in_context(&handle)));
    let place = add("on a plain thread outside");
    let handle = runtime.handle().clone();
    thread::spawn(move || {
        place(&|| futures::executor::block_on(end_of(made_on(&handle, kind))));
    });
    runtime.spawn(async move {
        let _says = says;
        pending::<()>().await;
    });
    places.await_begun();
    drop(runtime);
    places.assert_told(kind);
}

/// Where nothing was ever armed, the timer has no alarm that could report the end.
#[test]
fn a_stream_with_nothing_to_wait_for_ends_with_its_runtime() {
    for in_background in [false, true] {
        for flavor in [|| multi_thread(1), || multi_thread(2), current_thread] {
            for round in 0..20 {
                bounded(move || {
                    let (runtime, other) = (flavor(), current_thread());
                    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
                    // In every other round the alarm reports the end too, at the same time.
                    let deadline = (round % 2 == 1).then(|| timer.deadline(MINUTE));
                    let (map, mut of_thread) = DelayMap::<u8, u8>::new(&timer);
                    let (other_map, mut of_other) = DelayMap::<u8, u8>::new(&timer);
                    let thread =
                        thread::spawn(move || futures::executor::block_on(of_thread.recv()));
                    let other = thread::spawn(move || other.block_on(of_other.recv()));
                    thread::sleep(round * Duration::from_micros(100));
                    if in_background {
                        runtime.shutdown_background();
                    } else {
                        drop(runtime);
                    }
                    assert_eq!(thread.join().unwrap(), None);
                    assert_eq!(other.join().unwrap(), None);
                    assert!(map.insert(1, 1, MS).is_err(), "nothing would come out");
                    drop((map, other_map, deadline));
                });
            }
        }
    }
}
