//! The numbers of a timer as data: what is written is read back, and its names stay.

use serde_json::{Value, from_value, json, to_value};
use tickwheel::metrics::{Metrics, Snapshot};
use tickwheel::{Duration, Timer};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn metrics_and_snapshots_are_read_back_as_they_were() {
    let timer = Timer::builder().shards(2).name("web");
    let timer = timer.build().unwrap();
    let deadlines: Vec<_> = (1..100).map(|n| timer.deadline(n * n * MS)).collect();
    tokio::time::sleep(50 * MS).await;
    let (metrics, snapshot) = (timer.metrics(), timer.snapshot());
    assert!(metrics.fired > 0 && snapshot.pending() > 0);
    let (written, drawn) = (to_value(&metrics).unwrap(), to_value(&snapshot).unwrap());
    assert_eq!(from_value::<Metrics>(written).unwrap(), metrics);
    assert_eq!(from_value::<Snapshot>(drawn).unwrap(), snapshot);
    drop(deadlines);
}

#[tokio::test(start_paused = true)]
async fn fields_go_by_their_names_and_durations_by_serdes_form() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let deadline = timer.deadline(MS);
    let mut slots = [0; 128];
    slots[1] = 1;
    let expected = json!({
        "now": 0,
        "tick": { "secs": 0, "nanos": 1_000_000 },
        "shards": [{
            "levels": [{
                "slot_width": { "secs": 0, "nanos": 1_000_000 },
                "slots": slots.as_slice(),
                "now": 0,
                "late": 0,
            }],
            "overdue": 0,
        }],
    });
    assert_eq!(to_value(timer.snapshot()).unwrap(), expected);
    let metrics = to_value(timer.metrics()).unwrap();
    assert_eq!(metrics["pending"], 1);
    assert_eq!(metrics["stalled"], json!({ "secs": 0, "nanos": 0 }));
    drop(deadline);
}

/// An older version of the crate has written fewer fields, and a newer one more.
#[tokio::test(start_paused = true)]
async fn metrics_of_another_version_are_read() {
    let timer = Timer::new();
    let deadline = timer.deadline(MS);
    let metrics = timer.metrics();
    let mut written = to_value(&metrics).unwrap();
    let fields = written.as_object_mut().unwrap();
    assert_eq!(fields.remove("stalls"), Some(json!(0)));
    fields.insert("field_of_a_later_version".to_owned(), Value::Null);
    assert_eq!(from_value::<Metrics>(written).unwrap(), metrics);
    drop(deadline);
}

/// What an empty object leaves out has its default, and even that can be drawn.
#[test]
fn a_snapshot_of_another_version_is_read() {
    for written in [
        json!({}),
        json!({ "shards": [{}] }),
        json!({ "shards": [{ "levels": [{}], "of_a_later_version": 1 }] }),
    ] {
        let snapshot = from_value::<Snapshot>(written).unwrap();
        assert_eq!(snapshot.pending(), 0);
        assert!(!snapshot.to_string().is_empty());
    }
}
