//! Sessions of operators on the admin port: their lines, their limits, and which one gives way.

use tickwheel::Duration;

use super::{HOUR, Operator, Running};
use crate::admin::SESSIONS;

#[tokio::test]
async fn a_bad_line_is_answered_with_what_to_do_and_ends_no_session() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let _client = running.client().await;
    for (line, reply) in [
        ("", "error \"\" is no command; `help` shows them"),
        ("LIST", "error \"LIST\" is no command; `help` shows them"),
        ("kick", "error \"kick\" is no command; `help` shows them"),
        (
            "kick one",
            "error \"one\" is no client's address; `list` shows those that are there",
        ),
        (
            "extend 127.0.0.1:1 30s",
            "error no such connection; `list` shows those that are there",
        ),
        (
            "extend 127.0.0.1:1 2d",
            "error a duration must lie between 1ms and a day",
        ),
    ] {
        assert_eq!(operator.ask(line).await, reply, "{line:?}");
    }
    operator.send(b"\xff\xfe\r\n").await;
    assert!(operator.line().await.ends_with("`help` shows them"));
    assert_eq!(operator.list().await.len(), 1);
}

#[tokio::test]
async fn help_shows_every_command_and_quit_ends_the_session() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let (lines, last) = operator.ask_for_all("help").await;
    let commands: Vec<_> = lines
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let all = ["list", "kick", "extend", "drain", "help", "quit"];
    assert_eq!(commands, all);
    assert_eq!(last, "ok");
    assert_eq!(operator.ask("quit").await, "ok");
    assert_eq!(operator.line().await, "");
}

#[tokio::test]
async fn a_line_too_long_ends_the_session_and_the_longest_does_not() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let longest = operator.ask(&"x".repeat(255)).await;
    assert!(longest.ends_with("`help` shows them"), "{longest}");
    operator.send("x".repeat(256)).await;
    assert_eq!(operator.line().await, "");
}

#[tokio::test]
async fn sessions_that_say_nothing_or_take_no_reply_lock_no_operator_out() {
    let running = Running::new(HOUR).await;
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let mut operator = running.operator().await;
        if number % 2 == 0 {
            ask_until_nothing_is_taken(&mut operator).await;
        }
        sessions.push(operator);
    }
    let mut further = running.operator().await;
    assert_eq!(further.ask("drain").await, "ok 0");
    // The oldest has given way, and the youngest has not.
    let mut youngest = sessions.pop().unwrap();
    assert_eq!(youngest.ask("drain").await, "ok 0");
}

/// Asks again and again without taking a reply, until the server takes no more either.
async fn ask_until_nothing_is_taken(operator: &mut Operator) {
    let lines = "help\n".repeat(1000);
    let a_while = Duration::from_millis(200);
    while tokio::time::timeout(a_while, operator.send(&lines))
        .await
        .is_ok()
    {}
}
