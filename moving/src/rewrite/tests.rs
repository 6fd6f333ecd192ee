//! Each form in which a path is written, before and after.

use std::collections::BTreeSet;

use super::{Rewritten, rewrite};

fn rewritten(source: &str) -> Rewritten {
    let names = BTreeSet::from(["tokio".to_owned(), "tokio_1".to_owned()]);
    rewrite(source, &names).expect("the source is Rust")
}

#[track_caller]
fn becomes(before: &str, after: &str) {
    let rewritten = rewritten(before);
    assert_eq!(rewritten.text, after);
    assert!(!rewritten.moved.is_empty());
}

#[track_caller]
fn stays(source: &str) -> Rewritten {
    let rewritten = rewritten(source);
    assert_eq!(rewritten.text, source);
    assert!(rewritten.moved.is_empty());
    rewritten
}

#[test]
fn a_use_of_time_alone_changes_its_first_name() {
    becomes("use tokio::time;", "use tickwheel::time;");
    becomes("use tokio::time::*;", "use tickwheel::time::*;");
    becomes("use tokio::time as clock;", "use tickwheel::time as clock;");
    becomes("use ::tokio::time::sleep;", "use ::tickwheel::time::sleep;");
    becomes(
        "use tokio::{time::{self, Duration}};",
        "use tickwheel::{time::{self, Duration}};",
    );
    becomes(
        "pub(crate) use tokio::time::{\n    sleep, // why\n};",
        "pub(crate) use tickwheel::time::{\n    sleep, // why\n};",
    );
}

#[test]
fn a_nested_use_is_split() {
    becomes(
        "use tokio::{task, time};",
        "use tokio::task;\nuse tickwheel::time;",
    );
    becomes(
        "use tokio::{task, time::{self, Duration}, sync};",
        "use tokio::{task, sync};\nuse tickwheel::time::{self, Duration};",
    );
    becomes(
        "use tokio::{time, self};",
        "use tokio::{self};\nuse tickwheel::time;",
    );
    becomes(
        "use tokio::{sync, time, time::sleep, task, time as t,};",
        "use tokio::{sync, task};\nuse tickwheel::{time, time::sleep, time as t};",
    );
    becomes(
        "use tokio::{sync, task, time, time::sleep};",
        "use tokio::{sync, task};\nuse tickwheel::{time, time::sleep};",
    );
}

#[test]
fn a_split_use_keeps_attributes_visibility_and_indent() {
    becomes(
        "mod a {\n    #[cfg(test)]\n    pub(crate) use ::tokio::{task, time};\n}",
        "mod a {\n    #[cfg(test)]\n    pub(crate) use ::tokio::task;\n    \
         #[cfg(test)]\n    pub(crate) use ::tickwheel::time;\n}",
    );
    becomes(
        "fn f() { use tokio::{task, time}; }",
        "fn f() { use tokio::task; use tickwheel::time; }",
    );
}

#[test]
fn a_use_of_several_crates_is_split_within() {
    becomes(
        "use {std::io, tokio::{task, time}};",
        "use {std::io, tokio::task, tickwheel::time};",
    );
    becomes(
        "use {tokio::time, std::io};",
        "use {tickwheel::time, std::io};",
    );
}

#[test]
fn inline_paths_change_in_code_types_and_macros() {
    becomes(
        "const A: B = tokio::time::C;",
        "const A: B = tickwheel::time::C;",
    );
    becomes(
        "fn f() -> ::tokio::time::Sleep {}",
        "fn f() -> ::tickwheel::time::Sleep {}",
    );
    becomes(
        "fn f() { tokio::select! { _ = tokio::time::sleep(d) => {} } }",
        "fn f() { tokio::select! { _ = tickwheel::time::sleep(d) => {} } }",
    );
    becomes(
        "macro_rules! m { ($d:expr) => { tokio::time::sleep($d) }; }",
        "macro_rules! m { ($d:expr) => { tickwheel::time::sleep($d) }; }",
    );
    becomes(
        "macro_rules! m { ($d:ident) => { use tokio::time::$d; }; }",
        "macro_rules! m { ($d:ident) => { use tickwheel::time::$d; }; }",
    );
}

#[test]
fn another_name_of_tokio_changes_too() {
    becomes(
        "fn f() { tokio_1::time::sleep(d) }",
        "fn f() { tickwheel::time::sleep(d) }",
    );
}

#[test]
fn wide_letters_and_marks_before_a_path_move_nothing_else() {
    becomes(
        "const S: &str = \"日本語\";\r\nuse tokio::time;\r\n",
        "const S: &str = \"日本語\";\r\nuse tickwheel::time;\r\n",
    );
    becomes("\u{feff}use tokio::time;", "\u{feff}use tickwheel::time;");
}

#[test]
fn what_is_not_tokios_time_stays() {
    stays("#[tokio::test(start_paused = true)]\nasync fn f() {}");
    stays("use std::time::Duration; use tokio::{task, sync}; use tokio_util::codec;");
    stays("fn f() { print(\"tokio::time\"); self::time::sleep(tokio::timer::time()) }");
    stays("fn f() -> impl Sized + use<'a> { 1 }");
}

#[test]
fn what_it_leaves_is_named_with_its_line() {
    let lines = |source| -> Vec<usize> { stays(source).left.iter().map(|left| left.0).collect() };
    assert_eq!(lines("/// `tokio::time::sleep`\nfn f() {}"), [1]);
    assert_eq!(lines("\nuse tokio::*;"), [2]);
    assert_eq!(lines("\nuse tokio as rt;"), [2]);
    assert_eq!(lines("\n\nuse tokio_util::time::DelayQueue;"), [3]);
    assert_eq!(lines("fn f() { crate::tokio::time::sleep(d) }"), [1]);
    assert_eq!(lines("\nuse tokio::{spawn, *};"), [2]);
    assert_eq!(lines("\nuse tokio::{self as t, spawn};"), [2]);
    assert_eq!(
        lines("macro_rules! m { ($i:ident) => { tokio::$i::sleep(d) } }"),
        [1]
    );
    assert_eq!(lines("\nuse tokio_stream::{wrappers::*, StreamExt};"), [2]);
    assert_eq!(rewritten("pub use tokio::time::Sleep;").left.len(), 1);
    assert_eq!(
        rewritten("pub(crate) use tokio::{task, time};").left.len(),
        0
    );
}

#[test]
fn text_that_is_no_rust_is_an_error() {
    let names = BTreeSet::from(["tokio".to_owned()]);
    assert!(rewrite("use tokio::time; }", &names).is_err());
}

#[test]
fn an_interval_stream_moves_out_of_any_use() {
    becomes(
        "use tokio_stream::wrappers::IntervalStream as Ticks;",
        "use tickwheel::stream::IntervalStream as Ticks;",
    );
    becomes(
        "use tokio_stream::{StreamExt, wrappers::IntervalStream};",
        "use tokio_stream::StreamExt;\nuse tickwheel::stream::IntervalStream;",
    );
    becomes(
        "use tokio_stream::{wrappers::{IntervalStream, ReceiverStream}, StreamExt as _};",
        "use tokio_stream::{wrappers::ReceiverStream, StreamExt as _};\n\
         use tickwheel::stream::IntervalStream;",
    );
    becomes(
        "fn f() { tokio_stream::wrappers::IntervalStream::new(i) }",
        "fn f() { tickwheel::stream::IntervalStream::new(i) }",
    );
    assert!(rewritten("use tokio_stream::wrappers::IntervalStream;").streams);
    assert!(!rewritten("use tokio::time;").streams);
    stays("use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};");
}

#[test]
fn code_of_tests_is_told_from_other_code() {
    let in_code = |source| rewritten(source).in_code;
    assert!(in_code("use tokio::time;"));
    assert!(!in_code(
        "#[cfg(test)]\nmod tests { fn f() { tokio::time::sleep(d) } }"
    ));
    assert!(!in_code(
        "#[cfg(all(test, unix))] #[allow(unused)] use tokio::time;"
    ));
    assert!(in_code(
        "#[cfg(test)] mod tests { } fn f() { tokio::time::sleep(d) }"
    ));
    assert!(in_code("#[cfg(unix)] use tokio::time;"));
    let modules = stays("#[cfg(test)] mod tests; mod other; #[cfg(test)] mod more { }");
    assert_eq!(modules.test_modules, ["tests"]);
}

#[test]
fn line_ends_stay() {
    becomes(
        "use tokio::{task, time};\r\nfn f() {}\r\n",
        "use tokio::task;\r\nuse tickwheel::time;\r\nfn f() {}\r\n",
    );
}
