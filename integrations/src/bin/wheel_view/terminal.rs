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
use tickwheel_integrations::parse_duration;

use crate::Options;
use crate::draw::{self, Prompt};
use crate::running::Running;

/// How long a picture stands, and how long a key or a signal waits at the most.
const FRAME: Duration = Duration::from_millis(50);

/// Runs until a key or a signal ends it.
pub fn run(options: Options) -> io::Result<()> {
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, is_ended.clone())?;
    }
    let (mut running, mut prompt) = (Running::new(options, false)?, Prompt::Keys);
    // It restores the terminal after a panic too.
    ratatui::run(|terminal| {
        while !is_ended.load(Ordering::Relaxed) {
            let drawing = running.look();
            terminal.draw(|frame| {
                draw::draw(&drawing, &prompt, frame.area(), frame.buffer_mut());
            })?;
            let mut wait = FRAME;
            if !running.is_paused {
                running.run_for(std::mem::take(&mut wait));
            }
            while event::poll(std::mem::take(&mut wait))? {
                let key = event::read()?.as_key_event();
                let key = key.filter(|key| key.kind != KeyEventKind::Release);
                if let Some(key) = key
                    && press(key, &mut running, &mut prompt)?
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

/// Does what a key says. `true` if that is to end.
fn press(key: KeyEvent, running: &mut Running, prompt: &mut Prompt) -> io::Result<bool> {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return Ok(true);
    }
    if let Prompt::Typing(typed) = prompt {
        match key.code {
            KeyCode::Char(letter) if typed.len() < 30 => typed.push(letter),
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Esc => *prompt = Prompt::Keys,
            KeyCode::Enter => {
                let typed = typed.trim();
                match parse_duration(typed) {
                    Ok(timeout) => running.add(timeout),
                    Err(error) => {
                        let error = format!("«{typed}» is no duration: {error}");
                        *prompt = Prompt::Error(error);
                        return Ok(false);
                    }
                }
                *prompt = Prompt::Keys;
            }
            _ => {}
        }
        return Ok(false);
    }
    if std::mem::take(prompt) == Prompt::Help {
        return Ok(false);
    }
    match key.code {
        KeyCode::Char('q') => return Ok(true),
        KeyCode::Char('?' | 'h') => *prompt = Prompt::Help,
        KeyCode::Char('a') => *prompt = Prompt::Typing(String::new()),
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
