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

use crate::draw::{self, Prompt};
use crate::running::{Running, Setting};

/// How long a picture stands, and how long a key or a signal waits at the most.
const FRAME: Duration = Duration::from_millis(50);

/// Runs until a key or a signal ends it.
pub fn run(setting: Setting) -> io::Result<()> {
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, is_ended.clone())?;
    }
    let mut screen = Screen {
        running: Running::new(setting, false)?,
        prompt: Prompt::Keys,
    };
    // It restores the terminal after a panic too.
    ratatui::run(|terminal| {
        while !is_ended.load(Ordering::Relaxed) {
            let moment = screen.running.look();
            terminal.draw(|frame| {
                draw::draw(&moment, &screen.prompt, frame.area(), frame.buffer_mut());
            })?;
            let mut wait = FRAME;
            if !screen.running.is_paused() {
                screen.running.run_for(std::mem::take(&mut wait));
            }
            while event::poll(std::mem::take(&mut wait))? {
                let key = event::read()?.as_key_event();
                let key = key.filter(|key| key.kind != KeyEventKind::Release);
                if let Some(key) = key
                    && screen.press(key)?
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

struct Screen {
    running: Running,
    prompt: Prompt,
}

impl Screen {
    /// Does what a key says. `true` if that is to end.
    fn press(&mut self, key: KeyEvent) -> io::Result<bool> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Ok(true);
        }
        if let Prompt::Typing(typed) = &mut self.prompt {
            match key.code {
                KeyCode::Char(letter) if typed.len() < 30 => typed.push(letter),
                KeyCode::Backspace => drop(typed.pop()),
                KeyCode::Esc => self.prompt = Prompt::Keys,
                KeyCode::Enter => {
                    let typed = typed.trim();
                    match parse_duration(typed) {
                        Ok(timeout) => self.running.add(timeout),
                        Err(error) => {
                            let error = format!("«{typed}» is no duration: {error}");
                            self.prompt = Prompt::Error(error);
                            return Ok(false);
                        }
                    }
                    self.prompt = Prompt::Keys;
                }
                _ => {}
            }
            return Ok(false);
        }
        if std::mem::take(&mut self.prompt) == Prompt::Help {
            return Ok(false);
        }
        let running = &mut self.running;
        match key.code {
            KeyCode::Char('q') => return Ok(true),
            KeyCode::Char('?' | 'h') => self.prompt = Prompt::Help,
            KeyCode::Char('a') => self.prompt = Prompt::Typing(String::new()),
            KeyCode::Char(' ') => running.pause_or_go_on(),
            KeyCode::Char('s') if running.is_paused() => running.step(),
            KeyCode::Char('S') if running.is_paused() => running.step_turn(),
            KeyCode::Char('+' | '=') => running.load.change_rate(2.0),
            KeyCode::Char('-') => running.load.change_rate(0.5),
            KeyCode::Char('r') => running.reset_one(),
            KeyCode::Char('R') => running.reset_all(),
            KeyCode::Char('c') => running.cancel_one(),
            KeyCode::Char('C') => running.cancel_all(),
            KeyCode::Tab => running.select_next(),
            KeyCode::Char(digit @ '0'..='5') => running.begin(digit as usize - '0' as usize)?,
            _ => {}
        }
        Ok(false)
    }
}
