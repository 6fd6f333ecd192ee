//! TCP on loopback, as the parts with servers use it: without Nagle's algorithm.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpStream};

/// A listener at a free port.
pub struct Listener {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl Listener {
    pub async fn bind() -> Listener {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("there is a free port");
        let address = listener.local_addr().expect("it has one");
        Listener { listener, address }
    }

    pub async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// As many clients, each from its connection.
pub async fn clients<C>(count: usize, address: SocketAddr, client: fn(TcpStream) -> C) -> Vec<C> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(client(connect(address).await.expect("it listens")));
    }
    clients
}
