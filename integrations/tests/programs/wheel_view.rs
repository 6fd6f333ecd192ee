//! `wheel_view`: one frame as text, the keys in a real pseudo-terminal, and the animated picture.
//!
//! Invariant: a test waits for what it wants to see on the screen, and for nothing that has to be
//! there by a time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::process::{LONGEST_WAIT, terminate};

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
}

#[test]
fn a_frame_fits_its_size() {
    for (width, height) in [(80, 18), (80, 24), (200, 50)] {
        let size = [width.to_string(), height.to_string()];
        let far = ["--add", "100years", "--add", "5s"];
        let frame = frame(&[&["--width", &size[0], "--height", &size[1]], &far[..]].concat());
        assert_eq!(frame.lines().count(), height, "{frame}");
        let longest = frame.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(width), "{frame}");
        for part in ["level 0", "#1 of 100y", "#2 of 5s", "q quit"] {
            assert!(frame.contains(part), "{part}: {frame}");
        }
        assert_eq!(frame.contains("level 6"), height > 18, "{frame}");
    }
}

#[test]
fn what_cannot_be_done_is_told_with_a_hint() {
    let cases: [(&[&str], _, _); 3] = [
        (&[], 1, "`--frame` prints one frame as text"),
        (&["--svg", "/nowhere/a.svg"], 1, "cannot write /nowhere"),
        (&["--tick", "0"], 2, "longer than zero"),
    ];
    for (options, code, hint) in cases {
        let output = run(options);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(hint), "{error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_paused_picture_stands_still_until_it_is_stepped() {
    let mut terminal = Terminal::start(&["--preset", "1"]);
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
    terminal.waits("a later tick", |it| it.tick() > tick + 70);
    terminal.press("q");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn keys_add_reset_and_cancel() {
    let mut terminal = Terminal::start(&["--preset", "0"]);
    for (keys, shown) in [
        ("", &["no timers of yours"][..]),
        (" ", &["PAUSED"]),
        ("A", &["#1 of 3d: 3d left", "level 3"]),
        ("a", &["#2 of 10s: 10s left"]),
        ("S", &["#2 of 10s: 8.7s left"]),
        ("r", &["#2 of 10s: 10s left"]),
        ("SSSSSSSS", &["#2 of 10s: fired", "1 fired"]),
        ("c", &[" 1 of yours", "0 cancelled"]),
        ("c", &["no timers of yours", "1 cancelled", " 0 pending"]),
        ("a", &["#3 of 10s", " 1 pending"]),
        ("C", &["no timers of yours", " 0 pending"]),
        ("2", &["load: 500 connections, 250 heartbeats/s"]),
        ("?", &["any key closes this"]),
        ("x", &["Space pause"]),
    ] {
        terminal.press(keys);
        shown.iter().for_each(|part| terminal.shows(part));
    }
}

#[test]
fn a_signal_or_an_interrupt_ends_it_and_the_terminal_is_as_before() {
    for interrupts in [false, true] {
        let mut terminal = Terminal::start(&[]);
        terminal.shows("running");
        assert!(terminal.screen(vt100::Screen::alternate_screen));
        match interrupts {
            true => terminal.press("\x03"),
            false => terminal.terminate(),
        }
        assert_eq!(terminal.ends(), 0);
        assert!(!terminal.screen(vt100::Screen::alternate_screen));
        assert!(!terminal.screen(vt100::Screen::hide_cursor));
    }
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
    for foreign in ["<script", "<image", "url(", "@import"] {
        assert!(!svg.contains(foreign), "{foreign}");
    }
    let keyframes = svg.split("@keyframes ").skip(1);
    let keyframes = keyframes.filter_map(|keyframes| keyframes.split_once('{'));
    let keyframes: BTreeMap<&str, &str> = keyframes.collect();
    let (mut used, mut seen_at_first) = (BTreeSet::new(), 0);
    for node in document.descendants() {
        let style = node.attribute("style").unwrap_or_default();
        let Some((_, name)) = style.split_once("animation-name:") else {
            continue;
        };
        let name = name.split(';').next().unwrap();
        let stops = keyframes.get(name).unwrap_or_else(|| panic!("no {name}"));
        let is_hidden = node.attribute("opacity") == Some("0");
        let first = stops.split('}').next().unwrap();
        assert!(is_hidden || first.ends_with("{opacity:1"), "{node:?}");
        seen_at_first += usize::from(!is_hidden);
        used.insert(name);
    }
    assert!(used.len() > 20 && seen_at_first > 40);
}

fn run(options: &[&str]) -> Output {
    let mut command = Command::new(PATH);
    let command = command.args(options).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn frame(options: &[&str]) -> String {
    printed(&[&["--frame"], options].concat())
}

fn svg(options: &[&str]) -> String {
    printed(&[&["--svg", "-"], options].concat())
}

fn printed(options: &[&str]) -> String {
    let output = run(options);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is UTF-8")
}

fn number_after(text: &str, part: &str) -> usize {
    let (_, after) = text.split_once(part).expect("the part is there");
    number(after.split_whitespace().next())
}

fn number_before(text: &str, part: &str) -> usize {
    let before = text.split_once(part).map(|(before, _)| before);
    number(before.unwrap_or_default().split_whitespace().last())
}

fn number(word: Option<&str>) -> usize {
    let digits = word.unwrap_or_default().replace(',', "");
    digits.parse().expect("a number is there")
}

/// The program in a pseudo-terminal of 80 columns and 24 lines. It ends with the test.
struct Terminal {
    program: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    reading: Option<thread::JoinHandle<()>>,
    _master: Box<dyn MasterPty + Send>,
}

impl Terminal {
    fn start(options: &[&str]) -> Terminal {
        let pair = native_pty_system().openpty(PtySize::default()).unwrap();
        let mut command = CommandBuilder::new(PATH);
        command.args(options);
        command.env("TERM", "xterm-256color");
        let program = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::default()));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let drawn = screen.clone();
        let reading = thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The system reports the end as an error, too.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                drawn.lock().unwrap().process(&bytes[..count]);
            }
        });
        Terminal {
            program,
            keys: pair.master.take_writer().unwrap(),
            screen,
            reading: Some(reading),
            _master: pair.master,
        }
    }

    fn screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.screen.lock().unwrap().screen())
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it reads keys");
    }

    /// Waits until the screen shows that.
    fn shows(&self, part: &str) {
        let is_shown = |it: &Terminal| it.screen(vt100::Screen::contents).contains(part);
        self.waits(part, is_shown);
    }

    fn waits(&self, what: &str, is_there: impl Fn(&Terminal) -> bool) {
        let end = Instant::now() + LONGEST_WAIT;
        while !is_there(self) {
            let shown = || self.screen(vt100::Screen::contents);
            assert!(Instant::now() < end, "no {what:?} in:\n{}", shown());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn tick(&self) -> usize {
        number_after(&self.screen(vt100::Screen::contents), " tick ")
    }

    fn terminate(&self) {
        terminate(self.program.process_id().expect("it runs"));
    }

    /// Waits for the end of the program, and for all that it has drawn. Gives its exit code.
    fn ends(&mut self) -> u32 {
        let reading = self.reading.take().expect("it is asked once");
        let has_ended = |_: &Terminal| reading.is_finished();
        self.waits("end", has_ended);
        self.program.wait().expect("it can be asked").exit_code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
