//! The live picture: keys go to the timer's thread, and moments come from it.
//!
//! Invariant: the terminal is as it was, however this ends: by a key, by a signal, by an error or
//! by a panic of either thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGINT, SIGTERM};
use tickwheel_integrations::parse_duration;

use crate::draw::{self, Prompt};
use crate::model::Moment;
use crate::running::{self, Command, Setting};

/// How long a key or a signal waits, at the most.
const WAIT: Duration = Duration::from_millis(25);

/// Runs until a key or a signal ends it.
pub fn run(setting: Setting) -> io::Result<()> {
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, is_ended.clone())?;
    }
    let (commands, received) = mpsc::channel();
    let (moments, shown) = mpsc::channel();
    // It also sets a hook that restores the terminal in a panic of any thread.
    let mut terminal = ratatui::try_init()?;
    let timer = thread::spawn(move || running::run(setting, &received, &moments));
    let screen = Screen {
        commands,
        moment: Moment::default(),
        prompt: Prompt::Keys,
    };
    let shown = screen.run(&mut terminal, &shown, &is_ended);
    ratatui::try_restore()?;
    shown?;
    // The commands' sender is gone, so the timer's thread ends.
    match timer.join() {
        Ok(ended) => ended,
        Err(_) => Err(io::Error::other("the timer's thread has panicked")),
    }
}

struct Screen {
    commands: Sender<Command>,
    moment: Moment,
    prompt: Prompt,
}

impl Screen {
    fn run(
        mut self,
        terminal: &mut DefaultTerminal,
        shown: &Receiver<Moment>,
        is_ended: &AtomicBool,
    ) -> io::Result<()> {
        let mut is_changed = true;
        while !is_ended.load(Ordering::Relaxed) {
            loop {
                match shown.try_recv() {
                    Ok(moment) => (self.moment, is_changed) = (moment, true),
                    Err(TryRecvError::Empty) => break,
                    // The thread has ended by an error or a panic, which `run` reports.
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            if std::mem::take(&mut is_changed) {
                terminal.draw(|frame| {
                    draw::draw(&self.moment, &self.prompt, frame.area(), frame.buffer_mut());
                })?;
            }
            if event::poll(WAIT)? {
                is_changed = true;
                let event = event::read()?;
                let key = event.as_key_event();
                let key = key.filter(|key| key.kind != KeyEventKind::Release);
                if key.is_some_and(|key| self.press(key)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Does what a key says. `true` if that is to end.
    fn press(&mut self, key: KeyEvent) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return true;
        }
        if let Prompt::Typing(typed) = &mut self.prompt {
            match key.code {
                KeyCode::Char(letter) if typed.len() < 30 => typed.push(letter),
                KeyCode::Backspace => drop(typed.pop()),
                KeyCode::Esc => self.prompt = Prompt::Keys,
                KeyCode::Enter => {
                    let typed = typed.trim().to_owned();
                    self.add(&typed);
                }
                _ => {}
            }
            return false;
        }
        if std::mem::take(&mut self.prompt) == Prompt::Help {
            return false;
        }
        let command = match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Char('?' | 'h') => {
                self.prompt = Prompt::Help;
                return false;
            }
            KeyCode::Char('a') => {
                self.prompt = Prompt::Typing(String::new());
                return false;
            }
            KeyCode::Char(' ') => Command::PauseOrGoOn,
            KeyCode::Char('s') => Command::Step,
            KeyCode::Char('S') => Command::StepTurn,
            KeyCode::Char('+' | '=') => Command::Faster,
            KeyCode::Char('-') => Command::Slower,
            KeyCode::Char('r') => Command::ResetOne,
            KeyCode::Char('R') => Command::ResetAll,
            KeyCode::Char('c') => Command::CancelOne,
            KeyCode::Char('C') => Command::CancelAll,
            KeyCode::Tab => Command::Next,
            KeyCode::Char(digit @ '0'..='5') => Command::Preset(digit as usize - '0' as usize),
            _ => return false,
        };
        self.send(command);
        false
    }

    fn add(&mut self, typed: &str) {
        let timeout = match typed {
            "" => Ok(None),
            typed => parse_duration(typed).map(Some),
        };
        self.prompt = match timeout {
            Ok(timeout) => {
                self.send(Command::Add(timeout));
                Prompt::Keys
            }
            Err(error) => Prompt::Error(format!("«{typed}» is no duration: {error}")),
        };
    }

    fn send(&self, command: Command) {
        // If its thread has ended, the loop sees that.
        let _ = self.commands.send(command);
    }
}
