//! The live picture: the timer runs for the time of a frame, and then keys are read.
//!
//! Invariant: the terminal is as it was, however this ends: by a key, by a signal, by an error or
//! by a panic.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::Options;
use crate::draw;
use crate::running::Running;

/// How long a picture stands, and how long a key or a signal waits at the most.
const FRAME: Duration = Duration::from_millis(50);

/// What the keys `a` and `A` add.
const NEAR: Duration = Duration::from_secs(10);
const FAR: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// Runs until a key or a signal ends it.
pub fn run(options: Options) -> io::Result<()> {
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, is_ended.clone())?;
    }
    let (mut running, mut has_help) = (Running::new(options, false)?, false);
    // It restores the terminal after a panic too.
    ratatui::run(|terminal| {
        while !is_ended.load(Ordering::Relaxed) {
            let drawing = running.look();
            terminal.draw(|frame| {
                draw::draw(&drawing, has_help, frame.area(), frame.buffer_mut());
            })?;
            let mut wait = FRAME;
            if !running.is_paused {
                running.run_for(std::mem::take(&mut wait));
            }
            while event::poll(std::mem::take(&mut wait))? {
                let key = event::read()?.as_key_event();
                let key = key.filter(|key| key.kind != KeyEventKind::Release);
                if let Some(key) = key
                    && press(key, &mut running, &mut has_help)?
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

/// Does what a key says. `true` if that is to end.
fn press(key: KeyEvent, running: &mut Running, has_help: &mut bool) -> io::Result<bool> {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return Ok(true);
    }
    if std::mem::take(has_help) {
        return Ok(false);
    }
    match key.code {
        KeyCode::Char('q') => return Ok(true),
        KeyCode::Char('?' | 'h') => *has_help = true,
        KeyCode::Char('a') => running.add(NEAR),
        KeyCode::Char('A') => running.add(FAR),
        KeyCode::Char(' ') => running.pause_or_go_on(),
        KeyCode::Char('s') if running.is_paused => running.step(),
        KeyCode::Char('S') if running.is_paused => running.step_turn(),
        KeyCode::Char('r') => running.reset_newest(),
        KeyCode::Char('R') => running.reset_all(),
        KeyCode::Char('c') => running.cancel_newest(),
        KeyCode::Char('C') => running.cancel_all(),
        KeyCode::Char(digit @ '0'..='5') => running.begin(digit as u8 - b'0')?,
        _ => {}
    }
    Ok(false)
}
