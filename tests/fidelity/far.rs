//! Far deadlines: centuries away, under the paused clock.

use std::future::pending;

use tickwheel::time as tickwheels;
use tokio::task::JoinSet;
use tokio::time::{self as tokios, Duration, Instant};

use crate::common::{HOUR, MS, paused};
use crate::{YEAR, assert_same, watched};

same_as_tokio! {
    async fn the_longest_sleep_ends_under_a_paused_clock() -> Vec<&'static str> in paused {
        time::sleep(Duration::MAX).await;
        vec!["ended"]
    }
}

same_as_tokio! {
    async fn the_longest_sleep_ends_after_the_short_ones_beside_it() -> Vec<String> in paused {
        let start = Instant::now();
        let mut naps = JoinSet::new();
        for nap in [Duration::MAX, 3 * MS, HOUR, MS] {
            naps.spawn(async move {
                time::sleep(nap).await;
                nap
            });
        }
        let mut trace = Vec::new();
        while let Some(nap) = naps.join_next().await {
            let nap = nap.unwrap();
            match nap {
                Duration::MAX => trace.push("the longest".to_owned()),
                _ => trace.push(format!("{nap:?} after {:?}", start.elapsed())),
            }
        }
        trace
    }
}

same_as_tokio! {
    async fn a_timeout_of_200_years_elapses_under_a_paused_clock() -> Vec<String> in paused {
        let outcome = time::timeout(200 * YEAR, pending::<()>()).await;
        vec![outcome.unwrap_err().to_string()]
    }
}

same_as_tokio! {
    async fn far_deadlines_are_met_to_the_millisecond() -> Vec<Duration> in paused {
        let start = Instant::now();
        let mut trace = Vec::new();
        for years in [1, 60, 100] {
            time::sleep_until(start + years * YEAR + 7 * MS).await;
            trace.push(start.elapsed());
        }
        assert!(time::timeout(40 * YEAR, pending::<()>()).await.is_err());
        trace.push(start.elapsed());
        time::sleep(MS).await;
        trace.push(start.elapsed());
        trace
    }
}
