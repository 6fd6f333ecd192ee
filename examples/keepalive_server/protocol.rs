//! The two bytes that client and server agree on. Both are single, so that there is nothing to
//! frame.

/// The server sends it once when the connection's deadline is armed. A client that has it knows
/// that it is served and does not just wait in the listener's queue.
pub(crate) const GREETING: u8 = b'+';

/// The client sends it now and then to stay connected.
pub(crate) const HEARTBEAT: u8 = b'.';
