//! The page `/metrics`, read with a parser of Prometheus's format.

use std::collections::{BTreeMap, BTreeSet};

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use prometheus_parse::{LineInfo, Sample, SampleType, Scrape, Value};
use tickwheel::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::HOUR;
use crate::load::Clients;
use crate::metrics::MetricsPage;
use crate::timer::TimerKind;
use crate::{Running, assert_closed, until, wait_for};

const OF_THE_SERVER: [(&str, SampleType); 8] = [
    ("keepalive_accept_errors", SampleType::Counter),
    ("keepalive_closed_by_client", SampleType::Counter),
    ("keepalive_closed_live", SampleType::Counter),
    ("keepalive_closed_silent", SampleType::Counter),
    ("keepalive_connection_errors", SampleType::Counter),
    ("keepalive_connections", SampleType::Counter),
    ("keepalive_connections_open", SampleType::Gauge),
    ("keepalive_heartbeats", SampleType::Counter),
];

const OF_THE_TIMER: [(&str, SampleType); 14] = [
    ("tickwheel_armed", SampleType::Counter),
    ("tickwheel_disarmed", SampleType::Counter),
    ("tickwheel_fired", SampleType::Counter),
    ("tickwheel_lateness_seconds", SampleType::Histogram),
    ("tickwheel_pending", SampleType::Gauge),
    ("tickwheel_put_off", SampleType::Counter),
    ("tickwheel_refused", SampleType::Counter),
    ("tickwheel_shards", SampleType::Gauge),
    ("tickwheel_spared", SampleType::Counter),
    ("tickwheel_stalled_seconds", SampleType::Counter),
    ("tickwheel_stalls", SampleType::Counter),
    ("tickwheel_wake_ups", SampleType::Counter),
    ("tickwheel_waker_panics", SampleType::Counter),
    ("tickwheel_worst_lateness_seconds", SampleType::Gauge),
];

#[tokio::test]
async fn the_page_has_every_metric_with_type_help_and_label() {
    let running = Running::new(HOUR).await;
    let page = MetricsPage::start(running.server.site(), 0).await.unwrap();
    let mut expected: Vec<_> = OF_THE_SERVER.into_iter().chain(OF_THE_TIMER).collect();
    expected.sort_by_key(|(name, _)| *name);
    let scraped = Scraped::from(&page).await;
    assert_eq!(scraped.families(), expected);
    for sample in &scraped.samples {
        let timer = sample.labels.get("timer");
        let expected = sample
            .metric
            .starts_with("tickwheel_")
            .then_some("keepalives");
        assert_eq!(timer, expected, "{}", sample.metric);
    }
}

#[tokio::test]
async fn each_number_of_the_server_is_that_of_its_counter() {
    let running = Running::new(HOUR).await;
    let page = MetricsPage::start(running.server.site(), 0).await.unwrap();
    let counters = &running.server.site().counters;
    let expected = [
        ("connections_open", &counters.open),
        ("connections_total", &counters.served),
        ("heartbeats_total", &counters.heartbeats),
        ("closed_silent_total", &counters.closed_by_deadline),
        ("closed_live_total", &counters.closed_early),
        ("closed_by_client_total", &counters.closed_by_client),
        ("accept_errors_total", &counters.accept_errors),
        ("connection_errors_total", &counters.connection_errors),
    ];
    for (number, (_, counter)) in expected.iter().enumerate() {
        counter.set(number + 1);
    }
    let scraped = Scraped::from(&page).await;
    for (name, counter) in expected {
        let told = scraped.number(&format!("keepalive_{name}"));
        assert_eq!(told, counter.get() as f64, "{name}");
    }
}

#[tokio::test]
async fn on_tokios_timer_the_page_has_the_servers_metrics_alone() {
    let running = Running::on(TimerKind::Tokio, HOUR).await;
    let page = MetricsPage::start(running.server.site(), 0).await.unwrap();
    let _client = running.client().await;
    let scraped = Scraped::from(&page).await;
    assert_eq!(scraped.families(), OF_THE_SERVER);
    assert_eq!(scraped.number("keepalive_connections_total"), 1.0);
}

#[tokio::test]
async fn counters_grow_and_the_timers_armed_come_to_their_ends() {
    let running = Running::new(Duration::from_millis(200)).await;
    let page = MetricsPage::start(running.server.site(), 0).await.unwrap();
    let mut before = Scraped::from(&page).await;
    before.assert_sound();
    for round in 1..=3 {
        let client = running.client().await; // it says nothing
        let after = Scraped::from(&page).await;
        after.assert_sound();
        after.assert_grown_from(&before);
        let armed = "tickwheel_armed_total";
        assert!(after.number(armed) > before.number(armed));
        assert_closed(client).await;
        let counters = &running.server.site().counters;
        until(async || counters.closed_by_deadline.get() == round).await;
        before = Scraped::from(&page).await;
        before.assert_sound();
        before.assert_grown_from(&after);
        let closed = before.number("keepalive_closed_silent_total");
        assert_eq!(closed, round as f64);
        assert!(before.number("tickwheel_fired_total") >= round as f64);
    }
    assert_eq!(before.number("keepalive_connections_total"), 3.0);
    assert_eq!(before.number("keepalive_closed_live_total"), 0.0);
    until(async || {
        Scraped::from(&page)
            .await
            .number("keepalive_connections_open")
            == 0.0
    })
    .await;
    running.finish(Clients::default()).await;
}

#[tokio::test]
async fn clients_that_never_ask_hold_up_no_scrape() {
    let running = Running::new(HOUR).await;
    let page = MetricsPage::start(running.server.site(), 0).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(page.address()).await.unwrap());
    }
    let scraped = Scraped::from(&page).await;
    assert!(scraped.number("tickwheel_pending") >= 1.0);
}

#[tokio::test]
async fn a_wrong_request_is_answered_with_what_to_do() {
    let running = Running::new(HOUR).await;
    let page = MetricsPage::start(running.server.site(), 0).await.unwrap();
    for (method, path, status, body) in [
        (
            "GET",
            "/",
            404,
            "no such page; the metrics are at /metrics\n",
        ),
        (
            "POST",
            "/metrics",
            405,
            "the metrics can only be read; use GET\n",
        ),
    ] {
        let response = ask(&page, method, path).await;
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(text_of(response).await, body);
    }
    let mut no_http = TcpStream::connect(page.address()).await.unwrap();
    no_http.write_all(b"list\r\n\r\n").await.unwrap();
    let mut reply = Vec::new();
    wait_for(no_http.read_to_end(&mut reply)).await.unwrap();
    assert!(reply.starts_with(b"HTTP/1.1 400"), "{reply:?}");
}

/// What one request for the page has brought.
struct Scraped {
    types: BTreeMap<String, SampleType>,
    samples: Vec<Sample>,
}

impl Scraped {
    async fn from(page: &MetricsPage) -> Scraped {
        let response = ask(page, "GET", "/metrics").await;
        assert_eq!(response.status().as_u16(), 200);
        let text = text_of(response).await;
        let lines = || text.lines();
        assert_eq!(lines().last(), Some("# EOF"));
        // The parser leaves out what it does not understand, and this does not.
        let mut types = BTreeMap::new();
        for line in lines().filter(|&line| line != "# EOF") {
            match LineInfo::parse(line) {
                LineInfo::Type {
                    metric_name,
                    metric_alias,
                    sample_type,
                } => {
                    let name = metric_alias.unwrap_or(metric_name);
                    let twice = types.insert(name, sample_type).is_some();
                    assert!(!twice, "a type that is told twice: {line}");
                }
                LineInfo::Doc { .. } | LineInfo::Sample { .. } => {}
                other => panic!("{line:?} is {other:?}"),
            }
        }
        let parsed = Scrape::parse(lines().map(|line| Ok(line.to_string()))).unwrap();
        let helped: BTreeSet<_> = parsed.docs.keys().collect();
        assert_eq!(helped, types.keys().collect());
        Scraped {
            types,
            samples: parsed.samples,
        }
    }

    /// The metrics that have a value, with their types.
    fn families(&self) -> Vec<(&str, SampleType)> {
        let types = self.types.iter();
        let types = types.map(|(name, kind)| (name.as_str(), *kind));
        types
            .inspect(|&(name, kind)| {
                let sample = match kind {
                    SampleType::Counter => format!("{name}_total"),
                    _ => name.to_string(),
                };
                assert!(self.find(&sample).is_some(), "no value of {sample}");
            })
            .collect()
    }

    fn find(&self, name: &str) -> Option<&Value> {
        let sample = self.samples.iter().find(|sample| sample.metric == name)?;
        Some(&sample.value)
    }

    fn number(&self, name: &str) -> f64 {
        match self.find(name) {
            Some(&(Value::Gauge(value) | Value::Counter(value) | Value::Untyped(value))) => value,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// How many timers were at most 1, 2, 4, .. 32,768 ms late, and how many fired.
    fn buckets(&self) -> Vec<f64> {
        let Some(Value::Histogram(buckets)) = self.find("tickwheel_lateness_seconds") else {
            panic!("there is no histogram of the lateness");
        };
        let ends = (0..16).map(|exponent| f64::from(1_u32 << exponent) / 1_000.0);
        let ends = ends.chain([f64::INFINITY]);
        assert!(buckets.iter().map(|bucket| bucket.less_than).eq(ends));
        buckets.iter().map(|bucket| bucket.count).collect()
    }

    /// What is true at any moment.
    fn assert_sound(&self) {
        let timer = |name: &str| self.number(&format!("tickwheel_{name}"));
        let ends = timer("pending") + timer("fired_total") + timer("disarmed_total");
        assert_eq!(timer("armed_total"), ends);
        let buckets = self.buckets();
        assert!(buckets.is_sorted(), "{buckets:?}");
        assert_eq!(buckets.last(), Some(&timer("fired_total")));
        assert_eq!(timer("lateness_seconds_count"), timer("fired_total"));
    }

    fn assert_grown_from(&self, before: &Scraped) {
        let counters = self
            .types
            .iter()
            .filter(|(_, kind)| **kind == SampleType::Counter);
        for (name, _) in counters {
            let name = format!("{name}_total");
            assert!(self.number(&name) >= before.number(&name), "{name}");
        }
        let buckets = self.buckets().into_iter().zip(before.buckets());
        for (after, before) in buckets {
            assert!(after >= before, "a bucket of the lateness");
        }
    }
}

async fn ask(page: &MetricsPage, method: &str, path: &str) -> Response<Incoming> {
    let stream = TcpStream::connect(page.address()).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path);
    let request = request.header(HOST, page.address().to_string());
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    wait_for(sender.send_request(request)).await.unwrap()
}

async fn text_of(response: Response<Incoming>) -> String {
    let body = wait_for(response.into_body().collect()).await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}
