//! The metrics port: a page for Prometheus, with what the timer and the server have done.
//!
//! ```text
//! $ curl http://127.0.0.1:40123/metrics
//! # HELP tickwheel_pending Timers that are armed now
//! # TYPE tickwheel_pending gauge
//! tickwheel_pending{timer="keepalives"} 5000.0
//! ```
//!
//! A [`Collector`] reads everything when the page is asked for. So no task runs meanwhile, and the
//! server counts nothing for the page alone. Tokio's timer tells nothing of itself. On it the page
//! has the server's own metrics only.
//!
//! Invariant: whoever asks, however slow or careless, costs a bounded number of tasks, each for a
//! bounded time. A further one always gets in.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::ready;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::{fmt, io, mem};

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, MetricType::Counter, MetricType::Gauge};
use prometheus_client::registry::Registry;
use tickwheel::{Duration, Metrics};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::server::{PAUSE_AFTER_ACCEPT_ERROR, Site};
use crate::timer::AnyTimer;

/// As many may ask at once. For a further one the oldest is sent away.
const SCRAPES_AT_ONCE: usize = 8;

/// Whoever has not asked and taken the page within this time is sent away.
const SCRAPE_WITHIN: Duration = Duration::from_secs(10);

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page, open until it is dropped.
pub(crate) struct MetricsPage {
    address: SocketAddr,
    /// Only held: dropping it ends the task.
    _serving: JoinSet<Infallible>,
}

impl MetricsPage {
    /// Listens on a loopback port; 0 is any that is free.
    pub(crate) async fn start(site: &Arc<Site>, port: u16) -> io::Result<MetricsPage> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.map_err(|error| {
            io::Error::new(error.kind(), format!("the metrics port {port}: {error}"))
        })?;
        let address = listener.local_addr()?;
        let mut registry = Registry::default();
        registry.register_collector(Box::new(OfSite(site.clone())));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::new(registry), site.clone()));
        Ok(MetricsPage {
            address,
            _serving: serving,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: TcpListener, registry: Arc<Registry>, site: Arc<Site>) -> Infallible {
    let mut scrapes = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while scrapes.try_join_next().is_some() {}
                oldest_first.retain(|scrape| !scrape.is_finished());
                if oldest_first.len() >= SCRAPES_AT_ONCE {
                    oldest_first.pop_front().inspect(AbortHandle::abort);
                }
                let scrape = scrape(stream, registry.clone(), site.timer.clone());
                oldest_first.push_back(scrapes.spawn(scrape));
            }
            Err(_) => {
                site.counters.accept_errors.add(1);
                site.timer.sleep(PAUSE_AFTER_ACCEPT_ERROR).await;
            }
        }
    }
}

async fn scrape(stream: TcpStream, registry: Arc<Registry>, timer: AnyTimer) {
    let answer = service_fn(|request| ready(answer(&request, &registry)));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .header_read_timeout(None) // the timeout below bounds it, by the timer that was chosen
        .serve_connection(TokioIo::new(stream), answer);
    // It fails if the client has gone, was too slow or speaks no HTTP. Nobody is there to be told.
    let _ = timer.timeout(SCRAPE_WITHIN, connection).await;
}

fn answer(
    request: &Request<Incoming>,
    registry: &Registry,
) -> Result<Response<String>, hyper::http::Error> {
    let response = Response::builder();
    if request.uri().path() != "/metrics" {
        let hint = "no such page; the metrics are at /metrics\n".to_string();
        return response.status(StatusCode::NOT_FOUND).body(hint);
    }
    if request.method() != Method::GET {
        let hint = "the metrics can only be read; use GET\n".to_string();
        let response = response.status(StatusCode::METHOD_NOT_ALLOWED);
        return response.header(ALLOW, "GET").body(hint);
    }
    let mut page = String::new();
    match text::encode(&mut page, registry) {
        Ok(()) => response.header(CONTENT_TYPE, OPENMETRICS).body(page),
        Err(_) => response
            .status(StatusCode::INTERNAL_SERVER_ERROR)
            .body("the metrics could not be written as text\n".to_string()),
    }
}

// What the page tells. `docs/OPERATIONS.md` has a recipe for several timers, with the same names.

/// A metric: its type, its name, what it tells, and where its value comes from.
type Row<Source> = (MetricType, &'static str, &'static str, fn(&Source) -> f64);

#[rustfmt::skip] // a row for each
const OF_THE_TIMER: [Row<Metrics>; 13] = [
    (Gauge, "pending", "Timers that are armed now", |m| m.pending as f64),
    (Gauge, "worst_lateness_seconds", "The driver's worst lateness in 10 s", |m| m.lateness.as_secs_f64()),
    (Counter, "armed", "Timers that were ever armed", |m| m.armed as f64),
    (Counter, "fired", "Timers that the driver has fired", |m| m.fired as f64),
    (Counter, "disarmed", "Timers that were taken out before they fired", |m| m.disarmed as f64),
    (Counter, "put_off", "Deadlines that were put off when their time came", |m| m.put_off as f64),
    (Counter, "wake_ups", "Wake-ups of the driver", |m| m.wake_ups as f64),
    (Counter, "stalls", "Stalls of the driver", |m| m.stalls as f64),
    (Counter, "stalled_seconds", "How long all stalls took", |m| m.stalled.as_secs_f64()),
    (Counter, "spared", "Deadlines that a stall has spared", |m| m.spared as f64),
    (Counter, "waker_panics", "Wakers that panicked", |m| m.waker_panics as f64),
    (Counter, "refused", "Inserts that a map refused", |m| m.refused as f64),
    (Gauge, "shards", "The timer's shards", |m| m.shards as f64),
];

#[rustfmt::skip] // a row for each
const OF_THE_SERVER: [Row<Site>; 8] = [
    (Gauge, "connections_open", "Connections that are open", |s| s.counters.open.get() as f64),
    (Counter, "connections", "Connections that were accepted", |s| s.counters.served.get() as f64),
    (Counter, "heartbeats", "Heartbeats that were read", |s| s.counters.heartbeats.get() as f64),
    (Counter, "closed_silent", "Connections that were closed when their deadline expired", |s| s.counters.closed_by_deadline.get() as f64),
    (Counter, "closed_live", "Connections that were closed before their timeout was over", |s| s.counters.closed_early.get() as f64),
    (Counter, "closed_by_client", "Connections that their client closed", |s| s.counters.closed_by_client.get() as f64),
    (Counter, "accept_errors", "Connections that could not be accepted", |s| s.counters.accept_errors.get() as f64),
    (Counter, "connection_errors", "Connections whose socket failed", |s| s.counters.connection_errors.get() as f64),
];

struct OfSite(Arc<Site>);

impl Collector for OfSite {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let site = &self.0;
        for (kind, name, help, read) in OF_THE_SERVER {
            let name = format!("keepalive_{name}");
            let metric = encoder.encode_descriptor(&name, help, None, kind)?;
            encode_number(metric, kind, read(site))?;
        }
        let AnyTimer::Tickwheel(timer) = &site.timer else {
            return Ok(());
        };
        let metrics = timer.metrics();
        let labels = [("timer", timer.name().unwrap_or("default"))];
        for (kind, name, help, read) in OF_THE_TIMER {
            let name = format!("tickwheel_{name}");
            let mut family = encoder.encode_descriptor(&name, help, None, kind)?;
            encode_number(family.encode_family(&labels)?, kind, read(&metrics))?;
        }
        let (name, help) = ("tickwheel_lateness_seconds", "How late timers fired");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        encode_lateness(family.encode_family(&labels)?, &metrics)
    }
}

fn encode_number(metric: MetricEncoder<'_>, kind: MetricType, value: f64) -> fmt::Result {
    match kind {
        Counter => ConstCounter::new(value).encode(metric),
        _ => ConstGauge::new(value).encode(metric),
    }
}

fn encode_lateness(mut encoder: MetricEncoder<'_>, metrics: &Metrics) -> fmt::Result {
    // Each bucket of the metrics holds those before, and the encoder adds them up itself.
    let bounds = (0..).map(|exponent| f64::from(1_u32 << exponent) / 1_000.0);
    let ends = bounds.zip(metrics.fired_within);
    let mut before = 0;
    let buckets: Vec<_> = ends
        .chain([(f64::INFINITY, metrics.fired)])
        .map(|(bound, fired)| (bound, fired - mem::replace(&mut before, fired)))
        .collect();
    let total = metrics.fired_late.as_secs_f64();
    encoder.encode_histogram::<NoLabelSet>(total, metrics.fired, &buckets, None)
}

impl fmt::Debug for OfSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfSite").finish_non_exhaustive()
    }
}
