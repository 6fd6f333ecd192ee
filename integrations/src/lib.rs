//! What the programs of this package share: a listening socket, a task for each connection, a line
//! on stdout for whatever happens to one, and the signal to end.
//!
//! ```text
//! listening on 127.0.0.1:40123
//! 127.0.0.1:51234 opened
//! 127.0.0.1:51234 closed: missed 2 pongs; 0 open, 0 timers armed
//! ```
//!
//! Invariant: the line of a connection that has ended is printed after its task has let all of its
//! timers go.

pub mod http;

use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tickwheel::{Duration, Timer};
use tokio::net::{TcpListener, TcpStream};

/// How long a listener waits that cannot accept, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens, and prints where.
///
/// # Errors
///
/// If the address cannot be bound.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    Ok(listener)
}

/// Listens, and runs `handle` for each connection in a task of its own. What it gives is printed as
/// the reason for which the connection has ended.
///
/// # Errors
///
/// If the address cannot be bound. A connection that cannot be accepted is no error: the next one
/// may be.
pub async fn serve<Handle, Handling>(
    address: SocketAddr,
    timer: Timer,
    handle: Handle,
) -> io::Result<()>
where
    Handle: Fn(TcpStream) -> Handling,
    Handling: Future<Output: Display + Send> + Send + 'static,
{
    let listener = listen(address).await?;
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                eprintln!("cannot accept a connection: {error}");
                timer.sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        println!("{peer} opened");
        open.fetch_add(1, Ordering::Relaxed);
        let handling = handle(stream);
        let (open, timer) = (open.clone(), timer.clone());
        tokio::spawn(async move {
            let reason = handling.await;
            let open = open.fetch_sub(1, Ordering::Relaxed) - 1;
            let armed = timer.metrics().pending;
            println!("{peer} closed: {reason}; {open} open, {armed} timers armed");
        });
    }
}

/// Is ready when the process is asked to end, by `SIGTERM` or from the keyboard.
///
/// # Panics
///
/// If the system does not let it listen to signals.
pub async fn shutdown_signal() {
    #[cfg(unix)]
    let terminated = async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut signals = signal(SignalKind::terminate()).expect("signals can be listened to");
        signals.recv().await;
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<()>();
    tokio::select! {
        () = terminated => {}
        interrupted = tokio::signal::ctrl_c() => interrupted.expect("signals can be listened to"),
    }
}

/// How many timers are armed at the end of a program. A server may tell that its connections have
/// ended just before their tasks let go of what they hold, so this waits for them, for a second.
pub async fn armed_at_the_end(timer: &Timer) -> usize {
    for _ in 0..100 {
        if timer.metrics().pending == 0 {
            break;
        }
        timer.sleep(Duration::from_millis(10)).await;
    }
    timer.metrics().pending
}

/// Milliseconds (`1500`), or with units (`1500ms`, `2s`, `1m 30s`), for the command line.
///
/// # Errors
///
/// Says what is wrong, as half a sentence.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    match text.trim().parse() {
        Ok(millis) => Ok(Duration::from_millis(millis)),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }
}

/// As [`parse_duration`], for what happens again and again, and so may not be zero.
///
/// # Errors
///
/// Says what is wrong, as half a sentence.
pub fn parse_period(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("it must be longer than zero".to_owned()),
        period => Ok(period),
    }
}

/// The examples of the migration guide: what they move from is a dependency of this package only.
#[cfg(doctest)]
#[doc = include_str!("../../docs/MIGRATION.md")]
struct MigrationExamples;

/// The recipes of the page on operations. The test `operations` runs them too.
#[cfg(doctest)]
#[doc = include_str!("../../docs/OPERATIONS.md")]
struct OperationsRecipes;
