//! `Deadline` and `ResetHandle`, where the oracle allows more: who tells the waiter, and when, and
//! what a new timeout does to a due that was set for once.

use tickwheel::{
    Deadline, DeadlineMap, Duration, Instant, KeyedDeadline, ResetHandle, Timer, sleep,
};
use tokio_test::{assert_pending, assert_ready, assert_ready_eq, task};

use crate::common::{HOUR, MS, move_the_clock_only, settle};

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
async fn what_ends_a_deadline_wakes_the_waiter_before_it_returns() {
    let ends: [(Act, bool); 5] = [
        (|handle| handle.cancel(), false),
        (|handle| handle.expire(), true),
        (|handle| handle.reset_at(Instant::now() - HOUR), true),
        (|handle| handle.reset_after(Duration::ZERO), true),
        (|handle| handle.set_timeout(MS), true),
    ];
    for (end, expires) in ends {
        let (mut deadline, handle) = deadline(2 * HOUR);
        assert_pending!(deadline.poll());
        tokio::time::advance(HOUR + MS / 2).await;
        assert!(end(&handle));
        assert!(deadline.is_woken());
        assert!(ACTS.iter().all(|act| !act(&handle)));
        assert_eq!(assert_ready!(deadline.poll()).is_ok(), expires);
    }
    assert_eq!(Timer::current().metrics().pending, 0);
}

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
async fn the_longest_timeouts_are_pending_after_a_century() {
    let (mut deadline, handle) = deadline(Duration::MAX);
    assert_pending!(deadline.poll());
    assert!(handle.reset_after(Duration::MAX) && handle.set_timeout(Duration::MAX));
    assert!(handle.remaining().unwrap() > 100 * 365 * 24 * HOUR);
    sleep(100 * 365 * 24 * HOUR).await;
    assert!(handle.reset());
    assert_pending!(deadline.poll());
}

#[tokio::test(start_paused = true)]
async fn deadlines_and_keyed_ones_tell_what_their_handles_do() {
    let start = Instant::now();
    let timer = Timer::current();
    let map = DeadlineMap::new(&timer);
    let mut plain = timer.deadline(60 * MS);
    let mut keyed = map.insert("alice", 60 * MS).unwrap();
    let told = |plain: &Deadline, keyed: &KeyedDeadline<&str>| {
        let told = (plain.deadline(), plain.remaining());
        assert_eq!(told, (keyed.deadline(), keyed.remaining()));
        assert_eq!(told.0, plain.handle().deadline());
        assert_eq!(told.1, plain.handle().remaining());
        told
    };
    tokio::time::advance(20 * MS).await;
    let first = (Some(start + 60 * MS), Some(40 * MS));
    assert_eq!(told(&plain, &keyed), first);
    assert!(plain.handle().reset() && map.reset("alice"));
    let reset = (Some(start + 80 * MS), Some(60 * MS));
    assert_eq!(told(&plain, &keyed), reset);
    tokio::time::advance(60 * MS).await;
    assert_eq!(told(&plain, &keyed), (None, None));
    plain.restart();
    keyed.restart();
    let restarted = (Some(start + 140 * MS), Some(60 * MS));
    assert_eq!(told(&plain, &keyed), restarted);
    assert!(plain.handle().cancel() && keyed.handle().cancel());
    assert_eq!(told(&plain, &keyed), (None, None));
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
