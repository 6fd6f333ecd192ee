//! The example `keepalive_server`, by real TCP clients on both of its ports.
//!
//! What the admin can do to connections is tested on tickwheel's timer and on tokio's.
//!
//! Nothing here asserts that something was fast. What waits for the server waits as long as
//! [`LONGEST_WAIT`]; where a connection must not be closed, its timeout is an hour, but where a
//! test lets a deadline expire.

#[path = "../../examples/keepalive_server/admin.rs"]
mod admin;
#[path = "../../examples/keepalive_server/command.rs"]
mod command;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../examples/keepalive_server/connection.rs"]
mod connection;
#[path = "../../examples/keepalive_server/counters.rs"]
mod counters;
#[path = "../../examples/keepalive_server/deadlines.rs"]
mod deadlines;
#[path = "../../examples/keepalive_server/duration.rs"]
mod duration;
#[path = "../../examples/keepalive_server/last_seen.rs"]
mod last_seen;
#[path = "../../examples/keepalive_server/last_seen_map.rs"]
mod last_seen_map;
#[path = "../../examples/keepalive_server/load.rs"]
mod load;
#[allow(dead_code, reason = "the command line is not read here")]
#[path = "../../examples/keepalive_server/options.rs"]
mod options;
#[path = "../../examples/keepalive_server/protocol.rs"]
mod protocol;
#[path = "../../examples/keepalive_server/seats.rs"]
mod seats;
#[path = "../../examples/keepalive_server/server.rs"]
mod server;
#[path = "../../examples/keepalive_server/site.rs"]
mod site;
#[path = "../../examples/keepalive_server/summary.rs"]
mod summary;
#[path = "../../examples/keepalive_server/timer.rs"]
mod timer;

use std::future::{Future, pending};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use clap::Parser;
use tickwheel::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::admin::{Admin, LONGEST_LINE, Limits};
use crate::common::HOUR;
use crate::deadlines::Outcome;
use crate::load::{Clients, ClosedInTime, Load};
use crate::options::Options;
use crate::protocol::{GREETING, HEARTBEAT};
use crate::server::Server;
use crate::site::{ConnectionId, OpenConnection, Refusal, Site};
use crate::summary::Summary;
use crate::timer::{AnyTimer, TimerKind};

const LONGEST_WAIT: Duration = Duration::from_secs(60);
const NO_SUCH_CONNECTION: &str = "error no such connection; `list` shows those that are there";

/// Makes two tests of each of these: one on tickwheel's timer, one on tokio's.
macro_rules! on_either_timer {
    ($($behaviour:ident,)*) => {
        mod on_tickwheel {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(super::TimerKind::Tickwheel).await;
            })*
        }
        mod on_tokio {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(super::TimerKind::Tokio).await;
            })*
        }
    };
}

on_either_timer! {
    list_shows_each_open_connection_with_its_number_its_time_and_its_client,
    kick_closes_that_connection_and_no_other,
    an_extended_connection_outlives_its_timeout_and_another_is_closed_by_its_deadline,
    an_extension_that_is_shortened_holds_no_longer_than_it_says,
    drain_closes_every_connection_and_later_ones_are_served,
    a_drain_at_the_second_look_closes_the_connection_all_the_same,
    a_connection_is_closed_no_sooner_than_its_timeout_after_its_last_heartbeat,
    a_run_whose_live_clients_are_kicked_and_drained_passes,
    the_summary_names_the_timer,
}

/// A server with its admin port.
struct Running {
    timer: AnyTimer,
    server: Server,
    admin: Admin,
}

impl Running {
    async fn new(timeout: Duration) -> Running {
        Running::on(TimerKind::Tickwheel, timeout).await
    }

    async fn on(timer: TimerKind, timeout: Duration) -> Running {
        Running::start(timer, timeout, Limits::default()).await
    }

    async fn with_limits(timeout: Duration, limits: Limits) -> Running {
        Running::start(TimerKind::Tickwheel, timeout, limits).await
    }

    async fn start(timer: TimerKind, timeout: Duration, limits: Limits) -> Running {
        let timer = AnyTimer::new(timer);
        let server = Server::start(&timer, timeout).await.unwrap();
        let admin = Admin::start(server.site(), 0, limits).await.unwrap();
        Running {
            timer,
            server,
            admin,
        }
    }

    /// A client that is served.
    async fn client(&self) -> TcpStream {
        let mut client = TcpStream::connect(self.server.address()).await.unwrap();
        assert_eq!(wait_for(client.read_u8()).await.unwrap(), GREETING);
        client
    }

    async fn operator(&self) -> Operator {
        let stream = TcpStream::connect(self.admin.address()).await.unwrap();
        Operator(BufReader::new(stream))
    }

    /// Shuts both ports down, once all clients have gone.
    async fn finish(self, clients: Clients) -> Summary {
        let admin_panics = self.admin.shut_down().await;
        assert_eq!(admin_panics, 0);
        Summary {
            clients,
            server: self.server.shut_down(LONGEST_WAIT).await,
            timer: self.timer.kind(),
            metrics: self.timer.metrics(),
            wall_time: Duration::ZERO,
        }
    }
}

/// A session at the admin port.
struct Operator(BufReader<TcpStream>);

impl Operator {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The next line; nothing once the session has ended.
    async fn line(&mut self) -> String {
        let mut line = String::new();
        wait_for(self.0.read_line(&mut line)).await.unwrap();
        line.trim_end().to_string()
    }

    /// The lines of the reply to a line, and the last of them.
    async fn ask_for_all(&mut self, line: &str) -> (Vec<String>, String) {
        self.send(format!("{line}\n")).await;
        let mut lines = Vec::new();
        loop {
            let line = self.line().await;
            assert_ne!(line, "", "the session ended within a reply");
            if line.starts_with("ok") || line.starts_with("error") {
                return (lines, line);
            }
            lines.push(line);
        }
    }

    /// The last line of the reply to a line, when it is the only one.
    async fn ask(&mut self, line: &str) -> String {
        let (lines, last) = self.ask_for_all(line).await;
        assert!(lines.is_empty(), "{line:?} was answered with {lines:?}");
        last
    }

    /// The connections that are listed: number, time left, client.
    async fn list(&mut self) -> Vec<(u64, Duration, SocketAddr)> {
        let (lines, last) = self.ask_for_all("list").await;
        assert_eq!(last, format!("ok {}", lines.len()));
        let parse = |line: &String| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words.len(), 3, "{line}");
            let remaining = Duration::from_millis(words[1].parse().unwrap());
            (
                words[0].parse().unwrap(),
                remaining,
                words[2].parse().unwrap(),
            )
        };
        lines.iter().map(parse).collect()
    }

    async fn listed_clients(&mut self) -> Vec<SocketAddr> {
        let list = self.list().await;
        list.into_iter().map(|(_, _, client)| client).collect()
    }

    /// The number of a client's connection and its time left; `None` if it is not listed.
    async fn find(&mut self, client: SocketAddr) -> Option<(u64, Duration)> {
        let mut list = self.list().await.into_iter();
        let (id, remaining, _) = list.find(|listed| listed.2 == client)?;
        Some((id, remaining))
    }
}

fn address(client: &TcpStream) -> SocketAddr {
    client.local_addr().unwrap()
}

async fn wait_for<F: Future>(future: F) -> F::Output {
    let waited = tokio::time::timeout(LONGEST_WAIT, future).await;
    waited.expect("it should not take that long")
}

async fn until(mut it_holds: impl AsyncFnMut() -> bool) {
    wait_for(async {
        while !it_holds().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

async fn assert_closed(mut client: TcpStream) {
    assert_eq!(wait_for(client.read(&mut [0])).await.unwrap(), 0);
}

async fn assert_open(client: &mut TcpStream) {
    let a_while = Duration::from_millis(20);
    let read = tokio::time::timeout(a_while, client.read_u8()).await;
    assert!(read.is_err(), "nothing comes, not even the end: {read:?}");
}

async fn list_shows_each_open_connection_with_its_number_its_time_and_its_client(timer: TimerKind) {
    let running = Running::on(timer, HOUR).await;
    let mut operator = running.operator().await;
    assert!(operator.list().await.is_empty());
    let (first, second) = (running.client().await, running.client().await);
    let list = operator.list().await;
    let who: Vec<_> = list.iter().map(|(id, _, client)| (*id, *client)).collect();
    assert_eq!(who, [(1, address(&first)), (2, address(&second))]);
    for (_, remaining, _) in list {
        // A deadline may be two ticks later than its timeout, when it was made without reading the
        // clock.
        let longest = HOUR + Duration::from_millis(2);
        assert!(
            remaining <= longest && remaining > HOUR / 2,
            "{remaining:?}"
        );
    }
    drop(first);
    until(async || operator.listed_clients().await == [address(&second)]).await;
}

async fn kick_closes_that_connection_and_no_other(timer: TimerKind) {
    let running = Running::on(timer, HOUR).await;
    let mut operator = running.operator().await;
    let (mut kept, kicked) = (running.client().await, running.client().await);
    let (number, _) = operator.find(address(&kicked)).await.unwrap();
    assert_eq!(operator.ask(&format!("kick {number}")).await, "ok");
    assert_eq!(operator.listed_clients().await, [address(&kept)]);
    assert_closed(kicked).await;
    assert_open(&mut kept).await;
    let again = operator.ask(&format!("kick {number}")).await;
    assert!(again.starts_with("error"), "{again}");

    kept.write_all(&[HEARTBEAT]).await.unwrap();
    until(async || running.server.site().counters.resets.get() == 1).await;
    drop(kept);
    let summary = running.finish(Clients::default()).await;
    let counters = &summary.server.site.counters;
    assert_eq!((counters.kicked.get(), counters.drained.get()), (1, 0));
    assert_eq!(summary.server.cancelled, 1);
    assert_eq!(counters.closed_by_client.get(), 1);
}

async fn an_extended_connection_outlives_its_timeout_and_another_is_closed_by_its_deadline(
    timer: TimerKind,
) {
    let timeout = Duration::from_millis(300);
    let running = Running::on(timer, timeout).await;
    let mut operator = running.operator().await;
    let mut extended = loop {
        let client = running.client().await;
        let newest = running.server.site().counters.served.get();
        if operator.ask(&format!("extend {newest} 1h")).await == "ok" {
            break client;
        }
        // The machine was so busy that this client had its timeout before it was extended.
    };
    let before = Instant::now();
    let other = running.client().await;
    let other_address = address(&other);
    assert_closed(other).await;
    assert!(before.elapsed() >= timeout);
    assert_eq!(operator.find(other_address).await, None);

    // This one has been silent for longer.
    assert_open(&mut extended).await;
    assert!(operator.find(address(&extended)).await.is_some());
    // Its next heartbeat does not end the extension.
    extended.write_all(&[HEARTBEAT]).await.unwrap();
    until(async || running.server.site().counters.resets.get() == 1).await;
    let (_, remaining) = operator.find(address(&extended)).await.unwrap();
    assert!(remaining > HOUR / 2, "{remaining:?}");
}

async fn drain_closes_every_connection_and_later_ones_are_served(timer: TimerKind) {
    let running = Running::on(timer, HOUR).await;
    let mut operator = running.operator().await;
    let clients = [
        running.client().await,
        running.client().await,
        running.client().await,
    ];
    assert_eq!(operator.ask("drain").await, "ok 3");
    assert_eq!(operator.ask("drain").await, "ok 0");
    assert!(operator.list().await.is_empty());
    for client in clients {
        assert_closed(client).await;
    }
    let mut later = running.client().await;
    assert_eq!(operator.listed_clients().await, [address(&later)]);
    assert_open(&mut later).await;
}

async fn a_drain_at_the_second_look_closes_the_connection_all_the_same(timer: TimerKind) {
    // A clock that moves only when all wait: no pause of the machine can pass for an hour.
    tokio::time::pause();
    let site = Arc::new(Site::new(&AnyTimer::new(timer), HOUR));
    let client = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut open = OpenConnection::new(&site, ConnectionId(1), client);
    assert_eq!(open.deadline.outcome().await, Outcome::Expired);
    assert_eq!(site.kick(ConnectionId(1)), Err(Refusal::JustEnding));
    assert_eq!(site.remaining(ConnectionId(1)), None);
    assert_eq!(site.drain(), 0, "its deadline was not pending");
    open.restart();
    assert_eq!(open.deadline.outcome().await, Outcome::Cancelled);
    assert_eq!(site.counters.drained.get(), 1);
    drop(open);
    assert!(site.connections().is_empty());
}

#[tokio::test]
async fn a_line_that_cannot_be_obeyed_is_answered_with_what_to_do_and_the_session_goes_on() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let _client = running.client().await;
    for (line, reply) in [
        ("", "error empty line; `help` shows the commands"),
        (
            "LIST",
            "error unknown command \"LIST\"; `help` shows the commands",
        ),
        ("list all", "error bad arguments; write `list`"),
        ("kick", "error bad arguments; write `kick ID`"),
        ("kick 1 2", "error bad arguments; write `kick ID`"),
        (
            "kick one",
            "error \"one\" is no connection's number; `list` shows those that are there",
        ),
        ("kick 7", NO_SUCH_CONNECTION),
        (
            "extend 1",
            "error bad arguments; write `extend ID DURATION`",
        ),
        ("extend 7 30s", NO_SUCH_CONNECTION),
        (
            "extend 1 2d",
            "error bad duration \"2d\": it must be a day at most",
        ),
        ("extend 1 1m 30s", "ok"),
    ] {
        assert_eq!(operator.ask(line).await, reply, "{line:?}");
    }
    operator.send(b"\xff\xfe\r\n").await;
    assert!(operator.line().await.starts_with("error unknown command"));
    assert_eq!(operator.list().await.len(), 1);
}

#[tokio::test]
async fn help_shows_every_command_and_quit_ends_the_session() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let (lines, last) = operator.ask_for_all("help").await;
    let commands: Vec<_> = lines
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(
        commands,
        ["list", "kick", "extend", "drain", "help", "quit"]
    );
    assert_eq!(last, "ok");
    assert_eq!(operator.ask("quit").await, "ok");
    assert_eq!(operator.line().await, "");
}

#[tokio::test]
async fn a_line_that_is_too_long_ends_the_session_and_the_longest_does_not() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let longest = operator.ask(&"x".repeat(LONGEST_LINE)).await;
    assert!(longest.starts_with("error unknown command"), "{longest}");
    operator.send("x".repeat(100 * LONGEST_LINE)).await;
    assert_eq!(
        operator.line().await,
        "error the line is longer than 256 bytes"
    );
    assert_eq!(operator.line().await, "");
}

#[tokio::test]
async fn a_session_without_a_whole_line_for_too_long_is_ended() {
    let limits = Limits {
        idle: Duration::from_millis(50),
        ..Limits::default()
    };
    let running = Running::with_limits(HOUR, limits).await;
    let mut operator = running.operator().await;
    operator.send("drai").await;
    assert_eq!(operator.line().await, "error no line came for 50ms");
    assert_eq!(operator.line().await, "");
}

#[tokio::test]
async fn eight_silent_sessions_do_not_lock_an_operator_out() {
    let running = Running::new(HOUR).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(running.operator().await);
    }
    let mut ninth = running.operator().await;
    assert_eq!(ninth.ask("drain").await, "ok 0");
}

#[tokio::test]
async fn eight_sessions_that_take_no_reply_do_not_lock_an_operator_out() {
    let running = Running::new(HOUR).await;
    let mut deaf = Vec::new();
    for _ in 0..8 {
        let mut operator = running.operator().await;
        ask_until_nothing_is_taken(&mut operator).await;
        deaf.push(operator);
    }
    let mut ninth = running.operator().await;
    assert_eq!(ninth.ask("drain").await, "ok 0");
}

/// Asks again and again without taking a reply, until the server takes no more either.
async fn ask_until_nothing_is_taken(operator: &mut Operator) {
    let lines = "help\n".repeat(1000);
    let a_while = Duration::from_millis(200);
    while tokio::time::timeout(a_while, operator.send(&lines))
        .await
        .is_ok()
    {}
}

#[tokio::test]
async fn the_session_that_was_silent_for_longest_gives_way_and_is_told_so() {
    let limits = Limits {
        sessions: 2,
        ..Limits::default()
    };
    let running = Running::with_limits(HOUR, limits).await;
    let (mut busy, mut silent) = (running.operator().await, running.operator().await);
    assert_eq!(silent.ask("drain").await, "ok 0");
    assert_eq!(busy.ask("drain").await, "ok 0");
    let mut further = running.operator().await;
    assert_eq!(further.ask("drain").await, "ok 0");
    assert_eq!(
        silent.line().await,
        "error this session was silent for longest, and gives way to another"
    );
    assert_eq!(silent.line().await, "");
    assert_eq!(busy.ask("drain").await, "ok 0");
}

async fn an_extension_that_is_shortened_holds_no_longer_than_it_says(timer: TimerKind) {
    let running = Running::on(timer, Duration::from_millis(300)).await;
    let mut operator = running.operator().await;
    let client = loop {
        let client = running.client().await;
        let newest = running.server.site().counters.served.get();
        if operator.ask(&format!("extend {newest} 1h")).await == "ok" {
            assert_eq!(operator.ask(&format!("extend {newest} 1ms")).await, "ok");
            break client;
        }
        // The machine was so busy that this client had its timeout before it was extended.
    };
    assert_closed(client).await;
}

async fn a_connection_is_closed_no_sooner_than_its_timeout_after_its_last_heartbeat(
    timer: TimerKind,
) {
    let timeout = Duration::from_secs(1);
    let running = Running::on(timer, timeout).await;
    let mut client = running.client().await;
    let mut last_sent = Instant::now();
    for _ in 0..3 {
        tokio::time::sleep(timeout / 20).await;
        last_sent = Instant::now();
        client.write_all(&[HEARTBEAT]).await.unwrap();
    }
    assert_closed(client).await;
    assert!(last_sent.elapsed() >= timeout);
    let summary = running.finish(Clients::default()).await;
    assert!(summary.server.early.is_empty());
    assert_eq!(summary.server.closed_late.len(), 1);
}

async fn the_summary_names_the_timer(timer: TimerKind) {
    let summary = Running::on(timer, HOUR).await;
    let summary = summary.finish(Clients::default()).await.to_string();
    let first: Vec<&str> = summary.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(first, ["timer", &timer.to_string()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_flooding_clients_as_workers_hold_up_nobody_on_tickwheel() {
    flooding_clients_hold_up_nobody(TimerKind::Tickwheel).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_flooding_clients_as_workers_hold_up_nobody_on_tokio() {
    flooding_clients_hold_up_nobody(TimerKind::Tokio).await;
}

/// While the flood lasts this blocks and awaits nothing: it runs on no worker, and so notices when
/// no worker is left to the others.
async fn flooding_clients_hold_up_nobody(timer: TimerKind) {
    let timeout = Duration::from_secs(1);
    let running = Running::on(timer, timeout).await;
    let server = running.server.address();
    let floods = [Flood::start(server), Flood::start(server)];
    let heartbeats = &running.server.site().counters.heartbeats;
    let started = Instant::now();
    while heartbeats.get() < 1_000_000 {
        assert!(started.elapsed() < LONGEST_WAIT, "the flood does not come");
        thread::sleep(Duration::from_millis(1));
    }

    let mut live = blocking_client(server);
    let mut silent = blocking_client(server);
    for _ in 0..60 {
        live.write_all(&[HEARTBEAT]).unwrap();
        thread::sleep(timeout / 20);
    }
    assert_eq!(
        silent.read(&mut [0]).unwrap(),
        0,
        "closed, as it was silent"
    );
    live.set_nonblocking(true).unwrap();
    let still_open = live.read(&mut [0]).unwrap_err();
    assert_eq!(still_open.kind(), io::ErrorKind::WouldBlock);

    drop((floods, live));
    let lived = Clients {
        total: 1,
        lived: 1,
        ..Clients::default()
    };
    let summary = running.finish(lived).await;
    assert!(summary.has_passed(), "{summary}");
    assert_eq!(summary.server.closed_late.len(), 1);
}

/// A client that is served, for those who may block.
fn blocking_client(server: SocketAddr) -> std::net::TcpStream {
    let mut client = std::net::TcpStream::connect(server).unwrap();
    client.set_read_timeout(Some(LONGEST_WAIT)).unwrap();
    let mut greeting = [0];
    client.read_exact(&mut greeting).expect("it is served");
    assert_eq!(greeting, [GREETING]);
    client
}

/// A thread that sends heartbeats as fast as the server takes them, until this is dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

impl Flood {
    fn start(server: SocketAddr) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let mut client = blocking_client(server);
        let sender = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                client.write_all(&[HEARTBEAT; 1 << 16]).unwrap();
            }
        });
        Flood {
            stop,
            sender: Some(sender),
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.take().map(JoinHandle::join);
        assert!(thread::panicking() || sent.is_some_and(|sent| sent.is_ok()));
    }
}

#[tokio::test]
async fn a_run_in_which_most_clients_were_held_up_does_not_pass() {
    let running = Running::new(HOUR).await;
    let mut summary = running.finish(Clients::default()).await;
    let mut verdict = |lived: usize, excused: usize, not_connected: usize| {
        summary.clients = Clients {
            total: lived + excused + not_connected,
            lived,
            excused,
            not_connected,
            ..Clients::default()
        };
        summary.has_passed()
    };
    assert!(verdict(5, 3, 2));
    assert!(!verdict(4, 3, 3));
}

#[tokio::test]
async fn a_run_that_closed_a_connection_far_too_late_does_not_pass() {
    let lived = Clients {
        total: 1,
        lived: 1,
        ..Clients::default()
    };
    let mut summary = Running::new(HOUR).await.finish(lived).await;
    assert!(summary.has_passed(), "{summary}");
    summary.server.closed_late.record(6_000_000).unwrap();
    assert!(!summary.has_passed());
}

#[tokio::test]
async fn the_verdict_leaves_out_what_the_admin_did_and_nothing_else() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let (kicked, extended) = (running.client().await, running.client().await);
    assert_eq!(operator.ask("kick 1").await, "ok");
    assert_eq!(operator.ask("extend 2 1h").await, "ok");
    let addresses = (address(&kicked), address(&extended));
    drop((kicked, extended));
    let mut summary = running.finish(Clients::default()).await;

    let mut verdict = |in_time: SocketAddr, left_open: SocketAddr, cancelled: usize| {
        summary.server.cancelled = cancelled;
        summary.clients = Clients {
            total: 2,
            closed_in_time: vec![ClosedInTime {
                client: in_time,
                longest_gap: Duration::ZERO,
            }],
            left_open: vec![left_open],
            ..Clients::default()
        };
        summary.has_passed()
    };
    let (kicked, extended) = addresses;
    assert!(verdict(kicked, extended, 1));
    assert!(!verdict(extended, extended, 1), "closed, but not kicked");
    assert!(!verdict(kicked, kicked, 1), "left open, but not extended");
    assert!(!verdict(kicked, extended, 2), "cancelled by nobody");
}

async fn a_run_whose_live_clients_are_kicked_and_drained_passes(timer: TimerKind) {
    let options = "keepalive_server --connections 30 --timeout 60s --heartbeat 50ms --run-time 61s";
    let options = Options::parse_from(options.split(' '));
    let running = Running::on(timer, options.timeout).await;
    let mut operator = running.operator().await;
    let load = Load::new(&running.timer, running.server.address(), &options);
    let load = tokio::spawn(load.run(pending()));
    until(async || operator.list().await.len() == 30).await;
    assert_eq!(operator.ask("kick 7").await, "ok");
    assert_eq!(operator.ask("kick 11").await, "ok");
    assert_eq!(operator.ask("drain").await, "ok 28");
    let clients = wait_for(load).await.unwrap();
    assert_eq!(clients.closed_in_time.len(), 30);
    let summary = running.finish(clients).await;
    assert!(summary.has_passed(), "{summary}");
    let counters = &summary.server.site.counters;
    assert_eq!((counters.kicked.get(), counters.drained.get()), (2, 28));
    assert_eq!(summary.server.cancelled, 30);
}
