//! The actors of the random programs: a file for each map. Sleeps and what is made of them are the
//! matter of `histories`.

pub mod deadline_map;
pub mod delay_map;

use tokio::time::Duration;

/// Which lengths of time an actor draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// At most 3 ms.
    Short,
    /// Up to some hundred milliseconds.
    Mixed,
}

impl Lengths {
    pub fn random(random: &mut fastrand::Rng) -> Lengths {
        if random.bool() {
            Lengths::Short
        } else {
            Lengths::Mixed
        }
    }

    pub fn draw(self, random: &mut fastrand::Rng) -> Duration {
        let micros = match (self, random.u8(..16)) {
            (_, 0) => 0,
            (Lengths::Short, _) => random.u64(..3_000),
            (_, 1..3) => random.u64(..1_000),
            (_, 3..6) => 1_000 * random.u64(..5),
            (_, 6..14) => random.u64(..30_000),
            (_, 14) => random.u64(..100_000),
            (_, _) => random.u64(..300_000),
        };
        Duration::from_micros(micros)
    }
}

/// What actors do between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Full,
    Yield,
    Sleep,
}

impl Pace {
    pub fn random(random: &mut fastrand::Rng) -> Pace {
        *random
            .choice(&[Pace::Full, Pace::Full, Pace::Yield, Pace::Sleep])
            .unwrap()
    }

    pub async fn rest(self, random: &mut fastrand::Rng) {
        match self {
            // A task that never yields would keep a runtime of one thread from its timers.
            Pace::Full if random.u8(..32) > 0 => {}
            Pace::Full | Pace::Yield => yield_now().await,
            // Under any executor.
            Pace::Sleep => std::thread::sleep(Duration::from_micros(random.u64(..200))),
        }
    }
}

/// As tokio's, under any executor.
pub async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|cx| {
        if has_yielded {
            return std::task::Poll::Ready(());
        }
        has_yielded = true;
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
