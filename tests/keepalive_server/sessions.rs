//! Sessions of operators on the admin port: their lines, their limits, and which one gives way.

use tickwheel::Duration;

use crate::admin::{LONGEST_LINE, Limits};
use crate::common::HOUR;
use crate::{NO_SUCH_CONNECTION, Operator, Running};

#[tokio::test]
async fn a_bad_line_is_answered_with_what_to_do_and_ends_no_session() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let _client = running.client().await;
    for (line, reply) in [
        ("", "error empty line; `help` shows the commands"),
        (
            "LIST",
            "error unknown command \"LIST\"; `help` shows the commands",
        ),
        ("list all", "error bad arguments; write `list`"),
        ("kick", "error bad arguments; write `kick ID`"),
        ("kick 1 2", "error bad arguments; write `kick ID`"),
        (
            "kick one",
            "error \"one\" is no connection's number; `list` shows those that are there",
        ),
        ("kick 7", NO_SUCH_CONNECTION),
        (
            "extend 1",
            "error bad arguments; write `extend ID DURATION`",
        ),
        ("extend 7 30s", NO_SUCH_CONNECTION),
        (
            "extend 1 2d",
            "error bad duration \"2d\": it must be a day at most",
        ),
        ("extend 1 1m 30s", "ok"),
    ] {
        assert_eq!(operator.ask(line).await, reply, "{line:?}");
    }
    operator.send(b"\xff\xfe\r\n").await;
    assert!(operator.line().await.starts_with("error unknown command"));
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
    assert_eq!(
        commands,
        ["list", "kick", "extend", "drain", "help", "quit"]
    );
    assert_eq!(last, "ok");
    assert_eq!(operator.ask("quit").await, "ok");
    assert_eq!(operator.line().await, "");
}

#[tokio::test]
async fn a_line_too_long_ends_the_session_and_the_longest_does_not() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let longest = operator.ask(&"x".repeat(LONGEST_LINE)).await;
    assert!(longest.starts_with("error unknown command"), "{longest}");
    operator.send("x".repeat(100 * LONGEST_LINE)).await;
    assert_eq!(
        operator.line().await,
        "error the line is longer than 256 bytes"
    );
    assert_eq!(operator.line().await, "");
}

#[tokio::test]
async fn a_session_without_a_whole_line_for_too_long_is_ended() {
    let limits = Limits {
        idle: Duration::from_millis(50),
        ..Limits::default()
    };
    let running = Running::with_limits(HOUR, limits).await;
    let mut operator = running.operator().await;
    operator.send("drai").await;
    assert_eq!(operator.line().await, "error no line came for 50ms");
    assert_eq!(operator.line().await, "");
}

#[tokio::test]
async fn eight_silent_sessions_do_not_lock_an_operator_out() {
    let running = Running::new(HOUR).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(running.operator().await);
    }
    let mut ninth = running.operator().await;
    assert_eq!(ninth.ask("drain").await, "ok 0");
}

#[tokio::test]
async fn eight_sessions_that_take_no_reply_lock_no_operator_out() {
    let running = Running::new(HOUR).await;
    let mut deaf = Vec::new();
    for _ in 0..8 {
        let mut operator = running.operator().await;
        ask_until_nothing_is_taken(&mut operator).await;
        deaf.push(operator);
    }
    let mut ninth = running.operator().await;
    assert_eq!(ninth.ask("drain").await, "ok 0");
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

#[tokio::test]
async fn the_session_silent_for_longest_gives_way_and_is_told_so() {
    let limits = Limits {
        sessions: 2,
        ..Limits::default()
    };
    let running = Running::with_limits(HOUR, limits).await;
    let (mut busy, mut silent) = (running.operator().await, running.operator().await);
    assert_eq!(silent.ask("drain").await, "ok 0");
    assert_eq!(busy.ask("drain").await, "ok 0");
    let mut further = running.operator().await;
    assert_eq!(further.ask("drain").await, "ok 0");
    assert_eq!(
        silent.line().await,
        "error this session was silent for longest, and gives way to another"
    );
    assert_eq!(silent.line().await, "");
    assert_eq!(busy.ask("drain").await, "ok 0");
}
