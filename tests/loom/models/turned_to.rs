//! How far a shard was turned: every interleaving of a turn, or a closing, with polls of an armed
//! sleep that take no lock.

use loom::sync::Arc;
use loom::thread;

use crate::clock::tick::Tick;
use crate::shard::lock::LockHeld;
use crate::shard::shard_tick::ShardTick;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// A shard with one timer, which has the waker of the sleep that is polled.
struct Armed {
    turned_to: ShardTick,
    is_linked: Mutex<bool>,
    /// How often the task was woken.
    woken: AtomicU64,
}

const DUE: Tick = Tick::new(5);

impl Armed {
    fn new() -> Arc<Armed> {
        Arc::new(Armed {
            turned_to: ShardTick::new(Tick::FIRST),
            is_linked: Mutex::new(true),
            woken: AtomicU64::new(0),
        })
    }

    /// A turn to `tick`, or the closing of the shard.
    fn turn(&self, tick: Tick) {
        let mut is_linked = lock(&self.is_linked);
        let (is_linked_now, held) = LockHeld::split(&mut is_linked);
        self.turned_to.set(tick, held);
        let takes_out = tick >= DUE && std::mem::take(is_linked_now);
        drop(is_linked);
        if takes_out {
            self.woken.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn is_pending(&self) -> bool {
        self.turned_to.get() < DUE
    }
}

/// Fails when the turn says how far it came only after it has woken the task.
#[test]
fn a_poll_that_stays_pending_is_followed_by_a_wake_up() {
    for last in [DUE, Tick::NEVER] {
        loom::model(move || {
            let armed = Armed::new();
            let driver = {
                let armed = armed.clone();
                thread::spawn(move || {
                    armed.turn(Tick::new(3));
                    armed.turn(last);
                })
            };
            // Each poll follows the wake-ups that were seen before it.
            for _ in 0..2 {
                let woken = armed.woken.load(Ordering::Acquire);
                let is_pending = armed.is_pending();
                assert!(woken == 0 || !is_pending, "the only wake-up is lost");
            }
            driver.join().unwrap();
            assert_eq!(armed.woken.load(Ordering::Acquire), 1);
            assert!(!armed.is_pending());
        });
    }
}
