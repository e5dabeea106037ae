//! The inspector's page in headless Chromium: with canned API responses, and with the running program and an
//! agent. Screenshots are kept in `target/screenshots`.
//!
//! `tests/browser/setup` installs the driver for the system's browser. `.ci/full browser` runs these tests.

#![allow(clippy::print_stdout)] // What the scripts say belongs to the test's output.

use std::path::Path;
use std::process::Command;

use baton_strict::{Autopilot, Options, Strict};

use crate::harness::program::{self, Program};

/// Usual paths of the browser. `tests/browser/browser.mjs` uses the same list.
const BROWSERS: [&str; 3] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];

#[test]
#[ignore = "needs Chromium: .ci/full browser"]
fn with_canned_answers() {
    let program = Running::start("http://127.0.0.1:1");
    program.drive(&[
        "align.test.mjs",
        "chain.test.mjs",
        "page.test.mjs",
        "views.test.mjs",
    ]);
}

#[test]
#[ignore = "needs Chromium: .ci/full browser"]
fn has_no_accessibility_violations() {
    let program = Running::start("http://127.0.0.1:1");
    program.drive(&["axe.test.mjs"]);
}

#[test]
#[ignore = "needs Chromium: .ci/full browser"]
fn on_the_running_program() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let provider = runtime
        .block_on(Strict::start(Autopilot, Options::default()))
        .unwrap();
    let program = Running::start(&provider.url());
    program.drive(&["live.test.mjs"]);
    let complaints: Vec<String> = provider.complaints().iter().map(ToString::to_string).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
#[ignore = "needs Chromium: .ci/full browser"]
fn behind_a_token() {
    let program = Running::start_with("http://127.0.0.1:1", &[("BATON_ADMIN__TOKEN", TOKEN)]);
    program.drive(&["token.test.mjs"]);
}

/// Also in `tests/browser/token.test.mjs`.
const TOKEN: &str = "0123456789abcdef-browser";

/// Fails without a browser or its driver.
fn require_browser() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os("BATON_CHROMIUM").is_some_and(|path| Path::new(&path).exists());
    let browser = named || BROWSERS.iter().any(|path| Path::new(path).exists());
    assert!(browser, "chromium is not installed: apt-get install chromium");
    let driver = root.join("target/browser-node/ready").exists();
    assert!(
        driver,
        "the browser's driver is not installed: run tests/browser/setup"
    );
}

/// The program as a user runs it.
struct Running {
    program: Program,
    _state: tempfile::TempDir,
}

impl Running {
    fn start(provider: &str) -> Self {
        Self::start_with(provider, &[])
    }

    fn start_with(provider: &str, settings: &[(&str, &str)]) -> Self {
        require_browser();
        let state = tempfile::tempdir().unwrap();
        let mut command = program::serve(state.path());
        command
            .env("BATON_UPSTREAMS__ANTHROPIC__BASE_URL", provider)
            .envs(settings.iter().copied());
        Self {
            program: Program::launch(&mut command),
            _state: state,
        }
    }

    /// Runs scripts of `tests/browser` against the program.
    fn drive(&self, scripts: &[&str]) {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
        let output = Command::new("node")
            .args(["--test", "--test-reporter=spec", "--test-concurrency=1"])
            .args(scripts.iter().map(|script| directory.join(script)))
            .env("BATON_URL", &self.program.data)
            .env("BATON_ADMIN", &self.program.admin)
            .env("BATON_PROGRAM", env!("CARGO_BIN_EXE_baton"))
            .envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{errors}");
        println!("{said}");
    }
}
