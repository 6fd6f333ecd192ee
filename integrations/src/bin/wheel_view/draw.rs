//! A [`Drawing`] as text, for a terminal of any size and for `--frame`.
//!
//! Nothing is told by a colour alone. From top to bottom: the load and the mode, the levels with
//! the coarsest first, what has become of the timers, the timers added by key, the keys.
//!
//! Invariant: no line is longer than the area. Where the window is too low, the coarsest levels are
//! left out.

use std::iter;

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Widget};
use tickwheel::metrics::LevelSnapshot;

use crate::drawing::{Drawing, Look, Row, grouped, short};

/// Timers in a slot. The lowest bar is 1 or 2, and each higher one stands for three times as many.
const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

const HELP: [&str; 9] = [
    "· empty   ▁ 1 or 2 timers, each higher bar 3 times more",
    "│ now; ┃ now, with timers that the driver comes to next",
    "▼ timers in slots whose time has passed. In its next turn",
    "  the driver moves them to finer levels; at level 0 it fires",
    "  them, or links them again later if they were pushed back.",
    "Space pauses tokio's clock: the real timer stands still.",
    "s advances that clock; 0 to 5 begin with a fresh one.",
    "stalls: how often the driver came late by more than 50 ms.",
    "A adds a far timer: its levels appear and go with it.",
];

/// Draws all, and the help over it.
pub fn draw(drawing: &Drawing, has_help: bool, area: Rect, buffer: &mut Buffer) {
    let own = own_lines(drawing, if area.height >= 30 { 6 } else { 2 });
    let [first, load, levels, counts, own_area, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(3),
        Constraint::Length(own.len() as u16),
        Constraint::Length(2),
    ])
    .areas(area);
    let motion = match drawing.is_paused {
        true => " PAUSED ".reversed(),
        false => " running ".into(),
    };
    let title = Line::from(vec![" wheel_view ".bold(), " ".into(), motion]);
    title.render(first, buffer);
    let now = format!("tick {} of {} ", grouped(drawing.now), short(drawing.tick));
    let now = Line::from(now).alignment(Alignment::Right);
    now.render(first, buffer);
    let [note, late] = &drawing.notes;
    let note = Line::from(format!(" load: {note}")).dim();
    note.render(load, buffer);
    Paragraph::new(level_lines(drawing, levels.height.into())).render(levels, buffer);
    let mut lines = [Line::default(), Line::default(), format!(" {late}").into()];
    let is_count = |row: &&Row| matches!(row.look, Look::Count(_));
    for (place, row) in drawing.rows.iter().filter(is_count).enumerate() {
        let line = &mut lines[(place / 2).min(1)];
        line.push_span(format!(" {}", grouped(row.timers)).bold());
        line.push_span(format!(" {} ", row.name));
    }
    Paragraph::new(lines.to_vec()).render(counts, buffer);
    Paragraph::new(own).render(own_area, buffer);
    Paragraph::new(key_lines(drawing)).render(keys, buffer);
    if has_help {
        let help = area.centered(Constraint::Length(63), Constraint::Length(11));
        Clear.render(help, buffer);
        Paragraph::new(HELP.map(Line::from).to_vec())
            .block(Block::bordered().title(" any key closes this "))
            .render(help, buffer);
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

fn level_lines(drawing: &Drawing, room: usize) -> Vec<Line<'_>> {
    let hidden = drawing.levels().count().saturating_sub(room / 2);
    let mut lines = Vec::new();
    for row in drawing.rows.iter().skip(hidden) {
        let Look::Level(level) = &row.look else { break };
        let late = match level.late {
            0 => String::new(),
            late => format!("  ▼ {} late", grouped(late as u64)),
        };
        let s = if row.timers == 1 { "" } else { "s" };
        lines.push(Line::from(vec![
            format!(" {}", row.name).bold(),
            format!("  {}", row.about).into(),
            format!("  {} timer{s}", grouped(row.timers)).bold(),
            late.magenta().bold(),
        ]));
        let mut slots = Line::from("        ");
        slots.extend((0..level.slots.len()).map(|slot| slot_of(level, slot)));
        lines.push(slots);
    }
    lines
}

/// The character of a slot. The hand in a slot that holds a timer is thicker: the driver has not
/// come to that yet.
fn slot_of(level: &LevelSnapshot, slot: usize) -> Span<'static> {
    match (slot == level.now, level.slots[slot]) {
        (true, 0) => "│".red(),
        (true, _) => "┃".red().bold(),
        (false, 0) => "·".dim(),
        (false, timers) => {
            let height = timers.ilog(3) as usize;
            Span::styled(BARS[height.min(7)], Style::new().fg(Color::Blue))
        }
    }
}

fn own_lines(drawing: &Drawing, room: usize) -> Vec<Line<'_>> {
    let first = match drawing.own.len() {
        0 => " no timers of yours: a and A add one".to_owned(),
        count => format!(" {count} of yours: r resets and c cancels the newest"),
    };
    let own = drawing.own.iter().take(room);
    let own = own.map(|text| Line::from(format!("   {text}")));
    iter::once(Line::from(first)).chain(own).collect()
}

fn key_lines(drawing: &Drawing) -> Vec<Line<'static>> {
    let motion = match drawing.is_paused {
        true => " s step  S a turn of level 0  Space go on",
        false => " Space pause  0-5 load",
    };
    vec![
        Line::from(format!("{motion}  ? help  q quit")),
        Line::from(" a add 10 s  A add 3 days  r reset  R reset all  c cancel  C cancel all"),
    ]
}
