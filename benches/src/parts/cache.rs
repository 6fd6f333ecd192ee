//! 100,000 sessions at random: nine uses to each login. Each use reads the session and starts its
//! idle time again.
//!
//! The peer is moka, the cache that most programs take, with a time to idle and neither a largest
//! size nor a listener, so it has the least to do. moka looks up what is idle within its calls,
//! some hundred at a time, and hands out nothing. A `DelayMap` arms each delay, and its stream
//! hands out each session.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tickwheel::{DelayMap, Expirations, Timer};

use super::keyed::STANDS;
use crate::harness::{Hand, Race, Record, STANDING, operation};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "cache",
    about: "100,000 sessions at random, nine uses to each login: a DelayMap and moka",
    state: "A standing sleep, and a standing item in the map, is due before all sessions. Unlike a \
            server: a loop does nothing else, no session is idle for long enough to end, and the \
            stream is never polled. Two threads contend as often as they can.",
    how: How::Together(run),
};

const SESSIONS: u64 = 100_000;
/// Of so many operations one is a login.
const USES: u64 = 10;
/// Nothing is idle for so long in the whole run.
const IDLE: Duration = Duration::from_secs(300);

fn run(settings: &Settings) -> Vec<Record> {
    let races = [0, 1, 2].into_iter().map(race);
    races.flat_map(|race| race.run(settings)).collect()
}

fn race(threads: usize) -> Race {
    let mut race = Race::new(format!("cache-{threads}"), threads);
    enter(&mut race, name::TICKWHEEL, Sessions::new);
    enter(&mut race, name::MOKA, || {
        Cache::builder().time_to_idle(IDLE).build()
    });
    race
}

/// All threads share one cache.
fn enter<C: SessionCache>(race: &mut Race, name: &'static str, make: fn() -> C) {
    let mut shared = None;
    race.enter(name, move || {
        let cache = shared.get_or_insert_with(|| Arc::new(filled(make())));
        use_and_log_in(cache.clone())
    });
}

fn filled<C: SessionCache>(cache: C) -> C {
    (0..SESSIONS).for_each(|user| cache.log_in(user));
    cache
}

fn use_and_log_in(cache: Arc<impl SessionCache>) -> Hand {
    operation(move |_, times| {
        for _ in 0..times {
            let user = fastrand::u64(..SESSIONS);
            if fastrand::u64(..USES) == 0 {
                cache.log_in(user);
            } else {
                assert_eq!(cache.get(user), Some(user), "measured something else");
            }
        }
    })
}

trait SessionCache: Send + Sync + 'static {
    /// A session that is there already is replaced.
    fn log_in(&self, user: u64);
    fn get(&self, user: u64) -> Option<u64>;
}

struct Sessions {
    map: DelayMap<u64, u64>,
    /// Kept, because to drop it would close the map.
    _expirations: Expirations<u64, u64>,
}

impl Sessions {
    fn new() -> Sessions {
        let (map, _expirations) = DelayMap::new(&Timer::current());
        map.insert(STANDS, STANDS, STANDING).expect("it is open");
        Sessions { map, _expirations }
    }
}

impl SessionCache for Sessions {
    fn log_in(&self, user: u64) {
        self.map.insert(user, user, IDLE).expect("it is open");
    }

    fn get(&self, user: u64) -> Option<u64> {
        self.map.touch(&user, IDLE, |value| *value)
    }
}

impl SessionCache for Cache<u64, u64> {
    fn log_in(&self, user: u64) {
        self.insert(user, user);
    }

    fn get(&self, user: u64) -> Option<u64> {
        Cache::get(self, &user)
    }
}
