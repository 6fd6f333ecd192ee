//! The errors of a receiver, and a permit for one task.

use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

#[derive(Debug, Default)]
pub struct Notify(Mutex<Permit>);

#[derive(Debug, Default)]
struct Permit {
    is_given: bool,
    waits: Option<Waker>,
}

impl Notify {
    pub fn notify_one(&self) {
        let waits = {
            let mut permit = self.0.lock().unwrap();
            permit.is_given = true;
            permit.waits.take()
        };
        if let Some(waker) = waits {
            waker.wake();
        }
    }

    pub async fn notified(&self) {
        poll_fn(|cx| {
            let waker = cx.waker().clone();
            let mut permit = self.0.lock().unwrap();
            if std::mem::take(&mut permit.is_given) {
                return Poll::Ready(());
            }
            let replaced = permit.waits.replace(waker);
            drop(permit);
            drop(replaced);
            Poll::Pending
        })
        .await;
    }
}

pub mod mpsc {
    pub mod error {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum TryRecvError {
            Empty,
            Disconnected,
        }
    }
}
