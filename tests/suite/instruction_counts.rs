//! The check on instruction counts: `benches/compare.sh` with artificial counts, and the baseline in the
//! repository.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;

use crate::harness::texts::assert_contains;

const WRITTEN: &str = "1000\tone\n2.50\ttwo, ÷ hyper\n";

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/compare.sh");

/// Returns the names of this compiler and processor in a baseline.
fn here() -> [String; 2] {
    let output = Command::new("sh").args([SCRIPT, "--here"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let words: Vec<_> = said.split_whitespace().collect();
    assert_eq!(words[..2], ["#", "rustc"], "{said}");
    [words[2].to_owned(), words[3].to_owned()]
}

/// Runs the comparison with a tolerance of 3 %. Returns whether it passes, and its output.
fn compare(baseline: &str, figures: &str) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let (before, now) = (dir.path().join("before"), dir.path().join("now"));
    fs::write(&before, baseline).unwrap();
    fs::write(&now, figures).unwrap();
    let mut command = Command::new("sh");
    let output = command
        .arg(SCRIPT)
        .args([&before, &now])
        .arg("3")
        .output()
        .unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), said)
}

#[test]
fn a_count_that_grew_or_is_missing_fails() {
    let [compiler, processor] = here();
    let own = format!("{compiler} {processor}");
    // Another compiler has a wider tolerance, and another processor no baseline.
    let (older, more) = (format!("1.0.0 {processor}"), format!("{own}+more"));
    let pdp = format!("{compiler} pdp11");
    for (made_on, figures, passes, part) in [
        (&own, "1029\tone\n1.25\ttwo, ÷ hyper\n", true, "+2.9 %"),
        (&own, "1029\tone\n1.25\ttwo, ÷ hyper\n", true, "fewer: --update"),
        (&own, "1031\tone\n2.50\ttwo, ÷ hyper\n", false, "TOO MANY"),
        (&own, "1000\tone\n2.58\ttwo, ÷ hyper\n", false, "TOO MANY"),
        (&own, "1000\tone\n", false, "MISSING"),
        (&own, "", false, "MISSING"),
        (&own, "0\tone\n2.50\ttwo, ÷ hyper\n", false, "NOT COUNTED"),
        (&own, "1000\tone\n2.50\ttwo, ÷ hyper\n7\tthree\n", false, "NEW"),
        (&older, "1140\tone\n2.50\ttwo, ÷ hyper\n", true, ""),
        (&older, "1160\tone\n2.50\ttwo, ÷ hyper\n", false, ""),
        (&pdp, "5000\tone\n", true, "not compared"),
        (&more, "5000\tone\n", true, "not compared"),
    ] {
        let (passed, said) = compare(&format!("# rustc {made_on}\n{WRITTEN}"), figures);
        assert_eq!(passed, passes, "{made_on}: {said}");
        assert_contains(&said, part);
    }
}

#[test]
fn the_baseline_is_consistent() {
    for file in ["instructions.txt", "whole.txt"] {
        let path = format!("{}/benches/{file}", env!("CARGO_MANIFEST_DIR"));
        // A command updates the ratios of whole requests.
        let Ok(written) = fs::read_to_string(path) else {
            continue;
        };
        let (passed, said) = compare(&written, &written);
        assert!(passed && written.starts_with("# rustc "), "{said}");
    }
}
