//! `Deadline` and `ResetHandle`, where the oracle allows more: who tells the waiter, and when, and
//! what a new timeout does to a due that was set for once.

use tickwheel::{Deadline, DeadlineMap, Duration, Instant, ResetHandle, Timer};
use tokio_test::{assert_pending, assert_ready_eq, task};

use crate::common::{HOUR, MS};
use crate::paused_clock::{move_the_clock_only, settle};

fn deadline(timeout: Duration) -> (task::Spawn<Deadline>, ResetHandle) {
    let deadline = Timer::current().deadline(timeout);
    let handle = deadline.handle();
    (task::spawn(deadline), handle)
}

type Act = fn(&ResetHandle) -> bool;

/// Each `false` once the deadline has come to its end.
const ACTS: [Act; 7] = [
    |handle| handle.reset(),
    |handle| handle.reset_after(HOUR),
    |handle| handle.reset_at(Instant::now() + HOUR),
    |handle| handle.set_timeout(HOUR),
    |handle| handle.cancel(),
    |handle| handle.expire(),
    |handle| handle.is_pending() || handle.remaining().is_some() || handle.deadline().is_some(),
];

#[tokio::test(start_paused = true)]
async fn who_finds_a_deadline_passed_first_tells_the_waiter() {
    for is_set_once in [false, true] {
        for act in ACTS {
            let (mut deadline, handle) = deadline(30 * MS);
            assert_pending!(deadline.poll());
            assert!(!is_set_once || handle.reset_after(20 * MS));
            settle().await;
            move_the_clock_only(30 * MS);
            assert!(!act(&handle), "it is too late");
            assert!(deadline.is_woken());
            assert_ready_eq!(deadline.poll(), Ok(()));
        }
    }
    assert_eq!(Timer::current().metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn deadlines_and_keyed_ones_tell_what_their_handles_do() {
    let timer = Timer::current();
    let map = DeadlineMap::new(&timer);
    let plain = timer.deadline(60 * MS);
    let keyed = map.insert("alice", 60 * MS).unwrap();
    for ends in [false, true] {
        tokio::time::advance(20 * MS).await;
        assert!(!ends || plain.handle().expire() && keyed.handle().expire());
        let expected = (!ends).then(|| (Instant::now() + 40 * MS, 40 * MS)).unzip();
        assert_eq!((plain.deadline(), plain.remaining()), expected);
        assert_eq!((keyed.deadline(), keyed.remaining()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_beyond_all_time_saturates() {
    let (mut waiting, handle) = deadline(MS);
    assert!(handle.extend(Duration::MAX));
    assert!(handle.remaining() > Some(1_000_000 * HOUR));
    assert!(handle.extend(Duration::MAX) && handle.is_pending());
    assert_pending!(waiting.poll());
    assert!(handle.reset());
    assert_eq!(handle.remaining(), Some(MS));
}

/// However often and in whatever state: an entry that stays behind would be armed for ever.
#[tokio::test(start_paused = true)]
async fn a_restart_leaves_one_entry_and_a_drop_none() {
    let timer = Timer::new();
    let map = DeadlineMap::new(&timer);
    let mut plain = timer.deadline(HOUR);
    let mut keyed = map.insert(1, HOUR).unwrap();
    let ends: [Act; 5] = [
        |_| true,
        |handle| handle.reset(),
        |handle| handle.reset_after(2 * HOUR),
        |handle| handle.cancel(),
        |handle| handle.expire(),
    ];
    for end in ends {
        for _ in 0..3 {
            assert!(end(&plain.handle()) && end(&keyed.handle()));
            plain.restart();
            keyed.restart();
            assert_eq!(timer.metrics().pending, 2);
            assert_eq!(timer.snapshot().pending(), 2);
        }
    }
    drop((plain, keyed));
    assert_eq!(
        (timer.metrics().pending, timer.snapshot().pending()),
        (0, 0)
    );
}
