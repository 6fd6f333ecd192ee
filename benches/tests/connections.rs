//! What `connections` refuses, in place of a hang, a panic or a measurement of nothing.

use std::process::Command;

#[test]
fn a_value_that_makes_no_sense_is_refused_with_a_hint() {
    for (option, hint) in [
        ("--heartbeat=0s", "from 1ms"),
        ("--heartbeat=NaN", "expected number"),
        ("--heartbeat=20s", "--timeout 30s"),
        ("--timeout=-1s", "expected number"),
        ("--timeout=30", "time unit needed"),
        ("--timeout=300000000h", "to a day"),
        ("--tick=0s", "from 1ms"),
        ("--tick=20s", "--timeout 30s"),
        ("--shards=0", "1 to 1024"),
        ("--connections=0", "from 1"),
        ("--connections=-5", "from 1"),
        ("--run-time=inf", "expected number"),
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

#[test]
fn durations_have_units_and_a_run_tells_how_far_it_is() {
    let run = Command::new(env!("CARGO_BIN_EXE_connections"))
        .args(["--connections=1000", "--timeout=1s", "--heartbeat=100ms"])
        .args(["--tick=10ms", "--run-time=200ms"])
        .output()
        .unwrap();
    let [printed, progress] = [run.stdout, run.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(run.status.success(), "{progress}");
    let head = "1,000 deadlines of 1s, each reset once in 100ms; ticks of 10ms, 2 shards\n";
    assert!(printed.starts_with(head), "{printed}");
    assert_eq!(progress.lines().count(), 3, "{progress}");
}
