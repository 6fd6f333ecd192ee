//! The program `mqtt_keepalive`, by `rumqttc`.

use std::time::{Duration, Instant};

use crate::process::{LONGEST_WAIT, Program, drip_to_end};
use rumqttc::{AsyncClient, Event, EventLoop, MqttOptions, Outgoing, Packet, QoS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

async fn serve() -> Program {
    serve_with(&["--publish-every", "100"]).await
}

async fn serve_with(options: &[&str]) -> Program {
    Program::serve(env!("CARGO_BIN_EXE_mqtt_keepalive"), options).await
}

/// A client that is connected, with what drives it. A client that is not polled does nothing.
async fn connect(program: &Program, id: &str, keep_alive: Duration) -> (AsyncClient, EventLoop) {
    let address = program.address();
    let mut options = MqttOptions::new(id, address.ip().to_string(), address.port());
    options.set_keep_alive(keep_alive);
    let (client, mut events) = AsyncClient::new(options, 10);
    let first = timeout(LONGEST_WAIT, events.poll()).await.unwrap().unwrap();
    let is_connected = matches!(first, Event::Incoming(Packet::ConnAck(_)));
    assert!(is_connected, "{first:?}");
    (client, events)
}

/// Polls until the connection has ended. Gives how much was published, and how often it pinged.
async fn poll_to_end(events: &mut EventLoop) -> (usize, usize) {
    let (mut published, mut pings) = (0, 0);
    loop {
        match events.poll().await {
            Ok(Event::Incoming(Packet::Publish(_))) => published += 1,
            Ok(Event::Outgoing(Outgoing::PingReq)) => pings += 1,
            Ok(_) => {}
            Err(_) => return (published, pings),
        }
    }
}

/// Ends a connection as the protocol wants it.
async fn disconnect(program: &Program, client: AsyncClient, events: &mut EventLoop) {
    client.disconnect().await.unwrap();
    timeout(LONGEST_WAIT, poll_to_end(events)).await.unwrap();
    program.closes("by the client").await;
}

#[tokio::test]
async fn a_client_that_only_receives_is_disconnected() {
    let program = serve().await;
    let (client, mut events) = connect(&program, "listener", SECOND).await;
    // From now on it sends no ping. The broker has been told of a keep-alive of a second.
    events.mqtt_options.set_keep_alive(Duration::ZERO);
    let last_sent = Instant::now();
    client.subscribe("ticks", QoS::AtMostOnce).await.unwrap();
    let end = timeout(LONGEST_WAIT, poll_to_end(&mut events)).await;
    let (published, pings) = end.expect("it is disconnected");
    assert!(last_sent.elapsed() >= 3 * SECOND / 2);
    assert!(published > 0, "it has received something all the time");
    assert_eq!(pings, 0);
    program.closes("silent for 1.5s").await;
}

#[tokio::test]
async fn a_client_that_pings_stays() {
    let program = serve().await;
    let (client, mut events) = connect(&program, "pinger", 3 * SECOND).await;
    client.subscribe("ticks", QoS::AtMostOnce).await.unwrap();
    let silent_after = 3 * 3 * SECOND / 2;
    let (start, mut pongs) = (Instant::now(), 0);
    while pongs < 2 || start.elapsed() < 2 * silent_after {
        let event = timeout(LONGEST_WAIT, events.poll()).await.unwrap();
        let event = event.expect("it stays connected");
        pongs += usize::from(event == Event::Incoming(Packet::PingResp));
    }
    disconnect(&program, client, &mut events).await;
}

#[tokio::test]
async fn a_newer_connection_takes_the_identifier_over_and_stays_without_a_keep_alive() {
    let program = serve().await;
    let (_older, _events) = connect(&program, "same", 3600 * SECOND).await;
    let (newer, mut events) = connect(&program, "same", Duration::ZERO).await;
    let taken_over = "taken over by a newer connection; 1 open";
    program.prints(&[taken_over]).await;
    // No keep-alive means no deadline.
    sleep(3 * SECOND).await;
    disconnect(&program, newer, &mut events).await;
}

#[tokio::test]
async fn half_a_packet_a_second_is_silence() {
    let program = serve().await;
    let start = Instant::now();
    let mut stream = connect_by_hand(&program, 1).await;
    // The head of a PUBLISH of 100 bytes, and then a byte a second.
    stream.write_all(b"\x30\x64").await.unwrap();
    drip_to_end(&mut stream, b"a", SECOND).await;
    program.closes("silent for 1.5s").await;
    assert!(start.elapsed() >= 3 * SECOND / 2);
}

/// CONNECT of MQTT 3.1.1, clean session, the identifier «a», and a keep-alive of this many
/// seconds.
async fn connect_by_hand(program: &Program, keep_alive: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // Little is on its way then to a client that does not read.
    socket.set_recv_buffer_size(2048).unwrap();
    let mut stream = socket.connect(program.address()).await.unwrap();
    let mut connect = *b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a";
    connect[11] = keep_alive;
    stream.write_all(&connect).await.unwrap();
    let mut connack = [0; 4];
    stream.read_exact(&mut connack).await.unwrap();
    assert_eq!(connack, [0x20, 2, 0, 0]);
    stream
}

/// The client subscribes again and again, and never reads the answers. Each answer is large, so few
/// of them fill all that lies between the two, also where the server gets little time.
#[tokio::test]
async fn without_keep_alive_a_client_must_read_too() {
    const FILTERS: u16 = 16_000;
    let program = serve_with(&["--write-within", "500ms"]).await;
    let mut stream = connect_by_hand(&program, 0).await;
    // SUBSCRIBE, its length of 64,002 bytes, its identifier, and the filter `a` so many times.
    let mut subscribe = b"\x82\x82\xf4\x03\x00\x01".to_vec();
    subscribe.extend(b"\x00\x01a\x00".repeat(FILTERS.into()));
    let flood = async {
        while stream.write_all(&subscribe).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = flood => unreachable!("it goes on"),
        () = program.closes("the client does not read") => {}
    }
}

#[tokio::test]
async fn no_connect_is_cut_off() {
    let program = serve_with(&["--connect-within", "300ms"]).await;
    let start = Instant::now();
    let _stream = program.send(b"\x10").await;
    program.closes("no CONNECT in time").await;
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn what_is_no_mqtt_is_refused() {
    let program = serve().await;
    let http = &b"GET / HTTP/1.1\r\n\r\n"[..];
    for nonsense in [http, b"\xc0\x00", b"\x10\xff\xff\xff\xff"] {
        let _stream = program.send(nonsense).await;
        program.closes("").await;
    }
}
