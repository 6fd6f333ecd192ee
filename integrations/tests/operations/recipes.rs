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
    assert_eq!(timer.metrics().fired, 2);
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
    let page = exported_to_prometheus(vec![first, second, Timer::new()]);
    for line in [
        "# TYPE tickwheel_armed counter",
        "tickwheel_armed_total{timer=\"first\"} 4.0",
        "tickwheel_fired_total{timer=\"first\"} 2.0",
        "tickwheel_disarmed_total{timer=\"first\"} 1.0",
        "tickwheel_stalled_seconds_total{timer=\"first\"} 0.0",
        "# TYPE tickwheel_pending gauge",
        "tickwheel_pending{timer=\"first\"} 1.0",
        "tickwheel_pending{timer=\"second\"} 0.0",
        "tickwheel_pending{timer=\"default\"} 0.0",
        "tickwheel_worst_lateness_seconds{timer=\"first\"} 0.005",
        "# TYPE tickwheel_lateness_seconds histogram",
        "tickwheel_lateness_seconds_sum{timer=\"first\"} 0.01",
        "tickwheel_lateness_seconds_count{timer=\"first\"} 2",
        "tickwheel_lateness_seconds_bucket{le=\"0.005\",timer=\"first\"} 0",
        "tickwheel_lateness_seconds_bucket{le=\"0.01\",timer=\"first\"} 2",
        "tickwheel_lateness_seconds_bucket{le=\"+Inf\",timer=\"first\"} 2",
        "tickwheel_lateness_seconds_count{timer=\"second\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n\n{page}");
    }
    let types = page.lines().filter(|line| line.starts_with("# TYPE"));
    assert_eq!(types.count(), 15, "each type is told once:\n{page}");
}

#[tokio::test(start_paused = true)]
async fn metrics_exports_what_happened_between_two_calls() {
    let (timer, _pending) = used_timer("first").await;
    let recorder = DebuggingRecorder::new();
    let export = || {
        with_local_recorder(&recorder, || metrics::export(&timer));
        let snapshot = recorder.snapshotter().snapshot().into_vec();
        let exported = snapshot.into_iter().map(|(key, _, _, value)| {
            let labels: Vec<_> = key
                .key()
                .labels()
                .map(|label| (label.key(), label.value()))
                .collect();
            assert_eq!(labels, [("timer", "first")]);
            (key.key().name().to_owned(), value)
        });
        exported.collect::<BTreeMap<_, _>>()
    };
    let exported = export();
    assert_eq!(exported.len(), 15);
    assert_eq!(exported["tickwheel_armed_total"], DebugValue::Counter(4));
    assert_eq!(exported["tickwheel_fired_total"], DebugValue::Counter(2));
    assert_eq!(exported["tickwheel_pending"], DebugValue::Gauge(1.0.into()));
    let late = &exported["tickwheel_lateness_seconds"];
    let DebugValue::Histogram(late) = late else {
        panic!("it is {late:?}");
    };
    assert_eq!(late.len(), 2);
    assert!(
        late.iter().all(|late| (0.005..0.006).contains(&late.0)),
        "{late:?}"
    );
    let again = &export()["tickwheel_lateness_seconds"];
    assert_eq!(
        *again,
        DebugValue::Histogram(Vec::new()),
        "each was told once"
    );
}

#[tokio::test(start_paused = true)]
async fn opentelemetry_exports_what_the_timer_tells() {
    let (timer, _pending) = used_timer("first").await;
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let meter = provider.meter("tickwheel");
    otel::observe(&meter, &timer);
    let histogram = meter
        .f64_histogram("tickwheel.lateness")
        .with_unit("s")
        .build();
    otel::record(&histogram, &timer);
    provider.force_flush().unwrap();

    let batches = exporter.get_finished_metrics().unwrap();
    let metrics = batches.iter().flat_map(|batch| batch.scope_metrics());
    let metrics = metrics.flat_map(|scope| scope.metrics());
    let exported: BTreeMap<&str, f64> = metrics
        .map(|metric| (metric.name(), number(metric.data())))
        .collect();
    assert_eq!(exported.len(), 15);
    assert_eq!(exported["tickwheel.armed"], 4.0);
    assert_eq!(exported["tickwheel.fired"], 2.0);
    assert_eq!(exported["tickwheel.disarmed"], 1.0);
    assert_eq!(exported["tickwheel.pending"], 1.0);
    assert_eq!(exported["tickwheel.worst_lateness"], 0.005);
    assert_eq!(exported["tickwheel.lateness"], 2.0, "so many were recorded");
    provider.shutdown().unwrap();
}

/// The only value of a metric, or how many values its histogram has.
fn number(data: &AggregatedMetrics) -> f64 {
    match data {
        AggregatedMetrics::F64(MetricData::Sum(sum)) => {
            sum.data_points().map(|point| point.value()).sum()
        }
        AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
            gauge.data_points().map(|point| point.value()).sum()
        }
        AggregatedMetrics::F64(MetricData::Histogram(histogram)) => histogram
            .data_points()
            .map(|point| point.count())
            .sum::<u64>()
            as f64,
        other => panic!("{other:?} is not exported"),
    }
}
