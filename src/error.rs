//! The error types. Each `Display` names the cause and, where there is one, the remedy.

use std::fmt;
use std::time::Duration;

/// A [`Timeout`](crate::Timeout) or a [`WithDeadline`](crate::WithDeadline) elapsed before its
/// future was ready. Converts into a [`std::io::Error`] of kind
/// [`TimedOut`](std::io::ErrorKind::TimedOut), and from tokio's `Elapsed`.
///
/// ```
/// # use tickwheel::{Duration, timeout};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let late = timeout(Duration::from_secs(1), std::future::pending::<()>()).await;
/// assert_eq!(late.unwrap_err().to_string(), "deadline has elapsed");
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed(());

impl Elapsed {
    /// Makes the error, for adapters that bound something by a [`Sleep`](crate::Sleep).
    ///
    /// ```
    /// # use tickwheel::{Duration, Sleep, error::Elapsed, sleep};
    /// # use tokio::sync::mpsc::Receiver;
    /// /// Receives within a time that starts where the caller wants it to.
    /// async fn receive(from: &mut Receiver<u8>, end: &mut Sleep) -> Result<Option<u8>, Elapsed> {
    ///     tokio::select! {
    ///         biased;
    ///         message = from.recv() => Ok(message),
    ///         () = end => Err(Elapsed::new()),
    ///     }
    /// }
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (_sender, mut from) = tokio::sync::mpsc::channel(1);
    /// let received = receive(&mut from, &mut sleep(Duration::from_secs(1))).await;
    /// assert_eq!(received, Err(Elapsed::new()));
    /// # });
    /// ```
    // There is no `Default`: an error does not come from nothing.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Elapsed {
        Elapsed(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

impl From<tokio::time::error::Elapsed> for Elapsed {
    fn from(_: tokio::time::error::Elapsed) -> Elapsed {
        Elapsed(())
    }
}

impl From<Elapsed> for std::io::Error {
    /// Converts without an allocation, like `Elapsed` of tokio.
    fn from(_: Elapsed) -> std::io::Error {
        std::io::ErrorKind::TimedOut.into()
    }
}

/// A [`Deadline`](crate::Deadline) ended before it expired: it was cancelled through a handle, or
/// removed from its map, unless a method below returns `true`.
///
/// ```
/// # use tickwheel::{Duration, Timer};
/// # tokio_test::block_on(async {
/// let idle = Timer::current().deadline(Duration::from_secs(30));
/// idle.handle().cancel();
/// assert!(!idle.await.unwrap_err().is_shutdown());
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cancelled(Cause);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cause {
    Handle,
    Replaced,
    Drained,
    Shutdown,
}

impl Cancelled {
    pub(crate) const BY_HANDLE: Cancelled = Cancelled(Cause::Handle);
    pub(crate) const REPLACED: Cancelled = Cancelled(Cause::Replaced);
    pub(crate) const DRAINED: Cancelled = Cancelled(Cause::Drained);
    pub(crate) const SHUTDOWN: Cancelled = Cancelled(Cause::Shutdown);

    pub(crate) fn to_bits(self) -> u64 {
        self.0 as u64
    }

    pub(crate) fn from_bits(bits: u64) -> Cancelled {
        use Cause::{Drained, Handle, Replaced, Shutdown};
        Cancelled([Handle, Replaced, Drained, Shutdown][bits as usize & 3])
    }

    /// Returns whether a newer deadline under the same key of its map replaced it.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let clients = DeadlineMap::new(&Timer::current());
    /// let first = clients.insert("client 1", Duration::from_secs(60))?;
    /// let _second = clients.insert("client 1", Duration::from_secs(60))?;
    /// // MQTT closes the older connection of a client with its own reason.
    /// assert!(first.await.unwrap_err().is_replaced());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn is_replaced(&self) -> bool {
        self.0 == Cause::Replaced
    }

    /// Returns whether its map was [drained](crate::DeadlineMap::drain) or
    /// [closed](crate::DeadlineMap::close).
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let connections = DeadlineMap::new(&Timer::current());
    /// let idle = connections.insert("10.0.0.7:4711", Duration::from_secs(60))?;
    /// let farewell = match { connections.close(); idle.await } {
    ///     Ok(()) => "you were idle",
    ///     Err(end) if end.is_drained() => "the server goes down",
    ///     Err(_) => "you were removed",
    /// };
    /// assert_eq!(farewell, "the server goes down");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn is_drained(&self) -> bool {
        self.0 == Cause::Drained
    }

    /// Returns whether the runtime that drove the deadline's timer has shut down.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let idle = runtime.block_on(async { Timer::current().deadline(Duration::from_secs(60)) });
    /// drop(runtime);
    /// let end = futures::executor::block_on(idle);
    /// assert!(end.unwrap_err().is_shutdown());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn is_shutdown(&self) -> bool {
        self.0 == Cause::Shutdown
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Cause::Handle => "the deadline was cancelled",
            Cause::Replaced => "the deadline was replaced by a newer one under its key",
            Cause::Drained => "the deadline was cancelled with all others of its map",
            Cause::Shutdown => {
                "the runtime that drives the deadline's timer has shut down; \
                 make deadlines on a timer of a runtime that is running"
            }
        })
    }
}

impl std::error::Error for Cancelled {}

impl From<Cancelled> for std::io::Error {
    /// Its kind is [`Other`](std::io::ErrorKind::Other), and `get_ref` returns the cause.
    fn from(cancelled: Cancelled) -> std::io::Error {
        std::io::Error::other(cancelled)
    }
}

/// The runtime that drives a timer has shut down while the timer was pending:
/// [`Sleep::try_poll`](crate::Sleep::try_poll), [`Timeout::try_poll`](crate::Timeout::try_poll),
/// [`WithDeadline::try_poll`](crate::WithDeadline::try_poll) and
/// [`Interval::try_poll_tick`](crate::Interval::try_poll_tick).
///
/// The futures themselves panic with its text, as tokio's do. It converts into a [`Cancelled`] that
/// [is a shutdown](Cancelled::is_shutdown), for code that waits for a [`Deadline`](crate::Deadline)
/// as well, and into a [`std::io::Error`].
///
/// ```
/// use std::future::poll_fn;
/// use tickwheel::{Duration, Timer, error::ShutDown};
///
/// /// Waits a minute, or until the program ends.
/// async fn pause(timer: &Timer) -> Result<(), ShutDown> {
///     let mut nap = timer.sleep(Duration::from_secs(60));
///     poll_fn(|cx| nap.try_poll(cx)).await
/// }
///
/// let elsewhere = tokio::runtime::Runtime::new()?;
/// let timer = elsewhere.block_on(async { Timer::current() });
/// drop(elsewhere);
/// let end = futures::executor::block_on(pause(&timer)).unwrap_err();
/// assert!(end.to_string().contains("keep that runtime running"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShutDown(());

impl ShutDown {
    pub(crate) const NEW: ShutDown = ShutDown(());
}

impl fmt::Display for ShutDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the tokio runtime that drives this timer has shut down while the timer was pending; \
             keep that runtime running for as long as its timers are awaited",
        )
    }
}

impl std::error::Error for ShutDown {}

impl From<ShutDown> for Cancelled {
    fn from(_: ShutDown) -> Cancelled {
        Cancelled::SHUTDOWN
    }
}

impl From<ShutDown> for std::io::Error {
    /// Its kind is [`Other`](std::io::ErrorKind::Other), and `get_ref` returns the cause.
    fn from(shut_down: ShutDown) -> std::io::Error {
        std::io::Error::other(shut_down)
    }
}

/// A map rejected an insert. Returns what it was given: the key of a
/// [`DeadlineMap`](crate::DeadlineMap), and the key and the value of a
/// [`DelayMap`](crate::DelayMap), or the key alone if no value was made.
///
/// ```
/// # use tickwheel::{DelayMap, Duration, Timer, error::InsertError};
/// # tokio_test::block_on(async {
/// let (map, _expirations) = DelayMap::with_limit(&Timer::current(), 0);
/// let inserted = map.insert("key", 1, Duration::from_secs(60));
/// assert_eq!(inserted, Err(InsertError::AtCapacity(("key", 1))));
/// # });
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InsertError<T> {
    /// The map is closed.
    Closed(T),
    /// The map is full, and the insert would add to it.
    AtCapacity(T),
}

/// The methods and traits of an error that returns the rejected key or pair.
macro_rules! gives_back {
    ($(#[$example:meta])* $error:ident: $($variant:ident, $text:expr;)*) => {
        impl<T> $error<T> {
            /// Returns the key, or key and value, that was not inserted.
            ///
            $(#[$example])*
            pub fn into_inner(self) -> T {
                match self {
                    $($error::$variant(back))|* => back,
                }
            }
        }

        impl<T> fmt::Debug for $error<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($error::$variant(_) => concat!(stringify!($variant), "(..)"),)*
                })
            }
        }

        impl<T> fmt::Display for $error<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($error::$variant(_) => $text,)*
                })
            }
        }

        impl<T> std::error::Error for $error<T> {}
    };
}

const CLOSED: &str = "the map is closed; nothing can be inserted any more";
const AT_CAPACITY: &str =
    "the map is full; remove a key first, or make the map with a higher capacity";
const OCCUPIED: &str = "the key is in the map; `insert` replaces what is under it";

gives_back! {
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let (mail, _due) = DelayMap::with_limit(&Timer::current(), 0);
    /// let letter = "to alice".to_owned();
    /// let rejected = mail.insert("letter 1", letter, Duration::from_secs(60)).unwrap_err();
    /// let (_key, letter) = rejected.into_inner(); // to be stored elsewhere, without a clone
    /// assert_eq!(letter, "to alice");
    /// # });
    /// ```
    InsertError:
    Closed, CLOSED;
    AtCapacity, AT_CAPACITY;
}

/// A map rejected an [`insert_if_absent`](crate::DelayMap::insert_if_absent). Returns the same as
/// [`InsertError`].
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InsertIfAbsentError<T> {
    /// The key is in the map. Its entry is unchanged.
    Occupied(T),
    /// The map is closed.
    Closed(T),
    /// The map is full, and the insert would add to it.
    AtCapacity(T),
}

impl<T> From<InsertError<T>> for InsertIfAbsentError<T> {
    fn from(error: InsertError<T>) -> Self {
        match error {
            InsertError::Closed(back) => InsertIfAbsentError::Closed(back),
            InsertError::AtCapacity(back) => InsertIfAbsentError::AtCapacity(back),
        }
    }
}

gives_back! {
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let locks = DeadlineMap::new(&Timer::current());
    /// let _held = locks.insert_if_absent("row 7".to_owned(), Duration::from_secs(30)).unwrap();
    /// let rejected = locks.insert_if_absent("row 7".to_owned(), Duration::from_secs(30));
    /// let key = rejected.unwrap_err().into_inner(); // for the next try
    /// assert_eq!(key, "row 7");
    /// # });
    /// ```
    InsertIfAbsentError:
    Occupied, OCCUPIED;
    Closed, CLOSED;
    AtCapacity, AT_CAPACITY;
}

/// [`Expirations::try_recv`](crate::Expirations::try_recv) found no value. The names are those of
/// tokio's `TryRecvError`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// No value is due now. One may become due later.
    Empty,
    /// The stream has ended.
    Disconnected,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "no value is due now",
            TryRecvError::Disconnected => "the stream has ended; nothing comes out of it any more",
        })
    }
}

impl std::error::Error for TryRecvError {}

/// The settings of a [`Builder`](crate::timer::Builder) are invalid, or there is no runtime with a
/// time driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The tick's length is zero.
    ZeroTick,
    /// The tick is shorter than a millisecond.
    TickTooShort {
        /// The requested length.
        tick: Duration,
    },
    /// The tick is longer than an hour.
    TickTooLong {
        /// The requested length.
        tick: Duration,
    },
    /// The number of shards is zero.
    ZeroShards,
    /// There are more than 1,024 shards.
    TooManyShards {
        /// The requested number.
        shards: usize,
    },
    /// [`build`](crate::timer::Builder::build) was called outside a tokio runtime.
    NoRuntime,
    /// The runtime has no time driver. The text is the one of tokio's panic.
    NoTimeDriver,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::ZeroTick => {
                f.write_str("tick is zero; give it a length, such as one millisecond")
            }
            BuildError::TickTooShort { tick } => write!(
                f,
                "tick of {tick:?} is shorter than a millisecond, the finest that tokio's clock has; \
                 leave it out for a millisecond"
            ),
            BuildError::TickTooLong { tick } => write!(
                f,
                "tick of {tick:?} is longer than an hour; choose it near the resolution that you need"
            ),
            BuildError::ZeroShards => f.write_str(
                "shards is zero; give at least one, or leave it out for one for each thread",
            ),
            BuildError::TooManyShards { shards } => write!(
                f,
                "shards is {shards}, more than 1024; one for each thread is enough"
            ),
            BuildError::NoRuntime => f.write_str(
                "there is no tokio runtime here to drive the timer; \
                 call build within one, or build_on with the handle of one",
            ),
            BuildError::NoTimeDriver => f.write_str(
                "A Tokio 1.x context was found, but timers are disabled. \
                 Call `enable_time` on the runtime builder to enable timers.",
            ),
        }
    }
}

impl std::error::Error for BuildError {}
