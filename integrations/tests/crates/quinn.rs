//! quinn on tickwheel's timers: real endpoints over loopback, on links that lose packets.
//!
//! Most tests pause tokio's clock. quinn's clock follows it, so minutes of QUIC pass in an instant.

mod link;

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, Runtime, ServerConfig,
    TransportConfig,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tickwheel::{Duration, Instant, Timer, sleep, timeout};
use tickwheel_integrations::quic::TickwheelRuntime;

use crate::assert_nothing_stays_armed;
use link::Link;

const IDLE: Duration = Duration::from_secs(30);
const SERVER_NAME: &str = "localhost";

/// A client and a server, and the link that each of them sends on.
struct Pair {
    timer: Timer,
    client: Endpoint,
    client_link: Arc<Link>,
    server: Endpoint,
    server_link: Arc<Link>,
}

impl Pair {
    /// Every `loses`-th packet is lost, in either direction.
    fn new(timer: &Timer, transport: TransportConfig, loses: Option<usize>) -> Pair {
        let transport = Arc::new(transport);
        Pair::of(timer, [transport.clone(), transport], loses)
    }

    /// With a transport for the server, and one for the client.
    fn of(timer: &Timer, of_each: [Arc<TransportConfig>; 2], loses: Option<usize>) -> Pair {
        let runtime = Arc::new(TickwheelRuntime::new(timer));
        let (server_config, client_config) = configs(&of_each);
        let (server, server_link) = endpoint(&runtime, Some(server_config), loses);
        let (mut client, client_link) = endpoint(&runtime, None, loses);
        client.set_default_client_config(client_config);
        Pair {
            timer: timer.clone(),
            client,
            client_link,
            server,
            server_link,
        }
    }

    async fn connect(&self) -> (Connection, Connection) {
        let address = self.server.local_addr().unwrap();
        let connecting = self.client.connect(address, SERVER_NAME);
        let accepting = async { self.server.accept().await.unwrap().await.unwrap() };
        let (client, server) = tokio::join!(connecting.unwrap(), accepting);
        (client.unwrap(), server)
    }

    /// Waits until both sides have forgotten all connections, and their timers with them.
    async fn assert_nothing_stays_armed(&self) {
        self.client.wait_idle().await;
        self.server.wait_idle().await;
        assert_nothing_stays_armed(&self.timer).await;
        assert!(self.timer.metrics().armed() > 0, "it was in use");
    }
}

fn endpoint(
    runtime: &Arc<TickwheelRuntime>,
    config: Option<ServerConfig>,
    loses: Option<usize>,
) -> (Endpoint, Arc<Link>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let link = Arc::new(Link::new(runtime.wrap_udp_socket(socket).unwrap(), loses));
    let endpoint = Endpoint::new_with_abstract_socket(
        EndpointConfig::default(),
        config,
        link.clone(),
        runtime.clone(),
    );
    (endpoint.unwrap(), link)
}

fn configs([of_server, of_client]: &[Arc<TransportConfig>; 2]) -> (ServerConfig, ClientConfig) {
    let signed = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).unwrap();
    let certificate = CertificateDer::from(signed.cert);
    let key = PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();

    let mut server = ServerConfig::with_single_cert(vec![certificate], key.into()).unwrap();
    server.transport_config(of_server.clone());
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    client.transport_config(of_client.clone());
    (server, client)
}

fn transport(idle: Duration) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(idle.try_into().unwrap()));
    // Loopback is quick: a packet that is lost in the handshake need not cost a second.
    transport.initial_rtt(Duration::from_millis(20));
    transport
}

fn transport_without_idle() -> TransportConfig {
    let mut transport = transport(IDLE);
    transport.max_idle_timeout(None);
    transport
}

async fn assert_arrives(from: &Connection, to: &Connection, sent: &[u8]) {
    let send = async {
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(sent).await.unwrap();
        stream.finish().unwrap();
        // The stream is told to be stopped once the peer has everything.
        stream.stopped().await.unwrap();
    };
    let receive = async {
        let mut stream = to.accept_uni().await.unwrap();
        stream.read_to_end(sent.len()).await.unwrap()
    };
    let ((), received) = tokio::join!(send, receive);
    assert!(received == sent, "what arrives is what was sent");
}

fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + i / 251) as u8).collect()
}

/// Both sides vanish for each other. Gives how long the server took to know.
async fn vanish(pair: &Pair, client: &Connection, server: &Connection) -> Duration {
    let last_heard = Instant::now();
    assert_arrives(client, server, b"ping").await;
    pair.client_link.vanish();
    pair.server_link.vanish();
    assert_eq!(server.closed().await, ConnectionError::TimedOut);
    let silent = last_heard.elapsed();
    assert_eq!(client.closed().await, ConnectionError::TimedOut);
    pair.assert_nothing_stays_armed().await;
    silent
}

#[tokio::test(start_paused = true)]
async fn data_arrives_whole_though_packets_are_lost() {
    let pair = Pair::new(&Timer::current(), transport(IDLE), Some(5));
    let (client, server) = pair.connect().await;
    assert_arrives(&client, &server, &payload(1 << 20)).await;
    assert_arrives(&server, &client, &payload(1 << 20)).await;
    assert!(pair.client_link.lost() > 100, "{}", pair.client_link.lost());
    assert!(pair.server_link.lost() > 100, "{}", pair.server_link.lost());
    assert!(client.stats().path.lost_packets > 0);
    client.close(0u32.into(), b"done");
    server.closed().await;
    pair.assert_nothing_stays_armed().await;
}

#[tokio::test(start_paused = true)]
async fn the_idle_timeout_fires_when_the_peer_vanishes() {
    let pair = Pair::new(&Timer::current(), transport(IDLE), None);
    let (client, server) = pair.connect().await;
    let silent = vanish(&pair, &client, &server).await;
    let in_time = IDLE..IDLE + Duration::from_secs(10);
    assert!(in_time.contains(&silent), "{silent:?}");
}

#[tokio::test(start_paused = true)]
async fn keep_alive_packets_hold_an_unused_connection_open() {
    let mut transport = transport(IDLE);
    transport.keep_alive_interval(Some(IDLE / 3));
    let pair = Pair::new(&Timer::current(), transport, Some(10));
    let (client, server) = pair.connect().await;
    sleep(100 * IDLE).await;
    assert_eq!(client.close_reason(), None);
    assert!(
        pair.timer.metrics().pending() <= 2,
        "one timer a connection"
    );
    vanish(&pair, &client, &server).await;
}

/// The clock that quinn goes by here is the system's.
#[tokio::test]
async fn connections_go_on_when_the_timers_runtime_has_gone() {
    let idle = Duration::from_millis(500);
    let driving = tokio::runtime::Runtime::new().unwrap();
    let timer = Timer::builder().build_on(driving.handle()).unwrap();
    let pair = Pair::new(&timer, transport(idle), Some(5));
    let (client, server) = pair.connect().await;
    driving.shutdown_background();
    assert_arrives(&client, &server, &payload(1 << 16)).await;
    assert!(vanish(&pair, &client, &server).await >= idle);
}

/// QUIC counts an idle timeout in milliseconds, and zero of them are none. quinn's client takes it
/// for that. Its server ends each connection in the handshake.
#[tokio::test(start_paused = true)]
async fn an_idle_timeout_that_rounds_down_to_zero_is_none_for_a_client_alone() {
    let least = || Arc::new(transport(Duration::from_micros(500)));
    let none = || Arc::new(transport_without_idle());

    let pair = Pair::of(&Timer::current(), [none(), least()], None);
    let (client, server) = pair.connect().await;
    sleep(100 * IDLE).await;
    assert_arrives(&client, &server, b"still here").await;
    client.close(0u32.into(), b"done");
    server.closed().await;
    pair.assert_nothing_stays_armed().await;

    let pair = Pair::of(&Timer::current(), [least(), none()], None);
    let connecting = pair
        .client
        .connect(pair.server.local_addr().unwrap(), SERVER_NAME);
    let accepting = async { pair.server.accept().await.unwrap().await };
    let (client, server) = tokio::join!(timeout(IDLE, connecting.unwrap()), accepting);
    assert_eq!(server.unwrap_err(), ConnectionError::TimedOut);
    assert!(!matches!(client, Ok(Ok(_))));
}
