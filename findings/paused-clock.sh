#!/usr/bin/env bash
# Library: 27 of them, at the versions below
# Guess: a library that runs on tokio follows its paused clock, and any other waits in real time.
# Seen: the table at the end. Some times of pools, of lapin and of backoff go by the system's clock. A
#   client whose healthy server is outside the runtime times out at once. The last rows are of what
#   helps. For sqlx it is no help to connect first: a pool times out at its own ping.
# Date: 2026-11-28
#
# The table of docs/TESTING.md is written from this one. Some 400 crates are built, which takes
# minutes. With an argument only the rows of that library run, and nothing is compared.
. "$(dirname "$0")/common.sh"
mkdir src
cp "$findings"/paused-clock/*.rs src/
rust_program <<'END'
actix-rt = "=2.15.0"
async-io = "=2.6.0"
async-nats = { version = "=0.51.0", default-features = false, features = ["ring"] }
backoff = { version = "=0.4.0", features = ["tokio"] }
backon = "=1.6.0"
bb8 = "=0.9.1"
bytes = "1"
deadpool = { version = "=0.13.1", features = ["managed", "rt_tokio_1"] }
embassy-time = { version = "=0.5.1", features = ["std", "generic-queue-8"] }
futures-timer = "=3.0.4"
governor = "=0.10.4"
hickory-resolver = { version = "=0.26.3", features = ["tokio"] }
http = "1"
http-body-util = "0.1"
hyper = { version = "1", features = ["http2", "server"] }
hyper-util = { version = "=0.1.21", features = ["tokio", "server"] }
lapin = { version = "=4.12.3", default-features = false, features = ["tokio"] }
leaky-bucket = "=1.1.2"
moka = { version = "=0.12.16", features = ["future"] }
pingora-timeout = "=0.9.1"
quinn = { version = "=0.11.12", default-features = false, features = ["runtime-tokio", "rustls-ring"] }
rcgen = "0.14"
redis = { version = "=1.8.1", features = ["tokio-comp"] }
reqwest = { version = "=0.13.5", default-features = false }
rumqttc = { version = "=0.25.1", default-features = false }
rustls = { version = "0.23", default-features = false, features = ["ring", "std"] }
sqlx = { version = "=0.9.0", default-features = false, features = ["runtime-tokio", "sqlite-bundled"] }
tokio = { version = "=1.54.1", features = ["full", "test-util"] }
tokio-cron-scheduler = "=0.15.1"
tokio-retry = "=0.3.2"
tonic = { version = "=0.14.9", default-features = false, features = ["channel"] }
tower = { version = "=0.5.3", features = ["limit", "util"] }
tryhard = "=0.5.2"
turmoil = "=0.7.2"
END
if [[ $# -gt 0 ]]; then
    "$program" "$1" 2>/dev/null
    exit
fi
expect "$("$program" 2>/dev/null)" <<'END'
backon | the pause before a retry | follows
backoff | the pause before a retry | follows
backoff | max_elapsed_time | never comes
tokio-retry | the pause before a retry | follows
tryhard | the pause before a retry | follows
leaky-bucket | a permit | follows
tower | a permit of RateLimit | follows
hyper-util | a sleep of TokioTimer | follows
actix-rt | a sleep in the System's runtime | follows
actix-rt | a sleep in an Arbiter | real time; in a timeout Elapsed at once
governor | a permit | real time; in a timeout Elapsed at once
futures-timer | a Delay | real time; in a timeout Elapsed at once
async-io | a Timer | real time; in a timeout Elapsed at once
embassy-time | a Timer | real time; in a timeout Elapsed at once
pingora-timeout | a timeout of up to 15 minutes | real time; in a timeout Elapsed at once
pingora-timeout | a timeout of an hour | follows
turmoil | a sleep in a host | follows the simulation's own clock
a thread | a oneshot in a timeout | real time; in a timeout Elapsed at once
spawn_blocking | a task in a timeout | real time; in a timeout ready
deadpool | get from a full pool | follows
bb8 | get from a full pool | follows
bb8 | idle time | never comes
bb8 | lifetime | never comes
sqlx | connect to SQLite, with a query | times out at once
sqlx | get from a full pool | follows
sqlx | a query in a timeout | times out at once
moka | time to live | never expires
reqwest | timeout of a request | times out at once
redis | connection timeout | times out at once
redis | response timeout | times out at once
rumqttc | connection timeout | times out at once
quinn | idle timeout, in the handshake | times out at once
async-nats | connection timeout | times out at once
async-nats | timeout of a request | times out at once
hickory-resolver | timeout of a lookup | times out at once
tonic | timeout of a call | times out at once
tokio-cron-scheduler | a job each second | 0 or 1 runs in a virtual minute
lapin | connect in a timeout | times out at once
lapin | heartbeats, and those of a silent server | none in a virtual minute; silence is not noticed
backoff | a timeout around the tries | follows
backoff | a number of tries | follows
bb8 | has_broken of the manager closes | closed
sqlx | queries through a pool that was connected before | times out
sqlx | the same on a running clock | answers
sqlx | queries on a connection that is held | answers
moka | invalidate | is gone
reqwest | on a running clock | answers
redis | connection, on a running clock | connects
redis | response, on a running clock | answers
rumqttc | on a running clock | connects
async-nats | connection, on a running clock | connects
async-nats | a request, on a running clock | answers
quinn | both endpoints in one runtime | connects
hickory-resolver | a server in the same runtime | answers
tonic | a server in the same runtime, on a duplex | answers
lapin | heartbeats, on a running clock | are sent; silence is noticed
governor | check with a FakeRelativeClock | a permit when it is advanced
pingora-timeout | a threshold of zero, a second | follows
END
