//! What a job is, and when it is tried again after it has failed.

use backon::{BackoffBuilder, ExponentialBuilder};
use clap::Args;
use serde::{Deserialize, Serialize};
use tickwheel::Duration;
use tickwheel_integrations::parse_duration;

/// Something to be done, until it succeeds or has failed for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// A job of an identifier that the store knows already is not added again.
    pub(crate) id: String,
    /// What is to be done, for the runner to understand.
    pub(crate) payload: String,
    pub(crate) backoff: Backoff,
    /// How many runs have begun. It is the fencing token of the last one, too.
    pub(crate) runs: u64,
    /// How many runs have been recorded as failed.
    pub(crate) failures: usize,
}

impl Job {
    pub(crate) fn new(id: String, payload: String, backoff: Backoff) -> Job {
        Job {
            id,
            payload,
            backoff,
            runs: 0,
            failures: 0,
        }
    }

    pub(crate) fn attempt(&self) -> usize {
        self.failures + 1
    }

    /// The idempotency key. A run that is made again because nobody recorded how the one before it
    /// ended has the same key, so whoever receives the effects can drop the second ones.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.id, self.attempt())
    }

    /// What the end of its run means.
    pub(crate) fn next(&self, has_succeeded: bool) -> Next {
        match self.backoff.after(self.attempt()) {
            Some(wait) if !has_succeeded => Next::Failed(wait),
            _ => Next::Finished(has_succeeded),
        }
    }
}

/// What becomes of a job whose run has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// It is over, with success or for good.
    Finished(bool),
    /// It is due again after this wait.
    Failed(Duration),
    /// The process ends before the run does. It is no failure, and the job is due at once.
    GivenBack,
}

/// How long a job waits after each failure: twice as long each time, and by chance up to twice
/// that, so that jobs which failed together do not come back together.
///
/// It is saved with the job, so that a process which starts later has the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
pub(crate) struct Backoff {
    /// A job that is added waits this long after its first failure, then twice as long each time.
    #[arg(long = "backoff", default_value = "1s", value_parser = parse_duration)]
    pub(crate) first: Duration,
    /// Waits grow up to this, unless the first is longer. Chance may still double it.
    #[arg(long = "backoff-longest", default_value = "10m", value_parser = parse_duration)]
    pub(crate) longest: Duration,
    /// After so many failures a job has failed for good.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) attempts: u16,
}

impl Backoff {
    /// The wait after so many failures, or `None` if there is to be no other attempt.
    fn after(&self, failures: usize) -> Option<Duration> {
        let waits = ExponentialBuilder::new()
            .with_min_delay(self.first)
            .with_max_delay(self.longest.max(self.first))
            .with_max_times(usize::from(self.attempts).saturating_sub(1))
            .with_jitter();
        waits.build().nth(failures.checked_sub(1)?)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A job that waits a second after its first failure, and fails three times.
    pub(crate) fn sample(id: &str) -> Job {
        let backoff = Backoff {
            first: SECOND,
            longest: 3 * SECOND,
            attempts: 3,
        };
        Job::new(id.to_owned(), "to do".to_owned(), backoff)
    }

    #[test]
    fn waits_double_until_the_last_attempt_and_chance_at_most_doubles_them() {
        let backoff = Backoff {
            attempts: 100,
            ..sample("a").backoff
        };
        let mut differ = false;
        for (failures, shortest) in [(1, 1), (2, 2), (3, 3), (99, 3)] {
            let waits: Vec<_> = (0..200).map(|_| backoff.after(failures).unwrap()).collect();
            let bounds = shortest * SECOND..=2 * shortest * SECOND;
            assert!(waits.iter().all(|it| bounds.contains(it)), "{waits:?}");
            differ |= waits.iter().any(|wait| *wait != waits[0]);
        }
        assert!(differ, "there is a jitter");
        assert_eq!(backoff.after(100), None);
    }
}
