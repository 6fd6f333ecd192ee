//! A program of this package as a process of its own: where it listens, and what it prints.
//!
//! Invariant: the process ends with the test, whatever becomes of that.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Nothing that a test waits for takes this long.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(crate) struct Program {
    process: Child,
    address: Option<SocketAddr>,
    printed: Receiver<String>,
    lines: RefCell<Vec<String>>,
}

impl Program {
    /// Starts a server, `env!("CARGO_BIN_EXE_name")`, which chooses its port itself.
    pub(crate) async fn serve(path: &str, options: &[&str]) -> Program {
        let mut process = Command::new(path)
            .args(["--listen", "127.0.0.1:0"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let (sender, printed) = mpsc::channel();
        pass_on(process.stdout.take().expect("it is piped"), sender.clone());
        pass_on(process.stderr.take().expect("it is piped"), sender);
        let mut program = Program {
            process,
            address: None,
            printed,
            lines: RefCell::default(),
        };
        let line = program.prints(&["listening on "]).await;
        let (_, address) = line.split_once("listening on ").expect("it is there");
        program.address = Some(address.parse().expect("an address"));
        program
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.expect("it is a server")
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).await.unwrap()
    }

    /// A connection on which these bytes were sent.
    pub(crate) async fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        stream
    }

    /// Asks it to end, by `SIGTERM`.
    pub(crate) fn terminate(&self) {
        let mut kill = Command::new("kill");
        let status = kill
            .args(["-TERM", &self.process.id().to_string()])
            .status();
        assert!(status.expect("there is a program `kill`").success());
    }

    /// All that it has printed, as far as a test has waited for it.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Waits until the program prints a line with all of `parts` in it, and gives that. Lines
    /// before it are passed over.
    pub(crate) async fn prints(&self, parts: &[&str]) -> String {
        let end = Instant::now() + LONGEST_WAIT;
        while Instant::now() < end {
            match self.printed.try_recv() {
                Ok(line) => {
                    self.lines.borrow_mut().push(line.clone());
                    if parts.iter().all(|part| line.contains(part)) {
                        return line;
                    }
                }
                Err(TryRecvError::Empty) => sleep(Duration::from_millis(5)).await,
                Err(TryRecvError::Disconnected) => break,
            }
        }
        panic!("nothing with {parts:?} in {:?}", self.lines());
    }

    /// Asks an HTTP server to end while nothing is in flight.
    pub(crate) async fn shuts_down_with_nothing_armed(&self) {
        self.terminate();
        let line = "shut down: all requests were answered; 0 timers armed";
        self.prints(&[line]).await;
    }
}

/// A thread reads, so that the process never waits for the test.
fn pass_on(from: impl Read + Send + 'static, to: Sender<String>) {
    thread::spawn(move || {
        let mut lines = BufReader::new(from).lines().map_while(Result::ok);
        lines.try_for_each(|line| to.send(line))
    });
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

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
