//! What both maps have in common: the rule for closures that run under their locks, and what a map
//! tells of itself.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread;

use futures::StreamExt;
use tickwheel::{DeadlineMap, DelayMap, Instant, Timer};

use crate::common::{HOUR, MS, catch, current_thread, in_time};

/// A map of each kind, with the key 1 in it.
fn with_both(act: impl FnOnce(&DeadlineMap<u32>, &DelayMap<u32, u32>)) {
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let (values, _expired) = DelayMap::new(&timer);
    values.insert(1, 1, HOUR).unwrap();
    let deadlines = DeadlineMap::new(&timer);
    let _deadline = deadlines.insert(1, HOUR).unwrap();
    act(&deadlines, &values);
}

/// Whether a call panics and says that it is one from a closure.
fn is_refused<R>(call: impl FnOnce() -> R) -> bool {
    catch(call).is_err_and(|(message, _)| message.contains("from a closure"))
}

#[cfg_attr(not(debug_assertions), ignore = "only debug builds look")]
#[test]
fn a_call_to_its_own_map_in_a_closure_panics_in_debug_builds() {
    in_time(|| {
        with_both(|_, map| {
            assert!(is_refused(|| map.retain(|key, _| map.set(key, MS))));
            assert!(is_refused(|| map.update(&1, |_| map.remove(&2))));
            assert!(is_refused(|| map.update(&1, |_| map.drain())));
            assert!(is_refused(|| map.touch(&1, MS, |_| map.expire_all())));
            let make = || map.len() as u32 + u32::from(map.contains_key(&1));
            assert!(is_refused(|| map.upsert(2, MS, make, |_| ())));
            let insert = |_: &u32| map.insert(1, 1, MS).is_ok();
            assert!(is_refused(|| map.remove_if(&1, insert)));
            assert!(is_refused(|| map.set_if(&1, MS, insert)));
            assert!(map.deadline(&1) > Some(Instant::now() + MS) && map.len() == 1);
        });
        with_both(|map, _| {
            assert!(is_refused(|| map.for_each(|key, _| assert!(map.reset(key)))));
            assert!(is_refused(|| map.for_each(|_, _| drop(map.close()))));
            // A deadline that is dropped in the panic must not panic again.
            assert!(is_refused(|| map.for_each(|_, _| drop(map.insert(2, MS)))));
            let insert = || drop(map.insert_if_absent(2, MS));
            assert!(is_refused(|| map.for_each(|_, _| insert())));
            let own = Cell::new(map.insert(3, HOUR).ok());
            let panics = |_: &u32, _: &tickwheel::ResetHandle| {
                let _own = own.take();
                assert!(map.contains_key(&1));
            };
            assert!(is_refused(|| map.for_each(panics)));
            assert!(map.remove(&3), "its entry stayed");
            let own = map.insert(4, HOUR);
            catch(|| own.map(|_own| panic!("outside of a closure")).is_err()).unwrap_err();
            assert_eq!(map.len(), 1);
        });
    });
}

/// Also while nothing is due.
#[cfg_attr(not(debug_assertions), ignore = "only debug builds look")]
#[test]
fn a_call_to_its_own_stream_in_a_closure_panics_in_debug_builds() {
    in_time(|| {
        let runtime = current_thread();
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let (map, mut expired) = DelayMap::new(&timer);
        map.insert(1, 1, HOUR).unwrap();
        assert!(expired.try_recv().is_err());
        assert!(is_refused(|| map.update(&1, |_| expired.try_recv())));
        let mut cx = Context::from_waker(Waker::noop());
        let poll = |_: &mut i32| expired.poll_next_unpin(&mut cx);
        assert!(is_refused(|| map.update(&1, poll)));
    });
}

#[test]
fn a_closure_may_show_its_map_and_call_another_one() {
    in_time(|| {
        with_both(|deadlines, values| {
            let shown = Cell::new(0);
            values.for_each(|_, _, _| {
                shown.set(shown.get() + format!("{values:?}").matches("len: 1").count());
                assert_eq!((deadlines.len(), values.len()), (1, 1));
                deadlines.for_each(|key, handle| {
                    shown.set(shown.get() + format!("{deadlines:?}").matches("len: 1").count());
                    assert!(handle.reset() && *key == 1 && !values.is_empty());
                });
            });
            assert_eq!(shown.get(), 2);
            let told = values.update(&1, |value| *value + deadlines.len() as u32);
            assert_eq!(told, Some(2));
        });
    });
}

/// Other keys come and go meanwhile.
#[test]
fn for_each_shows_once_what_is_there_throughout() {
    const KEYS: u32 = 3_000;
    with_both(|deadlines, values| {
        let _kept: Vec<_> = (0..KEYS)
            .map(|key| {
                values.insert(key, key, HOUR).unwrap();
                deadlines.insert(key, HOUR).unwrap()
            })
            .collect();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for key in (KEYS..10 * KEYS).cycle() {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    values.insert(key, key, HOUR).unwrap();
                    let deadline = deadlines.insert(key, HOUR).unwrap();
                    values.remove(&(key - 1_000).max(KEYS));
                    drop(deadline);
                }
            });
            for _ in 0..50 {
                let (mut shown, mut keyed) = (Vec::new(), Vec::new());
                values.for_each(|&key, value, _| {
                    assert_eq!(key, *value);
                    shown.push(key);
                });
                deadlines.for_each(|&key, handle| {
                    assert_eq!(handle.timeout(), HOUR);
                    keyed.push(key);
                });
                for mut seen in [shown, keyed] {
                    seen.retain(|&key| key < KEYS);
                    seen.sort_unstable();
                    assert!(seen.into_iter().eq(0..KEYS));
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
}

thread_local! {
    static HASHED: Cell<u32> = const { Cell::new(0) };
}

/// Counts how often it is hashed.
#[derive(Clone, PartialEq, Eq)]
struct Counting(u32);

impl Hash for Counting {
    fn hash<H: Hasher>(&self, state: &mut H) {
        HASHED.set(HASHED.get() + 1);
        self.0.hash(state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_hashes_its_key_once() {
    let (values, _expired) = DelayMap::new(&Timer::current());
    let deadlines = DeadlineMap::new(&Timer::current());
    let (key, mut kept) = (|| Counting(1), Vec::new());
    let once = |what: &str, call: &mut dyn FnMut() -> bool| {
        HASHED.set(0);
        assert!(call() && HASHED.get() == 1, "{what}: {}", HASHED.get());
    };
    let insert = |value| values.insert(key(), value, HOUR);
    once("insert", &mut || insert(1) == Ok(None));
    once("replace", &mut || insert(2) == Ok(Some(1)));
    let insert = || values.insert_if_absent(key(), 3, HOUR);
    once("absent", &mut || insert().is_err());
    once("set", &mut || values.set(&key(), HOUR));
    once("set_if", &mut || values.set_if(&key(), HOUR, |_| true));
    let upsert = || values.upsert(key(), HOUR, || 4, |_| ());
    once("upsert", &mut || upsert().is_ok());
    let touch = || values.touch(&key(), HOUR, |_| ());
    once("touch", &mut || touch().is_some());
    once("remove", &mut || values.remove(&key()).is_some());
    for what in ["insert", "replace"] {
        once(what, &mut || {
            kept.push(deadlines.insert(key(), HOUR).unwrap());
            true
        });
    }
    let insert = || deadlines.insert_if_absent(key(), HOUR);
    once("absent", &mut || insert().is_err());
    once("reset", &mut || deadlines.reset(&key()));
    once("handle", &mut || deadlines.handle(&key()).is_some());
    once("expire", &mut || deadlines.expire(&key()));
    once("too late", &mut || !deadlines.reset(&key()));
    once("remove", &mut || deadlines.remove(&key()));
    once("new", &mut || insert().is_ok());
}
