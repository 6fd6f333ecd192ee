//! A program of this package as a process of its own: where it listens, and what it prints.
//!
//! Invariant: the process ends with the test, whatever becomes of that.

use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Nothing that a test waits for takes this long.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(crate) struct Program {
    process: Child,
    address: SocketAddr,
    printed: Receiver<String>,
}

impl Program {
    /// Starts a program, `env!("CARGO_BIN_EXE_name")`, which chooses its port itself.
    pub(crate) fn start(path: &str, options: &[&str]) -> Program {
        Program::start_at("127.0.0.1:0", path, options)
    }

    /// As `start`, at this address.
    pub(crate) fn start_at(listen: &str, path: &str, options: &[&str]) -> Program {
        let mut process = Command::new(path)
            .args(["--listen", listen])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = process.stdout.take().expect("stdout is piped");
        let printed = lines(BufReader::new(stdout).lines());
        let first = printed.recv_timeout(LONGEST_WAIT);
        let first = first.expect("the program prints where it listens");
        let address = first.strip_prefix("listening on ");
        let address = address.and_then(|address| address.parse().ok());
        Program {
            process,
            address: address.unwrap_or_else(|| panic!("no address: {first:?}")),
            printed,
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Asks it to end, by `SIGTERM`.
    pub(crate) fn terminate(&self) {
        let id = self.process.id().to_string();
        let kill = Command::new("kill").args(["-TERM", &id]).status();
        assert!(kill.expect("there is a program `kill`").success());
    }

    /// Waits until the program prints a line with all of `parts` in it, and gives that. Lines
    /// before it are passed over.
    pub(crate) async fn prints(&self, parts: &[&str]) -> String {
        let mut lines = self.prints_up_to(parts).await;
        lines.pop().expect("the line is there")
    }

    /// Waits until the program prints a line with all of `parts` in it, and gives all lines up to
    /// that.
    pub(crate) async fn prints_up_to(&self, parts: &[&str]) -> Vec<String> {
        let end = Instant::now() + LONGEST_WAIT;
        let mut lines = Vec::new();
        while Instant::now() < end {
            match self.printed.try_recv() {
                Ok(line) => {
                    let is_the_one = parts.iter().all(|part| line.contains(part));
                    lines.push(line);
                    if is_the_one {
                        return lines;
                    }
                }
                Err(TryRecvError::Empty) => sleep(Duration::from_millis(5)).await,
                Err(TryRecvError::Disconnected) => break,
            }
        }
        panic!("the program printed {lines:?}, and nothing with {parts:?}");
    }

    /// Asks an HTTP server to end while nothing is in flight.
    pub(crate) async fn shuts_down_with_nothing_armed(&self) {
        self.terminate();
        let line = "shut down: all requests were answered; 0 timers armed";
        self.prints(&[line]).await;
    }

    /// Waits until its last connection has ended and no timer is left.
    pub(crate) async fn lets_all_timers_go(&self) {
        self.prints(&["; 0 open, 0 timers armed"]).await;
    }
}

/// Reads until the other side is closed, in whatever way.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    let end = timeout(LONGEST_WAIT, stream.read_to_end(&mut read)).await;
    let _ = end.expect("the program closes it");
    read
}

/// Writes one byte each `pause`, and reads meanwhile, until the server closes the connection in
/// whatever way. Gives what it has read.
pub(crate) async fn drip_to_end(stream: &mut TcpStream, bytes: &[u8], pause: Duration) -> Vec<u8> {
    let (mut read, mut write) = stream.split();
    let drip = async {
        for byte in bytes.iter().cycle() {
            if write.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(pause).await;
        }
    };
    let mut answer = Vec::new();
    let ended = timeout(LONGEST_WAIT, async {
        tokio::select! {
            () = drip => {}
            _ = read.read_to_end(&mut answer) => {}
        }
    });
    ended.await.expect("the server closes it");
    answer
}

/// A thread reads, so that the process never waits for the test.
fn lines(lines: Lines<BufReader<ChildStdout>>) -> Receiver<String> {
    let (printed, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if printed.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
