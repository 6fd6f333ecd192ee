//! What is left when the runtime has shut down: each task that waits was woken, and learns of it.

use tickwheel::Duration;
use tickwheel::error::InsertError;

use super::super::deadlines::ask_dropped;
use super::super::sleepers::Now;
use super::World;

impl World {
    /// To be called when the runtime is gone, with the time at which it went.
    pub(in super::super) fn after_shutdown(mut self, now: Now) -> Result<(), String> {
        for sleeper in &mut self.sleepers {
            sleeper.after_shutdown(now)?;
        }
        for timed in &mut self.deadlines {
            timed.after_shutdown(now)?;
        }
        for handle in &self.dropped {
            ask_dropped(handle)?;
        }
        match self.map.insert(u32::MAX, Duration::from_secs(1)) {
            Ok(keyed) => match futures::FutureExt::now_or_never(keyed) {
                Some(Err(error)) if error.is_shutdown() => {}
                told => return Err(format!("after the end a deadline tells {told:?}")),
            },
            Err(InsertError::Closed(u32::MAX)) if self.map_is_closed => {}
            Err(InsertError::AtCapacity(u32::MAX)) if self.in_map().count() >= self.map_limit => {}
            Err(error) => return Err(format!("after the end an insert answers {error:?}")),
        }
        let _ = (self.map.drain(), self.map.expire_all(), self.map.close());
        // A stream may have to be polled to hear of the end, and its timer is armed until then.
        self.delayed.after_shutdown(now)?;
        self.nothing_is_armed()
    }
}
