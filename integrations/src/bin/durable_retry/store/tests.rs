//! What the store promises.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::job::Backoff;

const WAIT: Duration = Duration::from_millis(300);

fn job(id: &str) -> Job {
    let backoff = Backoff {
        first: WAIT,
        longest: WAIT,
        attempts: 9,
    };
    Job {
        id: id.to_owned(),
        payload: "to do".to_owned(),
        backoff,
    }
}

fn now(store: &Store) -> SystemTime {
    store.clock().system_time(Instant::now())
}

/// Waits until the job can be claimed, and finds that it could not be before.
async fn claim(store: &Store, id: &str) -> Run {
    loop {
        match store.claim(id).await.unwrap() {
            Claim::Granted(run) => return run,
            Claim::NotYet(due) => {
                let now = now(store);
                assert!(
                    now + Duration::from_secs(5) > due,
                    "{due:?} is far from {now:?}"
                );
                tickwheel::sleep(Duration::from_millis(10)).await;
            }
            Claim::Gone => panic!("{id} is gone"),
        }
    }
}

#[tokio::test]
async fn a_file_keeps_its_promises() {
    let store = Store::in_memory(Arc::new(WallClock::now)).await;
    let due = now(&store) + WAIT;
    assert_eq!(
        store
            .add(vec![(job("a"), due), (job("b"), due + 9 * WAIT)])
            .await
            .unwrap(),
        2
    );
    assert_eq!(
        store.add(vec![(job("a"), due)]).await.unwrap(),
        0,
        "it is known"
    );
    let counts = |waiting, running, finished| Counts {
        waiting,
        running,
        finished,
    };
    assert_eq!(store.counts().await.unwrap(), counts(2, 0, 0));
    assert_eq!(
        store.due_before(due, 9).await.unwrap(),
        [],
        "the due itself is not before it"
    );
    let near = store.due_before(due + 20 * WAIT, 1).await.unwrap();
    assert_eq!(near[0].0, "a", "the earliest come first");
    assert!(
        near[0].1 >= due && near[0].1 < due + WAIT / 100,
        "{near:?}, and not {due:?}"
    );

    let first = claim(&store, "a").await;
    assert!(now(&store) >= due, "nothing is run before its due");
    assert_eq!(
        (first.number, first.failures, &first.job),
        (1, 0, &job("a"))
    );
    assert!(
        !matches!(store.claim("a").await.unwrap(), Claim::Granted(_)),
        "it is held"
    );
    assert_eq!(store.counts().await.unwrap(), counts(1, 1, 0));

    // It fails. The wait counts from the record.
    let failed = now(&store);
    let again = Next::Again(WAIT);
    assert!(
        matches!(store.record(&first, &again).await.unwrap(), Recorded::DueAt(at) if at >= failed)
    );
    assert_eq!(
        store.record(&first, &again).await.unwrap(),
        Recorded::Refused,
        "said twice"
    );
    let second = claim(&store, "a").await;
    assert!(now(&store) >= failed + WAIT);
    assert_eq!((second.number, second.failures), (2, 1));
    let done = first.next(Ok(()));
    assert_eq!(
        store.record(&first, &done).await.unwrap(),
        Recorded::Refused,
        "overtaken"
    );

    // It is given back, which is no failure, and done.
    assert!(matches!(
        store.record(&second, &Next::GivenBack).await.unwrap(),
        Recorded::DueAt(_)
    ));
    let third = claim(&store, "a").await;
    assert_eq!((third.number, third.failures), (3, 1));
    let done = third.next(Ok(()));
    assert_eq!(
        store.record(&third, &done).await.unwrap(),
        Recorded::Finished
    );
    assert_eq!(
        store.record(&third, &done).await.unwrap(),
        Recorded::Refused,
        "said twice"
    );
    assert_eq!(store.claim("a").await.unwrap(), Claim::Gone);
    assert_eq!(
        store.add(vec![(job("a"), due)]).await.unwrap(),
        0,
        "it is known for ever"
    );
    assert_eq!(store.counts().await.unwrap(), counts(1, 0, 1));
    let line = Finished {
        id: "a".to_owned(),
        succeeded: true,
        attempts: 2,
        runs: 3,
    };
    assert_eq!(store.ledger().await.unwrap(), [line]);
}

#[tokio::test]
async fn nothing_is_early_by_a_fraction_of_a_millisecond() {
    let micros = |micros| UNIX_EPOCH + Duration::from_secs(1) + Duration::from_micros(micros);
    let shown = Arc::new(AtomicU64::new(0));
    let read = shown.clone();
    let clock = move || WallClock::at(Instant::now(), micros(read.load(Ordering::Relaxed)));
    let store = Store::in_memory(Arc::new(clock)).await;
    store.add(vec![(job("a"), micros(1_400))]).await.unwrap();
    for early in [1_100, 1_399] {
        shown.store(early, Ordering::Relaxed);
        assert!(matches!(store.claim("a").await.unwrap(), Claim::NotYet(_)));
    }
    shown.store(2_100, Ordering::Relaxed);
    let run = claim(&store, "a").await;
    let again = store.record(&run, &Next::Again(WAIT)).await.unwrap();
    assert_eq!(again, Recorded::DueAt(micros(3_000) + WAIT));
}
