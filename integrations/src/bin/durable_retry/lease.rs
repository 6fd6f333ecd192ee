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
        let mut deadline = deadline.warn_before(length / 2);
        while let Ok(Stage::Warning) = deadline.wait().await {
            let renewed = async {
                loop {
                    let asked = Instant::now();
                    match store.renew(run).await {
                        Ok(true) => break self.held.reset_at(&run.job.id, asked + length),
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
