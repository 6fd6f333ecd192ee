//! The admin port: an operator's commands, a line each, answered one by one.
//!
//! ```text
//! > list                             > kick 127.0.0.1:40312
//! < 127.0.0.1:40312 1480             < ok
//! < 127.0.0.1:40316 301              > extend 127.0.0.1:40316 1m 30s
//! < ok 2                             < error no such connection; `list` shows those that are there
//! ```
//!
//! A connection is named by the address of its client, which is its key in the `DeadlineMap`. A
//! reply is any number of lines, and then one that begins with `ok` or `error`. No other line
//! begins with these words. For `list` and `drain` it is `ok` and the number of connections.
//!
//! A session ends that says nothing for [`IDLE`], does not take a reply for that long, or sends a
//! line of more than [`LONGEST_LINE`] bytes. So does the oldest one when a further one comes and
//! [`SESSIONS`] are there. So an operator, however slow or careless, costs a bounded number of
//! tasks, holds up no connection, and locks nobody out.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tickwheel::{DeadlineMap, Duration, ResetHandle};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::keepalives::Keepalives;
use crate::options;
use crate::server::{PAUSE_AFTER_ACCEPT_ERROR, Site};

/// The longest line, in bytes, with its end.
const LONGEST_LINE: u64 = 256;

/// As many operators at once.
pub(crate) const SESSIONS: usize = 8;

/// How long a session may say nothing.
const IDLE: Duration = Duration::from_secs(300);

const HELP: &str = "\
list                      a line for each connection: its client, and how many ms it has left
kick CLIENT               close a connection
extend CLIENT DURATION    let it be silent for longer than the timeout, by 1500ms, 30s, 1m 30s
drain                     close all connections that are there now
help                      show this
quit                      end this session
";

/// The admin port of a server, open until it is shut down.
pub(crate) struct Admin {
    pub(crate) address: SocketAddr,
    accepting: JoinSet<Infallible>,
}

impl Admin {
    /// Listens on a loopback port; 0 is any that is free.
    pub(crate) async fn start(site: &Arc<Site>, port: u16) -> io::Result<Admin> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener
            .map_err(|error| io::Error::other(format!("the admin port {port}: {error}")))?;
        let address = listener.local_addr()?;
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, site.clone()));
        Ok(Admin { address, accepting })
    }

    /// Ends all sessions. After this nothing is done to connections any more.
    pub(crate) async fn shut_down(mut self) {
        self.accepting.shutdown().await;
    }
}

async fn accept(listener: TcpListener, site: Arc<Site>) -> Infallible {
    let mut sessions = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while sessions.try_join_next().is_some() {}
                oldest_first.retain(|session| !session.is_finished());
                if oldest_first.len() >= SESSIONS {
                    oldest_first.pop_front().inspect(AbortHandle::abort);
                }
                // It fails if the operator has gone or was too slow. Nobody is there to be told.
                oldest_first.push_back(sessions.spawn(attend(stream, site.clone())));
            }
            Err(_) => {
                site.counters.accept_errors.add(1);
                sleep(PAUSE_AFTER_ACCEPT_ERROR).await;
            }
        }
    }
}

/// Holds the conversation with one operator until it ends.
async fn attend(stream: TcpStream, site: Arc<Site>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut stream).take(LONGEST_LINE);
        timeout(IDLE, bounded.read_until(b'\n', &mut line)).await??;
        if line.last() != Some(&b'\n') {
            return Ok(()); // it is too long, or the operator has gone
        }
        // Whatever is not text is no command, and the reply to it shows what was read.
        let line = String::from_utf8_lossy(&line);
        let reply = obey(&site, &line).unwrap_or_else(|problem| format!("error {problem}\n"));
        timeout(IDLE, stream.write_all(reply.as_bytes())).await??;
        if line.trim() == "quit" {
            return Ok(());
        }
    }
}

/// Does what a line says, and gives the reply. An error says what to do.
fn obey(site: &Site, line: &str) -> Result<String, String> {
    let Keepalives::Tickwheel(map) = &site.keepalives else {
        return Err("tokio's timers have no list of connections".to_string());
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["list"] => return Ok(list(map)),
        ["kick", client] => {
            let client = address(client)?;
            change(map, client, ResetHandle::cancel)?;
            site.by_admin().closed.insert(client);
        }
        ["extend", client, ref longer @ ..] if !longer.is_empty() => {
            let client = address(client)?;
            let timeout = site.timeout + options::duration(&longer.join(" "))?; // days at most
            // `reset_after` would hold until the next heartbeat only.
            change(map, client, |handle| handle.set_timeout(timeout))?;
            site.by_admin().extended.insert(client);
        }
        ["drain"] => {
            let drained = map.drain();
            let reply = format!("ok {}\n", drained.len());
            let clients = drained.into_iter().map(|(client, _)| client);
            site.by_admin().closed.extend(clients);
            return Ok(reply);
        }
        ["help"] => return Ok(format!("{HELP}ok\n")),
        ["quit"] => {}
        _ => {
            return Err(format!(
                "{:?} is no command; `help` shows them",
                line.trim()
            ));
        }
    }
    Ok("ok\n".to_string())
}

/// The connections that are there. One that ends meanwhile is left out.
fn list(map: &DeadlineMap<SocketAddr>) -> String {
    let mut clients = map.keys();
    clients.sort_unstable();
    let lines: Vec<String> = clients
        .iter()
        .filter_map(|client| {
            let left = map.remaining(client)?;
            Some(format!("{client} {}\n", left.as_millis()))
        })
        .collect();
    format!("{}ok {}\n", lines.concat(), lines.len())
}

/// Does something to one connection, unless it has just come to its end.
fn change(
    map: &DeadlineMap<SocketAddr>,
    client: SocketAddr,
    change: impl FnOnce(&ResetHandle) -> bool,
) -> Result<(), &'static str> {
    match map.handle(&client) {
        None => Err("no such connection; `list` shows those that are there"),
        Some(handle) if change(&handle) => Ok(()),
        Some(_) => Err("its deadline has just come to its end, and it is about to be closed"),
    }
}

fn address(word: &str) -> Result<SocketAddr, String> {
    word.parse()
        .map_err(|_| format!("{word:?} is no client's address; `list` shows those that are there"))
}
