//! `tokio/test-util` slows tokio's clock, and must not be in the benchmarks' build.

use std::process::Command;

#[test]
fn nothing_turns_test_util_on() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--edges",
            "features,normal",
            "--package",
            "tickwheel-bench",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let tree = String::from_utf8(tree.stdout).expect("cargo prints text");
    assert!(
        tree.contains("tokio feature \"time\""),
        "not a tree of features:\n{tree}"
    );
    assert!(!tree.contains("test-util"), "{tree}");
}
