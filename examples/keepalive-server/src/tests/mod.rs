//! The server by real TCP clients, and the verdict.
//!
//! Nothing here asserts that something was fast. What waits for the server waits as long as
//! [`LONGEST_WAIT`]. Where a connection must not be closed, its timeout is an hour, unless the test
//! lets a deadline expire. `tests/process.rs` runs the program itself.

mod closing;
mod compare;
mod flood;
mod verdict;

use std::future::Future;

use tickwheel::{Duration, ResetHandle};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::connection::GREETING;
use crate::keepalives::{Keepalives, TimerKind};
use crate::load::Clients;
use crate::server::Server;
use crate::summary::Summary;

const HOUR: Duration = Duration::from_secs(3600);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A server that runs.
struct Running {
    timer: TimerKind,
    server: Server,
}

impl Running {
    async fn new(timeout: Duration) -> Running {
        Running::on(TimerKind::Tickwheel, timeout).await
    }

    async fn on(timer: TimerKind, timeout: Duration) -> Running {
        let server = Server::start(timer, timeout).await.unwrap();
        Running { timer, server }
    }

    /// A client that is served.
    async fn client(&self) -> TcpStream {
        let mut client = TcpStream::connect(self.server.address).await.unwrap();
        assert_eq!(wait_for(client.read_u8()).await.unwrap(), GREETING);
        client
    }

    /// A client that is served, and may be silent for an hour.
    async fn extended(&self) -> TcpStream {
        loop {
            let client = self.client().await;
            if let Some(handle) = self.handle(&client)
                && handle.set_timeout(HOUR)
                && handle.reset()
            {
                return client;
            }
            // The machine was so busy that this client had its timeout before it was extended.
        }
    }

    fn handle(&self, client: &TcpStream) -> Option<ResetHandle> {
        let Keepalives::Tickwheel(_, map) = &self.server.site.keepalives else {
            panic!("tokio's timers have no handles");
        };
        map.handle(&client.local_addr().unwrap())
    }

    /// Shuts it down, once all clients have gone.
    async fn finish(self, clients: Clients) -> Summary {
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
