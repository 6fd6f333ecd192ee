//! A [`Moment`] as text, for a terminal of any size and for `--frame`.
//!
//! Nothing is told by a colour alone. From top to bottom: the load and the mode, the levels with
//! the coarsest first, what has become of the timers, the timers added by key, the keys.
//!
//! Invariant: no line is longer than the area. Where the window is too low, each level has one line
//! in place of two; where it is lower still, the coarsest levels are told as a number.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Widget};

use tickwheel::LevelSnapshot;

use crate::model::{Moment, Rates};

/// The least that can be drawn in.
pub const LEAST: (u16, u16) = (80, 18);

/// Timers in a slot, on a scale that doubles.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const EMPTY: char = '·';
const HAND: char = '│';
/// The hand stands in a slot that holds a timer: the driver has not come to it yet.
const HAND_ON_TIMERS: char = '┃';

/// What lies over the picture or beside it, and is not of the wheel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prompt {
    #[default]
    Keys,
    /// A duration is being typed.
    Typing(String),
    /// Something was wrong.
    Error(String),
    Help,
}

/// Draws all.
pub fn draw(moment: &Moment, prompt: &Prompt, area: Rect, buffer: &mut Buffer) {
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let (width, height) = LEAST;
        let text = format!("The window is too small. It takes {width} columns and {height} lines.");
        return Paragraph::new(text)
            .wrap(ratatui::widgets::Wrap::default())
            .render(area, buffer);
    }
    let own = match moment.own.len() {
        0 => 1,
        count => 1 + count.min(if area.height >= 30 { 6 } else { 2 }),
    };
    let [title, levels, counts, own, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(1),
        Constraint::Length(3),
        Constraint::Length(own as u16),
        Constraint::Length(2),
    ])
    .areas(area);
    draw_title(moment, title, buffer);
    draw_levels(moment, levels, buffer);
    draw_counts(moment, counts, buffer);
    draw_own(moment, own, buffer);
    draw_keys(moment, prompt, keys, buffer);
    if *prompt == Prompt::Help {
        draw_help(area, buffer);
    }
}

/// What was drawn, as lines without the spaces at their ends.
pub fn to_text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let mut text = String::new();
    for cells in buffer.content.chunks(width) {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn draw_title(moment: &Moment, area: Rect, buffer: &mut Buffer) {
    let motion = match moment.is_paused {
        true => " PAUSED ".reversed(),
        false => " running ".into(),
    };
    let left = Line::from(vec![" wheel_view ".bold(), " ".into(), motion]);
    let tick = short(moment.tick);
    let right = Line::from(format!("tick {} of {tick} ", grouped(moment.now)));
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    left.render(first, buffer);
    right.alignment(Alignment::Right).render(first, buffer);
    Line::from(format!(" load: {}", load(&moment.load)))
        .dim()
        .render(second, buffer);
}

fn load(rates: &Rates) -> String {
    let Rates {
        name,
        heartbeats_a_second: heartbeats,
        requests_a_second: requests,
    } = *rates;
    if heartbeats == 0.0 {
        return name.to_owned();
    }
    let rate = |rate: f64| match rate {
        rate if rate < 10.0 => format!("{rate:.1}"),
        rate => grouped(rate as u64),
    };
    let (heartbeats, requests) = (rate(heartbeats), rate(requests));
    format!("{name}, {heartbeats} heartbeats/s, {requests} requests/s")
}

fn draw_levels(moment: &Moment, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.height);
    let count = moment.levels.len();
    let lines_each = (1..=3).rev().find(|each| each * count <= room);
    let lines_each = lines_each.unwrap_or(1);
    let is_cut = lines_each * count > room;
    let shown = if is_cut {
        room.saturating_sub(1)
    } else {
        count
    };
    let mut lines = Vec::new();
    if is_cut {
        let hidden: usize = moment.levels[shown..]
            .iter()
            .map(LevelSnapshot::pending)
            .sum();
        lines.push(Line::from(format!(
            " and {} coarser levels with {}: make the window higher",
            count - shown,
            timers(hidden)
        )));
    }
    for (number, level) in moment.levels[..shown].iter().enumerate().rev() {
        if lines_each > 1 {
            lines.push(level_title(number, level));
            let mut line = vec![Span::from("        ")];
            line.extend(slots(level));
            lines.push(Line::from(line));
            lines.extend((lines_each == 3).then(Line::default));
        } else {
            let label = format!("{number:>2} {:<5}", short(level.slot_width));
            let mut line = vec![Span::from(format!("{label:.8}"))];
            line.extend(slots(level));
            line.push(format!(" {}", compact(level.pending())).into());
            lines.push(Line::from(line));
        }
    }
    Paragraph::new(lines).render(area, buffer);
}

fn level_title(number: usize, level: &LevelSnapshot) -> Line<'static> {
    let around = level
        .slot_width
        .saturating_mul(u32::try_from(level.slots.len()).unwrap_or(u32::MAX));
    let mut spans = vec![
        format!(" level {number}").bold(),
        format!(
            "  {} a slot, {} around",
            short(level.slot_width),
            short(around)
        )
        .into(),
        format!("  {}", timers(level.pending())).bold(),
    ];
    if level.late > 0 {
        spans.push(
            format!("  ▼ {} late", grouped(level.late as u64))
                .magenta()
                .bold(),
        );
    }
    Line::from(spans)
}

/// A character for each slot.
fn slots(level: &LevelSnapshot) -> Vec<Span<'static>> {
    let slots = level.slots.iter().enumerate();
    slots
        .map(|(slot, &timers)| match (slot == level.now, timers) {
            (true, 0) => Span::styled(HAND.to_string(), Style::new().fg(Color::Red)),
            (true, _) => Span::styled(
                HAND_ON_TIMERS.to_string(),
                Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            ),
            (false, 0) => Span::styled(EMPTY.to_string(), Style::new().add_modifier(Modifier::DIM)),
            (false, _) => Span::styled(bar(timers).to_string(), Style::new().fg(Color::Blue)),
        })
        .collect()
}

/// 1 is the lowest bar, and each higher one stands for three times as many. The highest has no end.
fn bar(timers: usize) -> char {
    let height = timers.max(1).ilog(3) as usize;
    BARS[height.min(BARS.len() - 1)]
}

fn draw_counts(moment: &Moment, area: Rect, buffer: &mut Buffer) {
    let counts = moment.counts;
    let ended = counts.cancelled + counts.fired;
    let mut spans = vec![
        format!(" {} pending", grouped(counts.pending)).bold(),
        format!("  of {} armed", grouped(counts.armed)).into(),
    ];
    if moment.overdue > 0 {
        spans.push(format!("  {} overdue", grouped(moment.overdue as u64)).into());
    }
    let first = Line::from(spans);
    let mut spans = vec![
        format!(" {} pushed back", grouped(counts.pushed_back)).into(),
        format!("  {} cancelled", grouped(counts.cancelled)).into(),
        format!("  {} fired", grouped(counts.fired)).yellow(),
    ];
    if ended > 0 {
        let share = 100.0 * counts.fired as f64 / (ended + counts.pushed_back) as f64;
        spans.push(format!(", {share:.2} % of these").into());
    }
    let late = format!(
        " late by {} at most within 10 s",
        short(moment.worst_lateness)
    );
    Paragraph::new(vec![first, Line::from(spans), late.into()]).render(area, buffer);
}

fn draw_own(moment: &Moment, area: Rect, buffer: &mut Buffer) {
    let mut lines = vec![Line::from(match moment.own.len() {
        0 => " no timers of yours: a adds one".to_owned(),
        count => format!(" {count} of yours, r resets and c cancels the one marked, Tab the next"),
    })];
    let room = usize::from(area.height).saturating_sub(1);
    let selected = moment.own.iter().position(|own| own.is_selected);
    let first = selected.unwrap_or(0).saturating_sub(room.saturating_sub(1));
    for own in moment.own.iter().skip(first).take(room) {
        let mark = if own.is_selected { '>' } else { ' ' };
        let left = match own.remaining {
            Some(left) => format!("{} left", short(left)),
            None => "fired".to_owned(),
        };
        let text = format!(" {mark} #{} of {}: {left}", own.number, short(own.timeout));
        lines.push(match own.is_selected {
            true => Line::from(text).bold(),
            false => Line::from(text),
        });
    }
    Paragraph::new(lines).render(area, buffer);
}

fn draw_keys(moment: &Moment, prompt: &Prompt, area: Rect, buffer: &mut Buffer) {
    let lines = match prompt {
        Prompt::Typing(typed) => vec![
            Line::from(format!(" add a timer of: {typed}▏")).bold(),
            Line::from(" 1500, 2s, 3h or 5 days. Esc: none."),
        ],
        Prompt::Error(error) => vec![Line::from(format!(" {error}")).red(), Line::default()],
        Prompt::Keys | Prompt::Help => {
            let motion = match moment.is_paused {
                true => " s step  S a turn of level 0  Space go on",
                false => " Space pause  + - rate  0-5 load",
            };
            vec![
                Line::from(format!("{motion}  ? help  q quit")),
                Line::from(" a add  r reset  R reset all  c cancel  C cancel all"),
            ]
        }
    };
    Paragraph::new(lines).render(area, buffer);
}

fn draw_help(area: Rect, buffer: &mut Buffer) {
    let lines = [
        "· empty   ▁ 1 or 2 timers, each higher bar 3 times more",
        "│ now; ┃ now, with timers that the driver comes to next",
        "▼ timers in slots whose time has passed. In its next turn",
        "  the driver moves them to finer levels; at level 0 it fires",
        "  them, or links them again later if they were pushed back.",
        "Space pauses tokio's clock: the real timer stands still.",
        "s advances that clock; 0 to 5 begin with a fresh one.",
        "late by: how long after a tick the driver came to it.",
        "a 3days adds a far timer: its levels appear and go with it.",
    ];
    let width = 63.min(area.width);
    let height = (lines.len() as u16 + 2).min(area.height);
    let [area] = Layout::vertical([Constraint::Length(height)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    let [area] = Layout::horizontal([Constraint::Length(width)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    Clear.render(area, buffer);
    Paragraph::new(lines.map(Line::from).to_vec())
        .block(Block::bordered().title(" any key closes this "))
        .render(area, buffer);
}

fn timers(number: usize) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} timer{s}", grouped(number as u64))
}

/// A number with a comma at each thousand.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number in at most six characters, for a narrow place.
fn compact(number: usize) -> String {
    match number {
        0..=99_999 => number.to_string(),
        100_000..=9_999_999 => format!("{}k", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// A duration in its largest unit, with about three digits.
pub fn short(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (value, unit) = match seconds {
        0.0 => return "0ms".to_owned(),
        s if s < 0.001 => (s * 1e6, "us"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s if s < 120.0 => (s, "s"),
        s if s < 7_200.0 => (s / 60.0, "min"),
        s if s < 172_800.0 => (s / 3_600.0, "h"),
        s if s < 2.0 * 31_557_600.0 => (s / 86_400.0, "d"),
        s => (s / 31_557_600.0, "y"),
    };
    if value >= 1e6 {
        return format!("{value:.0e}{unit}");
    }
    let decimals = usize::from(value < 9.95);
    let value = format!("{value:.decimals$}");
    format!("{}{unit}", value.strip_suffix(".0").unwrap_or(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let shown = |millis| short(Duration::from_millis(millis));
        assert_eq!(shown(0), "0ms");
        assert_eq!(shown(20), "20ms");
        assert_eq!(shown(1_280), "1.3s");
        assert_eq!(shown(82_000), "82s");
        assert_eq!(shown(3 * 24 * 3_600_000), "3d");
        assert_eq!(short(Duration::MAX), "6e11y");
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn a_bar_grows_with_the_timers() {
        assert_eq!([1, 3, 9, 1_000_000].map(bar), ['▁', '▂', '▃', '█']);
    }
}
