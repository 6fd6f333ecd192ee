//! Jobs that are tried again after a delay, in one task. For retries, and for programs that use
//! `tokio_util::time::DelayQueue` today: change the `use` line.
//!
//! ```text
//! cargo run -p tickwheel-util --features time --example delay_queue
//! ```

use futures::StreamExt;
use tickwheel::Duration;
use tickwheel_util::time::{DelayQueue, delay_queue::Key};
use tokio::sync::mpsc;

const MS: Duration = Duration::from_millis(1);

struct Job {
    name: &'static str,
    tries: u32,
}

#[tokio::main]
async fn main() {
    clap::Command::new("delay_queue")
        .about("Runs jobs after a delay, without keys of their own")
        .get_matches(); // for --help
    let (submit, mut submitted) = mpsc::channel(8);
    for name in ["mail", "report", "survey"] {
        submit.send(name).await.expect("it is received below");
    }
    drop(submit);

    let mut waiting: DelayQueue<Job> = DelayQueue::new();
    let mut survey: Option<Key> = None;
    loop {
        tokio::select! {
            Some(name) = submitted.recv() => {
                let key = waiting.insert(Job { name, tries: 0 }, 100 * MS);
                if name == "survey" {
                    survey = Some(key);
                }
            }
            Some(due) = waiting.next() => {
                let late = due.deadline().elapsed();
                let mut job = due.into_inner();
                job.tries += 1;
                println!("{}, try {}: {late:.1?} after its time", job.name, job.tries);
                // The mail fails twice. Each time the delay doubles.
                if job.name == "mail" && job.tries < 3 {
                    let delay = 100 * MS * 2_u32.pow(job.tries);
                    waiting.insert(job, delay);
                }
                // Once its value has come out, a key is good for nothing, and harms nothing.
                if let Some(taken_back) = survey.take().and_then(|key| waiting.try_remove(&key)) {
                    println!("{} was taken back", taken_back.get_ref().name);
                }
            }
            else => break,
        }
    }
}
