//! The guarantees of tickwheel, each with the tests of the repository that verify it and fail when
//! the code is broken, and rows of its [RESULTS.md].
//!
//! | promise | shown by |
//! |---|---|
//! | **Never early**, as the clock of its runtime reads it | `random_programs_do_what_the_model_allows`, `histories_are_never_early_never_lost_and_as_late_as_tokios`; the rows "fired early" and "woken early" |
//! | **At most one tick late**, on top of tokio's rounding and scheduling, and of a wait after a stall | `random_programs_do_what_the_model_allows`, `lateness_is_from_the_due_to_the_wake_up`, `random_stalls_delay_no_timer_beyond_the_bound_and_make_none_early`; the medians and the 99 % of the table "How late" |
//! | **Stalls do not count** against a [`Deadline`]: after a stop of more than 50 ms plus one tick, live connections get time to show that they are alive | `a_stall_is_longer_than_50_ms_and_a_tick`, `spared_deadlines_expire_as_far_apart_as_they_were_due`, `a_stall_of_the_server_closes_no_live_connection` |
//! | **After a stall what lies unread is read first**, and wins over a timer, by a change of `use` alone, unless the task that reads it first awaits something else | `a_message_that_came_within_a_stall_is_read_before_the_timer_fires`, `so_are_the_messages_of_very_many_tasks`, `a_stop_closes_no_live_connection_after_a_change_of_use`, `no_wait_begins_while_one_is_on_nor_soon_after_one`, `a_thread_that_stalls_without_end_still_has_its_timers` |
//! | **Exactly one outcome**: a reset that returns `true` moved the deadline, and one that returns `false` came after its end | `of_a_reset_and_the_expiry_exactly_one_wins` |
//! | **Dropping a timer cancels it**, in O(1), and the next one can use its memory at once | `no_operation_touches_more_with_100_000_timers`, `room_is_used_again_before_more_is_made`, `a_waker_is_dropped_under_no_lock` |
//! | **Any duration**, from zero to [`Duration::MAX`], after a century of uptime | `zero_waits_for_the_next_millisecond_as_tokios_does`, `made_for_no_time_it_elapses_and_for_all_it_saturates`, `a_hundred_years_of_uptime_change_nothing` |
//! | **The end of the runtime is reported** to all that waits elsewhere | `those_elsewhere_alone_are_told_of_a_shutdown`, `a_pending_wait_after_the_time_driver_names_the_cause`, `try_poll_reports_the_end_each_time_it_is_asked`, `a_program_that_aborts_on_a_panic_outlives_its_runtimes`, `very_many_runtimes_leave_no_file_thread_or_memory`, `a_runtime_run_in_anothers_context_ends_no_timer` |
//! | **Isolation**: a panic in a waker or a key harms no other timer | `wakers_that_panic_or_meddle_harm_no_other_timer`, `keys_and_values_that_panic_harm_no_other_key`, `plain_threads_wake_as_early_as_on_tokio_beside_busy_workers` |
//! | **Reports are true**: no deadline is reported too early, no remaining time too long, and no deadline moves by itself | `a_poll_or_a_reset_after_a_stall_finds_the_deadline_pending`, `no_more_time_is_reported_than_was_set` |
//! | **Memory follows what is pending, and work is bounded** | `memory_follows_what_is_pending`, `a_turn_touches_a_bounded_number_at_any_load`, `no_change_moves_more_entries_than_a_few_segments_hold`; the rows "the longest …" and "what eleven of 1,000,000 sleeps keep" |
//! | **A paused clock** is deterministic, and without `test-util` no clock can be paused | `the_same_program_does_the_same_on_tokio`, `many_idle_streams_do_not_make_the_paused_clock_run`, `the_clock_can_be_paused_only_if_this_package_is_told_so` |
//! | **Idle costs nothing**: with nothing armed, nothing wakes up, except once for a timer that was disarmed; with 100,000 deadlines an hour away, at most ten wake-ups a second | `a_timer_with_nothing_due_soon_does_not_wake`, `it_rests_while_nothing_is_due`; the row "100,000 deadlines an hour away" |
//!
//! # What each covers
//!
//! - **Never early** holds under a stalled driver and a blocked worker, and for a reset that races
//!   with the expiry. It holds for wake-ups too: a [`Sleep`] that was reset to later does not
//!   wake its task at the old deadline.
//! - **One tick** is 1 ms by default. A pass of the driver wakes all that is due. Apart from that,
//!   for each tick it moves about a thousand timers of each level, or a 32nd of those due in the
//!   next 64 ticks if that is more, because wheels cascade ahead of time. After a jump of the clock
//!   a pass may take longer.
//! - **A stall** is a time of more than 50 ms plus one tick in which a timer is due and the driver
//!   cannot run. The driver's own work does not count. A stall is measured from the first tick at
//!   which a timer was due, even one that was disarmed or reset shortly before. So a stop counts as
//!   a stall only if something was due more than 50 ms and a tick before its end. A deadline that
//!   passes during a stall, or is due within 100 ms after it, even by a later call, is postponed by
//!   the length of the stall. So spared deadlines keep their spacing, except those due in the first
//!   100 ms of the stall. After the stall each lives for at least 100 ms, or for its timeout if
//!   that is shorter, and at most for its timeout. It gets at most one grace until it is reset.
//!   Only a [`Deadline`], a [`DeadlineMap`], and the idle timeouts of sockets and streams have it.
//!   [`stall_grace`](timer::Builder::stall_grace) switches it off, for leases.
//! - **Read first** means: after a stall the driver lets the tasks run before it fires any timer,
//!   until they leave as many timers overdue as they found. This takes some milliseconds, and 100
//!   ms and a tick at most. <!-- figure: none --> It is not repeated for four times as long as it
//!   took, <!-- figure: none --> so timers of a thread that blocks again and again go on. On a
//!   machine on which the tasks need longer, only a
//!   [`Deadline`] waits for them. [`Timer::global`], a timer without a
//!   [grace](timer::Builder::stall_grace) and tokio's alternative timer do not wait.
//! - **The past** is ready at the first poll, unless a stall has made the driver late. Then an
//!   instant is left to the driver, which fires it once its runtime runs. A sleep, a timeout, an
//!   interval, or a deadline that is made or restarted, of **zero or now** waits for the next
//!   line of tokio's grid, a millisecond at most, like tokio's timers. It waits for the next tick
//!   if that is longer. So a loop of zero sleeps paces, and does not spin. A value of a
//!   [`DelayMap`], a `reset_after` of zero and a `with_deadline` until now are due at once.
//! - **A runtime that shuts down** drops its own tasks while they are pending, as with tokio's
//!   timers. Waits elsewhere are woken. A [`Sleep`], a [`Timeout`] and an [`Interval`] then panic
//!   where tokio's do, and [`Sleep::try_poll`] reports the end. A [`Deadline`] resolves to
//!   [`Cancelled`](crate::error::Cancelled), and the stream of a [`DelayMap`] ends. Join threads
//!   that arm timers first: in the moment of the end tokio may panic. That is caught, unless `panic
//!   = "abort"` is set. On tokio's alternative timer the moment ends when each worker has come
//!   round. Two waits hang, as they do on tokio's timers. One is in a task that calls
//!   `block_in_place` just after its runtime was told to shut down ([tokio#6463]). The other is in
//!   a `Drop` on the thread that shuts the runtime down. In a `Drop`, wait by [`Timer::global`].
//! - **A waker that blocks** holds up the driver that wakes it: tokio's time driver, as with
//!   tokio's own timers, or the thread of [`Timer::global`].
//! - **Memory** comes back in segments of 16 to 32 KiB. One survivor keeps one segment.
//! - **A single insert, reset or removal moves a bounded number of entries**, at any number of
//!   timers. Among two million, the longest took less than a millisecond of its thread in most
//!   runs. <!-- figure: longest-insert held-timer < 1 ms; longest-reset held-timer < 1 ms;
//!   longest-*-map-insert held-timer < 1 ms; longest-delay-map-remove held-timer < 1 ms --> There
//!   is one exception. With glibc's allocator, one drop of a [`Sleep`] or of a keyed deadline,
//!   among two million that went at once, took 0.15 to 0.4 s, because glibc then joined the small
//!   blocks that were freed. <!-- figure: longest-drop held-timer = 0.1..0.45 s;
//!   longest-deadline-map-remove held-timer = 0.1..0.45 s --> `drain`, `close`, `expire_all`,
//!   `for_each` and `retain` visit every key, and have no bound.
//!
//! [RESULTS.md]: https://github.com/tickwheel/tickwheel/blob/main/benches/RESULTS.md
//! [tokio#6463]: https://github.com/tokio-rs/tokio/issues/6463

#[allow(unused_imports)] // The links above lead through it.
use crate::*;
