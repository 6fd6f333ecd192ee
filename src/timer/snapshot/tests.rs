//! The drawings of fixed and of random contents.
//!
//! Invariant: whatever a snapshot holds, its drawing fits 80 columns and loses no timer.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn counts(levels: Vec<Vec<usize>>, overdue: usize, elapsed: u64) -> SlotCounts {
    SlotCounts {
        levels,
        overdue,
        elapsed,
    }
}

/// A level with as many timers in these slots.
fn level<const N: usize>(slots: usize, taken: [(usize, usize); N]) -> Vec<usize> {
    let mut level = vec![0; slots];
    for (slot, timers) in taken {
        level[slot] = timers;
    }
    level
}

fn drawing<const N: usize>(now: u64, shards: [SlotCounts; N]) -> String {
    Snapshot::new(now, MS, shards.into_iter()).to_string()
}

#[test]
fn a_drawing_shows_now_bars_with_a_scale_and_far_levels() {
    let levels = vec![
        level(64, []),
        level(64, [(13, 231), (14, 225), (15, 1), (63, 30)]),
        level(64, [(3, 100_000), (4, 50_000)]),
        level(64, []),
        level(64, []),
        level(64, [(1, 2), (60, 5)]),
    ];
    let expected = "\
150,494 timers in 1 shard
▸ now, tick 780 of 1 ms
· an empty slot   ·37· so many of them   ▁ to █ timers in a slot, █= its scale

shard 0            one slot    all slots      timers  from now
  level 0              1 ms        64 ms           0
  level 1             64 ms        4.1 s         487  52 ms to 3.3 s
  ·12·▸·██▁·47·▂ █=231
  level 2             4.1 s      4.4 min     150,000  12 s to 20 s
      ▸···█▄·59· █=100 k
  levels 3-4        4.4 min      12 days           0
  level 5           12 days    2.2 years           7  12 days to 2.1 years
";
    assert_eq!(drawing(780, [counts(levels, 0, 778)]), expected);
}

#[test]
fn a_drawing_of_few_timers_has_an_eighth_for_each() {
    let levels = vec![level(8, [(2, 1), (3, 2), (7, 8)]), level(8, [(1, 3)])];
    let expected = "\
14 timers in 1 shard
▸ now, tick 2 of 1 ms
· an empty slot   ·37· so many of them   ▁ to █ timers in a slot, █= its scale

shard 0            one slot    all slots      timers  from now
  level 0              1 ms         8 ms          11  now to 6 ms
    ··▸▁▂···█ █=8
  level 1              8 ms        64 ms           3  6 ms to 14 ms
";
    assert_eq!(drawing(2, [counts(levels, 0, 0)]), expected);
}

#[test]
fn a_drawing_says_what_is_late_and_what_is_overdue() {
    // The driver comes late: now lies behind two slots, and in the next rotation of level 0.
    let levels = vec![level(8, [(6, 4)]), level(8, [(1, 1), (2, 3), (7, 2)])];
    let expected = "\
12 timers in 1 shard
▸ now, tick 17 of 1 ms
· an empty slot   ·37· so many of them   ▁ to █ timers in a slot, █= its scale

shard 0            one slot    all slots      timers  from now
  overdue                                          2  next turn
  level 0              1 ms         8 ms           4  next turn
  level 1              8 ms        64 ms           6  late to 47 ms
";
    assert_eq!(drawing(17, [counts(levels, 2, 5)]), expected);
    // Now lies in the same rotation as what is late.
    let late = drawing(7, [counts(vec![level(8, [(6, 4)])], 0, 5)]);
    let expected = "\
  level 0              1 ms         8 ms           4  next turn
  ·6·▄▸· █=8
";
    assert!(late.ends_with(expected), "{late}");
}

#[test]
fn shards_without_timers_are_folded() {
    let one = || counts(vec![level(4, [(1, 1)])], 0, 0);
    let none = || counts(vec![level(4, [])], 0, 0);
    let expected = "\
2 timers in 7 shards
▸ now, tick 0 of 1 ms
· an empty slot   ·37· so many of them   ▁ to █ timers in a slot, █= its scale

shard 0: no timers

shard 1            one slot    all slots      timers  from now
  level 0              1 ms         4 ms           1  1 ms to 2 ms
      ▸·▁·· █=8

shard 2            one slot    all slots      timers  from now
  level 0              1 ms         4 ms           1  1 ms to 2 ms
      ▸·▁·· █=8

shards 3 to 6: no timers
";
    let shards = [none(), one(), one(), none(), none(), none(), none()];
    assert_eq!(drawing(0, shards), expected);
    let nothing = "no timers in 2 shards\n▸ now, tick 1,000,000 of 1 ms\n";
    assert_eq!(drawing(1_000_000, [none(), none()]), nothing);
}

#[test]
fn many_shards_are_drawn_as_one() {
    // Shard 9 is late. Shard 7 has no more than level 0.
    let shard = |number: usize| match number {
        7 => counts(vec![level(4, [(3, 10)])], 0, 0),
        9 => counts(vec![level(4, [(3, 100)]), level(4, [])], 1, 0),
        _ => counts(vec![level(4, []), level(4, [(2, 10)])], 0, 4),
    };
    let expected = "\
1,371 timers in 128 shards
▸ now, tick 4 of 1 ms
· an empty slot   ·37· so many of them   ▁ to █ timers in a slot, █= its scale

a bar for each 2 shards
       ▂▂▂▂█▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂ █=111

all shards         one slot    all slots      timers  from now
  overdue                                        111  next turn
  level 0              1 ms         4 ms           0
  level 1              4 ms        16 ms       1,260  4 ms to 8 ms
     ·▸·█· █=1,260
";
    let shards = (0..128).map(shard);
    assert_eq!(Snapshot::new(4, MS, shards).to_string(), expected);
}

#[test]
fn the_widest_row_takes_80_columns() {
    let levels = vec![vec![99_999; 64]];
    let drawing = drawing(0, [counts(levels, 0, 0)]);
    let widths = drawing.lines().map(|line| line.chars().count());
    assert_eq!(widths.max(), Some(80), "{drawing}");
}

#[test]
fn the_width_of_a_slot_saturates() {
    let levels = vec![vec![0; 64]; 12];
    let hour = Duration::from_secs(60 * 60);
    let snapshot = Snapshot::new(0, hour, [counts(levels, 0, 0)].into_iter());
    let widths = snapshot.shards[0]
        .levels
        .iter()
        .map(|level| level.slot_width);
    assert_eq!(widths.max(), Some(Duration::MAX));
}

#[test]
fn now_lies_in_the_slot_of_its_digit() {
    let levels = || vec![level(8, [(5, 1)]), level(8, []), level(8, [(7, 1)])];
    let now = |now, elapsed| {
        let snapshot = Snapshot::new(now, MS, [counts(levels(), 0, elapsed)].into_iter());
        let levels = snapshot.shards[0].levels.iter();
        levels.map(|level| level.now).collect::<Vec<_>>()
    };
    assert_eq!(now(0o123, 0o120), [Some(3), Some(2), Some(1)]);
    // Level 0 holds a timer of the rotation before.
    assert_eq!(now(0o131, 0o127), [None, Some(3), Some(1)]);
    assert_eq!(now(0o1000, 0o127), [None, Some(0), None]);
    // The wheel was turned after the clock was read.
    assert_eq!(now(0o127, 0o131), [Some(1), Some(3), Some(1)]);
    let top = vec![level(2, [(1, 1)]); 64];
    let snapshot = Snapshot::new(u64::MAX, MS, [counts(top, 0, u64::MAX)].into_iter());
    assert!(
        snapshot.shards[0]
            .levels
            .iter()
            .all(|level| level.now == Some(1))
    );
}

/// A tick of any length, and those that are used.
fn any_tick() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(MS),
        Just(Duration::MAX),
        any::<u64>().prop_map(Duration::from_nanos),
        (1..20_000_000_u64).prop_map(Duration::from_nanos),
    ]
}

/// Shards of any contents, with at most `most` timers in a slot.
fn any_shards(most: usize) -> impl Strategy<Value = Vec<SlotCounts>> {
    let slot = prop_oneof![3 => Just(0), 1 => 0..9_usize, 1 => 0..=most];
    let shard = move |bits: u32| {
        let level = prop_oneof![
            Just(vec![0; 1 << bits]),
            proptest::collection::vec(slot.clone(), 1 << bits),
        ];
        let levels = proptest::collection::vec(level, 1..=64_usize.div_ceil(bits as usize));
        let overdue = prop_oneof![4 => Just(0), 1 => 0..=most];
        let busy = (levels, overdue, any::<u64>())
            .prop_map(|(levels, overdue, elapsed)| counts(levels, overdue, elapsed));
        prop_oneof![busy, Just(counts(vec![vec![0; 1 << bits]], 0, 0))]
    };
    let number = prop_oneof![1..7_usize, 1..100_usize];
    (1..=6_u32, number)
        .prop_flat_map(move |(bits, number)| proptest::collection::vec(shard(bits), number))
}

/// The number of slots that a row stands for, if the line is a row.
fn slots_of_row(line: &str) -> Option<usize> {
    let (past, rest) = line.split_once('▸')?;
    let (rest, _) = rest.split_once(" █=")?;
    let slots = |row: &str| {
        let folded = row
            .split('·')
            .filter_map(|number| number.parse::<usize>().ok());
        let is_slot = |mark: &char| !mark.is_ascii_digit();
        let marks = row.trim().chars().filter(is_slot).count();
        // A folded run has two marks.
        folded.map(|run| run - 2).sum::<usize>() + marks
    };
    Some(slots(past) + slots(rest))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_line_of_a_drawing_is_wider_than_80_columns(
        now in any::<u64>(),
        tick in any_tick(),
        shards in any_shards(usize::MAX),
        copies in prop_oneof![4 => Just(1_usize), 1 => 2..20_usize],
    ) {
        let shards = std::iter::repeat_n(shards, copies).flatten();
        let drawing = Snapshot::new(now, tick, shards).to_string();
        for line in drawing.lines() {
            prop_assert!(line.chars().count() <= 80, "{}", line);
            prop_assert_eq!(line.trim_end(), line);
        }
    }

    #[test]
    fn a_drawing_loses_no_timer_and_no_slot(
        now in any::<u64>(),
        tick in any_tick(),
        shards in any_shards(1_000),
    ) {
        let slots = shards[0].levels[0].len();
        let snapshot = Snapshot::new(now, tick, shards.into_iter());
        let mut timers = 0;
        for line in snapshot.to_string().lines() {
            if let Some(drawn) = slots_of_row(line) {
                prop_assert_eq!(drawn, slots, "{}", line);
            }
            if line.starts_with("  level") || line.starts_with("  overdue") {
                let column = line.chars().skip(40).take(12).collect::<String>();
                timers += column.trim().replace(',', "").parse::<usize>().unwrap();
            }
        }
        prop_assert_eq!(timers, snapshot.pending());
    }
}
