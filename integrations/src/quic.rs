//! QUIC: a [`quinn::Runtime`] whose timers are tickwheel's.
//!
//! quinn has one timer for each connection, and moves it with nearly every packet. Here that timer
//! is a [`Deadline`], and a move goes through its [`ResetHandle`]: it wakes nobody at the old
//! instant, and no timer is armed anew.
//!
//! Sockets and tasks are tokio's, by way of quinn's own [`TokioRuntime`].
//!
//! Invariant: a connection's timer is ready only once its instant has passed. It asks tokio's timer
//! only after the runtime that drives its own has shut down.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use tickwheel::{Deadline, ResetHandle, Timer};

/// A runtime for quinn: timers of a [`Timer`], sockets and tasks of tokio.
///
/// Give it to [`quinn::Endpoint::new`], or to [`quinn::Endpoint::new_with_abstract_socket`].
///
/// - Give it a timer that counts stalls, as in the example. quinn reads the datagrams that have
///   come before it acts on a timer, so after a stall it needs no grace. With one, its timers would
///   be late by that.
/// - quinn's clock is tokio's. So take a timer of a runtime whose clock runs as that does.
/// - If the runtime that drives the timer has shut down, a connection in another runtime goes on
///   with tokio's own timers.
///
/// Asking whether the timer has expired is one load of an atomic, but for the first time and after
/// each expiry. A move costs what [`ResetHandle::reset_at`] does.
///
/// ```
/// use std::io;
/// use std::net::UdpSocket;
/// use std::sync::Arc;
///
/// use quinn::{Endpoint, EndpointConfig, ServerConfig};
/// use tickwheel::Timer;
/// use tickwheel_integrations::quic::TickwheelRuntime;
///
/// fn listen(config: EndpointConfig, server: ServerConfig) -> io::Result<Endpoint> {
///     let socket = UdpSocket::bind("[::]:4433")?;
///     let timer = Timer::builder().stall_grace(false).build().map_err(io::Error::other)?;
///     let runtime = Arc::new(TickwheelRuntime::new(&timer));
///     Endpoint::new(config, Some(server), socket, runtime)
/// }
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
}

impl Runtime for TickwheelRuntime {
    fn new_timer(&self, instant: Instant) -> Pin<Box<dyn AsyncTimer>> {
        let deadline = arm(&self.timer, instant);
        Box::pin(ConnectionTimer {
            handle: deadline.handle(),
            deadline,
            timer: self.timer.clone(),
            instant,
            alarm: None,
            fallback: None,
        })
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
#[derive(Debug)]
struct ConnectionTimer {
    timer: Timer,
    instant: Instant,
    deadline: Deadline,
    handle: ResetHandle,
    /// What the deadline will wake, once it was polled.
    alarm: Option<Arc<Alarm>>,
    /// Takes over once the timer's runtime has shut down. quinn's trait has no error to report that
    /// by, and a panic here would poison the connection's lock.
    fallback: Option<Pin<Box<dyn AsyncTimer>>>,
}

/// The deadline counts from a moment after `now`, so it is not before `instant`.
fn arm(timer: &Timer, instant: Instant) -> Deadline {
    let delay = instant.saturating_duration_since(TokioRuntime.now());
    timer.deadline(delay)
}

impl AsyncTimer for ConnectionTimer {
    fn reset(mut self: Pin<&mut Self>, instant: Instant) {
        self.instant = instant;
        if let Some(fallback) = &mut self.fallback {
            fallback.as_mut().reset(instant);
        } else if !self.handle.reset_at(instant.into()) {
            self.deadline = arm(&self.timer, instant);
            self.handle = self.deadline.handle();
            self.alarm = None;
        }
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let instant = self.instant;
        if self.fallback.is_none() {
            let alarm = self.alarm.as_ref();
            if alarm.is_some_and(|alarm| alarm.still_waits(cx.waker())) {
                return Poll::Pending;
            }
            let alarm = Arc::new(Alarm {
                task: cx.waker().clone(),
                has_woken: AtomicBool::new(false),
            });
            let waker = Waker::from(alarm.clone());
            self.alarm = Some(alarm);
            let mut cx = Context::from_waker(&waker);
            match Pin::new(&mut self.deadline).poll(&mut cx) {
                Poll::Pending => return Poll::Pending,
                // This poll may have found the end before the driver did: then nothing wakes.
                Poll::Ready(Ok(())) => {
                    self.alarm = None;
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
#[derive(Debug)]
struct Alarm {
    task: Waker,
    has_woken: AtomicBool,
}

impl Alarm {
    fn still_waits(&self, task: &Waker) -> bool {
        self.task.will_wake(task) && !self.has_woken.load(Ordering::Acquire)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}
