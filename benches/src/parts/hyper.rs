//! A hyper server over real sockets, with a timeout for each request's head and for each request:
//! what the timers take of the CPU of a request. Beside it the same server with a timer for hyper
//! that does nothing, and with no timer at all.

use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use hyper_util::rt::TokioTimer;

use super::http_server::{Answer, HttpClient, TIMEOUT, serve};
use super::loopback::Listener;
use super::{How, Part, name};
use crate::harness::{Client, Never, Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "hyper",
    about: "hyper server, 64 connections, timeouts for heads and requests: CPU of a request",
    how: How::Apart {
        contenders: &[name::TICKWHEEL, name::TOKIO, name::NO_OP, name::NO_TIMER],
        rounds: 5,
        run,
    },
};

const CONNECTIONS: usize = 64;

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
    let settings = settings.clone();
    let contender = contender.to_owned();
    runtime(2).block_on(async move {
        let listener = Listener::bind().await.expect("there is a free port");
        let address = listener.address;
        let server = match &*contender {
            name::TICKWHEEL => {
                let timer = tickwheel::Timer::current();
                tokio::spawn(serve(
                    listener,
                    Some(timer.clone()),
                    move |answer: Answer| {
                        let timeout = timer.timeout(TIMEOUT, answer);
                        async { timeout.await.expect("it is in time") }
                    },
                ))
            }
            name::TOKIO => {
                let timer = Some(TokioTimer::new());
                tokio::spawn(serve(listener, timer, |answer: Answer| {
                    let timeout = tokio::time::timeout(TIMEOUT, answer);
                    async { timeout.await.expect("it is in time") }
                }))
            }
            name::NO_OP => tokio::spawn(serve(listener, Some(Never), |answer| answer)),
            _ => tokio::spawn(serve(listener, None::<Never>, |answer| answer)),
        };
        let time = settings.either(Duration::from_secs(2), Duration::from_millis(200));
        let cpu = ProcessTime::now();
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                tokio::spawn(async move {
                    let mut client = HttpClient::connect(address).await.expect("it listens");
                    let (mut requests, begin) = (0, Instant::now());
                    while begin.elapsed() < time {
                        client.request().await.expect("it is answered");
                        requests += 1;
                    }
                    requests
                })
            })
            .collect();
        let mut requests = 0;
        for client in clients {
            requests += client.await.expect("the client does not panic");
        }
        let cpu = cpu.elapsed().as_nanos() as f64 / f64::from(requests);
        server.abort();
        vec![Record::new("hyper-cpu", &contender, vec![cpu])]
    })
}
