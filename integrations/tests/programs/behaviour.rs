//! What all servers of this package do alike: which values they refuse, where they listen, and how
//! they end.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::process::Program;

/// Each server with the options that it cannot do without, and one that takes a time.
const SERVERS: [(&str, &[&str], &str); 6] = [
    (env!("CARGO_BIN_EXE_ws_heartbeat"), &[], "--ping-after"),
    (env!("CARGO_BIN_EXE_ws_ping_close"), &[], "--close-after"),
    (env!("CARGO_BIN_EXE_mqtt_keepalive"), &[], "--write-within"),
    (
        env!("CARGO_BIN_EXE_idle_proxy"),
        &["--to", "localhost:9"],
        "--idle",
    ),
    (env!("CARGO_BIN_EXE_hyper_server"), &[], "--idle"),
    (env!("CARGO_BIN_EXE_axum_idle"), &[], "--request-within"),
];

fn output(program: &str, options: &[&str], more: &[&str]) -> (Output, String) {
    let output = Command::new(program)
        .args(options)
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, told)
}

#[test]
fn a_time_that_makes_no_sense_is_refused_with_a_hint() {
    for (program, options, time) in SERVERS {
        for value in [
            "0",
            "-1",
            "-5s",
            "",
            "soon",
            "3000000h",
            "99999999999999999999",
        ] {
            let (output, told) = output(program, options, &[&format!("{time}={value}")]);
            assert_eq!(output.status.code(), Some(2), "{program} {time}={value}");
            assert!(told.contains(time) && told.contains("30s"), "{told}");
        }
    }
}

#[test]
fn a_negative_time_is_a_value_and_no_unknown_option() {
    for (program, options, time) in SERVERS {
        let (output, told) = output(program, options, &[time, "-1"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(told.contains("cannot be negative"), "{told}");
    }
}

#[test]
fn an_address_without_a_port_is_refused_with_a_hint() {
    for (program, options, _) in SERVERS {
        for value in ["localhost", "127.0.0.1:99999", ":3000", ""] {
            let (output, told) = output(program, options, &["--listen", value]);
            assert_eq!(output.status.code(), Some(2), "{program} {value}");
            assert!(told.contains("localhost:3000"), "{told}");
        }
    }
}

#[test]
fn a_port_in_use_is_named_and_a_name_that_is_none_too() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (program, options, _) in SERVERS {
        let (in_use, told) = output(program, options, &["--listen", &taken]);
        assert_eq!(in_use.status.code(), Some(1), "{told}");
        let is_told = told.contains(&taken) && told.contains("another program listens");
        assert!(is_told && !told.contains("Os {"), "{told}");
        let nowhere = "no-such-host.invalid:3000";
        let (unknown, told) = output(program, options, &["--listen", nowhere]);
        assert_eq!(unknown.status.code(), Some(1));
        assert!(told.contains(nowhere), "{told}");
    }
}

#[tokio::test]
async fn a_name_resolves_and_sigterm_ends_each_server_in_order() {
    for (program, options, _) in SERVERS {
        let program = Program::start_at("localhost:0", program, options);
        let connected = TcpStream::connect(program.address()).await.unwrap();
        program.prints(&["opened"]).await;
        program.terminate();
        program.prints(&["shut down: ", "; 0 timers armed"]).await;
        drop(connected);
    }
}

#[test]
fn output_that_is_cut_off_ends_a_server_without_a_panic() {
    for (program, options, _) in SERVERS {
        let mut server = Command::new(program)
            .args(options)
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut stdout = BufReader::new(server.stdout.take().unwrap());
        stdout.read_line(&mut first).unwrap();
        drop(stdout);
        let address = first.trim().strip_prefix("listening on ").unwrap();
        // It tells of the connection, to nobody.
        let connected = std::net::TcpStream::connect(address).unwrap();
        let status = server.wait().unwrap();
        assert_ne!(status.code(), Some(101), "{program} panicked");
        let mut told = String::new();
        server
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut told)
            .unwrap();
        assert_eq!(told, "", "{program}");
        drop(connected);
    }
}

/// A write to a socket that the client has closed raises `SIGPIPE`, which must end no server.
#[tokio::test]
async fn clients_that_hang_up_end_no_server() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for (program, options, _) in SERVERS {
        let program = Program::start_at("127.0.0.1:0", program, options);
        for _ in 0..100 {
            let mut client = TcpStream::connect(program.address()).await.unwrap();
            client.write_all(&REQUEST.repeat(20)).await.unwrap();
        }
        let connected = TcpStream::connect(program.address()).await.unwrap();
        program.prints(&["opened"]).await;
        program.terminate();
        program.prints(&["shut down: ", "; 0 timers armed"]).await;
        drop(connected);
    }
}
