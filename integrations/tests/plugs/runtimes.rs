//! Crates that run a program on runtimes of tokio's: actix, with one for each thread.

use std::future::pending;
use std::thread;
use std::time::Duration;

use actix_rt::{Arbiter, System};
use tickwheel::{Timer, time};
use tokio::sync::oneshot;

use crate::assert_nothing_stays_armed;

const SHORT: Duration = Duration::from_millis(5);

/// A task of an arbiter uses each kind of timer. Another thread pushes its deadline back.
async fn actix_program() {
    let (send, received) = oneshot::channel();
    let (done, is_done) = oneshot::channel();
    let arbiter = Arbiter::new();
    arbiter.spawn(async move {
        let timer = Timer::current();
        time::sleep(SHORT).await;
        assert!(time::timeout(SHORT, pending::<()>()).await.is_err());
        let mut ticks = time::interval(SHORT);
        ticks.tick().await;
        ticks.tick().await;
        assert!(timer.metrics().armed() >= 3 && timer.metrics().shards() == 1);
        let deadline = timer.deadline(Duration::from_secs(3600));
        send.send(deadline.handle()).unwrap();
        assert_eq!(deadline.await, Ok(()));
        assert_nothing_stays_armed(&timer).await;
        done.send(()).unwrap();
    });
    let handle = received.await.unwrap();
    assert!(handle.reset() && handle.expire(), "from another thread");
    is_done.await.expect("the task has not panicked");
    let own = Timer::current().metrics();
    assert_eq!(own.armed(), 0, "each thread has a timer of its own");
    arbiter.stop();
    arbiter.join().unwrap();
}

#[tokio::test]
async fn actix_arbiter() {
    // A system blocks on a runtime of its own. A thread that runs another one must not do that.
    let (done, is_done) = oneshot::channel();
    let system = thread::spawn(move || {
        System::new().block_on(actix_program());
        done.send(()).unwrap();
    });
    is_done.await.expect("the system has not panicked");
    system.join().unwrap();
}

/// The command of the guide, by GNU sed.
#[cfg(target_os = "linux")]
#[test]
fn one_command_moves_each_path_of_actix_to_these_timers() {
    use std::io::Write;
    use std::process::{Command, Stdio};

    const GUIDE: &str = include_str!("../../../docs/MIGRATION.md");
    let mut lines = GUIDE.lines();
    let command = lines.find(|line| line.starts_with("sed ") && line.contains("actix"));
    let script = command.unwrap().split('\'').nth(1).unwrap();
    let mut sed = Command::new("sed")
        .args(["-E", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let before = "use actix_web::rt::time;
use actix_web::rt::{self, System};
actix_rt::time::sleep(SHORT).await;
actix_web::rt::time::interval(SHORT);
let timeout = actix_rt::times();
";
    let after = "use tickwheel::time;
use actix_web::rt::{self, System};
tickwheel::time::sleep(SHORT).await;
tickwheel::time::interval(SHORT);
let timeout = actix_rt::times();
";
    let mut input = sed.stdin.take().unwrap();
    input.write_all(before.as_bytes()).unwrap();
    drop(input);
    let moved = sed.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8(moved).unwrap(), after);
}
