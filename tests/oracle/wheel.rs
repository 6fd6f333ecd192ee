//! The bare wheel beside a sorted list: random inserts, resets, removals and advances.

use std::collections::BTreeMap;

use fastrand::Rng;
use tickwheel::wheel::{Key, Wheel};

use crate::same;

/// What the wheel holds, in the order in which it fires: by due, and by when it was set.
#[derive(Default)]
struct Model {
    order: BTreeMap<(u64, u64), u64>,
    /// Each value ever inserted, with its key and its place while it is in.
    timers: Vec<(Key, Option<(u64, u64)>)>,
    now: u64,
    settings: u64,
}

impl Model {
    fn set(&mut self, value: usize, due: u64) {
        self.settings += 1;
        self.take(value);
        self.timers[value].1 = Some((due, self.settings));
        self.order.insert((due, self.settings), value as u64);
    }

    fn take(&mut self, value: usize) -> bool {
        let place = self.timers[value].1.take();
        place.is_some_and(|place| self.order.remove(&place).is_some())
    }
}

/// A due from the wheel's present, its past, the edges of its levels and slots, or the end of time,
/// or that of another timer, which may lie on another level.
fn due(random: &mut Rng, model: &Model) -> u64 {
    let now = model.now;
    let ahead = match random.u8(..16) {
        12..14 if !model.order.is_empty() => {
            let nth = random.usize(..model.order.len());
            return model.order.keys().nth(nth).map_or(now, |&(due, _)| due);
        }
        14 => {
            let bits = random.u32(6..30);
            let slot = (now >> bits).saturating_add(random.u64(1..4));
            let start = slot.saturating_mul(1 << bits);
            return start.saturating_add(random.u64(..70));
        }
        0 => return random.u64(..=now),
        1 => return u64::MAX - random.u64(..3),
        2..6 => random.u64(..70),
        6 => (1 << random.u32(..63)) - random.u64(..2),
        7 => 1 << random.u32(..40),
        8 => random.u64(4_000..4_200),
        9 => {
            let bits = random.u32(1..50);
            random.u64(..1 << bits)
        }
        _ => random.u64(..100_000),
    };
    now.saturating_add(ahead)
}

pub(crate) fn run(seed: u64, steps: usize) -> Result<(), String> {
    let mut random = Rng::with_seed(seed);
    let mut wheel = Wheel::new();
    let mut model = Model::default();
    // A wheel that is old already, up to the last ticks that there are.
    if random.u8(..4) == 0 {
        model.now = random.u64(..) >> random.u32(..40);
        let _ = wheel.advance(model.now).count();
    }
    for step in 0..steps {
        one_step(&mut random, &mut wheel, &mut model)
            .and_then(|()| compare(&wheel, &model))
            .map_err(|message| format!("{message} (seed {seed}, step {step})"))?;
    }
    Ok(())
}

fn one_step(random: &mut Rng, wheel: &mut Wheel<u64>, model: &mut Model) -> Result<(), String> {
    let count = model.timers.len();
    match random.u8(..20) {
        0..8 => {
            let due = due(random, model);
            model.timers.push((wheel.insert(due, count as u64), None));
            model.set(count, due);
            Ok(())
        }
        8..11 if count > 0 => {
            let (value, due) = (random.usize(..count), due(random, model));
            let is_in = model.timers[value].1.is_some();
            if is_in {
                model.set(value, due);
            }
            same("reset", wheel.reset(model.timers[value].0, due), is_in)
        }
        11..14 if count > 0 => {
            let value = random.usize(..count);
            let expected = model.take(value).then_some(value as u64);
            same("remove", wheel.remove(model.timers[value].0), expected)
        }
        14 => {
            let most = random.usize(..6);
            advance(random, wheel, model, most)
        }
        _ => advance(random, wheel, model, usize::MAX),
    }
}

/// Advances, and takes at most so many of what is due.
fn advance(
    random: &mut Rng,
    wheel: &mut Wheel<u64>,
    model: &mut Model,
    most: usize,
) -> Result<(), String> {
    let ahead = match random.u8(..10) {
        0 => 0,
        1..6 => random.u64(..100),
        6 => 1 << random.u32(..30),
        7 => {
            let next = wheel.next_turn().unwrap_or(0);
            next.saturating_sub(model.now)
        }
        8 => {
            let bits = random.u32(1..35);
            random.u64(..1 << bits)
        }
        _ => random.u64(..5_000),
    };
    model.now = model.now.saturating_add(ahead);
    // One by one, or all in one go.
    let told: Vec<_> = if most > 0 && random.bool() {
        let popped = std::iter::from_fn(|| wheel.pop_due(model.now)).take(most);
        let popped: Vec<_> = popped.collect();
        for &(key, _, value) in &popped {
            same("the key", key, model.timers[value as usize].0)?;
        }
        popped.iter().map(|&(_, due, value)| (due, value)).collect()
    } else {
        let advance = wheel.advance(model.now);
        let (least, greatest) = advance.size_hint();
        let count = model.order.range(..(model.now, u64::MAX)).count();
        let is_within = least <= count && greatest.is_none_or(|greatest| count <= greatest);
        same("the size hint of advance", is_within, true)?;
        advance.take(most).collect()
    };
    let is_due = |((due, _), _): &(&(u64, u64), &u64)| *due <= model.now;
    let due = model.order.iter().take_while(is_due).take(most);
    let expected: Vec<_> = due.map(|(&(due, _), &value)| (due, value)).collect();
    for &(_, value) in &expected {
        model.take(value as usize);
    }
    same("advance", told, expected)
}

fn compare(wheel: &Wheel<u64>, model: &Model) -> Result<(), String> {
    same("len", wheel.len(), model.order.len())?;
    same("is_empty", wheel.is_empty(), model.order.is_empty())?;
    same("the length of iter", wheel.iter().len(), model.order.len())?;
    same("now", wheel.now(), model.now)?;
    if model.order.is_empty() {
        same("levels", wheel.levels(), 1)?;
    }
    if let Some(&(key, place)) = model.timers.last() {
        same("contains", wheel.contains(key), place.is_some())?;
        same("due", wheel.due(key), place.map(|(due, _)| due))?;
    }
    let first = model.order.values().next();
    let first = first.map(|&value| model.timers[value as usize].0);
    same("first", wheel.first(), first)?;
    let first = model.order.keys().next().map(|&(due, _)| due);
    match (wheel.next_turn(), first) {
        (None, None) => Ok(()),
        (Some(turn), Some(due)) if turn <= due => Ok(()),
        (turn, due) => Err(format!(
            "the next turn is {turn:?}, and the first due {due:?}"
        )),
    }
}
