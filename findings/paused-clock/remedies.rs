//! What helps where a wait does not follow the clock: the last column of the table in TESTING.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::timeout;

use crate::own::case;
use crate::pools::{Connections, QUERY, sqlite, sqlx_pool};
use crate::{HOUR, MINUTE, Row, SECOND, before_the_pause, follows, peers, running};
use crate::{amqp, clients, own};

pub const ROWS: &[Row] = &[
    ("backoff", "a timeout around the tries", || {
        case(follows(10 * MINUTE, async {
            timeout(10 * MINUTE, own::backoff(100)).await.unwrap_err();
        }))
    }),
    ("backoff", "a number of tries", || {
        case(follows(2 * MINUTE, own::backoff(2)))
    }),
    ("bb8", "has_broken of the manager closes", || {
        case(bb8_closes())
    }),
    (
        "sqlx",
        "queries through a pool that was connected before",
        || case(sqlx_pooled()),
    ),
    ("sqlx", "the same on a running clock", || {
        running(case(sqlx_pooled()))
    }),
    ("sqlx", "queries on a connection that is held", || {
        case(sqlx_held())
    }),
    ("moka", "invalidate", || case(moka_invalidates())),
    ("reqwest", "on a running clock", || {
        running(case(clients::reqwest()))
    }),
    ("redis", "connection, on a running clock", || {
        running(case(clients::redis_connect()))
    }),
    ("redis", "response, on a running clock", || {
        running(case(clients::redis_response()))
    }),
    ("rumqttc", "on a running clock", || {
        running(case(clients::rumqttc()))
    }),
    ("async-nats", "connection, on a running clock", || {
        running(case(clients::nats_connect()))
    }),
    ("async-nats", "a request, on a running clock", || {
        running(case(clients::nats_request()))
    }),
    ("quinn", "both endpoints in one runtime", || {
        case(clients::quinn(peers::within))
    }),
    ("hickory-resolver", "a server in the same runtime", || {
        case(async { clients::hickory(peers::dns_within()).await })
    }),
    ("tonic", "a server in the same runtime, on a duplex", || {
        case(tonic_on_a_duplex())
    }),
    ("lapin", "heartbeats, on a running clock", || {
        running(case(amqp::heartbeats_in_real_time()))
    }),
    ("governor", "check with a FakeRelativeClock", || {
        case(governor_by_hand())
    }),
    ("pingora-timeout", "a threshold of zero, a second", || {
        case(pingora(SECOND))
    }),
];

/// A connection that comes back broken is closed.
async fn bb8_closes() -> String {
    let pool = bb8::Pool::builder().max_size(1);
    let pool = pool.build(Connections { are_broken: true }).await.unwrap();
    drop(pool.get().await.unwrap());
    match pool.state().connections {
        0 => "closed".to_owned(),
        still => format!("{still} there"),
    }
}

/// No timeout is around these queries. But the pool has one for a connection, which it tests by a
/// ping when it hands it out, and once more when it comes back.
async fn sqlx_pooled() -> String {
    let pool = before_the_pause(sqlite().connect("sqlite::memory:")).await;
    let pool = pool.unwrap();
    for _ in 0..20 {
        if let Err(error) = sqlx::query(QUERY).fetch_one(&pool).await {
            return match error {
                sqlx::Error::PoolTimedOut => "times out".to_owned(),
                other => other.to_string(),
            };
        }
    }
    "answers".to_owned()
}

async fn sqlx_held() -> String {
    let (_pool, mut connection) = sqlx_pool().await;
    for _ in 0..20 {
        let answer = sqlx::query(QUERY).fetch_one(&mut *connection).await;
        if let Err(error) = answer {
            return error.to_string();
        }
    }
    "answers".to_owned()
}

async fn moka_invalidates() -> String {
    let cache = moka::future::Cache::builder()
        .time_to_live(10 * SECOND)
        .build();
    cache.insert("key", "value").await;
    cache.invalidate("key").await;
    match cache.get("key").await {
        None => "is gone".to_owned(),
        Some(_) => "is there".to_owned(),
    }
}

async fn tonic_on_a_duplex() -> String {
    let (ours, theirs) = tokio::io::duplex(65_536);
    tokio::spawn(peers::answer_calls(theirs));
    let mut ours = Some(hyper_util::rt::TokioIo::new(ours));
    let connector = tower::service_fn(move |_| {
        let socket = ours
            .take()
            .ok_or_else(|| std::io::Error::other("one connection only"));
        std::future::ready(socket)
    });
    let endpoint = tonic::transport::Endpoint::from_static("http://server/").timeout(MINUTE);
    clients::call(endpoint.connect_with_connector_lazy(connector)).await
}

async fn governor_by_hand() -> String {
    let clock = governor::clock::FakeRelativeClock::default();
    let quota = governor::Quota::with_period(HOUR)
        .unwrap()
        .allow_burst(NonZeroU32::MIN);
    let limiter = governor::RateLimiter::direct_with_clock(quota, clock.clone());
    let first = limiter.check().is_ok();
    let second = limiter.check().is_ok();
    clock.advance(HOUR);
    match (first, second, limiter.check().is_ok()) {
        (true, false, true) => "a permit when it is advanced".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The threshold is that of the process. So this row is the last.
async fn pingora(length: Duration) -> String {
    pingora_timeout::fast_timeout::set_fast_timeout_to_tokio_threshold(Some(Duration::ZERO));
    follows(
        length,
        pingora_timeout::timeout(length, std::future::pending::<()>()),
    )
    .await
}
