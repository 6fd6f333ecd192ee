//! Three hosts in turmoil's simulated network, each of which watches the others by key.
//!
//! turmoil gives each host a runtime of its own, whose clock is paused. A timer of such a runtime
//! follows that clock and dies with it, so a host that crashes takes its deadlines along.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use tickwheel::{DeadlineMap, Instant, Timer};
use tokio::task::spawn_local;
use turmoil::net::UdpSocket;
use turmoil::{Builder, Sim};

const HOSTS: [&str; 3] = ["ant", "bee", "cat"];
const PORT: u16 = 4000;
const MS: Duration = Duration::from_millis(1);
const BEAT: Duration = Duration::from_millis(100);
/// A host that was not heard for this long is lost.
const SILENCE: Duration = Duration::from_millis(350);
const LONGEST_LATENCY: Duration = Duration::from_millis(60);
const SEEDS: u64 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    at: Duration,
    host: &'static str,
    peer: &'static str,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Met,
    Lost { silent_for: Duration },
}

/// What all hosts of a simulation tell, and the timers that they had.
#[derive(Clone, Default)]
struct Told(Rc<RefCell<(Vec<Event>, Vec<Timer>)>>);

impl Told {
    fn tell(&self, host: &'static str, peer: &'static str, what: What) {
        let at = turmoil::sim_elapsed().expect("a host runs in the simulation");
        let event = Event {
            at,
            host,
            peer,
            what,
        };
        self.0.borrow_mut().0.push(event);
    }
}

/// Sends heartbeats to the others, and has a deadline for each of them that was heard.
async fn watch(host: &'static str, told: Told) -> turmoil::Result {
    let timer = Timer::current();
    assert_eq!(timer.metrics().armed(), 0, "a host begins with no deadline");
    told.0.borrow_mut().1.push(timer.clone());
    let peers = DeadlineMap::new(&timer);
    let heard = Rc::new(RefCell::new(HashMap::new()));
    let socket = Rc::new(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?);
    spawn_local(beat(host, timer, socket.clone()));
    loop {
        let (_, from) = socket.recv_from(&mut [0; 1]).await?;
        let is_from = |peer: &&str| turmoil::lookup(*peer) == from.ip();
        let peer = HOSTS.into_iter().find(is_from).expect("a host has sent it");
        heard.borrow_mut().insert(peer, Instant::now());
        if peers.reset(peer) {
            continue;
        }
        told.tell(host, peer, What::Met);
        let (told, heard) = (told.clone(), heard.clone());
        let deadline = peers
            .insert(peer, SILENCE)
            .expect("the map has no capacity");
        spawn_local(async move {
            deadline.await.expect("nobody removes it");
            let silent_for = heard.borrow()[peer].elapsed();
            told.tell(host, peer, What::Lost { silent_for });
        });
    }
}

async fn beat(host: &'static str, timer: Timer, socket: Rc<UdpSocket>) {
    let mut beats = timer.interval(BEAT);
    loop {
        beats.tick().await;
        for peer in HOSTS.into_iter().filter(|&peer| peer != host) {
            // A partition drops what is sent, and tells nothing.
            let _ = socket.send_to(&[0], (peer, PORT)).await;
        }
    }
}

fn run_until(sim: &mut Sim<'_>, millis: u32) {
    while sim.elapsed() < millis * MS {
        sim.step().expect("no host fails");
    }
}

/// A partition, and a crash of a host that comes back cut off. `stall` holds the whole simulation
/// up, at the moments when most deadlines are pending.
fn simulate(seed: u64, stall: Duration) -> Vec<Event> {
    let told = Told::default();
    let mut sim = Builder::new()
        .rng_seed(seed)
        .tick_duration(MS)
        .max_message_latency(LONGEST_LATENCY)
        .build();
    for host in HOSTS {
        let told = told.clone();
        sim.host(host, move || watch(host, told.clone()));
    }
    run_until(&mut sim, 2_000);
    thread::sleep(stall);
    sim.partition("ant", "bee");
    run_until(&mut sim, 4_000);
    sim.repair("ant", "bee");
    run_until(&mut sim, 5_000);
    sim.crash("cat");
    sim.partition("cat", "ant");
    sim.partition("cat", "bee");
    run_until(&mut sim, 5_100);
    thread::sleep(stall);
    // Its deadlines of before the crash would pass while it hears nobody.
    sim.bounce("cat");
    run_until(&mut sim, 6_000);
    sim.repair("cat", "ant");
    sim.repair("cat", "bee");
    run_until(&mut sim, 7_000);
    let (events, timers) = &*told.0.borrow();
    assert_eq!(timers.len(), 4, "the host that came back has another timer");
    for timer in timers {
        let metrics = timer.metrics();
        assert_eq!((metrics.stalls(), metrics.spared()), (0, 0), "{metrics:?}");
    }
    events.clone()
}

/// Who lost whom between two moments.
fn lost(events: &[Event], from: u32, to: u32) -> Vec<(&'static str, &'static str)> {
    let lost = events.iter().filter(|event| {
        matches!(event.what, What::Lost { .. }) && (from * MS..to * MS).contains(&event.at)
    });
    let mut lost: Vec<_> = lost.map(|event| (event.host, event.peer)).collect();
    lost.sort_unstable();
    lost
}

#[test]
fn a_partition_and_a_crash_are_seen_in_time_and_by_nobody_else() {
    for seed in 0..SEEDS {
        let events = simulate(seed, Duration::ZERO);
        assert_eq!(lost(&events, 0, 2_000), [], "{seed}");
        let apart = lost(&events, 2_000, 2_450);
        assert_eq!(apart, [("ant", "bee"), ("bee", "ant")], "{seed}");
        assert_eq!(lost(&events, 2_450, 5_000), [], "{seed}");
        let crashed = lost(&events, 5_000, 5_450);
        assert_eq!(crashed, [("ant", "cat"), ("bee", "cat")], "{seed}");
        assert_eq!(lost(&events, 5_450, 7_000), [], "{seed}");
        // No deadline is early, and none is late by more than a tick.
        for event in &events {
            if let What::Lost { silent_for } = event.what {
                let in_time = SILENCE..=SILENCE + MS;
                assert!(in_time.contains(&silent_for), "{event:?}");
            }
        }
        let met = events.iter().filter(|event| event.what == What::Met);
        assert_eq!(met.count(), 6 + 2 + 4, "all are well in the end: {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_events_and_no_stall() {
    let events = simulate(7, Duration::ZERO);
    assert_eq!(simulate(7, Duration::ZERO), events);
    assert_eq!(simulate(7, 2 * SILENCE), events);
    assert_ne!(simulate(8, Duration::ZERO), events, "the seed is used");
}
