//! A call that needs a shard's lock does not compile without it.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the compiler says of a caller, beside the crate's own lock, that does `body`.
fn check(name: &str, body: &str) -> Result<(), String> {
    let root = env!("CARGO_MANIFEST_DIR");
    let source = format!(
        r##"
        #![allow(dead_code, unused_imports)]
        #[path = r#"{root}/src/sync.rs"#]
        mod sync;
        #[path = r#"{root}/src/shard/lock.rs"#]
        mod lock;
        mod deadlines {{
            use crate::lock::LockHeld;
            use crate::sync::{{Mutex, lock}};
            fn needs_lock(_: LockHeld<'_>) {{}}
            fn caller(shard: &Mutex<u64>) {{ {body} }}
        }}
        "##
    );
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(file.with_extension("rs"), source).unwrap();
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args([
            "--edition=2024",
            "--crate-type=lib",
            "--emit=metadata",
            "-o",
        ])
        .args([file.with_extension("rmeta"), file.with_extension("rs")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(said)
}

#[test]
fn code_that_needs_a_shards_lock_compiles_only_with_its_guard() {
    let held = "let guard = lock(shard); needs_lock(LockHeld::by(&guard));";
    assert_eq!(check("held", held), Ok(()));
    let without = "needs_lock(LockHeld(std::marker::PhantomData));";
    let after =
        "let guard = lock(shard); let held = LockHeld::by(&guard); drop(guard); needs_lock(held);";
    let of_temporary = "let held = LockHeld::by(&lock(shard)); needs_lock(held);";
    for (name, body, error) in [
        ("without_lock", without, "E0423"),
        ("after_lock", after, "E0505"),
        ("after_statement", of_temporary, "E0716"),
    ] {
        let said = check(name, body).expect_err(name);
        assert!(said.contains(error), "{name}: {said}");
    }
}
