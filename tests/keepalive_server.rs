//! The admin port of the example `keepalive_server`, by real TCP clients on both of its ports.
//!
//! Nothing here asserts that something was fast. What waits for the server waits as long as [`LONGEST_WAIT`]; where a
//! connection must not be closed, its timeout is an hour, but for the one test that lets a deadline expire.

#[path = "../examples/keepalive_server/admin.rs"]
mod admin;
#[path = "../examples/keepalive_server/command.rs"]
mod command;
#[path = "../examples/keepalive_server/connection.rs"]
mod connection;
#[path = "../examples/keepalive_server/counters.rs"]
mod counters;
#[path = "../examples/keepalive_server/duration.rs"]
mod duration;
#[path = "../examples/keepalive_server/load.rs"]
mod load;
#[allow(dead_code, reason = "the command line is not read here")]
#[path = "../examples/keepalive_server/options.rs"]
mod options;
#[path = "../examples/keepalive_server/protocol.rs"]
mod protocol;
#[path = "../examples/keepalive_server/server.rs"]
mod server;
#[path = "../examples/keepalive_server/site.rs"]
mod site;
#[path = "../examples/keepalive_server/summary.rs"]
mod summary;

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::Arc;

use clap::Parser;
use tickwheel::{Duration, Instant, Timer};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::admin::{Admin, LONGEST_LINE, Limits};
use crate::load::{Clients, ClosedInTime, Load};
use crate::options::Options;
use crate::protocol::{GREETING, HEARTBEAT};
use crate::server::Server;
use crate::site::{ConnectionId, OpenConnection, Refusal, Site};
use crate::summary::Summary;

const HOUR: Duration = Duration::from_secs(3600);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const NO_SUCH_CONNECTION: &str = "error no such connection; `list` shows those that are there";

/// A server with its admin port.
struct Running {
    timer: Timer,
    server: Server,
    admin: Admin,
}

impl Running {
    async fn new(timeout: Duration) -> Running {
        Running::with_limits(timeout, Limits::default()).await
    }

    async fn with_limits(timeout: Duration, limits: Limits) -> Running {
        let timer = Timer::new();
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
            timer: self.timer.metrics(),
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

#[tokio::test]
async fn list_shows_each_open_connection_with_its_number_its_time_and_its_client() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    assert!(operator.list().await.is_empty());
    let (first, second) = (running.client().await, running.client().await);
    let list = operator.list().await;
    let who: Vec<_> = list.iter().map(|(id, _, client)| (*id, *client)).collect();
    assert_eq!(who, [(1, address(&first)), (2, address(&second))]);
    for (_, remaining, _) in list {
        // A deadline may be two ticks later than its timeout, when it was made without reading the clock.
        let longest = HOUR + Duration::from_millis(2);
        assert!(
            remaining <= longest && remaining > HOUR / 2,
            "{remaining:?}"
        );
    }
    drop(first);
    until(async || operator.listed_clients().await == [address(&second)]).await;
}

#[tokio::test]
async fn kick_closes_that_connection_and_no_other() {
    let running = Running::new(HOUR).await;
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

#[tokio::test]
async fn an_extended_connection_outlives_its_timeout_and_another_is_closed_by_its_deadline() {
    let timeout = Duration::from_millis(300);
    let running = Running::new(timeout).await;
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

#[tokio::test]
async fn drain_closes_every_connection_and_later_ones_are_served() {
    let running = Running::new(HOUR).await;
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

#[tokio::test]
async fn a_drain_at_the_second_look_closes_the_connection_all_the_same() {
    let site = Arc::new(Site::new(&Timer::new(), HOUR));
    let client = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut open = OpenConnection::new(&site, ConnectionId(1), client);
    assert!(open.deadline.handle().expire());
    assert_eq!(site.kick(ConnectionId(1)), Err(Refusal::JustEnding));
    assert_eq!(site.remaining(ConnectionId(1)), None);
    assert_eq!(site.drain(), 0, "its deadline was not pending");
    open.restart();
    assert!(wait_for(&mut open.deadline).await.is_err());
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
async fn sessions_beyond_the_limit_are_refused_until_one_ends() {
    let limits = Limits {
        sessions: 1,
        ..Limits::default()
    };
    let running = Running::with_limits(HOUR, limits).await;
    let mut first = running.operator().await;
    assert_eq!(first.ask("drain").await, "ok 0");
    let mut second = running.operator().await;
    let refusal = second.line().await;
    assert!(
        refusal.starts_with("error all 1 admin sessions"),
        "{refusal}"
    );
    assert_eq!(second.line().await, "");
    drop(first);
    // Refused until the server has seen the first one go.
    until(async || {
        let mut next = running.operator().await;
        let _ = next.0.write_all(b"quit\n").await;
        let mut reply = String::new();
        let read = wait_for(next.0.read_line(&mut reply)).await;
        read.is_ok() && reply == "ok\n"
    })
    .await;
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

#[tokio::test]
async fn a_run_whose_live_clients_are_kicked_and_drained_passes() {
    let options = "keepalive_server --connections 30 --timeout 60s --heartbeat 50ms --run-time 61s";
    let options = Options::parse_from(options.split(' '));
    let running = Running::new(options.timeout).await;
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
