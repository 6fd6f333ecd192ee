//! The load as a process of its own: this program once more, with `--load-for`. So the clients go
//! on sending while the server's process is stopped, and each side tells its own CPU time.
//!
//! The load prints what became of its clients when all have ended, a line for each fact: a name and
//! a value. It ends early when its standard input does. So it never outlives the server.

use std::env;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::process::Stdio;
use std::str::FromStr;
use std::thread;

use cpu_time::ProcessTime;
use tickwheel::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::interrupted;
use crate::load::{Clients, ClosedInTime, Load};
use crate::options::Options;
use crate::timer::AnyTimer;

/// The load, as the server's process has it.
pub(crate) struct LoadProcess(Child);

impl LoadProcess {
    /// Starts the clients of a server that listens there. They are killed when this is dropped.
    pub(crate) fn start(options: &Options, server: SocketAddr) -> io::Result<LoadProcess> {
        let child = Command::new(env::current_exe()?)
            .args(options.for_the_load(server))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok(LoadProcess(child))
    }

    /// What became of the clients, when all have ended. Ctrl-C ends them early.
    pub(crate) async fn clients(mut self) -> io::Result<Clients> {
        let mut stdin = self.0.stdin.take();
        let stdout = self.0.stdout.as_mut();
        let stdout = stdout.ok_or_else(|| io::Error::other("the load prints nothing"))?;
        let mut printed = String::new();
        let mut reading = Box::pin(stdout.read_to_string(&mut printed));
        tokio::select! {
            read = &mut reading => read?,
            () = interrupted() => {
                stdin.take();
                reading.await?
            }
        };
        let status = self.0.wait().await?;
        if !status.success() {
            return Err(io::Error::other(format!("the load failed: {status}")));
        }
        parse(&printed)
    }
}

/// The load itself, in the other process: runs the clients, and prints what became of them.
pub(crate) async fn run(options: &Options, server: SocketAddr) -> io::Result<()> {
    let timer = AnyTimer::new(options.timer);
    let (over, server_has_ended) = oneshot::channel();
    // In no task, because a read of the standard input cannot be cancelled.
    thread::spawn(move || {
        let _ = io::stdin().read(&mut [0]);
        let _ = over.send(());
    });
    let interrupted = async {
        tokio::select! {
            () = interrupted() => {}
            _ = server_has_ended => {}
        }
    };
    let clients = Load::new(&timer, server, options).run(interrupted).await;
    // It fails if the server's process has ended. Then nobody waits for this.
    io::stdout().write_all(lines(&clients).as_bytes())
}

fn lines(clients: &Clients) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, value: &dyn Display| lines += &format!("{name} {value}\n");
    line("total", &clients.total);
    line("lived", &clients.lived);
    line("closed-when-silent", &clients.closed_when_silent);
    line("excused", &clients.excused);
    line("not-connected", &clients.not_connected);
    line("interrupted", &clients.interrupted);
    line("stuck", &clients.stuck);
    line("panics", &clients.panics);
    for closed in &clients.closed_in_time {
        let gap = closed.longest_gap.as_micros();
        line("closed-in-time", &format_args!("{} {gap}", closed.client));
    }
    for client in &clients.left_open {
        line("left-open", client);
    }
    if let Some(error) = &clients.first_connect_error {
        line("first-connect-error", &error.to_string().replace('\n', " "));
    }
    if let Ok(time) = ProcessTime::try_now() {
        line("cpu", &time.as_duration().as_micros());
    }
    lines
}

fn parse(printed: &str) -> io::Result<Clients> {
    let mut clients = Clients::default();
    for line in printed.lines() {
        add_line(&mut clients, line)
            .ok_or_else(|| io::Error::other(format!("the load printed {line:?}")))?;
    }
    Ok(clients)
}

fn add_line(clients: &mut Clients, line: &str) -> Option<()> {
    let (name, value) = line.split_once(' ')?;
    let count = || value_of(value);
    match name {
        "total" => clients.total = count()?,
        "lived" => clients.lived = count()?,
        "closed-when-silent" => clients.closed_when_silent = count()?,
        "excused" => clients.excused = count()?,
        "not-connected" => clients.not_connected = count()?,
        "interrupted" => clients.interrupted = count()?,
        "stuck" => clients.stuck = count()?,
        "panics" => clients.panics = count()?,
        "closed-in-time" => {
            let (client, gap) = value.split_once(' ')?;
            clients.closed_in_time.push(ClosedInTime {
                client: value_of(client)?,
                longest_gap: Duration::from_micros(value_of(gap)?),
            });
        }
        "left-open" => clients.left_open.push(value_of(value)?),
        "first-connect-error" => clients.first_connect_error = Some(value.to_string()),
        "cpu" => clients.cpu_time = Some(Duration::from_micros(value_of(value)?)),
        _ => return None,
    }
    Some(())
}

fn value_of<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}
