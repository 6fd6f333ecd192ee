//! The numbers of a timer as data: what is written is read back, and its names stay.

use serde_json::{Value, from_value, json, to_value};
use tickwheel::Timer;
use tickwheel::metrics::Metrics;

use crate::common::MS;

#[tokio::test(start_paused = true)]
async fn fields_go_by_their_names_and_durations_by_serdes_form() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let deadline = timer.deadline(MS);
    let metrics = to_value(timer.metrics()).unwrap();
    assert_eq!(metrics["pending"], 1);
    assert_eq!(metrics["fired_within"], json!([0; 16].as_slice()));
    assert_eq!(metrics["stalled"], json!({ "secs": 0, "nanos": 0 }));
    drop(deadline);
}

/// An older version of the crate has written fewer fields, and a newer one more.
#[tokio::test(start_paused = true)]
async fn metrics_of_another_version_are_read() {
    let timer = Timer::builder().shards(2).name("web").build().unwrap();
    let deadlines: Vec<_> = (1..100).map(|n| timer.deadline(n * n * MS)).collect();
    tokio::time::sleep(50 * MS).await;
    let metrics = timer.metrics();
    assert!(metrics.fired > 0 && metrics.pending > 0);
    let mut written = to_value(&metrics).unwrap();
    let fields = written.as_object_mut().unwrap();
    assert_eq!(fields.remove("stalls"), Some(json!(0)));
    fields.insert("field_of_a_later_version".to_owned(), Value::Null);
    assert_eq!(from_value::<Metrics>(written).unwrap(), metrics);
    drop(deadlines);
}
