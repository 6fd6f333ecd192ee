//! 200,000 timeouts a second, made and dropped by one task: what a steady load costs the whole
//! process.

use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tickwheel::Timer;
use tokio::task::unconstrained;

use super::timeouts::polled_once;
use super::{How, Part, name};
use crate::harness::{Never, Operation, Record, batch, operation, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "steady",
    about: "200,000 timeouts a second by one task: CPU of the whole process",
    how: How::Apart {
        contenders: &[
            name::TICKWHEEL,
            name::DROP_IN,
            name::TOKIO,
            name::PINGORA,
            name::NO_TIMER,
        ],
        rounds: 3,
        run,
    },
};

const EACH_SECOND: u32 = 200_000;
const STEP: Duration = Duration::from_millis(1);

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
    let runtime = runtime(2);
    let share = runtime.block_on(async {
        let hand: Box<dyn Operation> = match contender {
            name::TICKWHEEL => {
                let timer = Timer::current();
                Box::new(polled_once(false, move |after| timer.timeout(after, Never)))
            }
            name::DROP_IN => Box::new(polled_once(false, |after| tickwheel::timeout(after, Never))),
            name::TOKIO => Box::new(polled_once(false, |after| {
                tokio::time::timeout(after, Never)
            })),
            name::PINGORA => Box::new(polled_once(false, |after| {
                pingora_timeout::timeout(after, Never)
            })),
            _ => Box::new(operation(|_, _| {})),
        };
        tokio::spawn(unconstrained(load(hand, settings.clone())))
            .await
            .expect("a timeout does not panic")
    });
    vec![Record::new("steady", contender, vec![share])]
}

/// Percent of a core. An interval of tokio's paces the load of every contender.
async fn load(mut hand: Box<dyn Operation>, settings: Settings) -> f64 {
    let mut steps = tokio::time::interval(STEP);
    let mut bear = async |time: Duration| {
        for _ in 0..time.as_millis() / STEP.as_millis() {
            steps.tick().await;
            let times = EACH_SECOND as usize * STEP.as_millis() as usize / 1_000;
            batch(&mut *hand, times).await;
        }
    };
    bear(settings.either(Duration::from_millis(300), Duration::from_millis(100))).await;
    let (cpu, begin) = (ProcessTime::now(), Instant::now());
    bear(settings.either(Duration::from_millis(1_500), Duration::from_millis(300))).await;
    cpu.elapsed().as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0
}
