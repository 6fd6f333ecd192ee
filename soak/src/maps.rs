//! How the programs of the two maps begin and end in real time. The calls of their actors are in
//! `programs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tickwheel::{Instant, WeakDelayMap};
use tokio::time::Duration;

use crate::checker::{Act, Rules, timed};
use crate::finding::Kind;
use crate::program::Program;
use crate::programs::deadline_map::{self, Role};
use crate::programs::delay_map::{self, Consumer, Ways, Writer};
use crate::programs::{Key, Shared, World};
use crate::thread_world::{LONGEST, Lengths, MapContext, Pace, ThreadWorld};
use crate::wait::Latest;
use crate::world::Executor;

pub fn start_deadline_map(program: &Arc<Program>, random: &mut fastrand::Rng) {
    let clock = program.clocks[random.usize(..program.clocks.len())].clone();
    let most = *random.choice(&[3, 40]).unwrap();
    let keys = random.u32(1..most);
    let capacity = random.bool().then(|| random.usize(1..=keys as usize));
    let map = match capacity {
        Some(capacity) => deadline_map::Map::with_limit(&clock.timer, capacity),
        None => deadline_map::Map::new(&clock.timer),
    };
    let shared = Arc::new(Shared::new(keys, capacity.is_some(), 10_000, 2));
    let last = map.clone();
    let context = Arc::new(MapContext {
        number: program.new_map(Rules::Deadline, &clock),
        lengths: Lengths::random(random),
        latest: Latest::new(Instant::now()),
        what: "a keyed deadline",
        due: Box::new(|context| Some(context.latest.get())),
        at_the_end: Box::new(move |program| check_empty(program, &last)),
        program: program.clone(),
        clock,
    });
    let holders = std::iter::repeat_n(Role::Hold, random.usize(1..10));
    let callers = std::iter::repeat_n(Role::Call, random.usize(..4));
    let both = std::iter::repeat_n(Role::Both, random.usize(..2));
    for role in holders.chain(callers).chain(both) {
        let pace = match role {
            Role::Hold => Pace::Full,
            Role::Call | Role::Both => Pace::random(random),
        };
        let actor = deadline_map::Actor {
            map: map.clone(),
            shared: shared.clone(),
            world: ThreadWorld::new(&context, random.fork(), pace),
            // Seldom, so that the driver comes to most of them.
            ends: 64,
            longest: LONGEST,
        };
        let executor = Executor::random(random, program.runtimes.len());
        program.start(executor, actor.run(role));
    }
}

fn check_empty(program: &Program, map: &deadline_map::Map) {
    let mut shown = 0;
    map.for_each(|_, _| shown += 1);
    let left = (map.len(), shown);
    if left != (0, 0) {
        let text = format!("{left:?} keys are left, and no deadline");
        program.report(Kind::Counts, &text);
    }
}

pub fn start_delay_map(program: &Arc<Program>, random: &mut fastrand::Rng) {
    let clock = program.clocks[random.usize(..program.clocks.len())].clone();
    let keys = if random.bool() {
        50
    } else {
        random.u32(1..200)
    };
    let capacity = match random.u8(..3) {
        0 => random.usize(1..=keys as usize),
        _ => usize::MAX,
    };
    let (map, stream) = delay_map::Map::with_limit(&clock.timer, capacity);
    // Three threads at full speed, or anything.
    let is_crowd = random.bool();
    let number = if is_crowd { 3 } else { random.u8(1..5) };
    let has_capacity = capacity != usize::MAX;
    let shared = Arc::new(Shared::new(keys, has_capacity, 100, 2_000));
    let (weak, closing) = (map.downgrade(), shared.clone());
    let due = move |context: &MapContext| match weak.upgrade().map(|map| map.len()) {
        Some(1..) => Some(context.latest.get()),
        // An empty stream ends once its map is closed.
        _ => closing.closing(),
    };
    let runtime = clock.runtime.unwrap_or(0);
    let context = Arc::new(MapContext {
        number: program.new_map(Rules::Value, &clock),
        lengths: if is_crowd {
            Lengths::Short
        } else {
            Lengths::random(random)
        },
        latest: Latest::new(Instant::now()),
        what: "the stream of a delay map",
        due: Box::new(due),
        at_the_end: Box::new(|_| ()),
        program: program.clone(),
        clock,
    });
    let mut world = |pace| ThreadWorld::new(&context, random.fork(), pace);
    let ways = Ways {
        replaces: 1_000,
        leaves: 64,
    };
    let consumer = Consumer::new(stream, &map, &shared, world(Pace::Full), ways);
    let is_consumed = Arc::new(AtomicBool::new(false));
    let remains = Remains {
        map: map.downgrade(),
        shared: shared.clone(),
        world: world(Pace::Full),
        is_consumed: is_consumed.clone(),
        has_ended: false,
    };
    let finisher = Writer {
        map: map.clone(),
        shared: shared.clone(),
        world: world(Pace::Full),
    };
    let executor = if is_crowd {
        Executor::Task(runtime)
    } else {
        Executor::random(random, program.runtimes.len())
    };
    program.start(executor, consume(consumer, remains));
    let left = Arc::new(AtomicU64::new(number.into()));
    for _ in 0..number {
        let pace = if is_crowd {
            Pace::Full
        } else {
            Pace::random(random)
        };
        let writer = Writer {
            map: map.clone(),
            shared: shared.clone(),
            world: ThreadWorld::new(&context, random.fork(), pace),
        };
        let executor = if is_crowd || random.bool() {
            Executor::Plain
        } else {
            Executor::random(random, program.runtimes.len())
        };
        program.start(executor, write(writer, Left(left.clone())));
    }
    drop(map);
    let finishing = finish(finisher, left, is_consumed, random.bool());
    program.start(Executor::Plain, finishing);
}

/// Counts a writer until it is dropped.
struct Left(Arc<AtomicU64>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn write(writer: Writer<ThreadWorld>, left: Left) {
    writer.run().await;
    drop(left);
}

/// Waits until all has come out by itself, and ends the map.
async fn finish(
    mut writer: Writer<ThreadWorld>,
    left: Arc<AtomicU64>,
    is_consumed: Arc<AtomicBool>,
    closes: bool,
) {
    let rest = || std::thread::sleep(Duration::from_millis(2));
    let is_busy = || writer.world.context.program.is_busy() || left.load(Ordering::SeqCst) > 0;
    while is_busy() {
        rest();
    }
    while !writer.map.is_empty() && !is_consumed.load(Ordering::SeqCst) {
        rest();
    }
    writer.take_all(false);
    writer.shared.begins_to_close(&writer.world);
    if closes {
        writer.take_all(true);
    }
}

async fn consume(consumer: Consumer<ThreadWorld>, mut remains: Remains) {
    let consumer = consumer.run().await;
    let has_ended = consumer.as_ref().is_some_and(Consumer::has_ended);
    remains.has_ended = has_ended && !remains.world.may_have_ended();
    drop(consumer);
}

/// What a stream leaves behind counts as lost, and nothing comes after it. Dropped after the
/// stream, also where a runtime drops the consumer.
struct Remains {
    map: WeakDelayMap<Key, u64>,
    shared: Arc<Shared<Instant>>,
    world: ThreadWorld,
    is_consumed: Arc<AtomicBool>,
    /// The stream has ended by itself, so nothing is left.
    has_ended: bool,
}

impl Drop for Remains {
    fn drop(&mut self) {
        self.is_consumed.store(true, Ordering::SeqCst);
        self.shared.begins_to_close(&self.world);
        let map = self.map.upgrade();
        let ((), call) = timed(|| drop(map.map(|map| map.close())));
        if !self.has_ended {
            self.world.note(None, 0, Act::Take, true, call.into());
        }
    }
}
