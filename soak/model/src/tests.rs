use std::time::Instant;

use super::*;

const MS: Duration = Duration::from_millis(1);
const BEGIN: Act<Instant> = Act::Begin(Due::After(Duration::from_millis(10)));
const ELAPSED: Act<Instant> = Act::End(Outcome::Elapsed);

/// A call from one millisecond to another, on the one interval of a test or on any that it may have
/// found.
fn call(
    start: Instant,
    (before, after): (u32, u32),
    act: Act<Instant>,
    answer: bool,
) -> Event<Instant> {
    Event {
        call: Call {
            before: start + before * MS,
            after: start + after * MS,
        },
        act,
        interval: u64::from(matches!(act, Act::Begin(_) | Act::End(_) | Act::Cap(_))),
        answer,
        is_vague: false,
    }
}

/// The violations in a history, once each.
fn violations_in(rules: Rules, mut events: Vec<Event<Instant>>) -> Vec<Kind> {
    let mut kinds = Vec::new();
    check(&mut events, rules, None, |kind, _| kinds.push(kind));
    kinds.dedup();
    kinds
}

/// The violations where an interval began at 0 ms, to be due 10 ms later.
fn violations(rules: Rules, calls: &[((u32, u32), Act<Instant>, bool)]) -> Vec<Kind> {
    let start = Instant::now();
    let begin = call(start, (0, 1), BEGIN, true);
    let calls = calls
        .iter()
        .map(|&(at, act, answer)| call(start, at, act, answer));
    violations_in(rules, [begin].into_iter().chain(calls).collect())
}

fn of_deadline(calls: &[((u32, u32), Act<Instant>, bool)]) -> Vec<Kind> {
    violations(Rules::Deadline, calls)
}

#[test]
fn a_reset_that_overlaps_another_call_may_have_come_first() {
    let until = |after| {
        let near = ((3, after), Act::Set(Due::After(MS)), true);
        of_deadline(&[((5, 7), Act::Reset, true), near, ((12, 12), ELAPSED, true)])
    };
    assert_eq!(until(4), [Kind::Early], "the reset came after it");
    assert_eq!(until(6), [], "perhaps it came after the reset");
}

#[test]
fn a_reset_or_a_longer_timeout_makes_no_due_earlier() {
    let ends_at = |end, first| {
        let calls = [((2, 3), first, true), ((5, 6), Act::Reset, true)];
        of_deadline(&[calls[0], calls[1], ((end, end), ELAPSED, true)])
    };
    for (first, due) in [
        (Act::Extend(20 * MS), 30),
        (Act::Set(Due::After(50 * MS)), 52),
        (Act::SetTimeout(50 * MS), 55),
        (Act::SetTimeout(2 * MS), 7),
        (Act::Look, 15),
    ] {
        assert_eq!(ends_at(due - 1, first), [Kind::Early]);
        assert_eq!(ends_at(due, first), []);
    }
}

#[test]
fn a_reset_from_an_instant_counts_from_then_or_from_now() {
    let ends_at = |end, since| {
        let start = Instant::now();
        let reset = Act::ResetFrom(start + since * MS);
        let calls = [((0, 1), BEGIN), ((5, 6), reset), ((end, end), ELAPSED)];
        let events = calls.map(|(at, act)| call(start, at, act, true));
        violations_in(Rules::Deadline, events.into())
    };
    for (since, due) in [(0, 10), (3, 13), (5, 15), (9, 15)] {
        assert_eq!(ends_at(due - 1, since), [Kind::Early], "{since}");
        assert_eq!(ends_at(due, since), [], "{since}");
    }
}

#[test]
fn the_timeout_to_an_instant_counts_from_any_moment_of_the_call() {
    let ends_at = |end| {
        let now = Instant::now();
        let begin = Act::Begin(Due::At(now + 10 * MS));
        let calls = [((0, 3), begin), ((5, 6), Act::Reset), ((end, end), ELAPSED)];
        let events = calls.map(|(at, act)| call(now, at, act, true));
        violations_in(Rules::Deadline, events.into())
    };
    assert_eq!(ends_at(11), [Kind::Early]);
    assert_eq!(ends_at(12), []);
}

#[test]
fn no_answer_is_true_after_the_end_and_only_one_end_is() {
    let two = |[first, second]: [Act<Instant>; 2], answers: [bool; 2]| {
        of_deadline(&[
            ((11, 12), first, answers[0]),
            ((13, 14), second, answers[1]),
        ])
    };
    let looks = [Act::Look; 2];
    assert_eq!(two(looks, [false, true]), [Kind::TwoOutcomes]);
    assert_eq!(two(looks, [true, false]), []);
    let ends = [Act::Cancel, Act::Expire];
    assert_eq!(two(ends, [true, true]), [Kind::TwoOutcomes]);
    assert_eq!(two(ends, [true, false]), []);
    assert_eq!(
        two([Act::Cancel, Act::Look], [true, true]),
        [Kind::TwoOutcomes]
    );
}

#[test]
fn a_key_is_found_while_its_value_is_in_the_map_and_only_then() {
    let finds = |answer, at| {
        let end = ((14, 15), ELAPSED, true);
        violations(Rules::Value, &[end, ((at, at), Act::Find, answer)])
    };
    for (at, is_in) in [(5, true), (13, true), (20, false)] {
        assert_eq!(finds(is_in, at), []);
        assert_eq!(finds(!is_in, at), [Kind::WrongAnswer]);
    }
}

#[test]
fn a_value_is_pending_until_its_due_or_what_made_it_due() {
    let out = ((34, 35), ELAPSED, true);
    let looks = |first: ((u32, u32), Act<Instant>, bool), answer, at| {
        violations(Rules::Value, &[first, ((at, at), Act::Look, answer), out])
    };
    let find = ((2, 3), Act::Find, true);
    assert_eq!(looks(find, true, 9), []);
    assert_eq!(looks(find, false, 9), [Kind::Early]);
    assert_eq!(looks(find, true, 12), [Kind::WrongAnswer], "it is overdue");
    assert_eq!(looks(find, false, 12), []);
    let set = |answer| ((8, 9), Act::Set(Due::After(10 * MS)), answer);
    assert_eq!(looks(set(true), true, 17), []);
    assert_eq!(looks(set(true), false, 17), [Kind::Early]);
    assert_eq!(looks(set(true), true, 20), [Kind::WrongAnswer]);
    assert_eq!(looks(set(false), true, 9), [Kind::Early], "it was not due");
    let extend = ((8, 9), Act::Extend(10 * MS), true);
    assert_eq!(looks(extend, true, 20), []);
    assert_eq!(looks(extend, true, 22), [Kind::WrongAnswer]);
    // As `expire_all` is noted, that may have found it or not.
    for answer in [true, false] {
        let expire = ((2, 3), Act::Expire, answer);
        let kinds = looks(expire, true, 5);
        assert!(kinds.contains(&Kind::TwoOutcomes), "{kinds:?}");
    }
    assert_eq!(looks(((2, 3), Act::Expire, true), false, 5), []);
    assert_eq!(looks(((2, 3), Act::Expire, false), false, 5), [Kind::Early]);
    let at_once = |at| {
        let now = ((8, 11), Act::Set(Due::After(Duration::ZERO)), true);
        looks(now, true, at)
    };
    assert_eq!(at_once(9), [], "perhaps it came first");
    assert_eq!(at_once(12), [Kind::WrongAnswer]);
}

#[test]
fn a_key_that_is_surely_in_the_map_is_not_absent() {
    let inserts = |taken: Option<u32>| {
        let start = Instant::now();
        let mut events = vec![call(start, (0, 1), BEGIN, true)];
        events.extend(taken.map(|taken| call(start, (2, taken), Act::Take, true)));
        let mut other = call(start, (5, 6), BEGIN, false);
        other.interval = 2;
        events.push(other);
        violations_in(Rules::Deadline, events)
    };
    assert_eq!(inserts(None), [Kind::WrongAnswer]);
    assert_eq!(inserts(Some(4)), []);
    assert_eq!(inserts(Some(5)), []);
}

#[test]
fn a_longest_life_bounds_both_the_latest_and_the_earliest_due() {
    let out = |due| {
        let due = Instant::now() + due * MS;
        let out = Act::End(Outcome::Out { due, number: 0 });
        let far = Act::Set(Due::After(100 * MS));
        let cap = ((0, 1), Act::Cap(20 * MS), true);
        violations(
            Rules::Value,
            &[cap, ((2, 3), far, true), ((50, 50), out, true)],
        )
    };
    assert_eq!(out(15), [Kind::Early]);
    assert_eq!(out(21), []);
    assert_eq!(out(40), [Kind::WrongAnswer]);
}

#[test]
fn a_deadline_is_replaced_by_an_insert_that_replaces() {
    let replaced = |replaces| {
        let start = Instant::now();
        let mut other = call(start, (2, 4), BEGIN, replaces);
        other.interval = 2;
        let end = call(start, (4, 4), Act::End(Outcome::Replaced), true);
        violations_in(
            Rules::Deadline,
            vec![call(start, (0, 3), BEGIN, true), other, end],
        )
    };
    assert_eq!(replaced(true), []);
    assert_eq!(replaced(false), [Kind::TwoOutcomes, Kind::Early]);
}

#[test]
fn a_removed_deadline_neither_elapses_nor_is_found() {
    let removed = |answer, end, finds| {
        let start = Instant::now();
        let mut events = vec![
            call(start, (0, 1), BEGIN, true),
            call(start, (3, 4), Act::Remove, answer),
            call(start, (12, 12), Act::End(end), true),
            call(start, (13, 13), Act::Take, true),
            call(start, (14, 14), Act::Find, finds),
        ];
        (events[1].interval, events[3].interval) = (1, 1);
        violations_in(Rules::Deadline, events)
    };
    assert_eq!(removed(true, Outcome::Cancelled, false), []);
    assert_eq!(removed(true, Outcome::Elapsed, false), [Kind::WrongAnswer]);
    assert_eq!(removed(false, Outcome::Elapsed, false), [Kind::WrongAnswer]);
    assert_eq!(removed(true, Outcome::Cancelled, true), [Kind::WrongAnswer]);
}

#[test]
fn a_deadline_that_a_call_took_out_does_not_elapse() {
    let elapses = |calls: &[(u32, u32)]| {
        let calls = calls.iter().map(|&at| (at, Act::Take, true));
        of_deadline(&calls.chain([((12, 12), ELAPSED, true)]).collect::<Vec<_>>())
    };
    assert_eq!(elapses(&[(2, 3)]), [Kind::WrongAnswer]);
    assert_eq!(
        elapses(&[(2, 4), (3, 5)]),
        [],
        "the other has it, and settles it"
    );
    assert_eq!(elapses(&[(2, 4), (3, 5), (6, 7)]), [Kind::WrongAnswer]);
    assert_eq!(elapses(&[(0, 3)]), [], "perhaps it came before");
    assert_eq!(elapses(&[(2, 11)]), [], "it may have elapsed meanwhile");
}

#[test]
fn a_drained_deadline_was_given_by_a_drain() {
    let drained = |act| {
        let end = ((4, 4), Act::End(Outcome::Drained), true);
        of_deadline(&[((2, 3), Act::Take, true), ((2, 3), act, true), end])
    };
    assert_eq!(drained(Act::Drained), []);
    assert_eq!(drained(Act::Reset), [Kind::TwoOutcomes]);
}

#[test]
fn values_that_were_set_in_time_come_out_in_their_order() {
    let start = Instant::now();
    let out = |number, polled, due, set| Out {
        number,
        polled: start + polled * MS,
        due: start + due * MS,
        set: start + set * MS,
    };
    let violations = |set| {
        let mut times = 0;
        let mut outs = [out(0, 10, 9, 1), out(1, 10, 7, set)];
        check_order_of(&mut outs, MS, |_, _| times += 1);
        times
    };
    assert_eq!(violations(2), 1);
    assert_eq!(
        violations(10),
        0,
        "perhaps it was set after the other one came out"
    );
}

#[test]
fn a_value_comes_out_once_unless_a_call_drops_it() {
    let out = |at| ((at, at), Act::End(Outcome::Taken), true);
    let find = ((2, 3), Act::Find, true);
    let dropped = ((4, 5), Act::Take, true);
    assert_eq!(violations(Rules::Value, &[find, out(4)]), []);
    assert_eq!(violations(Rules::Value, &[find]), [Kind::ValueLost]);
    assert_eq!(violations(Rules::Value, &[find, dropped]), []);
    let twice = violations(Rules::Value, &[find, out(4), out(6)]);
    assert!(twice.contains(&Kind::ValueLost), "{twice:?}");
}
