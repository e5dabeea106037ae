//! What makes a run red when instructions grow: `benches/compare.sh` on figures made up here, and the figures that are
//! written down.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;

const WRITTEN: &str = "1000\tone\n2.50\ttwo, ÷ hyper\n";

/// What the compiler is that is used here.
fn compiler() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or("rustc".to_owned());
    let said = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap();
    said.split(' ').nth(1).unwrap().to_owned()
}

/// Whether the comparison passes with a tolerance of 3 %, and what it says.
fn compare(figures: &str) -> (bool, String) {
    let arch = std::env::consts::ARCH;
    compare_with(&format!("# rustc {} {arch}\n{WRITTEN}", compiler()), figures)
}

fn compare_with(baseline: &str, figures: &str) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let (before, now) = (dir.path().join("before"), dir.path().join("now"));
    fs::write(&before, baseline).unwrap();
    fs::write(&now, figures).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/compare.sh");
    let mut command = Command::new("sh");
    let output = command
        .arg(script)
        .args([&before, &now])
        .arg("3")
        .output()
        .unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), said)
}

#[test]
fn what_stays_or_shrinks_passes() {
    let (passed, said) = compare("1029\tone\n1.25\ttwo, ÷ hyper\n");
    assert!(passed, "{said}");
    assert!(
        said.contains("+2.9 %") && said.contains("fewer: --update"),
        "{said}"
    );
}

#[test]
fn what_grows_fails() {
    for figures in [
        "1031\tone\n2.50\ttwo, ÷ hyper\n",
        "1000\tone\n2.58\ttwo, ÷ hyper\n",
    ] {
        let (passed, said) = compare(figures);
        assert!(!passed && said.contains("TOO MANY"), "{said}");
    }
}

#[test]
fn what_is_not_counted_fails() {
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
fn another_compiler_has_more_room_but_not_any() {
    let baseline = format!("# rustc 1.0.0 {}\n{WRITTEN}", std::env::consts::ARCH);
    let grown = |by: &str| compare_with(&baseline, &format!("{by}\tone\n2.50\ttwo, ÷ hyper\n")).0;
    assert!(grown("1140") && !grown("1160"));
}

#[test]
fn another_processor_has_nothing_to_compare_with() {
    let baseline = format!("# rustc {} pdp11\n{WRITTEN}", compiler());
    let (passed, said) = compare_with(&baseline, "5000\tone\n");
    assert!(passed && said.contains("not compared"), "{said}");
}

#[test]
fn what_is_written_down_agrees_with_itself() {
    for file in ["instructions.txt", "whole.txt"] {
        let path = format!("{}/benches/{file}", env!("CARGO_MANIFEST_DIR"));
        // The ratios of whole requests are written down by command.
        let Ok(written) = fs::read_to_string(path) else {
            continue;
        };
        let (passed, said) = compare_with(&written, &written);
        assert!(passed && written.starts_with("# rustc "), "{said}");
    }
}
