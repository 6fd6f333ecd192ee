//! What `connections` refuses, in place of a hang, a panic or a measurement of nothing.

use std::process::Command;

#[test]
fn a_value_that_makes_no_sense_is_refused_with_a_hint() {
    for (option, hint) in [
        ("--heartbeat=0", "from 0.01"),
        ("--heartbeat=NaN", "from 0.01"),
        ("--heartbeat=20", "--timeout 30"),
        ("--timeout=-1", "from 0.01"),
        ("--timeout=1e300", "86400"),
        ("--tick=0", "from 1"),
        ("--tick=20000", "--timeout 30"),
        ("--shards=0", "1 to 1024"),
        ("--connections=0", "from 1"),
        ("--connections=-5", "from 1"),
        ("--run-time=inf", "86400"),
    ] {
        let refused = Command::new(env!("CARGO_BIN_EXE_connections"))
            .arg(option)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&refused.stderr);
        let name = option.split('=').next().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{option}: {told}");
        assert!(told.contains(name) && told.contains(hint), "{told}");
    }
}
