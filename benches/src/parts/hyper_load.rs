//! A hyper HTTP/1 server under the full load of a client that keeps its connections alive. Only the
//! timer that hyper is given differs, for the timeout of a request's head.
//!
//! The server and its client have a thread each, and the CPU is the server's alone.

use hyper_util::rt::TokioTimer;

use super::http_server::{HttpClient, serve};
use super::loopback::Listener;
use super::{How, Part, name};
use crate::harness::{Never, Record, Scene, load, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "hyper-load",
    about: "hyper server, 64 connections kept alive, a timeout for heads: requests a second",
    how: How::Together(run),
};

const CONNECTIONS: usize = 64;
const CONTENDERS: [&str; 4] = [name::TICKWHEEL, name::TOKIO, name::NO_OP, name::NO_TIMER];

fn run(settings: &Settings) -> Vec<Record> {
    load(PART.name, &CONTENDERS, settings, set_up)
}

fn set_up(contender: &str) -> Scene<HttpClient> {
    let (measured, other) = (runtime(1), runtime(1));
    let address = measured.block_on(async {
        let listener = Listener::bind().await.expect("there is a free port");
        let address = listener.address;
        match contender {
            name::TICKWHEEL => {
                let timer = Some(tickwheel::Timer::current());
                tokio::spawn(serve(listener, timer, |answer| answer))
            }
            name::TOKIO => {
                let timer = Some(TokioTimer::new());
                tokio::spawn(serve(listener, timer, |answer| answer))
            }
            name::NO_OP => tokio::spawn(serve(listener, Some(Never), |answer| answer)),
            _ => tokio::spawn(serve(listener, None::<Never>, |answer| answer)),
        };
        address
    });
    let clients = other.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(HttpClient::connect(address).await.expect("it listens"));
        }
        clients
    });
    Scene {
        clients,
        clients_on: other.handle().clone(),
        other: Some(other),
        measured,
    }
}
