//! A cache of sessions that expire when nobody has used them for a while, and a crowd of users to
//! try it with.
//!
//! [`SessionCache`] is the piece to take away. Each use of a session puts off its expiry, and what
//! nobody uses comes to a listener. Closing the cache hands back what is live. The rest of the file
//! is the crowd, which keeps books.
//!
//! ```text
//! cargo run --release --example session_cache
//! cargo run --release --example session_cache -- \
//!     --users 20 --idle-timeout 50ms --active 0.5 --verbose
//! ```
//!
//! It exits with 0 if the books balance, and with 1 if not. They balance if each session that was
//! opened has ended once, and none has expired before it was idle for the whole timeout. Ctrl-C
//! ends the run early, with the summary so far.
//!
//! # The life of a session
//!
//! ```text
//!   insert --> live: in the map --(the stream takes it)--> out, the listener is told
//!               |  ^     |
//!               |  +-----+ get: a touch starts the idle timeout anew
//!               |
//!               +--(remove, another insert under its id, close)--> out, given to the caller
//! ```
//!
//! - A session is live exactly while it is in the [`DelayMap`]. Whoever takes it out has ended it,
//!   so it ends once, one way.
//! - `get` is one [`touch`](DelayMap::touch). Under one lock it finds the session, notes the use,
//!   clones the `Arc` and starts the timeout anew. So it comes wholly before the session's end, or
//!   wholly after it.
//! - The map holds a session's value in an `Arc`, beside the instant of its last use. `get` gives
//!   both as they are at that use.
//!
//! # What could go wrong
//!
//! - *A use meets the expiry.* If `get` comes first, the session stays, even if it was due already.
//!   If the stream comes first, `get` finds nothing, and the user must log in.
//! - *Two uses of one session.* Each reads the clock under the lock, so the later one sets the
//!   expiry. Neither takes time back that was granted to the other.
//! - *A session ends while someone holds its value.* The `Arc` keeps the value, but the listener
//!   may have saved it already. If that matters, mark the end in the value, as the crowd does.
//! - *The listener is slow.* What falls due meanwhile is still live: it takes a place, and a use
//!   still saves it.
//! - *The listener panics.* Its session has ended all the same, and the next one comes to it.

use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use clap::Parser;
use tickwheel::error::InsertError;
use tickwheel::{DelayMap, Duration, Expirations, Expired, Instant, Timer, sleep};
use tokio::task::JoinSet;

/// Sessions by id, each of which expires when it was not used for the idle timeout.
struct SessionCache<K, V> {
    sessions: DelayMap<K, Session<V>>,
    idle_timeout: Duration,
}

/// What expires in a [`SessionCache`]. Dropping it closes the cache.
struct Evictions<K, V> {
    expirations: Expirations<K, Session<V>>,
}

/// A session as the cache holds it, or as it was when the cache gave it out.
struct Session<V> {
    value: Arc<V>,
    /// An instant shortly before the timeout last began.
    last_used: Instant,
}

/// A session that the cache did not take, with its id.
type Rejected<K, V> = InsertError<(K, Session<V>)>;

impl<K: Hash + Eq, V> SessionCache<K, V> {
    /// A cache of at most `limit` sessions, and its evictions, for a task to [run](Evictions::run).
    fn new(timer: &Timer, limit: usize, idle_timeout: Duration) -> (Self, Evictions<K, V>) {
        let (sessions, expirations) = DelayMap::with_limit(timer, limit);
        let cache = SessionCache {
            sessions,
            idle_timeout,
        };
        (cache, Evictions { expirations })
    }

    /// Logs in: opens a session. One that is live under this id is replaced and given back. If
    /// there are too many, or the cache is closed, the new one is given back.
    fn insert(&self, id: K, value: V) -> Result<Option<Session<V>>, Rejected<K, V>> {
        let session = Session {
            value: Arc::new(value),
            last_used: Instant::now(),
        };
        self.sessions.insert(id, session, self.idle_timeout)
    }

    /// Uses a session, which puts off its expiry; `None` if there is none, or not any more.
    fn get(&self, id: &K) -> Option<Session<V>> {
        // This runs under a lock of the map. So it is brief, and calls no method of the map.
        self.sessions.touch(id, self.idle_timeout, |session| {
            session.last_used = Instant::now();
            Session {
                value: session.value.clone(),
                last_used: session.last_used,
            }
        })
    }

    /// Logs out: takes a session out; `None` if there is none, or not any more.
    fn remove(&self, id: &K) -> Option<Session<V>> {
        self.sessions.remove(id)
    }

    /// Takes out what is live, with the time that it had left, and refuses every later log-in.
    /// [`Evictions::run`] still tells the listener of what has expired before, and ends.
    fn close(&self) -> Vec<(K, Session<V>, Duration)> {
        self.sessions.close()
    }
}

impl<K, V> Evictions<K, V> {
    /// Tells the listener of each session that expires, until the cache is closed.
    async fn run(mut self, mut listener: impl FnMut(Expired<K, Session<V>>)) {
        while let Some(expired) = self.expirations.recv().await {
            // A panic was reported where it arose. If it ended this task, that would drop the
            // stream, and with it every session.
            let _ = catch_unwind(AssertUnwindSafe(|| listener(expired)));
        }
    }
}

/// Sessions that expire when nobody uses them, and a crowd of users to try them with
#[derive(Debug, Parser)]
struct Options {
    /// Users; each has one session at most, and two devices
    #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    users: u32,
    /// Sessions that may be live at a time
    #[arg(long, default_value = "900")]
    limit: usize,
    /// A session expires when it was not used for this long
    #[arg(long, default_value = "500ms", value_parser = duration)]
    idle_timeout: Duration,
    /// How long the users come and go
    #[arg(long, default_value = "5s", value_parser = duration)]
    run_time: Duration,
    /// The share of active users, from 0 to 1; the others come back about when their session
    /// expires, or later
    #[arg(long, default_value = "0.7", value_parser = share)]
    active: f64,
    /// Print a line for each session that expires and each log-in that is refused
    #[arg(long)]
    verbose: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    sigpipe::reset(); // `| head -1` ends it without a panic
    let options = Options::parse();
    let (cache, evictions) =
        SessionCache::new(&Timer::current(), options.limit, options.idle_timeout);
    let crowd = Arc::new(Crowd {
        cache,
        books: Mutex::default(),
        verbose: options.verbose,
    });

    let listener = crowd.clone();
    let evictor = tokio::spawn(evictions.run(move |expired| listener.save(&expired)));
    let mut devices = JoinSet::new();
    for user in (0..options.users).chain(0..options.users) {
        let active = f64::from(user) < f64::from(options.users) * options.active;
        devices.spawn(crowd.clone().use_device(user, active));
    }
    tokio::select! {
        () = sleep(options.run_time) => {}
        Ok(()) = tokio::signal::ctrl_c() => println!("Interrupted. Until then:"),
    }

    // The users are still at it, because a shutdown does not wait for them.
    for (_, session, _) in crowd.cache.close() {
        let mut books = crowd.books();
        books.handed_back += books.end(Some(&session));
    }
    devices.abort_all();
    while let Some(device) = devices.join_next().await {
        let panicked = device.is_err_and(|error| error.is_panic());
        crowd.books().check(!panicked, "a device panicked");
    }
    let told_all = evictor.await.is_ok();

    let mut books = crowd.books();
    books.check(told_all, "the eviction task panicked");
    let ended = books.expired + books.logged_out + books.replaced + books.handed_back;
    let balance = books.opened == ended;
    books.check(balance, "the numbers of sessions opened and ended differ");
    println!("{books}");
    ExitCode::from(u8::from(books.violations > 0))
}

struct Crowd {
    cache: SessionCache<u32, Visit>,
    books: Mutex<Books>,
    verbose: bool,
}

/// What the crowd keeps in a session: when it was known to have ended.
type Visit = OnceLock<Instant>;

impl Crowd {
    /// One device of a user, until the cache is closed. It knows nothing of the other one.
    async fn use_device(self: Arc<Self>, user: u32, active: bool) {
        while self.visit(user, active) {
            // Half of the users that were away come back just when the session expires.
            let idle_timeouts = match active {
                true => fastrand::f64() / 2.0,
                false => 1.0 + fastrand::f64() * f64::from(fastrand::u8(..2)),
            };
            sleep(self.cache.idle_timeout.mul_f64(idle_timeouts)).await;
        }
    }

    /// Uses the session, or logs in. `false` when the cache is closed.
    fn visit(&self, user: u32, active: bool) -> bool {
        // Some users that were away log in without looking. An active user does so now and then.
        let looks = fastrand::f64() < if active { 0.99 } else { 0.7 };
        let session = if looks { self.cache.get(&user) } else { None };
        match session {
            Some(session) => {
                let mut books = self.books();
                books.touches += 1;
                let ended = session.value.get();
                let in_time = ended.is_none_or(|ended| session.last_used <= *ended);
                books.check(in_time, "a session was touched after its end");
            }
            None => match self.cache.insert(user, Visit::new()) {
                Ok(replaced) => {
                    let mut books = self.books();
                    books.opened += 1;
                    books.replaced += books.end(replaced.as_ref());
                }
                Err(InsertError::AtCapacity(_)) => {
                    self.books().refused += 1;
                    if self.verbose {
                        println!("user {user}: too many are logged in, try again later");
                    }
                }
                // The cache is closed.
                Err(_) => return false,
            },
        }
        if active && fastrand::f64() < 0.01 {
            let left = self.cache.remove(&user);
            let mut books = self.books();
            books.logged_out += books.end(left.as_ref());
        }
        true
    }

    /// The listener. A program would write the session to its database here.
    fn save(&self, expired: &Expired<u32, Session<Visit>>) {
        let now = Instant::now();
        let last_used = expired.value.last_used;
        if self.verbose {
            let idle = now - last_used;
            println!("user {}: expired, idle for {idle:?}", expired.key);
        }
        let in_time = (last_used + self.cache.idle_timeout..=now).contains(&expired.deadline);
        let mut books = self.books();
        books.expired += books.end(Some(&expired.value));
        books.check(in_time, "a session expired early");
        books.latest = books.latest.max(now - expired.deadline);
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // A panic in the listener must not keep the others from their books.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of the sessions. For each that was opened there must be one end.
#[derive(Default)]
struct Books {
    opened: u64,
    touches: u64,
    refused: u64,
    expired: u64,
    logged_out: u64,
    replaced: u64,
    handed_back: u64,
    /// How long after its deadline a session came to the listener, at most.
    latest: Duration,
    violations: u64,
}

impl Books {
    /// Notes that a session has ended, and counts it.
    fn end(&mut self, session: Option<&Session<Visit>>) -> u64 {
        let Some(session) = session else { return 0 };
        self.check(
            session.value.set(Instant::now()).is_ok(),
            "a session ended twice",
        );
        1
    }

    fn check(&mut self, holds: bool, violation: &str) {
        if !holds {
            self.violations += 1;
            eprintln!("VIOLATION: {violation}");
        }
    }
}

impl fmt::Display for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in [
            ("sessions opened", self.opened),
            ("- expired by idleness", self.expired),
            ("- logged out", self.logged_out),
            ("- replaced by a new log-in", self.replaced),
            ("- handed back at close", self.handed_back),
            ("touches", self.touches),
            ("refused at capacity", self.refused),
            ("violations", self.violations),
        ] {
            writeln!(f, "{what:<28}{count:>10}")?;
        }
        write!(f, "{:<28}{:>10.1?}", "expired late by, max", self.latest)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);
    match humantime::parse_duration(text) {
        Ok(duration) if allowed.contains(&duration) => Ok(duration),
        Ok(_) => Err("it must be from a millisecond to a day".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("it must be a number from 0 to 1".to_string()),
    }
}
