//! Sessions that expire when nobody has used them for a while, and in any case some time after the
//! log-in. Then they go to a listener.
//!
//! ```text
//! cargo run --example session_cache
//! ```
//!
//! A session is live until it is due in the [`DelayMap`], and then belongs to the stream. It ends
//! once, one way: the stream gives it out, another log-in replaces it, or the end of the program
//! drains it.
//! `get` is one [`touch`](DelayMap::touch), so it comes wholly before the session's end or wholly
//! after it.

use std::sync::Arc;

use tickwheel::{DelayMap, Duration, Expirations, Expiry, Timer, sleep};

const MS: Duration = Duration::from_millis(1);

struct SessionCache {
    sessions: DelayMap<u32, Arc<String>>,
    expiry: Expiry,
}

impl SessionCache {
    /// A cache of at most `capacity` sessions, and what expires in it.
    fn new(capacity: usize, expiry: Expiry) -> (Self, Expirations<u32, Arc<String>>) {
        let (sessions, expired) = DelayMap::with_limit(&Timer::current(), capacity);
        (SessionCache { sessions, expiry }, expired)
    }

    /// Logs in. `false` if there are too many sessions, or the cache is closed.
    fn insert(&self, user: u32, value: &str) -> bool {
        let value = Arc::new(value.to_owned());
        self.sessions.insert(user, value, self.expiry).is_ok()
    }

    /// Uses a session, which restarts its idle timeout. Its longest life counts on from the log-in.
    /// `None` if there is none, or not any more.
    fn get(&self, user: u32) -> Option<Arc<String>> {
        // The closure runs under a lock of the map. So it is brief, and calls no method of the map.
        self.sessions
            .touch(&user, self.expiry, |value| value.clone())
    }
}

#[tokio::main]
async fn main() {
    clap::Command::new("session_cache")
        .about("Sessions that expire when nobody uses them")
        .get_matches(); // for --help
    let expiry = Expiry::idle(300 * MS).at_most(550 * MS);
    let (cache, mut expired) = SessionCache::new(3, expiry);
    // A program would write the session to its database here. If that is slow, the sessions that
    // fall due meanwhile have ended all the same: no use gets or saves them.
    let listener = tokio::spawn(async move {
        while let Some(session) = expired.recv().await {
            println!("user {} has expired: {}", session.key, session.value);
        }
    });
    for (user, name) in [(1, "alice"), (2, "bob"), (3, "carol"), (4, "dave")] {
        let is_in = cache.insert(user, name);
        println!("user {user} is logged in: {is_in}");
    }
    for _ in 0..7 {
        sleep(100 * MS).await;
        if cache.get(1).is_none() {
            let is_in = cache.insert(1, "alice");
            println!("user 1 has used the session to its end, and is logged in again: {is_in}");
        }
    }
    // It takes out what the listener has not got, and ends the stream.
    for (user, name, left) in cache.sessions.close() {
        println!("user {user} was live at the end: {name}, for {left:.0?} more");
    }
    listener.await.expect("the listener does not panic");
}
