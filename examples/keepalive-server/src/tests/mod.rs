//! The server by real TCP clients, and the verdict.
//!
//! Nothing here asserts that something was fast. A test waits for the server as long as
//! [`LONGEST_WAIT`]. Where a connection must not be closed, its timeout is an hour, unless the test
//! lets a deadline expire. `tests/process.rs` runs the program itself.

mod closing;
mod verdict;

use std::future::Future;

use tickwheel::{Duration, ResetHandle};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::connection::GREETING;
use crate::load::Clients;
use crate::server::Server;
use crate::summary::Summary;

const HOUR: Duration = Duration::from_secs(3600);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A client that is served.
async fn client_of(server: &Server) -> TcpStream {
    let mut client = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(wait_for(client.read_u8()).await.unwrap(), GREETING);
    client
}

/// A client that is served, and may be silent for an hour.
async fn extended_client_of(server: &Server) -> TcpStream {
    loop {
        let client = client_of(server).await;
        let handle = handle(server, &client);
        if handle.is_some_and(|handle| handle.set_timeout(HOUR) && handle.reset()) {
            return client;
        }
        // The machine was so busy that this client had its timeout before it was extended.
    }
}

fn handle(server: &Server, client: &TcpStream) -> Option<ResetHandle> {
    server.site.deadlines.handle(&client.local_addr().unwrap())
}

/// Shuts it down, once all clients have gone.
async fn finish(server: Server, clients: Clients) -> Summary {
    Summary {
        clients,
        site: server.site.clone(),
        server: server.shut_down(LONGEST_WAIT).await,
        stall: None,
    }
}

async fn wait_for<F: Future>(future: F) -> F::Output {
    let waited = tokio::time::timeout(LONGEST_WAIT, future).await;
    waited.expect("it should not take that long")
}
