//! Healthy servers that answer after a tenth of a second. Each is on a plain thread outside the
//! runtime, but for those that say otherwise.

use std::future::{IntoFuture, pending};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::channel;
use std::thread;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::MS;

fn serve(attend: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (attend, socket) = (attend.clone(), socket.unwrap());
            socket.set_nodelay(true).unwrap();
            thread::spawn(move || attend(socket));
        }
    });
    port
}

pub fn pause() {
    thread::sleep(100 * MS);
}

pub fn http() -> u16 {
    serve(|mut socket| {
        let _ = socket.read(&mut [0; 4096]);
        pause();
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    })
}

/// Answers each command by `+OK`.
pub fn redis() -> u16 {
    serve(|mut socket| {
        let commands = BufReader::new(socket.try_clone().unwrap()).lines();
        let mut arguments = 0;
        for line in commands.map_while(Result::ok) {
            match line.strip_prefix('*') {
                Some(number) => arguments = number.parse().unwrap(),
                None if line.starts_with('$') => {}
                None => arguments -= 1,
            }
            if arguments == 0 {
                pause();
                let _ = socket.write_all(b"+OK\r\n");
            }
        }
    })
}

pub fn mqtt() -> u16 {
    serve(|mut socket| {
        let _ = socket.read(&mut [0; 4096]);
        pause();
        let _ = socket.write_all(&[0x20, 2, 0, 0]);
        let _ = socket.read(&mut [0; 4096]);
    })
}

/// Answers each request to its own subject.
pub fn nats() -> u16 {
    serve(|mut socket| {
        let info = "INFO {\"server_id\":\"a\",\"version\":\"2.10.0\",\"proto\":1,\"headers\":true,\
                    \"max_payload\":1048576,\"host\":\"127.0.0.1\",\"port\":4222}\r\n";
        let _ = socket.write_all(info.as_bytes());
        let mut subscription = String::new();
        for line in BufReader::new(socket.try_clone().unwrap())
            .lines()
            .map_while(Result::ok)
        {
            let words: Vec<_> = line.split_whitespace().collect();
            match words[..] {
                ["PING"] => drop(socket.write_all(b"PONG\r\n")),
                ["SUB", .., number] => subscription = number.to_owned(),
                ["PUB", _, reply, _] => {
                    pause();
                    let _ = write!(socket, "MSG {reply} {subscription} 2\r\nok\r\n");
                }
                _ => {}
            }
        }
    })
}

/// Answers that there is no such name.
pub fn dns() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            pause();
            let _ = socket.send_to(&no_such_name(&question[..length]), from);
        }
    });
    port
}

/// The same in the runtime of the case.
pub fn dns_within() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    socket.set_nonblocking(true).unwrap();
    let socket = tokio::net::UdpSocket::from_std(socket).unwrap();
    tokio::spawn(async move {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question).await {
            tokio::time::sleep(100 * MS).await;
            let answer = no_such_name(&question[..length]);
            let _ = socket.send_to(&answer, from).await;
        }
    });
    port
}

fn no_such_name(question: &[u8]) -> Vec<u8> {
    let mut answer = question.to_vec();
    answer[2..4].copy_from_slice(&[0x81, 0x83]);
    answer[10..12].copy_from_slice(&[0, 0]);
    let end = 12 + answer[12..].iter().position(|&byte| byte == 0).unwrap() + 5;
    answer.truncate(end);
    answer
}

/// A server of QUIC on a thread of its own.
pub fn elsewhere(server: quinn::ServerConfig) -> SocketAddr {
    let (sender, address) = channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            sender.send(within(server)).unwrap();
            pending::<()>().await
        });
    });
    address.recv().unwrap()
}

/// A server of QUIC in the runtime of the caller.
pub fn within(server: quinn::ServerConfig) -> SocketAddr {
    let endpoint = quinn::Endpoint::server(server, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = endpoint.local_addr().unwrap();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            tokio::time::sleep(100 * MS).await;
            tokio::spawn(incoming.into_future());
        }
    });
    address
}

/// A server of HTTP/2 that answers each call by status 0.
pub fn grpc() -> u16 {
    let (sender, port) = channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap().port()).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(answer_calls(socket));
            }
        });
    });
    port.recv().unwrap()
}

/// What it does with a connection, in the runtime of the caller.
pub async fn answer_calls(socket: impl AsyncRead + AsyncWrite + Unpin) {
    use http_body_util::Empty;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let answer = service_fn(|_| async {
        tokio::time::sleep(100 * MS).await;
        let answer = http::Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", "0");
        answer.body(Empty::<bytes::Bytes>::new())
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(socket), answer).await;
}
