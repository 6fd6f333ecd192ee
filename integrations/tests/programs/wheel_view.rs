//! `wheel_view`: one frame as text, the keys in a real pseudo-terminal, and the animated picture.
//!
//! Invariant: a test waits for what it wants to see on the screen, and for nothing that has to be
//! there by a time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::process::LONGEST_WAIT;

const PATH: &str = env!("CARGO_BIN_EXE_wheel_view");

#[test]
fn a_frame_names_its_levels_and_their_counts_add_up() {
    let frame = frame(&["--add", "3days"]);
    let levels = frame.lines().filter(|line| line.starts_with(" level "));
    let levels: Vec<(usize, usize)> = levels
        .map(|line| (number_after(line, " level "), number_before(line, " timer")))
        .collect();
    let numbers: Vec<_> = levels.iter().map(|&(number, _)| number).collect();
    assert_eq!(numbers, [3, 2, 1, 0], "{frame}");
    let pending: usize = levels.iter().map(|&(_, timers)| timers).sum();
    assert!(pending > 500, "{frame}");
    assert_eq!(pending, number_before(&frame, " pending"), "{frame}");
    let ended = number_before(&frame, " cancelled") + number_before(&frame, " fired");
    let armed = number_before(&frame, " armed");
    assert_eq!(armed, pending + ended, "{frame}");
    assert!(number_before(&frame, " pushed back") > ended, "{frame}");
    assert!(frame.contains("#1 of 3d: 3d left"), "{frame}");
}

#[test]
fn a_frame_is_the_same_each_time_and_another_with_another_seed() {
    assert_eq!(frame(&[]), frame(&["--seed", "1"]));
    assert_ne!(frame(&[]), frame(&["--seed", "2"]));
    assert_ne!(frame(&[]), frame(&["--after", "31s"]));
}

#[test]
fn a_frame_fits_its_size() {
    for (width, height) in [(80, 18), (80, 24), (100, 30), (200, 50)] {
        let size = [width.to_string(), height.to_string()];
        let far = ["--add", "100years", "--add", "5s"];
        let mut options = vec!["--width", &size[0], "--height", &size[1]];
        options.extend(far);
        let frame = frame(&options);
        assert_eq!(frame.lines().count(), height, "{frame}");
        let longest = frame.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(width), "{frame}");
        for part in [
            "pending",
            "fired",
            "late by",
            "#1 of 100y",
            "#2 of 5s",
            "q quit",
        ] {
            // In a very low window, the timers that were added may take more lines than there are.
            assert!(
                frame.contains(part) || part == "#2 of 5s",
                "{part}: {frame}"
            );
        }
    }
}

#[test]
fn a_frame_in_a_terminal_is_that_of_a_pipe() {
    let mut terminal = Terminal::start(&["--frame"]);
    assert_eq!(terminal.ends(), 0);
    let shown = terminal.screen(|screen| screen.contents());
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    // The terminal has scrolled by the line on which the cursor stands.
    assert_eq!(lines(&shown)[..23], lines(&frame(&[]))[1..]);
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("--frame") && error.contains("--svg"),
        "{error}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn too_long_a_run_before_a_frame_is_refused() {
    let output = run(&["--frame", "--after", "3years"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("give less"), "{error}");
}

#[test]
fn a_tick_that_nobody_could_wait_for_is_refused() {
    for (tick, part) in [
        ("1h", "at most 1s"),
        ("0", "at least 1ms"),
        ("1us", "at least"),
    ] {
        let output = run(&["--tick", tick]);
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_paused_picture_stands_still_until_it_is_stepped() {
    let mut terminal = Terminal::start(&["--preset", "1"]);
    terminal.shows("running");
    terminal.shows("load: 20 connections");
    terminal.press(" ");
    terminal.shows("PAUSED");
    // If the clock went on, this would be another tick. A slow machine can only hide that.
    let tick = terminal.tick();
    thread::sleep(Duration::from_millis(100));
    terminal.press("s");
    terminal.shows(&format!("tick {} of", tick + 1));
    terminal.press("S");
    terminal.shows(&format!("tick {} of", tick + 65));
    terminal.press(" ");
    terminal.shows("running");
    terminal.passes(tick + 70);
    terminal.quits();
}

#[test]
fn keys_add_reset_and_cancel() {
    let mut terminal = Terminal::start(&["--preset", "0"]);
    terminal.shows("no timers of yours");
    terminal.press(" ");
    terminal.shows("PAUSED");
    terminal.press("a3days\r");
    terminal.shows("> #1 of 3d: 3d left");
    terminal.shows("level 3");
    terminal.press("a10s\r");
    terminal.shows("> #2 of 10s: 10s left");
    terminal.press("S");
    terminal.shows("#2 of 10s: 8.7s left");
    terminal.press("r");
    terminal.shows("#2 of 10s: 10s left");
    terminal.press("c");
    terminal.shows(" 1 of yours");
    terminal.shows("1 cancelled");
    terminal.press("asoon\r");
    terminal.shows("«soon» is no duration");
    terminal.press("a40ms\r");
    terminal.shows("#3 of 40ms");
    // The clock may stand in the middle of a tick.
    terminal.press("sss");
    terminal.shows("#3 of 40ms: fired");
    terminal.shows("1 fired");
    terminal.press("C");
    terminal.shows(" 0 pending");
    terminal.shows("no timers of yours");
    terminal.press("a\r");
    terminal.shows("«» is no duration");
    terminal.quits();
}

#[test]
fn keys_choose_the_load_and_its_rate() {
    let mut terminal = Terminal::start(&["--preset", "0"]);
    terminal.shows("load: nothing");
    terminal.press("2");
    terminal.shows("load: 500 connections, 250 heartbeats/s");
    terminal.press("+");
    terminal.shows("500 heartbeats/s");
    terminal.press("--");
    terminal.shows("125 heartbeats/s");
    terminal.press("?");
    terminal.shows("any key closes this");
    terminal.press("x");
    terminal.shows("Space pause");
    terminal.quits();
}

#[test]
fn a_window_that_changes_its_size_is_drawn_anew() {
    let mut terminal = Terminal::start(&[]);
    terminal.shows("running");
    terminal.resize(12, 60);
    terminal.shows("The window is too small");
    terminal.resize(40, 120);
    terminal.shows("cancel all");
    terminal.quits();
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_as_before() {
    let mut terminal = Terminal::start(&[]);
    terminal.shows("running");
    assert!(terminal.is_taken());
    terminal.terminate();
    assert_eq!(terminal.ends(), 0);
    assert!(terminal.is_as_before());
}

#[test]
fn the_key_of_an_interrupt_ends_it() {
    let mut terminal = Terminal::start(&[]);
    terminal.shows("running");
    terminal.press("\x03");
    assert_eq!(terminal.ends(), 0);
    assert!(terminal.is_as_before());
}

#[test]
fn the_picture_is_the_one_in_the_documents() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/wheel.svg");
    let kept = std::fs::read_to_string(file).expect("docs/wheel.svg is there");
    // Not by `assert_eq`: nobody reads the difference.
    assert!(
        svg(&[]) == kept,
        "write it anew: cargo run -p tickwheel-integrations --bin wheel_view -- --svg docs/wheel.svg"
    );
    assert!(svg(&[]) != svg(&["--seed", "2"]));
}

#[test]
fn the_picture_is_small_well_formed_needs_nothing_else_and_begins_visible() {
    let svg = svg(&[]);
    assert!(svg.len() < 150_000);
    let document = roxmltree::Document::parse(&svg).expect("it is XML");
    assert!(document.root_element().has_tag_name("svg"));
    let names: BTreeSet<_> = document
        .descendants()
        .map(|node| node.tag_name().name())
        .collect();
    assert!(!names.contains("script") && !names.contains("image"));
    assert!(!svg.contains("url(") && !svg.contains("@import"));
    let style = document
        .descendants()
        .find(|node| node.has_tag_name("style"));
    let style = style.and_then(|node| node.text()).expect("it has a style");
    let keyframes: BTreeMap<&str, &str> = style
        .split("@keyframes ")
        .skip(1)
        .filter_map(|keyframes| keyframes.split_once('{'))
        .collect();
    let (mut used, mut seen_at_first) = (BTreeSet::new(), 0);
    for node in document.descendants() {
        for name in animations(node) {
            let stops = keyframes.get(name).unwrap_or_else(|| panic!("no {name}"));
            let is_hidden = node.attribute("opacity") == Some("0");
            let first = stops.split('}').next().unwrap();
            assert!(is_hidden || !first.ends_with("{opacity:0"), "{node:?}");
            seen_at_first += usize::from(!is_hidden);
            used.insert(name);
        }
    }
    assert!(used.len() > 20 && seen_at_first > 40);
}

/// The names of the keyframes by which an element moves.
fn animations<'a>(node: roxmltree::Node<'a, '_>) -> impl Iterator<Item = &'a str> {
    let style = node.attribute("style").unwrap_or_default();
    let names = style.split(';').filter_map(|part| {
        let shorthand = part.strip_prefix("animation:");
        let name = shorthand.and_then(|animation| animation.split(' ').next());
        name.or_else(|| part.strip_prefix("animation-name:"))
    });
    names.flat_map(|names| names.split(','))
}

#[test]
fn a_picture_that_cannot_be_written_is_an_error() {
    let output = run(&["--svg", "/nowhere/wheel.svg"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot write /nowhere/wheel.svg"), "{error}");
}

fn run(options: &[&str]) -> Output {
    let mut command = Command::new(PATH);
    let command = command.args(options).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn frame(options: &[&str]) -> String {
    let output = run(&[&["--frame"], options].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is UTF-8")
}

fn svg(options: &[&str]) -> String {
    let output = run(&[&["--svg", "-"], options].concat());
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("it is UTF-8")
}

fn number_after(text: &str, part: &str) -> usize {
    let (_, after) = text.split_once(part).expect("the part is there");
    number(after.split_whitespace().next().expect("a word follows"))
}

fn number_before(text: &str, part: &str) -> usize {
    let (before, _) = text
        .split_once(part)
        .unwrap_or_else(|| panic!("no {part:?} in {text}"));
    number(before.split_whitespace().last().expect("a word is before"))
}

fn number(word: &str) -> usize {
    let digits = word.replace(',', "");
    digits
        .parse()
        .unwrap_or_else(|_| panic!("no number: {word:?}"))
}

/// The program in a pseudo-terminal of 80 columns and 24 lines. It ends with the test.
struct Terminal {
    program: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    reading: Option<thread::JoinHandle<()>>,
    /// Of the terminal, before the program began.
    before: String,
}

impl Terminal {
    fn start(options: &[&str]) -> Terminal {
        let size = PtySize {
            rows: 24,
            cols: 80,
            ..PtySize::default()
        };
        let pair = native_pty_system()
            .openpty(size)
            .expect("a pseudo-terminal");
        let before = mode(&*pair.master);
        let mut command = CommandBuilder::new(PATH);
        command.args(options);
        command.env("TERM", "xterm-256color");
        let program = pair
            .slave
            .spawn_command(command)
            .expect("the program starts");
        drop(pair.slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(cells(24), cells(80), 0)));
        let mut reader = pair.master.try_clone_reader().expect("a reader");
        let drawn = screen.clone();
        let reading = thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The system reports the end as an error, too.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                lock(&drawn).process(&bytes[..count]);
            }
        });
        Terminal {
            keys: pair.master.take_writer().expect("a writer"),
            master: pair.master,
            program,
            screen,
            reading: Some(reading),
            before,
        }
    }

    fn screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(lock(&self.screen).screen())
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it reads keys");
    }

    /// Waits until the screen shows that.
    fn shows(&self, part: &str) {
        self.waits(part, |text| text.contains(part));
    }

    /// Waits until a tick has passed.
    fn passes(&self, tick: usize) {
        self.waits("a later tick", |text| number_after(text, " tick ") > tick);
    }

    fn waits(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        let end = Instant::now() + LONGEST_WAIT;
        while !is_there(&self.screen(vt100::Screen::contents)) {
            let shown = || self.screen(vt100::Screen::contents);
            assert!(Instant::now() < end, "no {what:?} in:\n{}", shown());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn tick(&self) -> usize {
        number_after(&self.screen(vt100::Screen::contents), " tick ")
    }

    fn resize(&self, rows: u16, cols: u16) {
        lock(&self.screen)
            .screen_mut()
            .set_size(cells(rows), cells(cols));
        let size = PtySize {
            rows,
            cols,
            ..PtySize::default()
        };
        self.master.resize(size).expect("it takes a size");
    }

    fn terminate(&self) {
        let id = self.program.process_id().expect("it runs").to_string();
        let kill = Command::new("kill").args(["-TERM", &id]).status();
        assert!(kill.expect("there is a program `kill`").success());
    }

    /// Waits for the end of the program, and for all that it has drawn. Gives its exit code.
    fn ends(&mut self) -> u32 {
        let end = Instant::now() + LONGEST_WAIT;
        loop {
            if let Some(status) = self.program.try_wait().expect("it can be asked") {
                if let Some(reading) = self.reading.take() {
                    reading.join().expect("the reader ends");
                }
                return status.exit_code();
            }
            assert!(Instant::now() < end, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn quits(&mut self) {
        assert!(self.is_taken());
        self.press("q");
        assert_eq!(self.ends(), 0);
        assert!(self.is_as_before());
    }

    /// The program draws on the alternate screen, and gets each key at once.
    fn is_taken(&self) -> bool {
        self.screen(vt100::Screen::alternate_screen) && mode(&*self.master) != self.before
    }

    fn is_as_before(&self) -> bool {
        let is_alternate = self.screen(vt100::Screen::alternate_screen);
        let hides_cursor = self.screen(vt100::Screen::hide_cursor);
        !is_alternate && !hides_cursor && mode(&*self.master) == self.before
    }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a terminal has cells")
}

/// The terminal's mode: whether it echoes, and whether it waits for whole lines.
fn mode(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios().expect("it has a mode"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
