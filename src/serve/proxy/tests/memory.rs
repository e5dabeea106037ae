//! The memory of a test, which counts in a process of its own alone: `cargo test` runs tests as threads of one.

use std::process::Command;

/// Set in a process that runs one test.
const ALONE: &str = "BATON_TEST_ALONE";

/// Whether this process runs no other test; if not, the test of this path is run in one that does, and has to pass.
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

/// Peak of the process's memory, in bytes.
pub(super) fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}
