//! The server by real TCP clients on both of its ports, and the verdict.
//!
//! Nothing here asserts that something was fast. What waits for the server waits as long as
//! [`LONGEST_WAIT`]. Where a connection must not be closed, its timeout is an hour, unless the test
//! lets a deadline expire. `tests/process.rs` runs the program itself.

mod closing;
mod compare;
mod flood;
mod sessions;
mod verdict;

use std::future::Future;
use std::net::SocketAddr;

use tickwheel::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::admin::Admin;
use crate::connection::GREETING;
use crate::keepalives::TimerKind;
use crate::load::Clients;
use crate::server::Server;
use crate::summary::Summary;

const HOUR: Duration = Duration::from_secs(3600);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A server with its admin port.
struct Running {
    timer: TimerKind,
    server: Server,
    admin: Admin,
}

impl Running {
    async fn new(timeout: Duration) -> Running {
        Running::on(TimerKind::Tickwheel, timeout).await
    }

    async fn on(timer: TimerKind, timeout: Duration) -> Running {
        let server = Server::start(timer, timeout).await.unwrap();
        let admin = Admin::start(&server.site, 0).await.unwrap();
        Running {
            timer,
            server,
            admin,
        }
    }

    /// A client that is served.
    async fn client(&self) -> TcpStream {
        let mut client = TcpStream::connect(self.server.address).await.unwrap();
        assert_eq!(wait_for(client.read_u8()).await.unwrap(), GREETING);
        client
    }

    async fn operator(&self) -> Operator {
        let stream = TcpStream::connect(self.admin.address).await.unwrap();
        Operator(BufReader::new(stream))
    }

    fn resets(&self) -> u64 {
        self.server.site.counters.resets.get()
    }

    /// Shuts both ports down, once all clients have gone.
    async fn finish(self, clients: Clients) -> Summary {
        self.admin.shut_down().await;
        Summary {
            clients,
            site: self.server.site.clone(),
            server: self.server.shut_down(LONGEST_WAIT).await,
            timer: self.timer,
            pause: Duration::ZERO,
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

    /// The next line, or nothing once the session has ended.
    async fn line(&mut self) -> String {
        let mut line = String::new();
        // A session that ends with something unread may reset the socket.
        let _ = wait_for(self.0.read_line(&mut line)).await;
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

    /// A client that is served, and may be silent for an hour more than others.
    async fn extended(&mut self, running: &Running) -> TcpStream {
        loop {
            let client = running.client().await;
            let extend = format!("extend {} 1h", address(&client));
            if self.ask(&extend).await == "ok" {
                return client;
            }
            // The machine was so busy that this client had its timeout before it was extended.
        }
    }

    /// The connections that are listed: the client, and the time left.
    async fn list(&mut self) -> Vec<(SocketAddr, Duration)> {
        let (lines, last) = self.ask_for_all("list").await;
        assert_eq!(last, format!("ok {}", lines.len()));
        let parse = |line: &String| {
            let (client, millis) = line.split_once(' ').unwrap();
            let left = Duration::from_millis(millis.parse().unwrap());
            (client.parse().unwrap(), left)
        };
        lines.iter().map(parse).collect()
    }

    async fn listed_clients(&mut self) -> Vec<SocketAddr> {
        let list = self.list().await;
        list.into_iter().map(|(client, _)| client).collect()
    }

    /// The time that a client has left, or `None` if it is not listed.
    async fn left(&mut self, client: &TcpStream) -> Option<Duration> {
        let mut list = self.list().await.into_iter();
        list.find(|listed| listed.0 == address(client))
            .map(|listed| listed.1)
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
