//! Panics that a test expects: their message and their place, and no word of them in the output.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// The message of a panic, and the file and line.
pub(crate) type Told = (String, String);

thread_local! {
    /// The last panic, while this thread asks for it.
    static CAPTURED: RefCell<Option<Told>> = const { RefCell::new(None) };
}

/// Returns the message and the place of a panic in `run`. They are empty if the panic called no
/// hook, as that of `resume_unwind`.
pub(crate) fn catch<R>(run: impl FnOnce() -> R) -> Result<R, Told> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if CAPTURED.with_borrow(Option::is_none) {
                return default(info);
            }
            let at = info.location().unwrap();
            let place = format!("{}:{}", at.file(), at.line());
            CAPTURED.set(Some((info.to_string(), place)));
        }));
    });
    let around = CAPTURED.replace(Some(Told::default()));
    let outcome = catch_unwind(AssertUnwindSafe(run));
    let message = CAPTURED.replace(around);
    outcome.map_err(|_| message.unwrap_or_default())
}

/// Runs `misuse`, which must panic.
pub(crate) fn panic_of<R>(misuse: impl FnOnce() -> R) -> Told {
    catch(misuse)
        .map(drop)
        .expect_err("it should have panicked")
}

/// Asserts that an expression panics on its own line, with a message that holds a text.
macro_rules! assert_panics_here {
    ($text:expr, $misuse:expr) => {{
        let line = line!();
        let (message, place) = $crate::common::panic_of(|| $misuse);
        assert!(message.contains($text), "{message}");
        assert_eq!(place, format!("{}:{line}", file!()));
    }};
}
pub(crate) use assert_panics_here;
