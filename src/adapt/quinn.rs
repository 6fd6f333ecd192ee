//! QUIC: a [`quinn::Runtime`](::quinn::Runtime) whose timers are this crate's.
//!
//! quinn has one timer for each connection, and moves it with nearly every packet. That is the case
//! which a [`ResetHandle`](crate::ResetHandle) is for: a move to a later instant takes no lock, and
//! wakes nobody at the old instant.
//!
//! Sockets and tasks are tokio's, by way of quinn's own [`TokioRuntime`](::quinn::TokioRuntime).
//!
//! Invariant: a connection's timer is ready only once its instant has passed. It asks tokio's timer
//! only after the runtime that drives its own has shut down.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use ::quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};

use crate::deadline::{Deadline, ResetHandle};
use crate::timer::Timer;

/// A runtime for quinn: timers of a [`Timer`], sockets and tasks of tokio.
///
/// Give it to [`quinn::Endpoint::new`](::quinn::Endpoint::new), or to
/// [`new_with_abstract_socket`](::quinn::Endpoint::new_with_abstract_socket). Both sides of a
/// connection may have different runtimes.
///
/// - Each connection holds one armed timer while it lives, and none when it is closed and drained.
/// - quinn's clock is tokio's, also while that is paused. So take a timer of the runtime that the
///   endpoint is used in, or a clock that runs as that does.
/// - If the runtime that drives the timer has shut down, a connection in another runtime goes on
///   with tokio's own timers.
///
/// # Cost
///
/// A connection whose timer moves later takes no lock for that. One whose timer moves earlier takes
/// the lock of the timer's shard. Asking whether the timer has expired is one load of an atomic,
/// but for the first time and after each expiry.
///
/// # Panics
///
/// Its methods panic where those of quinn's [`TokioRuntime`] do: a task is spawned, or a socket
/// made, outside a tokio runtime.
///
/// # Examples
///
/// ```
/// use std::io;
/// use std::net::UdpSocket;
/// use std::sync::Arc;
///
/// use quinn::{Endpoint, EndpointConfig, ServerConfig};
/// use tickwheel::Timer;
/// use tickwheel::quinn::TickwheelRuntime;
///
/// fn listen(timer: &Timer, config: EndpointConfig, server: ServerConfig) -> io::Result<Endpoint> {
///     let socket = UdpSocket::bind("[::]:4433")?;
///     let runtime = Arc::new(TickwheelRuntime::new(timer));
///     Endpoint::new(config, Some(server), socket, runtime)
/// }
/// ```
///
/// The timers can be used without quinn's connections:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use quinn::Runtime;
/// use tickwheel::Duration;
/// use tickwheel::quinn::TickwheelRuntime;
///
/// let runtime = TickwheelRuntime::current();
/// let start = runtime.now();
/// let mut timer = runtime.new_timer(start + Duration::from_secs(1));
/// timer.as_mut().reset(start + Duration::from_secs(5));
/// std::future::poll_fn(|cx| timer.as_mut().poll(cx)).await;
/// assert_eq!(runtime.now() - start, Duration::from_secs(5));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TickwheelRuntime {
    timer: Timer,
}

impl TickwheelRuntime {
    /// A runtime for quinn whose timers are armed on `timer`.
    pub fn new(timer: &Timer) -> TickwheelRuntime {
        TickwheelRuntime {
            timer: timer.clone(),
        }
    }

    /// A runtime for quinn on the current tokio runtime's own timer, [`Timer::current`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in one without a time driver.
    #[track_caller]
    pub fn current() -> TickwheelRuntime {
        TickwheelRuntime::new(&Timer::current())
    }

    /// The timer that the connections are armed on.
    pub fn timer(&self) -> &Timer {
        &self.timer
    }
}

impl From<Timer> for TickwheelRuntime {
    fn from(timer: Timer) -> TickwheelRuntime {
        TickwheelRuntime { timer }
    }
}

impl Runtime for TickwheelRuntime {
    fn new_timer(&self, instant: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(ConnectionTimer::new(self.timer.clone(), instant))
    }

    #[track_caller]
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

/// The timer of one connection.
struct ConnectionTimer {
    timer: Timer,
    instant: Instant,
    deadline: Deadline,
    handle: ResetHandle,
    /// What the deadline will wake, once it was polled.
    registered: Option<Registered>,
    /// Takes over once the timer's runtime has shut down. quinn's trait has no error to report that
    /// by, and a panic here would poison the connection's lock.
    fallback: Option<Pin<Box<dyn AsyncTimer>>>,
}

impl ConnectionTimer {
    fn new(timer: Timer, instant: Instant) -> ConnectionTimer {
        let deadline = arm(&timer, instant);
        ConnectionTimer {
            handle: deadline.handle(),
            deadline,
            timer,
            instant,
            registered: None,
            fallback: None,
        }
    }
}

/// The deadline counts from a moment after `now`, so it is not before `instant`. quinn looks at the
/// datagrams that have come before it acts on a timer, so no stall needs to spare it.
fn arm(timer: &Timer, instant: Instant) -> Deadline {
    let delay = instant.saturating_duration_since(TokioRuntime.now());
    Deadline::new(timer.shard().clone(), delay)
}

impl AsyncTimer for ConnectionTimer {
    fn reset(mut self: Pin<&mut Self>, instant: Instant) {
        self.instant = instant;
        if let Some(fallback) = &mut self.fallback {
            fallback.as_mut().reset(instant);
        } else if !self.handle.reset_at(instant.into()) {
            self.deadline = arm(&self.timer, instant);
            self.handle = self.deadline.handle();
            self.registered = None;
        }
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let instant = self.instant;
        if self.fallback.is_none() {
            if matches!(&self.registered, Some(registered) if registered.still_waits(cx.waker())) {
                return Poll::Pending;
            }
            let registered = self
                .registered
                .insert(Registered::new(cx.waker()))
                .waker
                .clone();
            let mut cx = Context::from_waker(&registered);
            match Pin::new(&mut self.deadline).poll(&mut cx) {
                Poll::Pending => return Poll::Pending,
                // This poll may have found the end before the driver did: then nothing rings.
                Poll::Ready(Ok(())) => {
                    self.registered = None;
                    return Poll::Ready(());
                }
                // Nobody else can cancel it: the runtime that drives the timer has shut down.
                Poll::Ready(Err(_)) => {}
            }
        }
        let fallback = self
            .fallback
            .get_or_insert_with(|| TokioRuntime.new_timer(instant));
        fallback.as_mut().poll(cx)
    }
}

/// The task that a deadline wakes, and whether it has. While it has not, the deadline need not be
/// polled again. A poll takes a lock and reads the clock, and quinn polls with each packet.
struct Registered {
    alarm: Arc<Alarm>,
    waker: Waker,
}

struct Alarm {
    task: Waker,
    has_rung: AtomicBool,
}

impl Registered {
    fn new(task: &Waker) -> Registered {
        let alarm = Arc::new(Alarm {
            task: task.clone(),
            has_rung: AtomicBool::new(false),
        });
        Registered {
            waker: alarm.clone().into(),
            alarm,
        }
    }

    fn still_waits(&self, task: &Waker) -> bool {
        self.alarm.task.will_wake(task) && !self.alarm.has_rung.load(Ordering::Acquire)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl fmt::Debug for ConnectionTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionTimer")
            .field("instant", &self.instant)
            .field("deadline", &self.deadline)
            .field("has_fallback", &self.fallback.is_some())
            .finish_non_exhaustive()
    }
}
