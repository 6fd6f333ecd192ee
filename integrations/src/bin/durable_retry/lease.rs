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
//! Invariant: [`Lease::lost`] is ready as soon as the lease may be another's.

use std::future::pending;

use tickwheel::error::BuildError;
use tickwheel::{DeadlineMap, Duration, Instant, KeyedDeadline, Stage, Timer, WarnBefore};

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

    /// Holds what the store was asked for at `asked`. `None` if it has ended already.
    pub(crate) fn hold<S: Store>(&self, store: &S, run: &Run, asked: Instant) -> Option<Lease<'_>> {
        let Some(length) = store.lease().map(|lease| lease - lease / 4) else {
            return Some(Lease {
                leases: self,
                length: Duration::ZERO,
                deadline: None,
            });
        };
        let end = asked + length;
        let deadline = self.held.insert_at(run.job.id.clone(), end).ok()?;
        let deadline = Some(deadline.warn_before(length / 2));
        Some(Lease {
            leases: self,
            length,
            deadline,
        })
    }

    /// How many jobs are held by a lease, and the next one that ends.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }
}

pub(crate) struct Lease<'a> {
    leases: &'a Leases,
    length: Duration,
    /// `None` where the store knows no leases.
    deadline: Option<WarnBefore<KeyedDeadline<String>>>,
}

impl Lease<'_> {
    /// Renews the lease again and again. Is ready when it is lost.
    pub(crate) async fn lost<S: Store>(mut self, store: &S, run: &Run) {
        let Some(deadline) = &mut self.deadline else {
            return pending().await;
        };
        let handle = deadline.handle();
        while let Ok(Stage::Warning) = deadline.wait().await {
            let renewed = async {
                loop {
                    let asked = Instant::now();
                    match store.renew(run).await {
                        Ok(true) => break handle.reset_at(asked + self.length),
                        Ok(false) => break false,
                        // It may be back before the lease ends.
                        Err(_) => self.leases.timer.sleep(self.length / 16).await,
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
