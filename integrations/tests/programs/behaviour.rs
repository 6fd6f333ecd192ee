//! What all servers of this package do alike: which values they refuse, where they listen, and how
//! they end.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::process::Program;

/// Each server with the options that it cannot do without, and one that takes a time.
const SERVERS: [(&str, &[&str], &str); 5] = [
    (env!("CARGO_BIN_EXE_ws_heartbeat"), &[], "--ping-after"),
    (env!("CARGO_BIN_EXE_mqtt_keepalive"), &[], "--write-within"),
    (
        env!("CARGO_BIN_EXE_idle_proxy"),
        &["--to", "localhost:9"],
        "--idle",
    ),
    (env!("CARGO_BIN_EXE_hyper_server"), &[], "--idle"),
    (env!("CARGO_BIN_EXE_axum_idle"), &[], "--request-within"),
];

#[test]
fn a_value_that_makes_no_sense_is_refused_with_a_hint() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (program, options, time) in SERVERS {
        let listen = "--listen";
        let cases = [
            (time, "0", 2, "30s"),
            // It is a value, and no unknown option.
            (time, "-1", 2, "cannot be negative"),
            (time, "", 2, "30s"),
            (time, "soon", 2, "30s"),
            (time, "3000000h", 2, "30s"),
            (time, "99999999999999999999", 2, "30s"),
            (listen, "localhost", 2, "localhost:3000"),
            (listen, "127.0.0.1:99999", 2, "localhost:3000"),
            (listen, ":3000", 2, "localhost:3000"),
            (listen, &taken, 1, "another program listens"),
            (listen, "no-host.invalid:3000", 1, "no-host.invalid:3000"),
        ];
        for (option, value, code, hint) in cases {
            let output = Command::new(program)
                .args(options)
                .args([option, value])
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{program} {value}");
            assert!(told.contains(hint), "{program} {value}: {told}");
            assert!(!told.contains("Os {"), "{told}");
        }
    }
}

#[tokio::test]
async fn a_name_resolves_and_sigterm_ends_each_server_in_order() {
    for (program, options, _) in SERVERS {
        let program = Program::serve_at("localhost:0", program, options).await;
        let connected = program.connect().await;
        program.prints(&["opened"]).await;
        program.terminate();
        program.prints(&["shut down: ", "; 0 timers armed"]).await;
        drop(connected);
    }
}

#[test]
fn output_that_is_cut_off_ends_a_server_without_a_panic() {
    use std::io::{BufRead, BufReader};
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
        let output = server.wait_with_output().unwrap();
        assert_ne!(output.status.code(), Some(101), "{program} panicked");
        assert_eq!(output.stderr, b"", "{program}");
        drop(connected);
    }
}
