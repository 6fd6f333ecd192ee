//! Settings out of range, and calls in the wrong place: the message says what to do, and names
//! the line of the caller.

use std::time::UNIX_EPOCH;

use tickwheel::error::BuildError;
use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, Instant, Timer, interval, sleep, timeout, wall_clock};
use tokio::runtime::{self, Runtime};

use crate::common::{HOUR, MS, assert_panics_here, current_thread, multi_thread, panic_of};

#[test]
fn a_setting_out_of_range_is_an_error_that_names_it() {
    let runtime = current_thread();
    let build = |builder: tickwheel::timer::Builder| builder.build_on(runtime.handle()).map(drop);
    let [tick, short] = [HOUR + Duration::from_nanos(1), MS - Duration::from_nanos(1)];
    let of_tick = |tick| Timer::builder().tick(tick);
    let of_shards = |shards| Timer::builder().shards(shards);
    let of_many = |shards| (of_shards(shards), BuildError::TooManyShards { shards });
    let cases = [
        (of_tick(Duration::ZERO), BuildError::ZeroTick),
        (of_tick(short), BuildError::TickTooShort { tick: short }),
        (of_tick(tick), BuildError::TickTooLong { tick }),
        (of_shards(0), BuildError::ZeroShards),
        of_many(1_025),
        of_many(usize::MAX),
    ];
    for (number, (builder, error)) in cases.into_iter().enumerate() {
        let what = if number < 3 { "tick" } else { "shards" };
        assert!(error.to_string().contains(what), "{error}");
        let outside = builder.clone().build().map(drop);
        assert_eq!(outside, Err(error.clone()), "outside a runtime too");
        assert_eq!(build(builder), Err(error));
    }
    let without = Timer::builder().build().map(drop);
    assert_eq!(without, Err(BuildError::NoRuntime));
    assert_eq!(runtime.metrics().num_alive_tasks(), 0, "nothing is left");
    for tick in [MS, HOUR] {
        build(Timer::builder().tick(tick)).unwrap();
    }
    for (asked, made) in [(1, 1), (3, 4), (1_024, 1_024)] {
        let timer = Timer::builder().shards(asked).build_on(runtime.handle());
        assert_eq!(timer.unwrap().metrics().shards(), made);
    }
}

#[test]
fn by_default_the_thread_of_block_on_has_a_shard_of_its_own() {
    let shards = |runtime: Runtime| runtime.block_on(async { Timer::current().metrics().shards() });
    assert_eq!(shards(current_thread()), 1);
    for workers in 1..=4_usize {
        let expected = (workers + 1).next_power_of_two();
        assert_eq!(shards(multi_thread(workers)), expected);
    }
}

#[test]
fn outside_a_runtime_the_callers_line_panics_with_what_to_do() {
    let now = Instant::now();
    assert_panics_here!("runtime", sleep(MS));
    assert_panics_here!("runtime", tickwheel::sleep_until(now));
    assert_panics_here!("runtime", wall_clock::sleep_until(UNIX_EPOCH));
    assert_panics_here!("build_on", timeout(MS, async {}));
    assert_panics_here!("runtime", tickwheel::timeout_at(now, async {}));
    assert_panics_here!("runtime", interval(MS));
    assert_panics_here!("runtime", tickwheel::interval_at(now, MS));
    assert_panics_here!("runtime", tickwheel::with_deadline(now, async {}));
    assert_panics_here!("runtime", Timer::current());
}

#[test]
fn an_idle_timeout_outside_a_runtime_panics_at_the_callers_line() {
    assert_panics_here!("runtime", IdleTimeout::new(tokio::io::empty(), MS));
}

/// The text is tokio's own, which a program's tests may look for.
#[test]
fn without_time_driver_the_callers_line_panics_as_tokios_does() {
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    let _context = runtime.enter();
    let (tokios, _) = panic_of(|| tokio::time::sleep(MS));
    let text = "A Tokio 1.x context was found, but timers are disabled. Call `enable_time` on the \
                runtime builder to enable timers.";
    assert!(tokios.contains(text), "{tokios}");
    assert!(BuildError::NoTimeDriver.to_string().contains(text));
    assert_panics_here!(text, sleep(MS));
    assert_panics_here!(text, timeout(MS, async {}));
    assert_panics_here!(text, interval(MS));
    assert_panics_here!(text, Timer::current());
    let built = |built: Result<Timer, BuildError>| built.map(drop);
    let expected = Err(BuildError::NoTimeDriver);
    assert_eq!(built(Timer::builder().build()), expected);
    assert_eq!(built(Timer::builder().build_on(runtime.handle())), expected);
}

#[test]
fn a_zero_period_panics_at_the_callers_line_outside_a_runtime() {
    let (now, zero) = (Instant::now(), Duration::ZERO);
    assert_panics_here!("must be non-zero", interval(zero));
    assert_panics_here!("must be non-zero", tickwheel::interval_at(now, zero));
    assert_panics_here!("must be non-zero", Timer::global().interval(zero));
    assert_panics_here!("must be non-zero", Timer::global().interval_at(now, zero));
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    assert_panics_here!("must be non-zero", timer.interval(zero));
    assert_panics_here!("must be non-zero", timer.interval_at(now, zero));
}
