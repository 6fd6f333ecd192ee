//! The recipes, as they stand on the page: what they have exported is read out.

use std::collections::BTreeMap;

use ::metrics::with_local_recorder;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tickwheel::{Deadline, Duration, Timer};
use tokio::time::advance;

pub(crate) mod prometheus {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/prometheus.rs"));
}

mod metrics {
    #![allow(dead_code, reason = "the task is for users")]
    include!(concat!(env!("OUT_DIR"), "/metrics.rs"));
}

mod otel {
    include!(concat!(env!("OUT_DIR"), "/opentelemetry.rs"));
}

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A timer on which one deadline is pending, one was dropped, and two were fired 5 ms late.
async fn used_timer(name: &str) -> (Timer, Deadline) {
    let timer = Timer::builder().name(name).build().unwrap();
    let fired = [timer.deadline(10 * MS), timer.deadline(10 * MS)];
    drop(timer.deadline(HOUR));
    advance(15 * MS).await;
    assert_eq!(timer.metrics().fired(), 2);
    drop(fired);
    let pending = timer.deadline(HOUR);
    (timer, pending)
}

pub(crate) fn exported_to_prometheus(timers: Vec<Timer>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(prometheus::Timers(timers)));
    let mut page = String::new();
    text::encode(&mut page, &registry).unwrap();
    page
}

#[tokio::test(start_paused = true)]
async fn prometheus_client_exports_every_timer() {
    let (first, _pending) = used_timer("first").await;
    let second = Timer::builder().name("second").build().unwrap();
    let page = exported_to_prometheus(vec![first, second, Timer::current()]);
    for line in [
        "tickwheel_armed_total{timer=\"first\"} 4.0",
        "tickwheel_fired_total{timer=\"first\"} 2.0",
        "tickwheel_disarmed_total{timer=\"first\"} 1.0",
        "tickwheel_pending{timer=\"first\"} 1.0",
        "tickwheel_pending{timer=\"default\"} 0.0",
        "# TYPE tickwheel_lateness_seconds histogram",
        "tickwheel_lateness_seconds_sum{timer=\"first\"} 0.01",
        "tickwheel_lateness_seconds_bucket{le=\"0.004\",timer=\"first\"} 0",
        "tickwheel_lateness_seconds_bucket{le=\"0.008\",timer=\"first\"} 2",
        "tickwheel_lateness_seconds_bucket{le=\"+Inf\",timer=\"first\"} 2",
        "tickwheel_lateness_seconds_count{timer=\"second\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n\n{page}");
    }
    let types = page.lines().filter(|line| line.starts_with("# TYPE"));
    assert_eq!(types.count(), 12, "each type is told once:\n{page}");
}

#[tokio::test(start_paused = true)]
async fn metrics_exports_what_the_timer_tells() {
    let (timer, _pending) = used_timer("first").await;
    let recorder = DebuggingRecorder::new();
    with_local_recorder(&recorder, || metrics::export(&timer));
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    let exported = snapshot.into_iter().map(|(key, _, _, value)| {
        let mut name = key.key().name().to_owned();
        for label in key.key().labels() {
            match (label.key(), label.value()) {
                ("timer", timer) => assert_eq!(timer, "first"),
                (other, value) => name += &format!(" {other}={value}"),
            }
        }
        (name, value)
    });
    let exported: BTreeMap<_, _> = exported.collect();
    let (counter, gauge) = (DebugValue::Counter, |value: f64| {
        DebugValue::Gauge(value.into())
    });
    for (name, value) in [
        ("armed_total", counter(4)),
        ("fired_total", counter(2)),
        ("pending", gauge(1.0)),
        ("lateness_seconds_sum", gauge(0.01)),
        ("lateness_seconds_count", counter(2)),
        ("lateness_seconds_bucket le=0.004", counter(0)),
        ("lateness_seconds_bucket le=0.008", counter(2)),
        ("lateness_seconds_bucket le=+Inf", counter(2)),
    ] {
        assert_eq!(exported[&format!("tickwheel_{name}")], value, "{name}");
    }
    assert_eq!(exported.len(), 13 + 17);
}

#[tokio::test(start_paused = true)]
async fn opentelemetry_exports_what_the_timer_tells() {
    let (timer, _pending) = used_timer("first").await;
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let meter = provider.meter("tickwheel");
    otel::observe(&meter, &timer);
    provider.force_flush().unwrap();

    let batches = exporter.get_finished_metrics().unwrap();
    let metrics = batches.iter().flat_map(|batch| batch.scope_metrics());
    let metrics = metrics.flat_map(|scope| scope.metrics());
    let exported: BTreeMap<&str, f64> = metrics
        .map(|metric| (metric.name(), number(metric.data())))
        .collect();
    assert_eq!(exported.len(), 13);
    assert_eq!(exported["tickwheel.armed"], 4.0);
    assert_eq!(exported["tickwheel.fired"], 2.0);
    assert_eq!(exported["tickwheel.disarmed"], 1.0);
    assert_eq!(exported["tickwheel.pending"], 1.0);
    assert_eq!(exported["tickwheel.fired_lateness_sum"], 0.01);
    let late_by_8_ms_or_more = 2.0 * 14.0; // the buckets from 8 ms to 32,768 ms, and the last one
    assert_eq!(exported["tickwheel.fired_within"], late_by_8_ms_or_more);
    provider.shutdown().unwrap();
}

/// The value of a metric, or the sum of its values.
fn number(data: &AggregatedMetrics) -> f64 {
    use AggregatedMetrics::{F64, U64};
    match data {
        F64(MetricData::Sum(sum)) => sum.data_points().map(|it| it.value()).sum(),
        F64(MetricData::Gauge(gauge)) => gauge.data_points().map(|it| it.value()).sum(),
        U64(MetricData::Sum(sum)) => sum.data_points().map(|it| it.value() as f64).sum(),
        other => panic!("{other:?} is not exported"),
    }
}
