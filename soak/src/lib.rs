//! Random programs in real time on real threads, checked from the record of their calls, and what
//! else the soak runs. A test runs the random programs for some seconds.
//!
//! | file | what |
//! |---|---|
//! | `random`, `actors`, `ends` | the programs |
//! | `world`, `program`, `wait` | runtimes and places, one program's run, tasks that wait |
//! | `record`, `checker`, `calls` | what was called, and whether it is possible; the schedules have `calls` too |
//! | `finding` | what is printed |
//! | `histories` | timers as users hold them, beside tokio's |
//! | `idioms` | how a task uses its sleep, and when it is woken; the oracle has it too |

mod actors;
mod calls;
pub mod checker;
pub mod ends;
pub mod finding;
pub mod histories;
#[path = "../../tests/common/idioms.rs"]
mod idioms;
pub mod program;
pub mod random;
mod record;
mod wait;
mod world;
