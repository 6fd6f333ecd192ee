//! Jobs that run after a delay, by key. For jobs and sessions that several tasks change.
//!
//! ```text
//! cargo run --example delay_map
//! ```

use tickwheel::{DelayMap, Duration, Timer, sleep};

const MS: Duration = Duration::from_millis(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (jobs, mut due) = DelayMap::new(&Timer::current());
    jobs.insert("mail", "attempt 1", 100 * MS)?;
    jobs.insert("report", "monthly", 200 * MS)?;
    jobs.insert("survey", "customers", 300 * MS)?;
    jobs.insert("backup", "full", 3_600_000 * MS)?;
    jobs.insert("audit", "customers", 3_600_000 * MS)?;

    // Any task changes the jobs, through a clone and by the key alone.
    let other = jobs.clone();
    let planner = tokio::spawn(async move {
        assert!(other.set("report", 400 * MS)); // put off
        assert_eq!(other.remove("survey"), Some("customers")); // taken back
        other.retain(|_, about| *about != "customers"); // and so is all that is like it
        assert_eq!(other.remove_if("backup", |kind| *kind == "partial"), None);
        let planned = other.insert_if_absent("report", "yearly", MS);
        assert!(planned.is_err(), "it is planned already");
        other.insert("cleanup", "daily", 50 * MS)
    });
    planner.await??;

    // A task that only watches does not keep the stream open.
    let watched = jobs.downgrade();
    tokio::spawn(async move {
        while let Some(jobs) = watched.upgrade() {
            println!("  {} jobs are planned", jobs.len());
            drop(jobs);
            sleep(150 * MS).await;
        }
    });

    // One task runs what is due, in the order of the deadlines.
    while let Some(job) = due.recv().await {
        let late = job.deadline.elapsed();
        println!("{}, {}: run {late:.1?} after its time", job.key, job.value);
        match (job.key, job.value) {
            ("mail", "attempt 1") => {
                println!("  failed, tried again in 150 ms");
                jobs.insert("mail", "attempt 2", 150 * MS)?;
            }
            ("report", _) => {
                let pending = jobs.close(); // ends the stream, and gives back what is pending
                println!("closed, not run: {pending:?}");
            }
            _ => {}
        }
    }
    Ok(())
}
