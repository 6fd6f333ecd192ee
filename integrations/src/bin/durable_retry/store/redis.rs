//! Jobs in a Redis server, which several processes share, on one machine or on many.
//!
//! Who runs a job holds a lease on it: the job is due again when that ends. Each step is a script,
//! which the server runs as a whole, by its own clock. So the processes' wall clocks do not matter.
//! If the server's clock is set forward, leases end early. Another process may then begin a run
//! beside one that goes on, whose next renewal and record are refused.
//!
//! What is here outlives the processes. Whether it outlives the server is up to the server: with
//! `appendonly yes` and `appendfsync always` it does.
//!
//! Invariant: a job stays in `jobs` for ever. Until it is finished it has a due. While it runs it
//! is in `held` too, with the number of its run.

use std::time::SystemTime;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, FromRedisValue, ToRedisArgs};
use tickwheel::{Duration, Instant, WallClock};

use super::{Claim, Counts, Recorded, Result, Store, from_millis, millis, wait_millis};
use crate::job::{Finished, Job, Next, Run};

/// The braces keep all keys on one node of a cluster.
const KEYS: [&str; 6] = [
    "{durable_retry}:jobs",
    "{durable_retry}:runs",
    "{durable_retry}:failures",
    "{durable_retry}:held",
    "{durable_retry}:dues",
    "{durable_retry}:ledger",
];

const HEAD: &str = r"
local jobs, runs, failures, held, dues, ledger = unpack(KEYS)
local id, number = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
";

/// The identifier, the due, the job as JSON.
const ADD: &str = r"
if redis.call('HSETNX', jobs, id, ARGV[3]) == 0 then return 0 end
return redis.call('ZADD', dues, ARGV[2], id)
";

/// The identifier, the length of the lease. Returns what it is (0 gone, 1 not yet, 2 granted), the
/// due or the number of the run, the failures and the job.
const CLAIM: &str = r"
local due = tonumber(redis.call('ZSCORE', dues, id))
if not due then return {0, 0, 0, ''} end
if due > now then return {1, due, 0, ''} end
local run = redis.call('HINCRBY', runs, id, 1)
redis.call('HSET', held, id, run)
redis.call('ZADD', dues, now + ARGV[2], id)
local failed = redis.call('HGET', failures, id)
return {2, run, tonumber(failed or 0), redis.call('HGET', jobs, id)}
";

/// The identifier, the number of the run, the length of the lease.
const RENEW: &str = r"
if redis.call('HGET', held, id) ~= number then return 0 end
redis.call('ZADD', dues, now + ARGV[3], id)
return 1
";

/// The identifier, the number of the run, a line for the ledger or an empty one, the wait, by how
/// much the failures grow. Returns what it is (0 refused, 1 finished, 2 due again), and the due.
const RECORD: &str = r"
if redis.call('HGET', held, id) ~= number then return {0, 0} end
redis.call('HDEL', held, id)
if ARGV[3] == '' then
    local due = time[1] * 1000 + math.ceil(time[2] / 1000) + ARGV[4]
    redis.call('HINCRBY', failures, id, ARGV[5])
    redis.call('ZADD', dues, due, id)
    return {2, due}
end
redis.call('HDEL', runs, id)
redis.call('HDEL', failures, id)
redis.call('ZREM', dues, id)
redis.call('RPUSH', ledger, ARGV[3])
return {1, 0}
";

const COUNTS: &str = r"
local running = redis.call('HLEN', held)
return {redis.call('ZCARD', dues) - running, running, redis.call('LLEN', ledger)}
";

pub(crate) struct RedisStore {
    connection: ConnectionManager,
    lease: Duration,
}

impl RedisStore {
    /// Connects. The connection is made again whenever it is lost.
    pub(crate) async fn open(client: Client, lease: Duration) -> Result<RedisStore> {
        // An answer that does not come leaves time to ask again before the lease ends.
        let patience = (lease / 4).clamp(Duration::from_millis(250), Duration::from_secs(5));
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(3)
            .set_connection_timeout(Some(Duration::from_secs(5)))
            .set_response_timeout(Some(patience));
        let address = client.get_connection_info().addr().clone();
        let connection = ConnectionManager::new_with_config(client, config).await;
        let connection = connection.map_err(|error| {
            format!("cannot reach Redis at {address}: {error}; is `redis-server` running there?")
        })?;
        Ok(RedisStore { connection, lease })
    }

    async fn call<T: FromRedisValue>(
        &self,
        script: &str,
        arguments: impl ToRedisArgs,
    ) -> Result<T> {
        let mut command = redis::cmd("EVAL");
        command
            .arg(format!("{HEAD}{script}"))
            .arg(KEYS.len())
            .arg(&KEYS)
            .arg(arguments);
        self.query(&command).await
    }

    async fn query<T: FromRedisValue>(&self, command: &redis::Cmd) -> Result<T> {
        Ok(command.query_async(&mut self.connection.clone()).await?)
    }
}

impl Store for RedisStore {
    /// The server's clock, beside this process's clock of the timers.
    async fn clock(&self) -> Result<WallClock> {
        let (seconds, micros): (u64, u64) = self.query(&redis::cmd("TIME")).await?;
        // The instant is read after the answer: so what is translated comes later, never earlier.
        let time = Duration::from_secs(seconds) + Duration::from_micros(micros);
        Ok(WallClock::at(Instant::now(), SystemTime::UNIX_EPOCH + time))
    }

    async fn add(&self, new: Vec<(Job, SystemTime)>) -> Result<usize> {
        let mut added = 0;
        for (job, due) in new {
            let line = serde_json::to_string(&job)?;
            let new: usize = self.call(ADD, (job.id, millis(due), line)).await?;
            added += new;
        }
        Ok(added)
    }

    async fn due_before(&self, end: SystemTime, limit: usize) -> Result<Vec<(String, SystemTime)>> {
        let mut range = redis::cmd("ZRANGEBYSCORE");
        range
            .arg(KEYS[4])
            .arg("-inf")
            .arg(format!("({}", millis(end)));
        range.arg("WITHSCORES").arg("LIMIT").arg(0).arg(limit);
        let near: Vec<(String, f64)> = self.query(&range).await?;
        let near = near
            .into_iter()
            .map(|(id, due)| (id, from_millis(due as u64)));
        Ok(near.collect())
    }

    async fn claim(&self, id: &str) -> Result<Claim> {
        let (what, number, failures, job): (u8, u64, usize, String) =
            self.call(CLAIM, (id, wait_millis(self.lease))).await?;
        Ok(match what {
            0 => Claim::Gone,
            1 => Claim::NotYet(from_millis(number)),
            _ => {
                let job = serde_json::from_str(&job)?;
                Claim::Granted(Run {
                    job,
                    number,
                    failures,
                })
            }
        })
    }

    fn lease(&self) -> Option<Duration> {
        Some(self.lease)
    }

    async fn renew(&self, run: &Run) -> Result<bool> {
        let lease = wait_millis(self.lease);
        self.call(RENEW, (&run.job.id, run.number, lease)).await
    }

    async fn record(&self, run: &Run, next: &Next) -> Result<Recorded> {
        let line = match next {
            Next::Finished(line) => serde_json::to_string(line)?,
            Next::Again(_) | Next::GivenBack => String::new(),
        };
        let (wait, failures) = next.wait();
        let arguments = (&run.job.id, run.number, line, wait_millis(wait), failures);
        let (what, due): (u8, u64) = self.call(RECORD, arguments).await?;
        Ok(match what {
            0 => Recorded::Refused,
            1 => Recorded::Finished,
            _ => Recorded::DueAt(from_millis(due)),
        })
    }

    async fn counts(&self) -> Result<Counts> {
        let (waiting, running, finished) = self.call(COUNTS, &[0; 0]).await?;
        Ok(Counts {
            waiting,
            running,
            finished,
        })
    }

    async fn ledger(&self) -> Result<Vec<Finished>> {
        let mut range = redis::cmd("LRANGE");
        range.arg(KEYS[5]).arg(0).arg(-1);
        let lines: Vec<String> = self.query(&range).await?;
        lines
            .iter()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    }
}
