//! What the admin may say: one command a line, checked. The replies are in `admin.rs`.

use std::str::FromStr;

use tickwheel::Duration;

use crate::duration;
use crate::site::ConnectionId;

/// Each command as it is written, and what it does.
const COMMANDS: [(&str, &str); 6] = [
    (
        "list",
        "one line for each connection: ID, milliseconds it has left, address of the client",
    ),
    ("kick ID", "close a connection"),
    (
        "extend ID DURATION",
        "from now on let it be silent for longer than the timeout, by 1500ms, 30s, 1m 30s",
    ),
    ("drain", "close all connections that are there now"),
    ("help", "show this"),
    ("quit", "end this session"),
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    List,
    Kick(ConnectionId),
    Extend(ConnectionId, Duration),
    Drain,
    Help,
    Quit,
}

impl FromStr for Command {
    /// What is wrong with the line, and what to do about it.
    type Err = String;

    fn from_str(line: &str) -> Result<Command, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["list"] => Ok(Command::List),
            ["kick", id] => Ok(Command::Kick(connection_id(id)?)),
            ["extend", id, ref longer @ ..] if !longer.is_empty() => {
                let longer = longer.join(" ");
                let duration = duration::parse(&longer)
                    .map_err(|problem| format!("bad duration {longer:?}: {problem}"))?;
                Ok(Command::Extend(connection_id(id)?, duration))
            }
            ["drain"] => Ok(Command::Drain),
            ["help"] => Ok(Command::Help),
            ["quit"] => Ok(Command::Quit),
            [] => Err("empty line; `help` shows the commands".to_string()),
            [name, ..] => Err(match usage(name) {
                Some(usage) => format!("bad arguments; write `{usage}`"),
                None => format!("unknown command {name:?}; `help` shows the commands"),
            }),
        }
    }
}

/// The commands with what they do, a line for each.
pub(crate) fn help() -> String {
    COMMANDS
        .iter()
        .map(|(usage, what)| format!("{usage:<20}{what}\n"))
        .collect()
}

fn connection_id(word: &str) -> Result<ConnectionId, String> {
    word.parse().map_err(|_| {
        format!("{word:?} is no connection's number; `list` shows those that are there")
    })
}

fn usage(name: &str) -> Option<&'static str> {
    COMMANDS
        .iter()
        .map(|(usage, _)| *usage)
        .find(|usage| usage.split_whitespace().next() == Some(name))
}
