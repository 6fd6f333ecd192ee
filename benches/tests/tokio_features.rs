//! tokio's features in the benchmarks' build: what its users turn on, and nothing that slows it.

use std::process::Command;

/// With tokio's feature `full` its own timer takes the locks of `parking_lot`. Its feature
/// `test-util` slows its clock.
#[test]
fn tokio_has_the_locks_of_full_and_no_test_util() {
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
    assert!(tree.contains("tokio feature \"parking_lot\""), "{tree}");
    assert!(!tree.contains("test-util"), "{tree}");
}
