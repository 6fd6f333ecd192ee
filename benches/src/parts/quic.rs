//! quinn over loopback: 16 connections, each with four requests under way, and each request a
//! stream of its own. quinn moves the timer of a connection with nearly every packet.
//!
//! Both sides run on one thread and have the same timers, so the CPU is that of both.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, RecvStream, Runtime,
    SendStream, ServerConfig, TokioRuntime,
};
use tickwheel::Timer;
use tickwheel_quic::TickwheelRuntime;

use super::{How, Part, name};
use crate::harness::{Client, Record, Scene, load, runtime};
use crate::settings::Settings;

/// The example of the integrations, compiled here again: their package turns on tokio/test-util.
#[path = "../../../integrations/src/quic.rs"]
mod tickwheel_quic;

pub const PART: Part = Part {
    name: "quic",
    about: "quinn over loopback, 16 connections, a small stream for each request",
    how: How::Together(run),
};

const CONNECTIONS: usize = 16;
const REQUESTS_EACH: usize = 4;
const CONTENDERS: [&str; 2] = [name::TICKWHEEL, name::TOKIO];
const SERVER_NAME: &str = "localhost";

type Message = [u8; 64];

fn run(settings: &Settings) -> Vec<Record> {
    let configs = Configs::new();
    load(PART.name, &CONTENDERS, settings, |contender| {
        set_up(contender, &configs)
    })
}

fn set_up(contender: &str, configs: &Configs) -> Scene<Requests> {
    let measured = runtime(1);
    let clients = measured.block_on(async {
        let timers: Arc<dyn Runtime> = match contender {
            // Nothing stalls here, so the runtime's own timer is as good as one that counts stalls.
            name::TICKWHEEL => Arc::new(TickwheelRuntime::new(&Timer::current())),
            _ => Arc::new(TokioRuntime),
        };
        let connections = connect(timers, configs).await;
        let connections = connections.expect("loopback connections");
        let requests = |connection| std::iter::repeat_n(Requests(connection), REQUESTS_EACH);
        connections.into_iter().flat_map(requests).collect()
    });
    Scene {
        clients,
        clients_on: measured.handle().clone(),
        other: None,
        measured,
    }
}

/// What both sides need for TLS, with a certificate that the server has signed itself.
struct Configs {
    server: ServerConfig,
    client: ClientConfig,
}

impl Configs {
    fn new() -> Configs {
        let signed = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])
            .expect("the name is a valid one");
        let certificate = CertificateDer::from(signed.cert);
        let key = PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("it is a certificate");
        Configs {
            server: ServerConfig::with_single_cert(vec![certificate], key.into())
                .expect("the key is the certificate's"),
            client: ClientConfig::with_root_certificates(Arc::new(roots))
                .expect("the roots are in order"),
        }
    }
}

async fn connect(timers: Arc<dyn Runtime>, configs: &Configs) -> io::Result<Vec<Connection>> {
    let endpoint = |server| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        Endpoint::new(EndpointConfig::default(), server, socket, timers.clone())
    };
    let server = endpoint(Some(configs.server.clone()))?;
    let address = server.local_addr()?;
    tokio::spawn(serve(server));

    let mut client = endpoint(None)?;
    client.set_default_client_config(configs.client.clone());
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let connecting = client.connect(address, SERVER_NAME);
        connections.push(connecting.map_err(io::Error::other)?.await?);
    }
    Ok(connections)
}

/// A client that opens a stream for each request.
#[derive(Clone)]
struct Requests(Connection);

impl Client for Requests {
    async fn request(&mut self) -> io::Result<()> {
        let mut message: Message = [7; 64];
        let (mut send, mut receive) = self.0.open_bi().await?;
        send.write_all(&message).await?;
        send.finish()?;
        receive
            .read_exact(&mut message)
            .await
            .map_err(io::Error::other)
    }
}

async fn serve(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async { answer_all(incoming.await?).await });
    }
}

/// Answers until the client has gone.
async fn answer_all(connection: Connection) -> Result<Infallible, ConnectionError> {
    loop {
        let (send, receive) = connection.accept_bi().await?;
        tokio::spawn(answer(send, receive));
    }
}

async fn answer(mut send: SendStream, mut receive: RecvStream) -> io::Result<()> {
    let request = receive.read_to_end(size_of::<Message>());
    let message = request.await.map_err(io::Error::other)?;
    send.write_all(&message).await?;
    send.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That the connections of the one contender are on tickwheel's timer, and the other's are not.
    #[test]
    fn each_connection_is_on_its_timer() {
        let configs = Configs::new();
        // Each side of a connection has a timer.
        for (contender, timers) in [(name::TICKWHEEL, 2 * CONNECTIONS), (name::TOKIO, 0)] {
            let scene = set_up(contender, &configs);
            let pending = scene.measured.block_on(async {
                for client in &scene.clients {
                    client.clone().request().await.expect("it is answered");
                }
                Timer::current().metrics().pending
            });
            assert_eq!(pending, timers, "{contender}");
        }
    }
}
