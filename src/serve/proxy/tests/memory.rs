//! Peak memory of a test, which needs a process of its own, because `cargo test` runs tests as threads of one
//! process.

use std::process::Command;

/// Variable that is set in a process that runs one test.
const ALONE: &str = "BATON_TEST_ALONE";

/// Whether this process runs no other test. If it does, the test of this path must pass in a process of its own.
pub(super) fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let test = format!("proxy::tests::{test}");
    let ran = alone
        .args([&test, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let (text, errors) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(
        ran.status.success() && text.contains("1 passed"),
        "{text}{errors}"
    );
    false
}

/// Peak memory of the process, in bytes.
pub(super) fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}
