//! The adapters: this crate's timers behind the traits that other crates ask for.
//!
//! Each file is one adapter, behind the feature of its name. Only `countdown` and `tried` are
//! shared: `io` and `http_body` bound a wait with them.
//!
//! Invariant: an adapter uses only what the crate offers to anybody, and no module below knows of
//! it.
//!
//! # What is ready wins
//!
//! An adapter polls what it wraps first, and looks at a deadline only where that has to wait. But a
//! task that has used up its cooperative budget gets [`Pending`](std::task::Poll::Pending) from
//! tokio's I/O and channels without a try. Many futures in one task, such as a `FuturesUnordered`,
//! share a budget. So after a stall, when all of them have bytes, most of them are polled without
//! any. Hence:
//!
//! | the budget | the deadline |
//! |---|---|
//! | was gone before what is wrapped was polled | is not looked at; the task is woken to come again |
//! | was used up by that very poll | is looked at outside of the budget, or it might never be |
//!
//! A [`Timeout`](crate::Timeout) does so too, and what is made of one needs nothing more.

#[cfg(any(feature = "http-body", feature = "io"))]
mod countdown;
#[cfg(feature = "http-body")]
pub mod http_body;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "io")]
pub mod io;
#[cfg(feature = "stream")]
pub mod stream;
#[cfg(feature = "tower")]
pub mod tower;

#[cfg(any(feature = "http-body", feature = "io"))]
use std::task::{Context, Poll};

/// Ready if what was just polled, and is pending, was tried. So its deadline may be looked at.
///
/// `had_budget` says whether the task had a budget before that poll. If it had none, the task is
/// woken to come again.
#[cfg(any(feature = "http-body", feature = "io"))]
#[inline]
fn tried(had_budget: bool, cx: &mut Context<'_>) -> Poll<()> {
    if had_budget {
        return Poll::Ready(());
    }
    crate::runtime::coop::poll_proceed(cx).map(drop)
}
