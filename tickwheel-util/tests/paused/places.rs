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

    assert_panics_here!("runtime", futures::stream::empty::<()>().idle_timeout(MS));
    assert_panics_here!("runtime", futures::stream::empty::<()>().throttle(MS));
    assert_panics_here!("runtime", TimeoutStream::new(tokio::io::empty()));
    assert_panics_here!("runtime", TimeoutBody::new(String::new()));
}
