//! Random programs, as data: what can be printed, cut down and run again.
//!
//! An operation names what it acts on by a number, which counts round among what there is. So any
//! part of a program is a program.

use fastrand::Rng;
use tickwheel::Duration;

/// A length of time in microseconds. [`FOREVER`] stands for `Duration::MAX`.
pub(crate) type Micros = u64;

/// From now, in microseconds, negative for the past.
pub(crate) type Offset = i64;

pub(crate) type TimerNumber = u8;
pub(crate) type WakerNumber = u8;
pub(crate) type Nth = u16;
/// Whether a deadline is acted on by its key, or through its handle.
pub(crate) type ByKey = bool;
pub(crate) type Key = u8;
pub(crate) type ValueKey = u16;
pub(crate) type Count = u16;
pub(crate) type Seed = u64;

/// The longest life of a value, from its insert on.
pub(crate) type Limit = Option<Micros>;

pub(crate) const FOREVER: Micros = u64::MAX;

pub(crate) fn duration(micros: Micros) -> Duration {
    if micros == FOREVER {
        Duration::MAX
    } else {
        Duration::from_micros(micros)
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    // Sleeps and what is made of them: made, but not polled.
    Sleep(TimerNumber, Micros),
    SleepUntil(TimerNumber, Offset),
    Timeout(TimerNumber, Micros),
    TimeoutAt(TimerNumber, Offset),
    /// Its deadline, and within it timeouts on another timer, each for so long.
    WithDeadline(TimerNumber, Offset, TimerNumber, Micros),
    /// So many sleeps, polled, due after so long and at random within a spread.
    Burst(TimerNumber, Count, Micros, Micros, Seed),
    Poll(Nth, WakerNumber),
    PollAll(WakerNumber),
    PollSpent(Nth),
    Finish(Nth),
    SleepResetAt(Nth, Offset),
    SleepResetAfter(Nth, Micros),
    DropSleeper(Nth),
    DropSleepers(Count),

    // For the comparison with tokio. Other programs pass over them.
    /// Its first tick, its period, and what it does about missed ones.
    Interval(TimerNumber, Offset, Micros, u8),
    IntervalReset(Nth),
    IntervalResetImmediately(Nth),
    /// The tasks of an idiom by its number, and when their sleep is due.
    Tasks(u8, Offset),

    // Deadlines, with and without a key.
    Deadline(TimerNumber, Micros),
    Insert(Key, Micros),
    InsertIfAbsent(Key, Micros),
    PollDeadline(Nth, WakerNumber),
    PollDeadlineSpent(Nth),
    Call(Nth, ByKey, Call),
    Restart(Nth),
    RemoveByKey(Nth),
    DropDeadline(Nth),
    /// From the first key on so many, due after so long and at random within a spread.
    InsertMany(u16, Count, Micros, Micros, Seed),
    DropDeadlines(Count),
    ResetDropped(Nth),
    Drain,
    ExpireAll,
    CloseDeadlineMap,
    /// Its capacity, where zero is none.
    NewDeadlineMap(TimerNumber, u8),

    // Delayed values.
    Put(ValueKey, Micros),
    PutAt(ValueKey, Offset, Limit),
    PutIfAbsent(ValueKey, Micros, Limit),
    PutWithin(ValueKey, Micros, Limit),
    Update(ValueKey),
    /// As `InsertMany`.
    PutMany(u16, Count, Micros, Micros, Seed),
    /// Among so many keys, so many random calls by key, one after the other.
    Churn(Count, Count, Seed),
    /// A longest life is ignored, and so is that of a touch.
    Delay(ValueKey, Micros, Limit),
    DelayUntil(ValueKey, Offset),
    Touch(ValueKey, Micros, Limit),
    SetIf(ValueKey, Micros, Limit),
    Upsert(ValueKey, Micros, Limit),
    ExpireValue(ValueKey),
    Take(ValueKey),
    /// The keys with that rest, of three.
    Retain(u8),
    DrainValues,
    ExpireValues,
    CloseDelayMap,
    CloneHandle,
    DropHandle,
    Upgrade,
    Recv(WakerNumber, Count),
    RecvMany(WakerNumber, Count),
    RecvSpent,
    TryRecv(Count),
    DropStream,
    TakeStream,
    NewDelayMap(TimerNumber, u8),

    // Time.
    Advance(Micros),
    /// The clock moves, and the driver has not seen it during the next few operations.
    AdvanceUnseen(Micros, u8),
    /// Time runs by itself until a sleep of tokio's is over.
    RunFor(Micros),
    /// The runtime is idle for a moment of real time.
    Idle,
    /// The clock is resumed for a moment of real time, of so many milliseconds.
    Resume(u8),
    DropTimer(TimerNumber),
}

/// A call on a deadline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    Reset,
    ResetFrom(Offset),
    ResetAfter(Micros),
    ResetAt(Offset),
    Extend(Micros),
    SetTimeout(Micros),
    Cancel,
    Expire,
}

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Time runs until nearly everything has fired.
    RunsOut,
    /// Everything is cancelled while it is pending and waited for.
    AtOnce,
    /// The runtime shuts down, with everything still there.
    WithItsRuntime,
}

/// The ticks of timers, in microseconds. Some are no whole milliseconds, and so begin between two
/// lines of tokio's grid.
const TICKS: [Micros; 7] = [1_500, 2_500, 7_300, 10_000, 16_667, 50_000, 100_000];

/// What timers there are, and what is done with them.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// How long after the runtime its timers are made.
    pub(crate) made_after: Micros,
    /// A plain thread makes them. Then their ticks begin just there, and not on tokio's grid.
    pub(crate) is_made_outside: bool,
    /// The tick in microseconds, the shards.
    pub(crate) timers: Vec<(Micros, u8)>,
    pub(crate) ops: Vec<Op>,
    pub(crate) ending: Ending,
}

/// What a program is mostly about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Theme {
    Sleepers,
    Deadlines,
    Values,
    All,
}

/// Makes a random program of at most so many operations.
pub(crate) fn random(seed: u64, most: usize) -> Program {
    let mut random = Rng::with_seed(seed);
    let made_after = match random.u8(..3) {
        0 => random.u64(1..3_000),
        _ => 0,
    };
    let is_made_outside = random.u8(..4) == 0;
    let timers = (0..random.u8(1..=3))
        .map(|_| {
            let tick = match random.u8(..6) {
                0..3 => 1_000,
                3 | 4 => random.choice(TICKS).unwrap(),
                _ => random.u64(1_000..20_000),
            };
            (tick, random.choice([1, 1, 4, 3]).unwrap())
        })
        .collect();
    let themes = [Theme::Sleepers, Theme::Deadlines, Theme::Values, Theme::All];
    let mut maker = Maker {
        theme: random.choice(themes).unwrap(),
        whole: random.u8(..3) == 0,
        keys: random.choice([3, 12, 200]).unwrap(),
        far: random.u8(..4) == 0,
        random,
    };
    let count = maker.random.usize(most / 4..=most);
    let ops = (0..count).map(|_| maker.op()).collect();
    let endings = [Ending::RunsOut, Ending::AtOnce, Ending::WithItsRuntime];
    let ending = maker.random.choice(endings).unwrap();
    Program {
        made_after,
        is_made_outside,
        timers,
        ops,
        ending,
    }
}

/// Makes a random program of a few operations, each on a great many keys. The parts of a map become
/// large, and small again.
pub(crate) fn random_large(seed: u64) -> Program {
    let mut random = Rng::with_seed(seed);
    let tick = random.choice([1_000, 1_000, 10_000]).unwrap();
    let mut maker = Maker {
        theme: Theme::All,
        whole: false,
        keys: 12_000,
        far: false,
        random,
    };
    let count = maker.random.usize(8..24);
    Program {
        made_after: 0,
        is_made_outside: false,
        timers: vec![(tick, 1)],
        ops: (0..count).map(|_| maker.large()).collect(),
        ending: maker
            .random
            .choice([Ending::RunsOut, Ending::AtOnce])
            .unwrap(),
    }
}

/// Makes random operations that tokio has too, and that do the same there.
pub(crate) fn random_for_both(seed: u64, most: usize) -> Vec<Op> {
    let mut random = Rng::with_seed(seed);
    let mut maker = Maker {
        theme: Theme::Sleepers,
        whole: random.bool(),
        keys: 1,
        far: false,
        random,
    };
    let count = maker.random.usize(most / 4..=most);
    let ops = (0..count).map(|_| maker.op()).filter_map(|op| match op {
        Op::WithDeadline(idiom, due, ..) => Some(Op::Tasks(idiom, due)),
        Op::Burst(idiom, _, due, ..) => Some(Op::Tasks(idiom, due as Offset)),
        Op::SleepResetAfter(nth, after) => Some(Op::SleepResetAt(nth, after as Offset)),
        // A first poll looks at the clock here, and there only at what the driver has seen.
        Op::AdvanceUnseen(..)
        | Op::PollSpent(..)
        | Op::DropSleepers(..)
        | Op::Idle
        | Op::Resume(..)
        | Op::DropTimer(..) => None,
        op => Some(op),
    });
    ops.collect()
}

struct Maker {
    random: Rng,
    theme: Theme,
    /// Whether all times are whole milliseconds.
    whole: bool,
    keys: u16,
    far: bool,
}

impl Maker {
    fn micros(&mut self) -> Micros {
        let micros = match self.random.u8(..20) {
            0 => 0,
            1 | 2 => self.random.u64(..1_000),
            3..=7 => self.random.u64(..20_000),
            8..=11 => 1_000 * self.random.u64(..20),
            12 => 1_000 * self.random.u64(63..=65),
            13 => 1_000 * self.random.u64(4_095..=4_097),
            14 | 15 => 1_000 * self.random.u64(..500),
            16 => 10_000 * self.random.u64(..30),
            17 | 18 => self.random.u64(..10_000_000),
            _ if self.far => match self.random.u8(..3) {
                0 => FOREVER,
                _ => self.random.u64(..86_400_000_000),
            },
            _ => self.random.u64(..100_000_000),
        };
        if self.whole && micros != FOREVER {
            micros / 1_000 * 1_000
        } else {
            micros
        }
    }

    fn limit(&mut self) -> Limit {
        let has_limit = self.random.u8(..3) == 0;
        has_limit.then(|| self.micros())
    }

    fn offset(&mut self) -> i64 {
        let micros = match self.micros() {
            FOREVER => 0,
            micros => micros as i64,
        };
        match self.random.u8(..5) {
            0 => -micros.min(50_000),
            1 => 0,
            _ => micros,
        }
    }

    /// How far time moves in one step.
    fn step(&mut self) -> Micros {
        match self.random.u8(..10) {
            0..=7 => self.micros().min(30_000),
            8 => self.micros().min(5_000_000),
            _ => self.micros().min(86_400_000_000),
        }
    }

    fn nth(&mut self) -> u16 {
        self.random.u16(..)
    }

    fn op(&mut self) -> Op {
        let theme = match self.theme {
            Theme::All => self
                .random
                .choice([Theme::Sleepers, Theme::Deadlines, Theme::Values])
                .unwrap(),
            theme => theme,
        };
        match self.random.u8(..10) {
            0..3 => self.time(),
            _ => match theme {
                Theme::Sleepers => self.sleeper(),
                Theme::Deadlines => self.deadline(),
                Theme::Values | Theme::All => self.value(),
            },
        }
    }

    fn large(&mut self) -> Op {
        let (first, seed) = (self.random.u16(..4_000), self.random.u64(..));
        let (after, spread) = (self.micros().min(10_000), self.random.u64(..100_000));
        let count = self.random.choice([1_000, 4_000, 12_000]).unwrap();
        match self.random.u8(..20) {
            0..4 => Op::PutMany(first, count, after, spread, seed),
            4..8 => Op::Churn(self.keys, count, seed),
            8..11 => Op::Recv(0, count / 2),
            11 => Op::ExpireValues,
            12 => Op::Retain(1),
            13 => Op::DrainValues,
            14..16 => Op::InsertMany(first, count, after, spread, seed),
            16 | 17 => Op::DropDeadlines(count),
            18 if self.random.bool() => Op::Drain,
            _ => Op::RunFor(self.random.u64(..60_000)),
        }
    }

    fn time(&mut self) -> Op {
        let by = self.step();
        match self.random.u8(..100) {
            0..45 => Op::Advance(by),
            45..60 => Op::AdvanceUnseen(by, self.random.u8(1..5)),
            60..94 => Op::RunFor(by),
            94..98 => Op::Idle,
            98 => Op::Resume(self.random.u8(1..4)),
            _ if self.random.u8(..4) == 0 => Op::DropTimer(self.random.u8(..)),
            _ => Op::Advance(0),
        }
    }

    fn sleeper(&mut self) -> Op {
        let (timer, nth, waker) = (self.random.u8(..), self.nth(), self.random.u8(..2));
        match self.random.u8(..100) {
            0..10 => Op::Sleep(timer, self.micros()),
            10..16 => Op::SleepUntil(timer, self.offset()),
            16..24 => Op::Timeout(timer, self.micros()),
            24..27 => Op::TimeoutAt(timer, self.offset()),
            27..32 => Op::Interval(
                timer,
                self.offset(),
                self.micros().max(1_000),
                self.random.u8(..3),
            ),
            32..36 => Op::WithDeadline(timer, self.offset(), self.random.u8(..), self.micros()),
            36 | 37 => Op::Burst(
                timer,
                self.random.choice([20, 255, 300, 1_500]).unwrap(),
                self.micros(),
                self.micros().min(10_000_000),
                self.random.u64(..),
            ),
            38..60 => Op::Poll(nth, waker),
            60..66 => Op::PollAll(waker),
            66..69 => Op::PollSpent(nth),
            69..72 => Op::Finish(nth),
            72..80 => Op::SleepResetAt(nth, self.offset()),
            80..86 => Op::SleepResetAfter(nth, self.micros()),
            86 | 87 => Op::IntervalReset(nth),
            88 => Op::IntervalResetImmediately(nth),
            89..98 => Op::DropSleeper(nth),
            _ => Op::DropSleepers(self.random.u16(..400)),
        }
    }

    fn deadline(&mut self) -> Op {
        let (timer, nth, waker) = (self.random.u8(..), self.nth(), self.random.u8(..2));
        let by_key = self.random.bool();
        let key = self.random.u8(..) % self.keys.min(24) as u8;
        match self.random.u8(..100) {
            0..8 => Op::Deadline(timer, self.micros()),
            8..21 => Op::Insert(key, self.micros()),
            21..24 => Op::InsertIfAbsent(key, self.micros()),
            24..44 => Op::PollDeadline(nth, waker),
            44..46 => Op::PollDeadlineSpent(nth),
            46..54 => Op::Call(nth, by_key, Call::Reset),
            54..58 => Op::Call(nth, by_key, Call::ResetFrom(self.offset())),
            58..66 => Op::Call(nth, by_key, Call::ResetAfter(self.micros())),
            66..69 => Op::Call(nth, by_key, Call::ResetAt(self.offset())),
            69 => Op::Call(nth, by_key, Call::Extend(self.micros())),
            70..76 => Op::Call(nth, by_key, Call::SetTimeout(self.micros())),
            76..79 => Op::Call(nth, by_key, Call::Cancel),
            79..82 => Op::Call(nth, by_key, Call::Expire),
            82..88 => Op::Restart(nth),
            88 | 89 => Op::RemoveByKey(nth),
            90..94 => Op::DropDeadline(nth),
            94 if self.random.u8(..4) == 0 => Op::InsertMany(
                self.random.u16(..1_000),
                self.random.choice([20, 100, 1_000]).unwrap(),
                self.micros(),
                self.micros().min(10_000_000),
                self.random.u64(..),
            ),
            94 => Op::DropDeadlines(self.random.choice([10, 100, 1_000]).unwrap()),
            95 => Op::ResetDropped(nth),
            96 => Op::Drain,
            97 => Op::ExpireAll,
            98 if self.random.u8(..4) == 0 => Op::CloseDeadlineMap,
            _ if self.random.u8(..3) == 0 => {
                Op::NewDeadlineMap(timer, self.random.choice([0, 0, 2, 8]).unwrap())
            }
            _ => Op::Call(nth, by_key, Call::Reset),
        }
    }

    fn value(&mut self) -> Op {
        let waker = self.random.u8(..2);
        let key = self.random.u16(..self.keys);
        match self.random.u8(..100) {
            0..16 => Op::Put(key, self.micros()),
            16..20 => Op::Upsert(key, self.micros(), self.limit()),
            20..24 => Op::PutAt(key, self.offset(), self.limit()),
            24..27 => Op::PutIfAbsent(key, self.micros(), self.limit()),
            27..30 => Op::PutWithin(key, self.micros(), Some(self.micros())),
            30 if self.random.bool() => Op::Churn(
                self.random.choice([50, 300, 5_000]).unwrap(),
                self.random.choice([100, 1_000, 4_000]).unwrap(),
                self.random.u64(..),
            ),
            30 => Op::PutMany(
                self.random.u16(..1_000),
                self.random.choice([20, 300, 1_000]).unwrap(),
                self.micros(),
                self.micros().min(10_000_000),
                self.random.u64(..),
            ),
            31..41 => Op::Delay(key, self.micros(), self.limit()),
            41..44 => Op::DelayUntil(key, self.offset()),
            44 | 45 => Op::SetIf(key, self.micros(), self.limit()),
            46 | 47 => Op::Touch(key, self.micros(), self.limit()),
            48 => Op::Update(key),
            49..53 => Op::ExpireValue(key),
            53..60 => Op::Take(key),
            60 => Op::Retain(self.random.u8(..3)),
            61 | 62 => Op::DrainValues,
            63 => Op::ExpireValues,
            64 if self.random.u8(..4) == 0 => Op::CloseDelayMap,
            65 => Op::CloneHandle,
            66 if self.random.u8(..3) == 0 => Op::DropHandle,
            67 => Op::Upgrade,
            68..73 => Op::TakeStream,
            73..92 => Op::Recv(waker, self.random.choice([1, 1, 1, 3, 40, 2_000]).unwrap()),
            92..94 => Op::RecvMany(waker, self.random.u16(..20)),
            94 => Op::RecvSpent,
            95..98 => Op::TryRecv(self.random.u16(1..4)),
            98 if self.random.u8(..4) == 0 => Op::DropStream,
            _ if self.random.u8(..3) == 0 => Op::NewDelayMap(
                self.random.u8(..),
                self.random.choice([0, 0, 2, 30]).unwrap(),
            ),
            _ => Op::Recv(waker, 1),
        }
    }
}
