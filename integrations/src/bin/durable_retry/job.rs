//! What a job is, and when it is tried again after it has failed.
//!
//! Invariant: a [`Job`] never changes. What becomes of it, its runs and its failures, is the
//! store's, and reaches a runner as a [`Run`].

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
}

/// How long a job waits after each failure: twice as long each time, and by chance up to twice
/// that, so that jobs which failed together do not come back together.
///
/// It is saved with the job, so that a process which starts later has the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
pub(crate) struct Backoff {
    /// A job that is added waits this long after its first failure, then twice as long each time.
    #[arg(long = "backoff", default_value = "1s", value_parser = parse_delay)]
    pub(crate) first: Duration,
    /// Waits grow up to this. Chance may still double it.
    #[arg(long = "backoff-longest", default_value = "10m", value_parser = parse_delay)]
    pub(crate) longest: Duration,
    /// After so many failures a job has failed for good.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) attempts: u16,
}

impl Backoff {
    /// What the command line asks for, if it makes sense.
    pub(crate) fn check(self) -> Result<Backoff, &'static str> {
        match self.first > self.longest {
            true => Err("--backoff is longer than --backoff-longest: make the latter longer"),
            false => Ok(self),
        }
    }

    /// The wait after so many failures, or `None` if there is to be no other attempt.
    pub(crate) fn after(&self, failures: usize) -> Option<Duration> {
        let waits = ExponentialBuilder::new()
            .with_min_delay(self.first)
            .with_max_delay(self.longest)
            .with_max_times(usize::from(self.attempts).saturating_sub(1))
            .with_jitter();
        waits.build().nth(failures.checked_sub(1)?)
    }
}

/// Delays are bounded, so that no sum of a time and a few delays overflows.
const LONGEST_DELAY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// For the command line.
pub(crate) fn parse_delay(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        delay if delay > LONGEST_DELAY => Err("it is longer than a hundred years".to_owned()),
        delay => Ok(delay),
    }
}

/// One run of a job, as the store has granted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) job: Job,
    /// The fencing token: it is greater than that of each earlier run of this job.
    pub(crate) number: u64,
    /// How many runs have been recorded as failed.
    pub(crate) failures: usize,
}

impl Run {
    pub(crate) fn attempt(&self) -> usize {
        self.failures + 1
    }

    /// The idempotency key. A run that is made again because nobody recorded how the one before it
    /// ended has the same key, so whoever receives the effects can drop the second ones.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.job.id, self.attempt())
    }

    /// What the end of this run means for the job.
    pub(crate) fn next(&self, result: Result<(), String>) -> Next {
        match result {
            Ok(()) => Next::Finished(self.finished(true)),
            Err(_) => match self.job.backoff.after(self.attempt()) {
                Some(wait) => Next::Again(wait),
                None => Next::Finished(self.finished(false)),
            },
        }
    }

    fn finished(&self, succeeded: bool) -> Finished {
        Finished {
            id: self.job.id.clone(),
            succeeded,
            attempts: self.attempt(),
            runs: self.number,
        }
    }
}

/// What becomes of a job whose run has ended.
#[derive(Clone, Debug)]
pub(crate) enum Next {
    /// It is over.
    Finished(Finished),
    /// It has failed, and is due again after this wait.
    Again(Duration),
    /// The process ends before the run does. It is no failure, and the job is due at once.
    GivenBack,
}

impl Next {
    /// How long the job waits if it is not over, and by how much its failures grow.
    pub(crate) fn wait(&self) -> (Duration, usize) {
        match self {
            Next::Again(wait) => (*wait, 1),
            Next::Finished(_) | Next::GivenBack => (Duration::ZERO, 0),
        }
    }
}

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finished {
    pub(crate) id: String,
    pub(crate) succeeded: bool,
    pub(crate) attempts: usize,
    pub(crate) runs: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_and_chance_at_most_doubles_them() {
        let backoff = Backoff {
            first: SECOND,
            longest: 10 * SECOND,
            attempts: 100,
        };
        let mut differ = false;
        for (failures, shortest) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (99, 10)] {
            let shortest = shortest * SECOND;
            let waits: Vec<_> = (0..200).map(|_| backoff.after(failures).unwrap()).collect();
            assert!(
                waits
                    .iter()
                    .all(|wait| (shortest..=2 * shortest).contains(wait)),
                "after {failures} failures: {waits:?}"
            );
            differ |= waits.iter().any(|wait| *wait != waits[0]);
        }
        assert!(differ, "there is a jitter");
    }

    #[test]
    fn after_its_last_attempt_a_job_has_failed_for_good() {
        let backoff = Backoff {
            first: SECOND,
            longest: SECOND,
            attempts: 3,
        };
        assert!(backoff.after(2).is_some());
        assert_eq!(backoff.after(3), None);
    }

    #[test]
    fn a_run_that_is_made_again_has_the_same_key() {
        let job = Job {
            id: "mail".to_owned(),
            payload: String::new(),
            backoff: Backoff {
                first: SECOND,
                longest: SECOND,
                attempts: 2,
            },
        };
        let run = |number, failures| Run {
            job: job.clone(),
            number,
            failures,
        };
        assert_eq!(run(1, 0).key(), run(2, 0).key());
        assert_ne!(run(2, 0).key(), run(3, 1).key());
    }
}
