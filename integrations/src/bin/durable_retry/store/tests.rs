//! What the store promises, by a clock that the test sets.

use std::sync::Mutex;

use super::*;
use crate::job::tests::sample;

const WAIT: Duration = Duration::from_millis(300);

fn at(micros: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1) + Duration::from_micros(micros)
}

/// A store, and what the clock on its wall shows. The clock of the runtime stands still.
async fn store() -> (Store, Arc<Mutex<SystemTime>>) {
    let shown = Arc::new(Mutex::new(at(0)));
    let read = shown.clone();
    let clock = move || WallClock::at(Instant::now(), *read.lock().unwrap());
    (Store::in_memory(Arc::new(clock)).await, shown)
}

async fn claim(store: &Store) -> Job {
    match store.claim("a").await.unwrap() {
        Claim::Granted(job) => job,
        other => panic!("it is due: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_goes_to_one_run_at_a_time_until_it_is_in_the_ledger_once() {
    let (store, shown) = store().await;
    let (due, later) = (at(0) + WAIT, at(0) + 9 * WAIT);
    let jobs = || vec![(sample("a"), due), (sample("b"), later)];
    assert_eq!(store.add(jobs()).await.unwrap(), 2);
    assert_eq!(store.add(jobs()).await.unwrap(), 0, "they are known");
    let near = async |end, limit| store.due_before(end, limit).await.unwrap();
    assert_eq!(near(due, 9).await, [], "the due itself is not before it");
    let first = ("a".to_owned(), due);
    assert_eq!(
        near(later + WAIT, 1).await,
        [first],
        "the earliest comes first"
    );

    *shown.lock().unwrap() = due;
    let first = claim(&store).await;
    assert_eq!(
        first,
        Job {
            runs: 1,
            ..sample("a")
        }
    );
    assert_eq!(store.claim("a").await.unwrap(), Claim::Gone, "it is held");
    assert_eq!(store.counts().await.unwrap(), [1, 1, 0]);

    // It fails. The wait counts from the record.
    let record = async |job: &Job, next| store.record(job, next).await.unwrap();
    let (failed, due_again) = (Next::Failed(WAIT), Recorded::DueAt(due + WAIT));
    assert_eq!(record(&first, failed).await, due_again);
    assert_eq!(
        record(&first, failed).await,
        Recorded::Refused,
        "said twice"
    );
    *shown.lock().unwrap() = due + WAIT;
    let second = claim(&store).await;
    assert_eq!((second.runs, second.failures), (2, 1));
    assert_ne!(second.key(), first.key());
    let overtaken = record(&first, first.next(true)).await;
    assert_eq!(overtaken, Recorded::Refused);

    // It is given back, which is no failure, and done.
    assert_eq!(record(&second, Next::GivenBack).await, due_again);
    let third = claim(&store).await;
    assert_eq!((third.runs, third.failures), (3, 1));
    assert_eq!(third.key(), second.key(), "whoever gets both can drop one");
    let done = third.next(true);
    assert_eq!(record(&third, done).await, Recorded::Finished);
    assert_eq!(record(&third, done).await, Recorded::Refused, "said twice");
    assert_eq!(store.claim("a").await.unwrap(), Claim::Gone);
    assert_eq!(store.add(jobs()).await.unwrap(), 0, "it is known for ever");
    assert_eq!(store.counts().await.unwrap(), [1, 0, 1]);
    assert_eq!((third.attempt(), third.runs), (2, 3));
    assert_eq!(store.ledger().await.unwrap(), [(third, true)]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_early_by_a_fraction_of_a_millisecond() {
    let (store, shown) = store().await;
    store.add(vec![(sample("a"), at(1_400))]).await.unwrap();
    for early in [1_100, 1_399] {
        *shown.lock().unwrap() = at(early);
        assert_eq!(store.claim("a").await.unwrap(), Claim::NotYet(at(2_000)));
    }
    *shown.lock().unwrap() = at(2_100);
    let run = claim(&store).await;
    let again = store.record(&run, Next::Failed(WAIT)).await.unwrap();
    assert_eq!(again, Recorded::DueAt(at(3_000) + WAIT));
}
