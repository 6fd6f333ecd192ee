//! Pools and a cache.

use std::convert::Infallible;

use crate::own::case;
use crate::{HOUR, MINUTE, Row, SECOND, at_once, before_the_pause, follows};

pub const ROWS: &[Row] = &[
    ("deadpool", "get from a full pool", || case(deadpool())),
    ("bb8", "get from a full pool", || case(bb8_full())),
    ("bb8", "idle time", || {
        case(bb8_idle(Some(10 * SECOND), None))
    }),
    ("bb8", "lifetime", || {
        case(bb8_idle(None, Some(10 * SECOND)))
    }),
    ("sqlx", "connect to SQLite, with a query", || {
        case(sqlx_connect())
    }),
    ("sqlx", "get from a full pool", || case(sqlx_full())),
    ("sqlx", "a query in a timeout", || case(sqlx_query())),
    ("moka", "time to live", || case(moka())),
];

/// Of a manager whose connections are closed when they come back, if it says so.
pub struct Connections {
    pub are_broken: bool,
}

impl deadpool::managed::Manager for Connections {
    type Type = ();
    type Error = Infallible;

    async fn create(&self) -> Result<(), Infallible> {
        Ok(())
    }

    async fn recycle(
        &self,
        _: &mut (),
        _: &deadpool::managed::Metrics,
    ) -> deadpool::managed::RecycleResult<Infallible> {
        Ok(())
    }
}

impl bb8::ManageConnection for Connections {
    type Connection = ();
    type Error = Infallible;

    async fn connect(&self) -> Result<(), Infallible> {
        Ok(())
    }

    async fn is_valid(&self, _: &mut ()) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut ()) -> bool {
        self.are_broken
    }
}

const HEALTHY: Connections = Connections { are_broken: false };

async fn deadpool() -> String {
    let pool = deadpool::managed::Pool::<Connections>::builder(HEALTHY)
        .max_size(1)
        .wait_timeout(Some(MINUTE))
        .runtime(deadpool::Runtime::Tokio1)
        .build()
        .unwrap();
    let _held = pool.get().await.unwrap();
    follows(MINUTE, async {
        let error = pool.get().await.err().unwrap();
        assert!(matches!(error, deadpool::managed::PoolError::Timeout(_)));
    })
    .await
}

async fn bb8_full() -> String {
    let pool = bb8::Pool::builder().max_size(1).connection_timeout(MINUTE);
    let pool = pool.build(HEALTHY).await.unwrap();
    let _held = pool.get().await.unwrap();
    follows(MINUTE, async {
        assert!(matches!(pool.get().await, Err(bb8::RunError::TimedOut)));
    })
    .await
}

async fn bb8_idle(
    idle: Option<std::time::Duration>,
    lifetime: Option<std::time::Duration>,
) -> String {
    let pool = bb8::Pool::builder()
        .max_size(1)
        .idle_timeout(idle)
        .max_lifetime(lifetime)
        .reaper_rate(SECOND);
    let pool = pool.build(HEALTHY).await.unwrap();
    drop(pool.get().await.unwrap());
    tokio::time::sleep(HOUR).await;
    match pool.state().connections {
        0 => "follows".to_owned(),
        _ => "never comes".to_owned(),
    }
}

/// SQLite works on a thread of its own. Here a query takes some tenths of a second, because a
/// shorter one may be answered before the clock jumps.
pub const QUERY: &str = "WITH RECURSIVE n(i) AS \
                     (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000) \
                     SELECT count(*) FROM n";

pub fn sqlite() -> sqlx::sqlite::SqlitePoolOptions {
    sqlx::sqlite::SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(MINUTE)
}

async fn sqlx_connect() -> String {
    let options = sqlite().after_connect(|connection, _| {
        Box::pin(async move { sqlx::query(QUERY).execute(connection).await.map(drop) })
    });
    at_once(MINUTE, async {
        match options.connect("sqlite::memory:").await {
            Err(sqlx::Error::PoolTimedOut) => Ok(()),
            other => Err(format!("{:?}", other.err())),
        }
    })
    .await
}

/// A pool and its only connection. The clock runs meanwhile.
pub async fn sqlx_pool() -> (sqlx::SqlitePool, sqlx::pool::PoolConnection<sqlx::Sqlite>) {
    before_the_pause(async {
        let pool = sqlite().connect("sqlite::memory:").await.unwrap();
        let held = pool.acquire().await.unwrap();
        (pool, held)
    })
    .await
}

async fn sqlx_full() -> String {
    let (pool, _held) = sqlx_pool().await;
    follows(MINUTE, async {
        let error = pool.acquire().await.err();
        assert!(matches!(error, Some(sqlx::Error::PoolTimedOut)));
    })
    .await
}

async fn sqlx_query() -> String {
    let (_pool, mut connection) = sqlx_pool().await;
    at_once(MINUTE, async {
        let query = sqlx::query(QUERY).fetch_one(&mut *connection);
        match tokio::time::timeout(HOUR, query).await {
            Err(_) => Ok(()),
            Ok(_) => Err("answers".to_owned()),
        }
    })
    .await
}

async fn moka() -> String {
    let cache = moka::future::Cache::builder()
        .time_to_live(10 * SECOND)
        .build();
    cache.insert("key", "value").await;
    tokio::time::sleep(HOUR).await;
    cache.run_pending_tasks().await;
    match cache.get("key").await {
        None => "follows".to_owned(),
        Some(_) => "never expires".to_owned(),
    }
}
