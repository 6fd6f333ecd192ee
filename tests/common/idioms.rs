//! Futures that use a sleep as those of users do, each a task of its own, on tokio's sleep and on
//! this crate's. A log says when each task was polled, and when each sleep woke its task.
//!
//! The oracle compares the logs under the paused clock. The soak judges them in real time.

#![allow(
    dead_code,
    reason = "each program compiles all of this and uses a part of it"
)]

use std::convert::Infallible;
use std::mem::replace;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker, ready};

use futures::future::{FutureExt, Shared};
use futures::stream::{FuturesUnordered, StreamExt};
use tickwheel::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What both crates' sleeps can do.
pub(crate) trait AnySleep: Future<Output = ()> + Send + 'static {
    fn until(due: Instant) -> Self;
    fn reset(self: Pin<&mut Self>, due: Instant);
    fn deadline(&self) -> Instant;
    fn is_elapsed(&self) -> bool;
}

macro_rules! any_sleep {
    ($($time:ident)::+) => {
        impl AnySleep for $($time)::+::Sleep {
            fn until(due: Instant) -> Self {
                $($time)::+::sleep_until(due)
            }

            fn reset(self: Pin<&mut Self>, due: Instant) {
                Self::reset(self, due);
            }

            fn deadline(&self) -> Instant {
                Self::deadline(self)
            }

            fn is_elapsed(&self) -> bool {
                Self::is_elapsed(self)
            }
        }
    };
}

any_sleep!(tokio::time);
any_sleep!(tickwheel::time);

/// How a task uses its sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idiom {
    /// It polls the sleep whenever it is polled.
    PollsAlways,
    /// It polls the sleep after a reset, if its waker is new, and if the sleep is elapsed.
    CachesItsWaker,
    /// It polls the sleep once, and from then on only asks whether the sleep is elapsed.
    AsksOnly,
    /// The poll that resets the sleep does not poll it. The next one does.
    ResetsElsewhere,
    /// It holds several in a `FuturesUnordered`, which polls only those that have woken it.
    Unordered,
    /// Two tasks hold one in a `Shared`, which cannot be reset.
    Shared,
    /// It moves the sleep to a new task when it is poked.
    Moves,
}

impl Idiom {
    pub(crate) const ALL: [Idiom; 7] = [
        Idiom::PollsAlways,
        Idiom::CachesItsWaker,
        Idiom::AsksOnly,
        Idiom::ResetsElsewhere,
        Idiom::Unordered,
        Idiom::Shared,
        Idiom::Moves,
    ];
}

#[derive(Clone, Copy)]
pub(crate) enum Message {
    Reset(Instant),
    /// It concerns the task, and not the sleep.
    Poke,
    /// No other follows, so the task ends with its sleep.
    Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Polled,
    /// By the sleep of that number.
    Woken(usize),
    Over,
}

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) events: Vec<(Event, Instant)>,
    records: Vec<Record>,
}

/// What one sleep has done.
struct Record {
    /// Each wake-up before this instant is in vain.
    earliest: Instant,
    /// The armings whose deadline had passed before a reset replaced it.
    expiries: usize,
    wakes: usize,
    /// By how much a wake-up was early.
    early: Option<Duration>,
}

impl Log {
    fn add(&mut self, event: Event) {
        self.events.push((event, Instant::now()));
    }

    /// Returns a fault of a sleep, if there is one. Call it once all of them are over.
    pub(crate) fn fault(&self) -> Option<String> {
        self.records.iter().find_map(|record| match record.early {
            Some(by) => Some(format!("woken in vain, {by:?} before its deadline")),
            None if record.wakes > record.expiries + 1 => Some(format!(
                "woken {} times, and {} of its deadlines have passed",
                record.wakes,
                record.expiries + 1
            )),
            None => None,
        })
    }
}

/// A sleep that writes down when it wakes its task.
pub(crate) struct Watched<S> {
    sleep: Pin<Box<S>>,
    number: usize,
    log: Arc<Mutex<Log>>,
    tap: Option<(Arc<Tap>, Waker)>,
}

struct Tap {
    task: Waker,
    number: usize,
    log: Arc<Mutex<Log>>,
}

impl Wake for Tap {
    fn wake(self: Arc<Self>) {
        let mut log = self.log.lock().unwrap();
        let record = &mut log.records[self.number];
        record.wakes += 1;
        let early = record.earliest.checked_duration_since(Instant::now());
        record.early = record.early.or(early.filter(|early| !early.is_zero()));
        log.add(Event::Woken(self.number));
        drop(log);
        self.task.wake_by_ref();
    }
}

impl<S: AnySleep> Watched<S> {
    pub(crate) fn new(due: Instant, log: &Arc<Mutex<Log>>) -> Watched<S> {
        let records = &mut log.lock().unwrap().records;
        records.push(Record {
            earliest: due,
            expiries: 0,
            wakes: 0,
            early: None,
        });
        Watched {
            sleep: Box::pin(S::until(due)),
            number: records.len() - 1,
            log: log.clone(),
            tap: None,
        }
    }

    /// Returns whether the deadline before had passed. Its wake-up may have been used up then, so
    /// the task has to poll the sleep.
    pub(crate) fn reset(&mut self, due: Instant) -> bool {
        let before = self.sleep.deadline();
        self.record(|record| record.earliest = record.earliest.min(due));
        self.sleep.as_mut().reset(due);
        let has_passed = Instant::now() >= before;
        self.record(|record| {
            record.expiries += usize::from(has_passed);
            // Otherwise the wake-up of a deadline that has passed may be on its way.
            if record.wakes == record.expiries {
                record.earliest = due;
            }
        });
        has_passed
    }

    fn record(&self, edit: impl FnOnce(&mut Record)) {
        edit(&mut self.log.lock().unwrap().records[self.number]);
    }

    pub(crate) fn is_elapsed(&self) -> bool {
        self.sleep.is_elapsed()
    }
}

impl<S: AnySleep> Future for Watched<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if !matches!(&this.tap, Some((tap, _)) if tap.task.will_wake(cx.waker())) {
            let tap = Arc::new(Tap {
                task: cx.waker().clone(),
                number: this.number,
                log: this.log.clone(),
            });
            this.tap = Some((tap.clone(), tap.into()));
        }
        let (_, waker) = this.tap.as_ref().expect("it is there");
        this.sleep.as_mut().poll(&mut Context::from_waker(waker))
    }
}

/// The deadlines of a task that has several sleeps differ by these.
const APART: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_micros(700),
    Duration::from_millis(2),
];

enum Sleeps<S: AnySleep> {
    Lone(Watched<S>),
    Unordered(FuturesUnordered<Watched<S>>),
    Shared(Shared<Watched<S>>),
}

struct Task<S: AnySleep> {
    idiom: Idiom,
    sleeps: Sleeps<S>,
    messages: UnboundedReceiver<Message>,
    log: Arc<Mutex<Log>>,
    /// Of the last poll of the sleep, if that was pending.
    waker: Option<Waker>,
    is_over: bool,
    is_last: bool,
    /// Dropped with the task.
    _alive: UnboundedSender<Infallible>,
}

/// The tasks of an idiom. They end if this is dropped.
pub(crate) struct Tasks {
    pub(crate) log: Arc<Mutex<Log>>,
    messages: Vec<UnboundedSender<Message>>,
    alive: UnboundedReceiver<Infallible>,
}

impl Tasks {
    pub(crate) fn spawn<S: AnySleep>(idiom: Idiom, due: Instant) -> Tasks {
        let log = Arc::new(Mutex::default());
        let sleep = |apart| Watched::<S>::new(due + apart, &log);
        let sleeps = match idiom {
            Idiom::Unordered => vec![Sleeps::Unordered(APART.map(sleep).into_iter().collect())],
            Idiom::Shared => {
                let shared = sleep(APART[0]).shared();
                vec![Sleeps::Shared(shared.clone()), Sleeps::Shared(shared)]
            }
            _ => vec![Sleeps::Lone(sleep(APART[0]))],
        };
        let (is_alive, alive) = unbounded_channel();
        let messages = sleeps.into_iter().map(|sleeps| {
            let (sender, messages) = unbounded_channel();
            tokio::spawn(Task {
                idiom,
                sleeps,
                messages,
                log: log.clone(),
                waker: None,
                is_over: false,
                is_last: false,
                _alive: is_alive.clone(),
            });
            sender
        });
        Tasks {
            messages: messages.collect(),
            alive,
            log: log.clone(),
        }
    }

    /// To the task of that number. It counts round.
    pub(crate) fn send(&self, number: usize, message: Message) {
        let sent = self.messages[number % self.messages.len()].send(message);
        assert!(sent.is_ok(), "a task lives until its last message");
    }

    /// Waits until the sleeps of all tasks are over.
    pub(crate) async fn end(&mut self) {
        for number in 0..self.messages.len() {
            self.send(number, Message::Last);
        }
        assert!(self.alive.recv().await.is_none());
    }
}

impl<S: AnySleep> Future for Task<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let task = &mut *self;
        task.log.lock().unwrap().add(Event::Polled);
        let mut was_reset = false;
        while let Poll::Ready(message) = task.messages.poll_recv(cx) {
            match message {
                None => return Poll::Ready(()),
                Some(Message::Reset(due)) => was_reset |= task.reset(due),
                Some(Message::Poke) if task.idiom == Idiom::Moves => {
                    tokio::spawn(task.move_on());
                    return Poll::Ready(());
                }
                Some(Message::Poke) => {}
                Some(Message::Last) => task.is_last = true,
            }
        }
        if !task.is_over {
            ready!(task.poll_sleeps(was_reset, cx));
            task.log.lock().unwrap().add(Event::Over);
            (task.is_over, task.waker) = (true, None);
        }
        if task.is_last {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl<S: AnySleep> Task<S> {
    /// False if the sleep cannot be reset.
    fn reset(&mut self, due: Instant) -> bool {
        match &mut self.sleeps {
            Sleeps::Lone(sleep) => {
                if sleep.reset(due) {
                    self.waker = None;
                }
            }
            Sleeps::Unordered(sleeps) => {
                if sleeps.is_empty() {
                    sleeps.push(Watched::new(due, &self.log));
                }
                for (sleep, apart) in sleeps.iter_mut().zip(APART) {
                    sleep.reset(due + apart);
                }
            }
            Sleeps::Shared(_) => return false,
        }
        self.is_over = false;
        true
    }

    fn poll_sleeps(&mut self, was_reset: bool, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = match &mut self.sleeps {
            Sleeps::Lone(sleep) => sleep,
            Sleeps::Unordered(sleeps) => {
                while ready!(sleeps.poll_next_unpin(cx)).is_some() {}
                return Poll::Ready(());
            }
            Sleeps::Shared(sleep) => return sleep.poll_unpin(cx),
        };
        let before = self.waker.as_ref();
        let is_same = before.is_some_and(|waker| waker.will_wake(cx.waker()));
        match self.idiom {
            Idiom::CachesItsWaker if is_same && !was_reset && !sleep.is_elapsed() => {
                return Poll::Pending;
            }
            Idiom::AsksOnly if before.is_some() => {
                return if sleep.is_elapsed() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                };
            }
            Idiom::ResetsElsewhere if before.is_some() && was_reset => return Poll::Pending,
            _ => {}
        }
        let polled = sleep.poll_unpin(cx);
        self.waker = polled.is_pending().then(|| cx.waker().clone());
        polled
    }

    /// What a new task needs to go on. This one ends.
    fn move_on(&mut self) -> Task<S> {
        Task {
            sleeps: replace(&mut self.sleeps, Sleeps::Unordered(Default::default())),
            messages: replace(&mut self.messages, unbounded_channel().1),
            log: self.log.clone(),
            waker: None,
            _alive: self._alive.clone(),
            ..*self
        }
    }
}
