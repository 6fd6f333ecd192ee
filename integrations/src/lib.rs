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
pub mod quic;

use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tickwheel::{Duration, Timer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// How long a listener waits that cannot accept, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a connection has ended before its client wanted it.
pub type Reason = Box<dyn Error + Send + Sync>;

/// Runs a program to its end. An error is printed as a sentence, and makes the exit code 1.
pub fn run<E: Display>(program: impl Future<Output = Result<(), E>>) -> ExitCode {
    let runtime = Runtime::new().expect("the system gives threads");
    match runtime.block_on(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line on stdout, as `println!` does. If that was cut off, as by `| head -1`, nobody
/// reads what the program says, and it ends.
///
/// A server must not let `SIGPIPE` end it in place of that: the signal also comes where it writes
/// to a socket that its client has closed.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::say_line(::std::format_args!($($text)*))
    };
}

/// What [`say!`] calls.
pub fn say_line(line: impl Display) {
    if writeln!(io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}

/// Listens at `HOST:PORT`, and prints where. A name may have several addresses, which are tried one
/// after the other. An error names the address, and says what to do.
pub async fn listen(address: &str) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; another program listens there, so give another port with --listen, or 0 for any"
            }
            io::ErrorKind::PermissionDenied => "; give a port above 1023 with --listen",
            _ => "",
        };
        io::Error::other(format!("cannot listen on {address}: {error}{hint}"))
    })?;
    say!("listening on {}", listener.local_addr()?);
    Ok(listener)
}

/// Listens, and attends each connection in a task of its own, until the process is asked to end.
/// What `attend` gives is printed as the reason for which the connection has ended. A connection
/// that cannot be accepted is no error: the next one may be.
pub async fn serve<Attending>(
    address: String,
    attend: impl Fn(TcpStream, Timer) -> Attending,
) -> io::Result<()>
where
    Attending: Future<Output = Result<String, Reason>> + Send + 'static,
{
    let timer = Timer::current();
    let listener = listen(&address).await?;
    let open = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown_signal());
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &timer) => accepted,
        };
        say!("{peer} opened");
        open.fetch_add(1, Ordering::Relaxed);
        let attending = attend(stream, timer.clone());
        let (open, timer) = (open.clone(), timer.clone());
        connections.spawn(async move {
            let reason = attending.await.unwrap_or_else(|reason| reason.to_string());
            let open = open.fetch_sub(1, Ordering::Relaxed) - 1;
            let armed = timer.metrics().pending;
            say!("{peer} closed: {reason}; {open} open, {armed} timers armed");
        });
    }
    let cut_off = open.load(Ordering::Relaxed);
    connections.shutdown().await;
    let armed = armed_at_the_end(&timer).await;
    say!("shut down: {cut_off} connections were cut off; {armed} timers armed");
    Ok(())
}

/// The next connection. One that cannot be accepted is told, and the next one is waited for.
pub(crate) async fn accept(listener: &TcpListener, timer: &Timer) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                eprintln!("cannot accept a connection: {error}");
                timer.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Is ready when the process is asked to end, by `SIGTERM` or from the keyboard.
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

/// Durations of the command line are bounded, so that no sum of a time and a few of them overflows.
pub const LONGEST_DURATION: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);

/// Milliseconds (`1500`), or with units (`1500ms`, `2s`, `1m 30s`), for the command line.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err("it cannot be negative; give a time such as 1500ms or 30s".to_owned());
    }
    let duration = match text.parse() {
        Ok(millis) => Duration::from_millis(millis),
        Err(_) => humantime::parse_duration(text)
            .map_err(|error| format!("{error}; give a time such as 1500ms or 30s"))?,
    };
    match duration > LONGEST_DURATION {
        true => Err("it is longer than a thousand years; give a time such as 30s".to_owned()),
        false => Ok(duration),
    }
}

/// As [`parse_duration`], for a timeout or a period: longer than zero, and a year at most.
pub fn parse_period(text: &str) -> Result<Duration, String> {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    match parse_duration(text)? {
        Duration::ZERO => Err("it must be longer than zero, such as 30s".to_owned()),
        period if period > YEAR => Err("it must be a year at most, such as 30s".to_owned()),
        period => Ok(period),
    }
}

/// `HOST:PORT` for the command line, where the host is an address or a name.
pub fn parse_address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(text.to_owned())
        }
        _ => Err("give a host and a port, such as 127.0.0.1:3000 or localhost:3000".to_owned()),
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
