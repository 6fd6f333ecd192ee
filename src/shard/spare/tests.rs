//! When a thread keeps a spare, lends it, and lets it go, told by the counts of the shards.
//!
//! Invariant: each test runs on a thread of its own, which has no spare at its beginning.

use std::thread;
use std::time::Duration;

use super::*;
use crate::driver::Driver;
use crate::shard::Readings;
use crate::time::clock::Clock;
use crate::time::tick::TickLength;

/// The shards of a timer with that number.
fn timer(number: u64, shards: usize, own_timer_of: Option<runtime::Id>) -> Vec<Arc<Shard>> {
    let tick = TickLength::new(Duration::from_millis(1)).unwrap();
    let clock = Arc::new(Clock::of_system(tick));
    let driver = Arc::new(Driver::new(clock.clone(), false));
    let shard = |of_timer| {
        let identity = Identity {
            timer: TimerNumber(number),
            number: of_timer,
            of: shards,
            own_timer_of,
        };
        let readings = Readings::new(tick, shards);
        Shard::new(64, clock.clone(), driver.clone(), readings, identity)
    };
    (0..shards).map(|number| Arc::new(shard(number))).collect()
}

fn hold(shards: &[Arc<Shard>]) -> Hold {
    Hold::new(shards, shards[0].identity.timer)
}

/// How many references there are beside that of the test.
fn others(shard: &Arc<Shard>) -> usize {
    Arc::strong_count(shard) - 1
}

fn on_a_new_thread(test: impl FnOnce() + Send) {
    thread::scope(|scope| scope.spawn(test).join().unwrap());
}

#[test]
fn a_dropped_hold_goes_home_and_is_lent_again() {
    on_a_new_thread(|| {
        let shards = timer(1, 1, None);
        for _ in 0..3 {
            let lent = hold(&shards);
            assert_eq!(others(&shards[0]), 1, "lent");
            drop(lent);
            assert_eq!(others(&shards[0]), 1, "home");
        }
    });
}

#[test]
fn a_second_hold_is_counted_and_counted_off() {
    on_a_new_thread(|| {
        let shards = timer(1, 1, None);
        let (one, other) = (hold(&shards), hold(&shards));
        assert_eq!(others(&shards[0]), 2);
        drop(one);
        assert_eq!(others(&shards[0]), 2, "one is home");
        drop(other);
        assert_eq!(others(&shards[0]), 1, "the other finds one at home");
    });
}

#[test]
fn a_thread_that_ends_lets_its_spare_go() {
    let shards = timer(1, 1, None);
    on_a_new_thread(|| drop(hold(&shards)));
    assert_eq!(others(&shards[0]), 0);
}

#[test]
fn a_thread_keeps_no_shard_but_its_own() {
    on_a_new_thread(|| {
        let shards = timer(1, 2, None);
        let own = of_this_thread(&shards).number();
        drop(Hold::counted(&shards[1 - own]));
        assert_eq!(others(&shards[1 - own]), 0);
        drop(Hold::counted(&shards[own]));
        assert_eq!(others(&shards[own]), 1);
    });
}

#[test]
fn a_retired_shard_is_not_kept() {
    on_a_new_thread(|| {
        let shards = timer(1, 1, None);
        let lent = hold(&shards);
        shards[0].retire();
        drop(lent);
        assert_eq!(others(&shards[0]), 0);
    });
}

#[test]
fn a_thread_that_looks_for_a_place_lets_retired_spares_go() {
    on_a_new_thread(|| {
        let [retired, kept, new] = [1, 2, 3].map(|number| timer(number, 1, None));
        drop(hold(&retired));
        drop(hold(&kept));
        retired[0].retire();
        assert_eq!(others(&retired[0]), 1, "nothing was looked for yet");
        drop(hold(&new));
        let counts = [&retired, &kept, &new].map(|shards| others(&shards[0]));
        assert_eq!(counts, [0, 1, 1]);
    });
}

#[test]
fn eight_timers_in_a_row_each_have_a_place() {
    on_a_new_thread(|| {
        let timers: Vec<_> = (1..=8).map(|number| timer(number, 1, None)).collect();
        for _ in 0..2 {
            for shards in &timers {
                drop(hold(shards));
            }
        }
        assert!(timers.iter().all(|shards| others(&shards[0]) == 1));
        // The ninth timer takes the place of the first one.
        let ninth = timer(9, 1, None);
        drop(hold(&ninth));
        let counts: Vec<_> = timers.iter().map(|shards| others(&shards[0])).collect();
        assert_eq!(counts, [0, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(others(&ninth[0]), 1);
    });
}

#[test]
fn a_spare_of_a_runtimes_own_timer_is_lent_once() {
    on_a_new_thread(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let other = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let (id, other) = (runtime.handle().id(), other.handle().id());
        let shards = timer(1, 1, Some(id));
        let first = hold(&shards);
        assert!(Hold::spare_of_own_timer(id).is_none(), "nothing is known");
        first.remember_as_own_timer();
        assert!(Hold::spare_of_own_timer(id).is_none(), "it is lent");
        drop(first);
        assert!(Hold::spare_of_own_timer(other).is_none());
        let lent = Hold::spare_of_own_timer(id);
        assert!(lent.is_some() && Hold::spare_of_own_timer(id).is_none());
        assert_eq!(others(&shards[0]), 1);
    });
}

#[test]
fn a_retired_timer_is_forgotten_as_the_own_one() {
    on_a_new_thread(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let id = runtime.handle().id();
        let shards = timer(1, 1, Some(id));
        let lent = hold(&shards);
        lent.remember_as_own_timer();
        drop(lent);
        shards[0].retire();
        assert!(Hold::spare_of_own_timer(id).is_none());
        assert_eq!(others(&shards[0]), 0, "the spare is let go");
    });
}
