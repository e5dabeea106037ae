//! The check on instruction counts: `benches/compare.sh` with artificial counts, and the baseline in the
//! repository.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;

const WRITTEN: &str = "1000\tone\n2.50\ttwo, ÷ hyper\n";

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/compare.sh");

/// Returns the names of this compiler and processor in a baseline.
fn here() -> [String; 2] {
    let said = Command::new("sh")
        .args([SCRIPT, "--here"])
        .output()
        .unwrap()
        .stdout;
    let said = String::from_utf8(said).unwrap();
    let words: Vec<_> = said.split_whitespace().collect();
    assert_eq!(words[..2], ["#", "rustc"], "{said}");
    [words[2].to_owned(), words[3].to_owned()]
}

/// Runs the comparison with a tolerance of 3 %. Returns whether it passes, and its output.
fn compare(figures: &str) -> (bool, String) {
    let [compiler, processor] = here();
    compare_with(&format!("# rustc {compiler} {processor}\n{WRITTEN}"), figures)
}

fn compare_with(baseline: &str, figures: &str) -> (bool, String) {
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
fn an_equal_or_lower_count_passes() {
    let (passed, said) = compare("1029\tone\n1.25\ttwo, ÷ hyper\n");
    assert!(passed, "{said}");
    assert!(
        said.contains("+2.9 %") && said.contains("fewer: --update"),
        "{said}"
    );
}

#[test]
fn a_higher_count_fails() {
    for figures in [
        "1031\tone\n2.50\ttwo, ÷ hyper\n",
        "1000\tone\n2.58\ttwo, ÷ hyper\n",
    ] {
        let (passed, said) = compare(figures);
        assert!(!passed && said.contains("TOO MANY"), "{said}");
    }
}

#[test]
fn a_missing_count_fails() {
    for (figures, why) in [
        ("1000\tone\n", "MISSING"),
        ("", "MISSING"),
        ("0\tone\n2.50\ttwo, ÷ hyper\n", "NOT COUNTED"),
        ("1000\tone\n2.50\ttwo, ÷ hyper\n7\tthree\n", "NEW"),
    ] {
        let (passed, said) = compare(figures);
        assert!(!passed && said.contains(why), "{said}");
    }
}

#[test]
fn another_compiler_has_a_wider_tolerance() {
    let [_, processor] = here();
    let baseline = format!("# rustc 1.0.0 {processor}\n{WRITTEN}");
    let grown = |by: &str| compare_with(&baseline, &format!("{by}\tone\n2.50\ttwo, ÷ hyper\n")).0;
    assert!(grown("1140") && !grown("1160"));
}

#[test]
fn another_processor_has_no_baseline() {
    let [compiler, processor] = here();
    for other in ["pdp11".to_owned(), format!("{processor}+more")] {
        let baseline = format!("# rustc {compiler} {other}\n{WRITTEN}");
        let (passed, said) = compare_with(&baseline, "5000\tone\n");
        assert!(passed && said.contains("not compared"), "{said}");
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
        let (passed, said) = compare_with(&written, &written);
        assert!(passed && written.starts_with("# rustc "), "{said}");
    }
}
