//! A scheduler of jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio_cron_scheduler::{Job, JobScheduler};

use crate::own::case;
use crate::{MINUTE, Row, SECOND};

pub const ROWS: &[Row] = &[("tokio-cron-scheduler", "a job each second", || case(cron()))];

async fn cron() -> String {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let job = Job::new_repeated_async(SECOND, move |_, _| {
        let counted = counted.clone();
        Box::pin(async move {
            counted.fetch_add(1, Ordering::SeqCst);
        })
    });
    let scheduler = JobScheduler::new().await.unwrap();
    scheduler.add(job.unwrap()).await.unwrap();
    scheduler.start().await.unwrap();
    tokio::time::sleep(MINUTE).await;
    match runs.load(Ordering::SeqCst) {
        // The real second may end meanwhile.
        0 | 1 => "0 or 1 runs in a virtual minute".to_owned(),
        runs => format!("{runs} runs in a virtual minute"),
    }
}
