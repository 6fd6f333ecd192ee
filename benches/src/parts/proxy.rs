//! A proxy on loopback that closes idle connections: 32 clients, each of which sends 64 bytes and
//! waits until a server behind the proxy has sent them back.
//!
//! The contenders bound the client's socket, through which all bytes go: by one deadline for both
//! directions, or by one for reads and one for writes. The proxy has a thread of its own, whose CPU
//! it is. The clients and the server share the other one.

use std::io;
use std::net::SocketAddr;

use tickwheel::io::IdleTimeout;
use tickwheel_util::io::TimeoutStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use super::loopback::{Listener, clients, connect};
use crate::harness::{Client, Record, Scene, TIMEOUT, load, runtime};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "proxy",
    about: "loopback proxy, 32 connections with timeouts, messages of 64 bytes",
    state: "A sleep stands next to the connections, whose deadlines each message pushes back. \
            Unlike a server: all connections are busy all the time, all messages are alike, and \
            none is idle.",
    how: How::Together(run),
};

const CONNECTIONS: usize = 32;
const CONTENDERS: [&str; 4] = [
    name::TICKWHEEL,
    name::READ_WRITE,
    name::TOKIO_IO_TIMEOUT,
    name::NO_TIMER,
];

type Message = [u8; 64];

fn run(settings: &Settings) -> Vec<Record> {
    load(PART.name, &CONTENDERS, settings, set_up)
}

fn set_up(contender: &'static str) -> Scene<Messages> {
    let (measured, other) = (runtime(1), runtime(1));
    let server = other.block_on(async {
        let listener = Listener::bind().await;
        let address = listener.address;
        tokio::spawn(serve(listener));
        address
    });
    let proxy = measured.block_on(async {
        let listener = Listener::bind().await;
        let address = listener.address;
        tokio::spawn(proxy(listener, server, contender));
        address
    });
    let clients = other.block_on(clients(CONNECTIONS, proxy, Messages));
    Scene {
        clients,
        other,
        measured,
    }
}

/// A client that sends message after message.
struct Messages(TcpStream);

impl Client for Messages {
    async fn request(&mut self) -> io::Result<()> {
        let mut message: Message = [7; 64];
        self.0.write_all(&message).await?;
        self.0.read_exact(&mut message).await?;
        Ok(())
    }
}

async fn proxy(listener: Listener, server: SocketAddr, contender: &str) -> io::Result<()> {
    loop {
        let client = listener.accept().await?;
        let server = connect(server).await?;
        match contender {
            name::TICKWHEEL => {
                tokio::spawn(pass(IdleTimeout::new(client, TIMEOUT), server));
            }
            name::READ_WRITE => {
                let mut client = TimeoutStream::new(client);
                client.set_read_timeout(Some(TIMEOUT));
                client.set_write_timeout(Some(TIMEOUT));
                tokio::spawn(pass(client, server));
            }
            name::TOKIO_IO_TIMEOUT => {
                let mut client = tokio_io_timeout::TimeoutStream::new(client);
                client.set_read_timeout(Some(TIMEOUT));
                client.set_write_timeout(Some(TIMEOUT));
                tokio::spawn(pass(Box::pin(client), server));
            }
            _ => {
                tokio::spawn(pass(client, server));
            }
        }
    }
}

async fn pass<S>(mut client: S, mut server: TcpStream) -> io::Result<(u64, u64)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    copy_bidirectional(&mut client, &mut server).await
}

async fn serve(listener: Listener) -> io::Result<()> {
    loop {
        let mut stream = listener.accept().await?;
        tokio::spawn(async move {
            let mut message: Message = [0; 64];
            while stream.read_exact(&mut message).await.is_ok() {
                stream.write_all(&message).await?;
            }
            io::Result::Ok(())
        });
    }
}
