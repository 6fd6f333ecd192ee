//! The numbers of a timer and of a map as data: what is written, under which names.

use serde_json::{json, to_value};
use tickwheel::{DelayMap, Timer};

use crate::common::{HOUR, MS};

/// The whole format, because each name is a promise.
#[tokio::test(start_paused = true)]
async fn fields_go_by_the_names_of_their_getters() {
    let timer = Timer::builder().shards(2).name("web").build().unwrap();
    let deadlines: Vec<_> = [1, 3, 60_000].map(|n| timer.deadline(n * MS)).into();
    tokio::time::advance(7 * MS).await;
    tokio::time::sleep(MS).await;
    let metrics = timer.metrics();
    assert_eq!((metrics.fired(), metrics.pending()), (2, 1));
    let limits = metrics.fired_within();
    let by_limit = limits.map(|(limit, fired)| (limit.as_millis().to_string(), json!(fired)));
    let expected = json!({
        "name": "web",
        "shards": 2,
        "pending": 1,
        "armed": 3,
        "fired": 2,
        "disarmed": 0,
        "rescheduled": 0,
        "wake_ups": metrics.wake_ups(),
        "stalls": 0,
        "stalled": { "secs": 0, "nanos": 0 },
        "spared": 0,
        "fired_within_ms": serde_json::Map::from_iter(by_limit),
        "fired_lateness_sum": metrics.fired_lateness_sum(),
        "waker_panics": 0,
        "rejected_inserts": 0,
    });
    let written = to_value(&metrics).unwrap();
    assert_eq!(written, expected);
    assert_eq!(
        written["fired_within_ms"]["4"], 1,
        "the other was 6 ms late"
    );
    assert_eq!(written["fired_within_ms"]["8"], 2);
    drop(deadlines);
}

#[tokio::test(start_paused = true)]
async fn counts_of_a_map_go_by_the_names_of_their_getters() {
    let (map, _stream) = DelayMap::new(&Timer::current());
    assert_eq!(map.insert(1, (), HOUR), Ok(None));
    let expected = json!({ "len": 1, "inserted": 1, "expired": 0 });
    assert_eq!(to_value(map.metrics()).unwrap(), expected);
}
