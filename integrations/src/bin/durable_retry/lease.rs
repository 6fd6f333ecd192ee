//! The leases that this process holds, each with a deadline that is strict.
//!
//! A lease ends here before it ends in the store, by a quarter. It is counted from before the
//! store was asked, and by the clock of the timers, which no operator sets. So who finds it pending
//! is the only one who runs the job. The quarter is for two clocks that do not run at the same
//! speed.
//!
//! The timer counts stalls. A process that was stopped finds all leases expired that ran out
//! meanwhile, before it goes on. Without that they would be spared for a while, as idle deadlines
//! are.
//!
//! Invariant: [`Leases::keep`] is ready as soon as the lease may be another's.

use std::future::pending;

use tickwheel::error::BuildError;
use tickwheel::{DeadlineMap, Instant, Stage, Timer};

use crate::job::Run;
use crate::store::Store;

/// All leases of this process, by the identifier of the job.
pub(crate) struct Leases {
    timer: Timer,
    held: DeadlineMap<String>,
}

impl Leases {
    pub(crate) fn new() -> Result<Leases, BuildError> {
        let timer = Timer::builder().count_stalls(true).build()?;
        let held = DeadlineMap::new(&timer);
        Ok(Leases { timer, held })
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Holds the lease that the store was asked for at `asked`, and renews it again and again. Is
    /// ready when it is lost. Where the store knows no leases, it never is.
    pub(crate) async fn keep<S: Store>(&self, store: &S, run: &Run, asked: Instant) {
        let Some(length) = store.lease().map(|lease| lease - lease / 4) else {
            return pending().await;
        };
        let Ok(deadline) = self.held.insert_at(run.job.id.clone(), asked + length) else {
            return;
        };
        let handle = deadline.handle();
        let mut deadline = deadline.warn_before(length / 2);
        while let Ok(Stage::Warning) = deadline.wait().await {
            let renewed = async {
                loop {
                    let asked = Instant::now();
                    match store.renew(run).await {
                        Ok(true) => break handle.reset_at(asked + length),
                        Ok(false) => break false,
                        // The store may be back before the lease ends.
                        Err(_) => self.timer.sleep(length / 16).await,
                    }
                }
            };
            tokio::select! {
                biased;
                _ = deadline.wait() => return,
                renewed = renewed => if !renewed { return },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::SystemTime;

    use futures::FutureExt;
    use tickwheel::{Duration, WallClock};

    use super::*;
    use crate::job::{Backoff, Finished, Job, Next};
    use crate::store::{Claim, Counts, Recorded, Result};

    const LEASE: Duration = Duration::from_millis(400);

    /// It renews whatever it is asked for, and counts that.
    #[derive(Default)]
    struct Generous(AtomicUsize);

    impl Store for Generous {
        fn lease(&self) -> Option<Duration> {
            Some(LEASE)
        }

        async fn renew(&self, _: &Run) -> Result<bool> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(true)
        }

        async fn clock(&self) -> Result<WallClock> {
            unreachable!()
        }

        async fn add(&self, _: Vec<(Job, SystemTime)>) -> Result<usize> {
            unreachable!()
        }

        async fn due_before(&self, _: SystemTime, _: usize) -> Result<Vec<(String, SystemTime)>> {
            unreachable!()
        }

        async fn claim(&self, _: &str) -> Result<Claim> {
            unreachable!()
        }

        async fn record(&self, _: &Run, _: &Next) -> Result<Recorded> {
            unreachable!()
        }

        async fn counts(&self) -> Result<Counts> {
            unreachable!()
        }

        async fn ledger(&self) -> Result<Vec<Finished>> {
            unreachable!()
        }
    }

    fn run() -> Run {
        let backoff = Backoff {
            first: LEASE,
            longest: LEASE,
            attempts: 1,
        };
        let job = Job {
            id: "job".to_owned(),
            payload: String::new(),
            backoff,
        };
        Run {
            job,
            number: 1,
            failures: 0,
        }
    }

    #[tokio::test]
    async fn who_was_stopped_finds_its_lease_lost_unasked() {
        let (leases, store, run) = (Leases::new().unwrap(), Generous::default(), run());
        let mut keep = pin!(leases.keep(&store, &run, Instant::now()));
        // On a machine that is too busy it is lost before it is looked at.
        if keep.as_mut().now_or_never().is_none() {
            let renewed = store.0.load(Ordering::Relaxed);
            thread::sleep(LEASE);
            assert_eq!(keep.as_mut().now_or_never(), Some(()));
            let asked = store.0.load(Ordering::Relaxed) - renewed;
            assert_eq!(asked, 0, "it does not ask for it back");
        }
    }

    #[tokio::test]
    async fn a_claim_that_was_answered_too_late_is_no_lease() {
        let (leases, store, run) = (Leases::new().unwrap(), Generous::default(), run());
        let asked = Instant::now();
        thread::sleep(LEASE);
        assert_eq!(leases.keep(&store, &run, asked).now_or_never(), Some(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_in_time_for_ever() {
        let (leases, store, run) = (Leases::new().unwrap(), Generous::default(), run());
        let keep = leases.keep(&store, &run, Instant::now());
        assert!(tickwheel::timeout(100 * LEASE, keep).await.is_err());
        let renewed = store.0.load(Ordering::Relaxed);
        assert!(
            (200..400).contains(&renewed),
            "{renewed} times in 100 leases"
        );
        assert_eq!(leases.len(), 0, "it is held no longer");
    }
}
