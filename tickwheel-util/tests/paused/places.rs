//! Calls in the wrong place: the panic names the line of the caller.

#[cfg(feature = "time")]
#[test]
fn a_timeout_outside_a_runtime_panics_at_the_callers_line() {
    use std::future::ready;

    use tickwheel::Instant;
    use tickwheel_util::future::FutureExt;

    use crate::common::{MS, assert_panics_here};

    assert_panics_here!("build_on", ready(()).timeout(MS));
    assert_panics_here!("runtime", ready(()).timeout_at(Instant::now()));
}

#[cfg(all(feature = "http-body", feature = "io", feature = "stream"))]
#[test]
fn an_adapter_outside_a_runtime_panics_at_the_callers_line() {
    use tickwheel_util::http_body::TimeoutBody;
    use tickwheel_util::io::TimeoutStream;
    use tickwheel_util::stream::StreamExt;

    use crate::common::{MS, assert_panics_here};

    let items = futures::stream::empty::<()>;
    assert_panics_here!("runtime", items().timeout(MS));
    assert_panics_here!("runtime", items().idle_timeout(MS));
    assert_panics_here!("runtime", items().throttle(MS));
    assert_panics_here!("runtime", items().chunks_timeout(1, MS));
    assert_panics_here!("runtime", TimeoutStream::new(tokio::io::empty()));
    assert_panics_here!("runtime", TimeoutBody::new(String::new()));
}

#[cfg(feature = "stream")]
#[test]
fn a_chunk_of_no_items_panics_at_the_callers_line() {
    use futures::stream::empty;
    use tickwheel::Timer;
    use tickwheel_util::stream::{ChunksTimeout, StreamExt};

    use crate::common::{MS, assert_panics_here, current_thread};

    let text = "`max_size` must be non-zero.";
    let runtime = current_thread();
    let _entered = runtime.enter();
    assert_panics_here!(text, empty::<()>().chunks_timeout(0, MS));
    let timer = Timer::current();
    assert_panics_here!(text, ChunksTimeout::new_on(&timer, empty::<()>(), 0, MS));
}
