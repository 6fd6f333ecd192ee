//! tokio's features in the benchmarks' build: what its users turn on, and nothing that slows it.

use std::process::Command;

#[test]
fn nothing_turns_test_util_on() {
    let tree = tree_of_features();
    assert!(!tree.contains("test-util"), "{tree}");
}

/// tokio's own timer takes locks, and with its feature `full` they are those of `parking_lot`.
#[test]
fn tokio_has_the_locks_of_its_feature_full() {
    let tree = tree_of_features();
    assert!(tree.contains("tokio feature \"parking_lot\""), "{tree}");
}

fn tree_of_features() -> String {
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
    tree
}
