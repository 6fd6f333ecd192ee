//! Lines on stdout, which may be closed at any time, as by `| head -1`.
//!
//! Invariant: a closed stdout ends the program as the user's wish does, and never as a panic.

use std::fmt::Display;
use std::io::{self, Write};

use tokio_util::sync::CancellationToken;

/// Where the program says what happens. Clones share one stdout.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    closed: CancellationToken,
}

impl Output {
    /// Prints a line, unless nobody reads any more.
    pub(crate) fn say(&self, line: impl Display) {
        if !self.closed.is_cancelled() && writeln!(io::stdout(), "{line}").is_err() {
            self.closed.cancel();
        }
    }

    /// Is ready when nobody reads any more.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}
