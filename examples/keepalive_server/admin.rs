//! The admin port: an operator's commands, a line each, answered one by one.
//!
//! ```text
//! > list                             > kick 7
//! < 7 1480 127.0.0.1:40312           < ok
//! < 9 301 127.0.0.1:40316            > extend 9 1m 30s
//! < ok 2                             < error no such connection; `list` shows those that are there
//! ```
//!
//! A reply is any number of lines, and then one that begins with `ok` or `error`. No other line
//! begins with these words. For `list` and `drain` the last line is `ok` and the number of
//! connections. `help` shows the commands, and `quit` ends the session. An error says what to do,
//! and the session goes on after it. The server closes a session only in these cases:
//!
//! - A line is longer than [`LONGEST_LINE`].
//! - No whole line came for [`Limits::idle`].
//! - The operator did not take a reply for that long. Then the server closes without a word.
//! - A further session comes, [`Limits::sessions`] are there, and this one has been silent for
//!   longest. If it has not taken its reply, the server closes without a word.
//!
//! Invariants:
//!
//! - An operator, however slow or careless, costs a bounded number of tasks, each for a bounded
//!   time.
//! - An operator holds up no connection: `list` looks at one deadline at a time, and no task holds
//!   a lock while it awaits anything.
//! - A further session always gets in, so nobody locks an operator out by saying nothing.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tickwheel::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::options;
use crate::server::PAUSE_AFTER_ACCEPT_ERROR;
use crate::server::{ConnectionId, Listed, Refusal, Site};

/// The longest line, in bytes, without the end of the line.
pub(crate) const LONGEST_LINE: usize = 256;

/// One writing lists at most this many connections, so that a long list takes neither much memory
/// nor the worker.
const LISTED_AT_ONCE: usize = 512;

/// An operator has this long to take what was said last.
const PARTING: Duration = Duration::from_secs(1);

/// What is said to a session that ends for a further one.
const GIVES_WAY: &[u8] = b"error this session was silent for longest, and gives way to another\n";

/// What operators may take of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Sessions at once, at least one.
    pub(crate) sessions: usize,
    /// How long a session may say nothing.
    pub(crate) idle: Duration,
}

/// The admin port of a server, open until it is shut down.
pub(crate) struct Admin {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    acceptor: JoinHandle<usize>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sessions: 8,
            idle: Duration::from_secs(300),
        }
    }
}

impl Admin {
    /// Listens on a loopback port; 0 is any that is free.
    pub(crate) async fn start(site: &Arc<Site>, port: u16, limits: Limits) -> io::Result<Admin> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.map_err(|error| {
            io::Error::new(error.kind(), format!("the admin port {port}: {error}"))
        })?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let acceptor = Acceptor {
            listener,
            sessions: JoinSet::new(),
            seats: Seats::default(),
            panics: 0,
            site: site.clone(),
            limits,
        };
        Ok(Admin {
            address,
            stop,
            acceptor: tokio::spawn(acceptor.run(stopped)),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all sessions, and says how many tasks have panicked. After this nothing is done to
    /// connections any more.
    pub(crate) async fn shut_down(self) -> usize {
        // If the acceptor has panicked, nobody takes the message.
        let _ = self.stop.send(());
        self.acceptor.await.unwrap_or(1)
    }
}

/// The task that owns the listener and the sessions.
struct Acceptor {
    listener: TcpListener,
    sessions: JoinSet<()>,
    seats: Seats,
    panics: usize,
    site: Arc<Site>,
    limits: Limits,
}

impl Acceptor {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) -> usize {
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                Some(ended) = self.sessions.join_next() => self.note(ended),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => self.open_session(stream).await,
                    Err(_) => {
                        self.site.counters.accept_errors.add(1);
                        self.site.timer.sleep(PAUSE_AFTER_ACCEPT_ERROR).await;
                    }
                },
            }
        }
        self.sessions.abort_all();
        while let Some(ended) = self.sessions.join_next().await {
            self.note(ended);
        }
        self.panics
    }

    async fn open_session(&mut self, stream: TcpStream) {
        self.make_room().await;
        let session = Session {
            stream: BufReader::new(stream),
            awaits_line: false,
            seat: self.seats.take(),
            site: self.site.clone(),
            limits: self.limits,
        };
        self.sessions.spawn(session.attend());
    }

    /// Waits for no operator: a session that is asked to give way ends when it is next polled.
    async fn make_room(&mut self) {
        while let Some(ended) = self.sessions.try_join_next() {
            self.note(ended);
        }
        while self.sessions.len() >= self.limits.sessions {
            self.seats.ask_the_most_silent_to_give_way();
            if let Some(ended) = self.sessions.join_next().await {
                self.note(ended);
            }
        }
    }

    fn note(&mut self, ended: Result<(), JoinError>) {
        self.panics += usize::from(ended.is_err_and(|error| error.is_panic()));
    }
}

/// The conversation with one operator.
struct Session {
    stream: BufReader<TcpStream>,
    /// All that was to be said is said.
    awaits_line: bool,
    seat: Arc<Seat>,
    site: Arc<Site>,
    limits: Limits,
}

/// What came: a command, or something else.
enum Input {
    Line(String),
    TooLong,
    Idle,
    End,
}

impl Session {
    /// Holds the conversation until it ends, or a further session needs the seat.
    async fn attend(mut self) {
        let seat = self.seat.clone();
        tokio::select! {
            // It fails if the operator has gone. Then there is nobody to tell.
            _ = self.run() => {}
            () = seat.asked_to_give_way() => self.give_way(),
        }
    }

    async fn run(&mut self) -> io::Result<()> {
        self.stream.get_ref().set_nodelay(true)?;
        loop {
            self.awaits_line = true;
            let input = self.next_line().await?;
            self.awaits_line = false;
            self.seat.heard();
            let (last, is_over) = match input {
                Input::Line(line) => match line.parse() {
                    Ok(command) => {
                        let is_over = command == Command::Quit;
                        (self.obey(command).await?, is_over)
                    }
                    Err(problem) => (format!("error {problem}"), false),
                },
                Input::TooLong => {
                    let problem = format!("error the line is longer than {LONGEST_LINE} bytes");
                    (problem, true)
                }
                Input::Idle => {
                    let problem = format!("error no line came for {:?}", self.limits.idle);
                    (problem, true)
                }
                Input::End => return Ok(()),
            };
            self.say(&format!("{last}\n")).await?;
            if is_over {
                return self.part().await;
            }
        }
    }

    /// Reads a line. Of a line that is too long it reads no more than shows that.
    async fn next_line(&mut self) -> io::Result<Input> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.stream).take(LONGEST_LINE as u64 + 1);
        let read = bounded.read_until(b'\n', &mut line);
        let Ok(read) = self.site.timer.timeout(self.limits.idle, read).await else {
            return Ok(Input::Idle);
        };
        Ok(match read? {
            0 => Input::End,
            count if count > LONGEST_LINE && line.last() != Some(&b'\n') => Input::TooLong,
            // Whatever is not text is no command, and the reply to it shows what was read.
            _ => Input::Line(String::from_utf8_lossy(&line).into_owned()),
        })
    }

    /// Does what a command says, and gives the last line of the reply.
    async fn obey(&mut self, command: Command) -> io::Result<String> {
        Ok(match command {
            Command::List => format!("ok {}", self.list().await?),
            Command::Kick(id) => outcome(self.site.kick(id)),
            Command::Extend(id, longer) => outcome(self.site.extend(id, longer)),
            Command::Drain => format!("ok {}", self.site.drain()),
            Command::Help => {
                self.say(&help()).await?;
                outcome(Ok(()))
            }
            Command::Quit => outcome(Ok(())),
        })
    }

    /// Lists the connections, and says how many. One that ends meanwhile is left out.
    async fn list(&mut self) -> io::Result<usize> {
        let mut listed = 0;
        for connections in self.site.connections().chunks(LISTED_AT_ONCE) {
            let mut lines = String::new();
            for Listed { id, peer } in connections {
                if let Some(remaining) = self.site.remaining(*id) {
                    lines += &format!("{id} {} {peer}\n", remaining.as_millis());
                    listed += 1;
                }
            }
            self.say(&lines).await?;
        }
        Ok(listed)
    }

    async fn say(&mut self, lines: &str) -> io::Result<()> {
        let said = self.stream.write_all(lines.as_bytes());
        self.site.timer.timeout(self.limits.idle, said).await??;
        self.seat.heard();
        Ok(())
    }

    /// Ends the session. For a while it reads and forgets what the operator still sends. To close a
    /// socket with something unread may take back what was said last.
    async fn part(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        let mut nowhere = sink();
        let rest = copy(&mut self.stream, &mut nowhere);
        self.site.timer.timeout(PARTING, rest).await??;
        Ok(())
    }

    /// Says why the session ends, unless that would go into a reply or have to wait.
    fn give_way(&self) {
        if self.awaits_line {
            // It fails if the operator has gone.
            let _ = self.stream.get_ref().try_write(GIVES_WAY);
        }
    }
}

fn outcome(done: Result<(), Refusal>) -> String {
    match done {
        Ok(()) => "ok".to_string(),
        Err(refusal) => format!("error {refusal}"),
    }
}

// What the admin may say: one command a line, checked. The replies are in `admin.rs`.

/// Each command as it is written, and what it does.
const COMMANDS: [(&str, &str); 6] = [
    (
        "list",
        "one line for each connection: ID, milliseconds it has left, address of the client",
    ),
    ("kick ID", "close a connection"),
    (
        "extend ID DURATION",
        "from now on let it be silent for longer than the timeout, by 1500ms, 30s, 1m 30s",
    ),
    ("drain", "close all connections that are there now"),
    ("help", "show this"),
    ("quit", "end this session"),
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    List,
    Kick(ConnectionId),
    Extend(ConnectionId, Duration),
    Drain,
    Help,
    Quit,
}

impl FromStr for Command {
    /// What is wrong with the line, and what to do about it.
    type Err = String;

    fn from_str(line: &str) -> Result<Command, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["list"] => Ok(Command::List),
            ["kick", id] => Ok(Command::Kick(connection_id(id)?)),
            ["extend", id, ref longer @ ..] if !longer.is_empty() => {
                let longer = longer.join(" ");
                let duration = options::duration(&longer)
                    .map_err(|problem| format!("bad duration {longer:?}: {problem}"))?;
                Ok(Command::Extend(connection_id(id)?, duration))
            }
            ["drain"] => Ok(Command::Drain),
            ["help"] => Ok(Command::Help),
            ["quit"] => Ok(Command::Quit),
            [] => Err("empty line; `help` shows the commands".to_string()),
            [name, ..] => Err(match usage(name) {
                Some(usage) => format!("bad arguments; write `{usage}`"),
                None => format!("unknown command {name:?}; `help` shows the commands"),
            }),
        }
    }
}

/// The commands with what they do, a line for each.
pub(crate) fn help() -> String {
    COMMANDS
        .iter()
        .map(|(usage, what)| format!("{usage:<20}{what}\n"))
        .collect()
}

fn connection_id(word: &str) -> Result<ConnectionId, String> {
    word.parse().map_err(|_| {
        format!("{word:?} is no connection's number; `list` shows those that are there")
    })
}

fn usage(name: &str) -> Option<&'static str> {
    COMMANDS
        .iter()
        .map(|(usage, _)| *usage)
        .find(|usage| usage.split_whitespace().next() == Some(name))
}

// The seats at the admin port: which sessions sit there, and which one gives way when all seats
// are taken.
//
// Invariant: a seat is taken while its session holds it. The session that has been silent for
// longest is asked to give way. So an operator that works is the last to be asked.

/// All seats that are taken, and some that were.
#[derive(Default)]
pub(crate) struct Seats(Vec<Weak<Seat>>);

/// The seat of one session.
pub(crate) struct Seat {
    /// When the operator last gave a whole line, or took some of a reply.
    heard_at: Mutex<Instant>,
    asked_to_give_way: Notify,
}

impl Seats {
    pub(crate) fn take(&mut self) -> Arc<Seat> {
        self.0.retain(|seat| seat.strong_count() > 0);
        let seat = Arc::new(Seat {
            heard_at: Mutex::new(Instant::now()),
            asked_to_give_way: Notify::new(),
        });
        self.0.push(Arc::downgrade(&seat));
        seat
    }

    /// To ask again before that session has gone asks no other one.
    pub(crate) fn ask_the_most_silent_to_give_way(&self) {
        let taken = self.0.iter().filter_map(Weak::upgrade);
        if let Some(seat) = taken.min_by_key(|seat| *seat.heard_at()) {
            seat.asked_to_give_way.notify_one();
        }
    }
}

impl Seat {
    pub(crate) fn heard(&self) {
        *self.heard_at() = Instant::now();
    }

    /// Completes when the session is to end for another one.
    pub(crate) async fn asked_to_give_way(&self) {
        self.asked_to_give_way.notified().await;
    }

    fn heard_at(&self) -> MutexGuard<'_, Instant> {
        self.heard_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
