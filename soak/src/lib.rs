//! Random programs in real time on real threads, checked from the record of their calls, and what
//! else the soak runs. A test runs the random programs for some seconds.
//!
//! | file | what |
//! |---|---|
//! | `random`, `maps`, `ends` | the programs; `../programs` has the calls on the maps |
//! | `world`, `thread_world`, `program`, `wait` | runtimes, what an actor gets from them, one program's run, tasks that wait |
//! | `record`, `checker` | what was called, and whether it is possible |
//! | `finding` | what is printed |
//! | `histories` | timers as users hold them, compared with tokio's |
//! | `idioms` | how a task uses its sleep, and when it is woken; the oracle has it too |

pub mod checker;
pub mod ends;
pub mod finding;
pub mod histories;
#[path = "../../tests/common/idioms.rs"]
mod idioms;
mod maps;
pub mod program;
#[path = "../programs/mod.rs"]
mod programs;
pub mod random;
mod record;
mod thread_world;
mod wait;
mod world;
