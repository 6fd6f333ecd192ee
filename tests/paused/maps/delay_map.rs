//! `DelayMap`: what wakes its stream and what does not, how long a poll may take, and user code in
//! its calls.

use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};
use std::thread;

use futures::stream::{FusedStream, StreamExt};
use tickwheel::{DelayMap, Duration, Expirations, Instant, Timer};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{
    HOUR, MS, PATIENCE, assert_nothing_armed, current_thread, multi_thread, waker_fn,
};
use crate::paused_clock::idle_for;

#[tokio::test(start_paused = true)]
async fn an_aborted_consumer_loses_nothing_and_another_goes_on() {
    let (map, mut stream) = DelayMap::new(&Timer::current());
    assert!(map.expirations().is_none(), "there is one");
    (1..=5).for_each(|key| assert!(map.insert(key, key, key * MS).is_ok()));
    let (sender, taken) = mpsc::channel();
    let consumer = tokio::spawn(async move {
        while let Some(expired) = stream.recv().await {
            sender.send(expired.key).unwrap();
        }
    });
    tickwheel::sleep(3 * MS).await;
    consumer.abort();
    assert!(consumer.await.unwrap_err().is_cancelled());
    assert_nothing_armed();
    assert_eq!(map.insert(6, 6, MS), Ok(None));
    tickwheel::sleep(10 * MS).await;
    let mut stream = map.expirations().unwrap();
    let mut keys: Vec<_> = taken.iter().collect();
    assert!(keys.len() >= 2 && map.len() == 6 - keys.len(), "{keys:?}");
    keys.extend((0..map.len()).map(|_| stream.try_recv().unwrap().key));
    keys.sort_unstable();
    assert_eq!(keys, [1, 2, 3, 4, 5, 6]);
    assert!(stream.try_recv().is_err() && map.expirations().is_none());
    drop(map);
    assert!(stream.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_drain_and_a_close_tell_how_much_time_was_left() {
    for take in [DelayMap::drain, DelayMap::close] {
        let (map, mut expired) = DelayMap::new(&Timer::current());
        map.insert("far", 1, HOUR).unwrap();
        map.insert("due", 2, MS).unwrap();
        tokio::time::advance(2 * MS).await;
        let mut taken = take(&map);
        taken.sort_unstable();
        let left = [("due", 2, Duration::ZERO), ("far", 1, HOUR - 2 * MS)];
        assert_eq!(taken, left);
        assert!(expired.try_recv().is_err() && take(&map).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_due_later_than_others_wakes_nobody() {
    let (map, expired) = DelayMap::new(&Timer::current());
    let mut expired = task::spawn(expired);
    map.insert(1, (), HOUR).unwrap();
    assert_pending!(expired.poll_next());
    map.insert(2, (), 2 * HOUR).unwrap();
    assert!(map.set(&2, 3 * HOUR) && map.remove(&2).is_some());
    assert!(!expired.is_woken());
    map.insert(3, (), MS).unwrap();
    assert!(expired.is_woken());
}

#[tokio::test(start_paused = true)]
async fn to_try_tells_nothing_due_and_nothing_to_come_apart() {
    let (map, mut expired) = DelayMap::<u8, u8>::new(&Timer::current());
    let empty = expired.try_recv().unwrap_err();
    assert!(empty.to_string().contains("due"), "{empty}");
    drop(map);
    let ended = expired.try_recv().unwrap_err();
    assert!(ended.to_string().contains("ended"), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn the_stream_is_terminated_only_once_it_has_said_so() {
    let (map, expired) = DelayMap::<u8, u8>::new(&Timer::current());
    let mut expired = task::spawn(expired);
    drop(map);
    assert!(!expired.is_terminated(), "no poll has seen that yet");
    assert!(assert_ready!(expired.poll_next()).is_none());
    assert!(expired.is_terminated());
    assert!(expired.into_inner().next().await.is_none());
}

/// On a clock that is never paused, where a close does not move the timer of the stream.
#[test]
fn a_stream_that_has_ended_leaves_nothing_armed() {
    multi_thread(1).block_on(async {
        let (map, mut expired) = DelayMap::new(&Timer::current());
        map.insert(1, (), HOUR).unwrap();
        let mut waiting = task::spawn(expired.recv());
        assert_pending!(waiting.poll());
        assert_eq!(map.close().len(), 1);
        assert!(waiting.is_woken());
        assert!(assert_ready!(waiting.poll()).is_none());
        assert_nothing_armed();
    });
}

/// On a clock that is never paused, where a call tells the stream of its own item alone.
#[test]
fn a_value_made_due_comes_out_of_a_stream_that_waits() {
    type Expire = fn(&DelayMap<u32, ()>) -> bool;
    const EXPIRES: [Expire; 2] = [|map| map.expire(&1), |map| map.expire_all() == 1];
    multi_thread(1).block_on(async {
        for expire in EXPIRES {
            let (map, expired) = DelayMap::new(&Timer::current());
            map.insert(1, (), HOUR).unwrap();
            let mut waiting = task::spawn(expired);
            assert_pending!(waiting.poll_next());
            assert!(expire(&map) && waiting.is_woken());
            assert!(assert_ready!(waiting.poll_next()).is_some());
        }
    });
}

#[tokio::test(start_paused = true)]
async fn many_idle_streams_do_not_make_the_paused_clock_run() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let idle = |_| {
        let (map, expired) = DelayMap::<u8, u8>::new(&timer);
        let mut expired = task::spawn(expired);
        assert_pending!(expired.poll_next());
        (map, expired)
    };
    let _idle: Vec<_> = (0..40).map(idle).collect();
    let start = Instant::now();
    timer.sleep(MS).await;
    idle_for(20 * MS).await;
    assert_eq!(start.elapsed(), MS);
}

#[tokio::test(start_paused = true)]
async fn one_poll_is_bounded_and_others_have_their_turn() {
    let (map, expired) = DelayMap::new(&Timer::current());
    let mut expired = task::spawn(expired);
    // They lie in a coarse slot, and each goes to a finer one first.
    (0..50_000).for_each(|key| drop(map.insert(key, vec![key], 300 * MS)));
    tokio::time::advance(300 * MS).await;
    // Not held up by the task's cooperative budget, which is another matter.
    let polls_before_the_first = tokio::task::unconstrained(async {
        let mut polls = 0;
        while expired.poll_next().is_pending() {
            assert!(expired.is_woken(), "it goes on by itself");
            polls += 1;
        }
        polls
    });
    let polls = polls_before_the_first.await;
    assert!(polls > 50, "it has looked through them all in {polls}");
}

/// One task holds the thread. Meanwhile more values become due than one poll looks at.
#[test]
fn a_stream_that_is_never_done_searching_gives_what_was_found() {
    current_thread().block_on(async {
        let (map, mut expired) = DelayMap::<u32, ()>::new(&Timer::current());
        for key in 0..100_000 {
            let delay = Duration::from_micros(u64::from(key) * 4);
            map.insert(key, (), delay).unwrap();
        }
        let hog = tokio::spawn(async {
            loop {
                thread::sleep(3 * MS);
                tokio::task::yield_now().await;
            }
        });
        let first = tokio::time::timeout(PATIENCE, expired.recv()).await;
        assert!(first.unwrap().is_some());
        hog.abort();
    });
}

/// A poll with a waker, which stays pending.
fn wait<T>(stream: &mut Expirations<u32, T>, waker: &Waker) {
    let polled = stream.poll_next_unpin(&mut Context::from_waker(waker));
    assert!(polled.is_pending());
}

/// It holds the last handle of the map. The timer of the stream has fired, and holds no waker.
#[tokio::test(start_paused = true)]
async fn the_waker_of_a_former_task_is_dropped_under_no_lock() {
    let (map, mut expired) = DelayMap::new(&Timer::current());
    map.insert(1, (), MS).unwrap();
    let former = waker_fn(move || assert!(map.contains_key(&1)));
    wait(&mut expired, &former);
    drop(former);
    tickwheel::sleep(2 * MS).await;
    assert_eq!(expired.recv().await.unwrap().key, 1);
    assert!(expired.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_close_wakes_the_stream_under_no_lock() {
    let (map, mut stream) = DelayMap::new(&Timer::current());
    map.insert(1, (), HOUR).unwrap();
    let (asked, (tells, told)) = (map.clone(), mpsc::channel());
    let asks = move || {
        let is_over = asked.is_empty() && !asked.contains_key(&1);
        tells.send(is_over).unwrap();
    };
    wait(&mut stream, &waker_fn(asks));
    assert_eq!(map.close(), [(1, (), HOUR)]);
    assert_eq!(told.try_recv(), Ok(true), "woken, and the map is empty");
    assert_nothing_armed();
}

/// The waker of the stream is woken after the values of one part were made due. It removes most of
/// the others, and those that are left move together.
#[tokio::test(start_paused = true)]
async fn expire_all_misses_no_value_that_moves_meanwhile() {
    let (map, mut expired) = DelayMap::new(&Timer::current());
    for key in 0..80_000 {
        map.insert(key, (), HOUR).unwrap();
    }
    let (used, (tells, told)) = (map.clone(), mpsc::channel());
    let removes = move || {
        let keys = (0..80_000).filter(|key| key % 16 > 0);
        let removed = keys.filter(|key| used.remove(key).is_some());
        tells.send(removed.count()).unwrap();
    };
    wait(&mut expired, &waker_fn(removes));
    map.expire_all();
    let left = 80_000 - told.recv().unwrap();
    assert!(left < 40_000 && map.len() == left, "{left}");
    let came = std::iter::from_fn(|| expired.try_recv().ok());
    assert_eq!(came.count(), left);
}

/// A hasher whose clone may panic.
#[derive(Default)]
struct Hasher {
    inner: RandomState,
    panics: Arc<AtomicBool>,
}

impl Clone for Hasher {
    fn clone(&self) -> Hasher {
        assert!(!self.panics.load(Ordering::Relaxed), "the clone panics");
        let (inner, panics) = (self.inner.clone(), self.panics.clone());
        Hasher { inner, panics }
    }
}

impl BuildHasher for Hasher {
    type Hasher = <RandomState as BuildHasher>::Hasher;

    fn build_hasher(&self) -> Self::Hasher {
        self.inner.build_hasher()
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_panics_leaves_no_handle_behind() {
    let hasher = Hasher::default();
    let panics = hasher.panics.clone();
    let (map, mut stream) =
        DelayMap::<u8, (), _>::with_limit_and_hasher(&Timer::current(), 9, hasher);
    let weak = map.downgrade();
    panics.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| map.clone())).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| weak.upgrade())).is_err());
    drop(map);
    assert!(stream.recv().await.is_none(), "the last handle is gone");
}
