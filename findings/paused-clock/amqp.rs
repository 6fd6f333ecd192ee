//! lapin, whose heartbeats sleep by tokio's clock and count by the system's.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::own::case;
use crate::{HOUR, MS, Row, SECOND, before_the_pause, peers};

pub const ROWS: &[Row] = &[
    ("lapin", "connect in a timeout", || case(connect())),
    ("lapin", "heartbeats, and those of a silent server", || {
        case(heartbeats())
    }),
];

const HEARTBEAT: u8 = 8;

fn send(socket: &mut TcpStream, arguments: &[u8]) -> std::io::Result<()> {
    let mut frame = vec![1, 0, 0];
    frame.extend((arguments.len() as u32).to_be_bytes());
    frame.extend(arguments);
    frame.push(0xCE);
    socket.write_all(&frame)
}

/// The kind of the next frame.
fn receive(socket: &mut TcpStream) -> std::io::Result<u8> {
    let mut head = [0; 7];
    socket.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    socket.read_exact(&mut vec![0; length as usize + 1])?;
    Ok(head[0])
}

fn attend(mut socket: TcpStream, every: u8, beats: &AtomicU32) -> std::io::Result<()> {
    socket.read_exact(&mut [0; 8])?;
    peers::pause();
    // start: version 0.9, no properties, one mechanism, one locale
    send(
        &mut socket,
        b"\0\x0a\0\x0a\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05en_US",
    )?;
    receive(&mut socket)?;
    let tune = [0, 10, 0, 30, 0, 16, 0, 1, 0, 0, 0, every];
    send(&mut socket, &tune)?;
    receive(&mut socket)?;
    receive(&mut socket)?;
    send(&mut socket, b"\0\x0a\0\x29\0")?;
    loop {
        if receive(&mut socket)? == HEARTBEAT {
            beats.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A server that asks for a heartbeat each so many seconds, and sends none.
fn server(every: u8) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "amqp://127.0.0.1:{}/%2f",
        listener.local_addr().unwrap().port()
    );
    let beats = Arc::new(AtomicU32::new(0));
    let counted = beats.clone();
    thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let _ = attend(socket, every, &counted);
    });
    (url, beats)
}

async fn connect() -> String {
    let (url, _) = server(10);
    crate::at_once(HOUR, async {
        let connecting = lapin::Connection::connect(&url, lapin::ConnectionProperties::default());
        match tokio::time::timeout(HOUR, connecting).await {
            Err(_) => Ok(()),
            Ok(connected) => Err(format!("{:?}", connected.err())),
        }
    })
    .await
}

/// The server sends nothing. After twenty seconds lapin should give it up.
async fn heartbeats() -> String {
    let (url, beats) = server(10);
    let connection = lapin::Connection::connect(&url, lapin::ConnectionProperties::default());
    let connection = before_the_pause(connection).await.unwrap();
    let took = crate::measure(tokio::time::sleep(60 * SECOND)).await;
    thread::sleep(50 * MS);
    let lost = match connection.status().connected() {
        true => "is not noticed",
        false => "is noticed",
    };
    // An hour is too long to be tried: each sleep of the heartbeat is a turn of the runtime.
    if took.really > Duration::from_secs(4) {
        return format!("took {:?} really", took.really);
    }
    match beats.load(Ordering::SeqCst) {
        0 => format!("none in a virtual minute; silence {lost}"),
        beats => format!("{beats} in a virtual minute; silence {lost}"),
    }
}

/// Of a heartbeat each second, on a clock that runs.
pub async fn heartbeats_in_real_time() -> String {
    let (url, beats) = server(1);
    let connection = lapin::Connection::connect(&url, lapin::ConnectionProperties::default());
    let connection = connection.await.unwrap();
    tokio::time::sleep(5 * SECOND).await;
    match (
        beats.load(Ordering::SeqCst),
        connection.status().connected(),
    ) {
        (1.., false) => "are sent; silence is noticed".to_owned(),
        (beats, connected) => format!("{beats} sent, connected: {connected}"),
    }
}
