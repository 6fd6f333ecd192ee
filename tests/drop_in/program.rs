//! A program written for `tokio::time`, compiled with nothing but its `use` lines changed.

/// The program: once with tokio's timers and once with tickwheel's.
macro_rules! program {
    ($name:ident, $($time:ident)::+) => {
        mod $name {
            use std::pin::Pin;
            use std::task::{Context, Poll};

            use $($time)::+::error::Elapsed;
            use $($time)::+::{
                self as time, Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout,
                interval_at, sleep, sleep_until, timeout, timeout_at,
            };

            pin_project_lite::pin_project! {
                /// A future that holds a sleep, as codecs and pools do.
                struct Lease {
                    #[pin]
                    expiry: Sleep,
                    renewals: u8,
                }
            }

            impl Future for Lease {
                type Output = u8;

                fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u8> {
                    let mut this = self.project();
                    while this.expiry.as_mut().poll(cx).is_ready() {
                        if *this.renewals == 0 {
                            return Poll::Ready(7);
                        }
                        *this.renewals -= 1;
                        let next = this.expiry.deadline() + Duration::from_millis(5);
                        this.expiry.as_mut().reset(next);
                    }
                    Poll::Pending
                }
            }

            struct Server {
                heartbeat: Interval,
                idle: Pin<Box<Sleep>>,
            }

            impl Server {
                fn new() -> Server {
                    let mut heartbeat = time::interval(Duration::from_millis(10));
                    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Skip);
                    Server { heartbeat, idle: Box::pin(sleep(Duration::from_millis(35))) }
                }

                async fn run(mut self) -> Vec<&'static str> {
                    let mut log = Vec::new();
                    loop {
                        tokio::select! {
                            biased;
                            () = &mut self.idle => {
                                log.push("idle");
                                return log;
                            }
                            _ = self.heartbeat.tick() => log.push("beat"),
                        }
                        if log.len() == 2 {
                            let later = Instant::now() + Duration::from_millis(35);
                            self.idle.as_mut().reset(later);
                            assert!(!self.idle.is_elapsed());
                        }
                    }
                }
            }

            fn bounded<F: Future>(future: F) -> Timeout<F> {
                timeout(Duration::from_millis(20), future)
            }

            fn describe(result: Result<u8, Elapsed>) -> String {
                match result {
                    Ok(value) => value.to_string(),
                    Err(elapsed) => std::io::Error::from(elapsed).to_string(),
                }
            }

            pub(super) async fn run() -> (Vec<String>, Vec<Duration>) {
                let start = Instant::now();
                let mut said = Vec::new();
                let mut moments = Vec::new();
                said.push(describe(bounded(async { 1 }).await));
                said.push(describe(bounded(std::future::pending()).await));
                moments.push(start.elapsed());
                said.push(describe(timeout_at(start + Duration::from_millis(50), std::future::pending()).await));
                moments.push(start.elapsed());
                sleep_until(start + Duration::from_millis(60)).await;
                moments.push(start.elapsed());
                let nap = sleep(Duration::from_secs(60 * 60));
                tokio::pin!(nap);
                nap.as_mut().reset(Instant::now() + Duration::from_millis(3));
                nap.as_mut().await;
                moments.push(start.elapsed());
                let mut ticks = interval_at(Instant::now(), Duration::from_millis(7));
                for _ in 0..3 {
                    moments.push(ticks.tick().await - start);
                }
                said.extend(Server::new().run().await.into_iter().map(str::to_owned));
                moments.push(start.elapsed());
                let lease = Lease { expiry: sleep(Duration::from_millis(2)), renewals: 3 };
                said.push(lease.await.to_string());
                moments.push(start.elapsed());
                let far = sleep(Duration::MAX);
                said.push(describe(timeout(Duration::from_millis(1), async { far.await; 9 }).await));
                (said, moments)
            }
        }
    };
}

program!(with_tokio, tokio::time);
program!(with_tickwheel, tickwheel);

#[tokio::test(start_paused = true)]
async fn a_program_that_changes_its_use_lines_behaves_the_same() {
    let expected = with_tokio::run().await;
    assert_eq!(with_tickwheel::run().await, expected);
}
