//! A sleep: a timer of the time driver.

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Instant;
use super::driver::Number;
use crate::runtime::Handle;

pub struct Sleep {
    runtime: Handle,
    number: Number,
    deadline: Instant,
    is_registered: bool,
}

pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

pub fn sleep_until(deadline: Instant) -> Sleep {
    let runtime = Handle::current();
    Sleep {
        number: runtime.0.time.make(),
        runtime,
        deadline,
        is_registered: false,
    }
}

impl Sleep {
    pub fn is_elapsed(&self) -> bool {
        // Another thread may come before each call, also before one that looks at nothing.
        std::thread::sleep(Duration::ZERO);
        self.is_registered && !self.runtime.0.time.is_set(self.number)
    }

    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let this = self.get_mut();
        this.deadline = deadline;
        this.is_registered = true;
        this.runtime.0.time.set(this.number, deadline);
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_registered {
            let deadline = self.deadline;
            self.as_mut().reset(deadline);
        }
        if self.runtime.0.time.is_shut_down() {
            // As tokio panics, but under no panic hook: shuttle's would take it for a failure.
            resume_unwind(Box::new("the runtime is being shut down"));
        }
        self.runtime.0.time.poll(self.number, cx)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.runtime.0.time.forget(self.number);
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
