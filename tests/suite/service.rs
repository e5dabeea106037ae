//! `baton service` and `baton uninstall` with the real program and a scripted service manager.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use baton_strict::{Options, Reply, Strict};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::program::{Program, ask, baton, config_for, fifo, printed};
use crate::harness::temp;
use crate::harness::texts::{assert_begins, assert_contains, assert_ends};

/// A home directory, and a `systemctl` that records its calls.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(temp());
        fs::create_dir(home.path("bin")).unwrap();
        home.systemctl(0);
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    /// Sets the exit code of the manager.
    fn systemctl(&self, code: u8) {
        let file = self.path("bin/systemctl");
        let calls = self.path("calls");
        let script = format!(
            "#!/bin/sh\necho \"$*\" >> '{}'\necho broken >&2\nexit {code}\n",
            calls.display()
        );
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let _ = fs::remove_file(self.path("calls"));
        text.lines().map(str::to_owned).collect()
    }

    fn run(&self, words: &[&str]) -> Output {
        let path = format!("{}:/bin:/usr/bin", self.path("bin").display());
        let mut command = baton(self.0.path(), words);
        command
            .env_remove("XDG_CONFIG_HOME")
            .env("PATH", path)
            .output()
            .unwrap()
    }

    fn printed(&self, words: &[&str]) -> String {
        printed(self.run(words))
    }

    fn unit(&self) -> PathBuf {
        self.path(".config/systemd/user/baton.service")
    }
}

#[test]
fn a_service_is_installed_shown_and_removed() {
    let home = Home::new();
    let printed = home.printed(&["service", "install", "--print"]);
    assert!(
        !home.unit().exists() && home.calls().is_empty(),
        "--print does nothing"
    );
    let text = home.printed(&["service", "install"]);
    let part = "started at http://127.0.0.1:8787, and again at each login\n";
    assert_ends(&text, part);
    assert_eq!(fs::read_to_string(home.unit()).unwrap(), printed);
    assert!(printed.contains(&format!(
        "ExecStart=\"{}\" \"serve\"",
        env!("CARGO_BIN_EXE_baton")
    )));
    assert_eq!(
        home.calls(),
        [
            "--user daemon-reload",
            "--user enable baton.service",
            "--user restart baton.service"
        ]
    );
    home.printed(&["service", "uninstall"]);
    assert!(!home.unit().exists());
    assert_eq!(
        home.calls(),
        ["--user disable --now baton.service", "--user daemon-reload"]
    );
    assert_begins(&home.printed(&["service", "uninstall"]), "not installed");
}

#[test]
fn a_manager_that_fails_is_reported_with_its_command() {
    let home = Home::new();
    home.systemctl(1);
    let out = home.run(&["service", "install"]);
    assert_eq!(out.status.code(), Some(69));
    let error = String::from_utf8(out.stderr).unwrap();
    assert_contains(&error, "`systemctl --user daemon-reload` failed: broken");
    assert!(!home.unit().exists(), "taken back");
    // An existing unit stays unchanged.
    fs::create_dir_all(home.unit().parent().unwrap()).unwrap();
    fs::write(home.unit(), "before").unwrap();
    assert_eq!(home.run(&["service", "install"]).status.code(), Some(69));
    assert_eq!(fs::read_to_string(home.unit()).unwrap(), "before");
    fs::remove_file(home.unit()).unwrap();
    // Opening a FIFO would wait for its other end.
    fifo(&home.unit());
    home.calls();
    let out = home.run(&["service", "install"]);
    assert_eq!(out.status.code(), Some(73));
    assert_contains(&String::from_utf8(out.stderr).unwrap(), "not a regular file");
    assert!(home.calls().is_empty());
    // A launch agent is rendered on every platform.
    let plist = home.printed(&["service", "install", "--print", "--manager", "launchd"]);
    assert!(plist.contains("<string>local.baton</string>"), "{plist}");
}

/// In a container or a root shell there is no manager.
#[test]
fn a_purge_goes_on_without_a_manager_and_reports_it() {
    let home = Home::new();
    home.printed(&["service", "install"]);
    let state = home.path("state");
    fs::create_dir(&state).unwrap();
    for file in ["baton.db", "journal.db", "seal.key"] {
        fs::write(state.join(file), "").unwrap();
    }
    home.systemctl(1);
    let dir = state.display().to_string();
    let out = home.run(&["uninstall", "--purge", "--yes", "--state-dir", &dir]);
    assert_eq!(out.status.code(), Some(69));
    let error = String::from_utf8(out.stderr).unwrap();
    assert_contains(&error, "`systemctl --user daemon-reload` failed: broken");
    assert!(!state.exists() && !home.unit().exists());
}

/// Other programs have directories of the same names.
#[test]
fn a_purge_leaves_a_directory_that_baton_never_used() {
    let home = Home::new();
    let project = home.path("project");
    fs::create_dir_all(project.join("ledgers/mine")).unwrap();
    let dir = project.display().to_string();
    let text = home.printed(&["uninstall", "--purge", "--yes", "--state-dir", &dir]);
    assert!(text.contains("ledgers: not baton's"), "{text}");
    assert!(project.join("ledgers/mine").exists());
}

#[test]
fn uninstall_lists_and_removes_nothing_without_a_yes() {
    let home = Home::new();
    home.printed(&["service", "install"]);
    let out = home.run(&["uninstall"]);
    assert_eq!(out.status.code(), Some(64));
    let text = String::from_utf8(out.stdout).unwrap();
    let unit = home.unit().display().to_string();
    assert_contains(&text, "will be removed:\n");
    assert_contains(&text, &unit);
    let part = format!("{}: remove it the way", env!("CARGO_BIN_EXE_baton"));
    assert_contains(&text, &part);
    assert!(home.unit().exists());
    assert_contains(&home.printed(&["uninstall", "--purge", "--dry-run"]), &unit);
    assert!(home.unit().exists());
    home.printed(&["uninstall", "--yes"]);
    assert!(!home.unit().exists());
    assert_begins(&home.printed(&["uninstall", "--yes"]), "nothing to remove\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn purge_removes_all_that_a_used_proxy_leaves_and_nothing_else() {
    let model = |_: &baton_strict::Received| Reply::text("Hello.");
    let provider = Strict::start(model, Options::default()).await.unwrap();
    let home = Home::new();
    let state = home.path("state");
    let dir = state.display().to_string();
    let config = config_for(&provider, home.0.path(), "");
    let mut program = Program::start(&config, &state);
    ask(&program, &[json!({"role": "user", "content": "Hello."})]).await;
    let words = ["uninstall", "--purge", "--yes", "--state-dir", &dir];
    let refused = home.run(&words);
    assert_eq!(refused.status.code(), Some(69), "{refused:?}");
    let listed = home.printed(&["uninstall", "--purge", "--dry-run", "--state-dir", &dir]);
    assert!(listed.contains(&format!("  {dir}/baton.db\n")), "{listed}");
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    fs::write(state.join("notes.txt"), "mine").unwrap();
    let text = home.printed(&words);
    for name in ["baton.db", "journal.db", "seal.key"] {
        assert!(text.contains(&format!("  {dir}/{name}\n")), "{text}");
    }
    assert_contains(&text, &format!("  {dir}/notes.txt: not baton's\n"));
    let left: Vec<_> = fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["notes.txt"]);
    assert!(config.exists(), "a config that was named stays");
    fs::remove_file(state.join("notes.txt")).unwrap();
    home.printed(&words);
    assert!(!state.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_real_run_is_left_after_a_purge() {
    let model = |_: &baton_strict::Received| Reply::text("Hello.");
    let provider = Strict::start(model, Options::default()).await.unwrap();
    let home = Home::new();
    let state = home.path("state");
    let dir = state.display().to_string();
    let config = config_for(&provider, home.0.path(), "").display().to_string();
    let options = ["--config", &config, "--state-dir", &dir];
    let with =
        |words: &[&'static str], rest: &[&'static str]| home.printed(&[words, &options, rest].concat());
    with(&["run"], &["true"]);
    let goal = ["port", "--goal", "Mend the importer.", "--now", "Run its tests."];
    with(&["handoffs", "create"], &goal);
    for name in ["starting.lock", "ledgers"] {
        assert!(state.join(name).exists(), "{name}");
    }
    fs::write(state.join("serving.json.new"), "half").unwrap();
    // Other programs write there as well.
    let others = ["handoffs/notes.txt", "handoffs/port/own.yaml", "ledgers/mine.md"];
    for name in others {
        fs::write(state.join(name), "mine").unwrap();
    }
    let text = with(&["uninstall", "--purge", "--yes"], &[]);
    for name in others {
        assert_contains(&text, &format!("  {dir}/{name}: not baton's\n"));
    }
    assert_eq!(text.matches("not baton's").count(), others.len(), "{text}");
    let mut left = below(&state);
    left.sort();
    assert_eq!(left, others.map(|name| state.join(name)), "{text}");
}

/// A purge removes the default config, and no other.
#[test]
fn a_config_that_the_environment_names_stays() {
    let home = Home::new();
    let (config, state) = (home.path("team.toml"), home.path("state"));
    fs::create_dir(&state).unwrap();
    fs::write(
        &config,
        format!("[state]\ndir = {:?}\n", state.display().to_string()),
    )
    .unwrap();
    let out = baton(home.0.path(), &["uninstall", "--purge", "--yes"])
        .env("BATON_CONFIG", &config)
        .output()
        .unwrap();
    assert_contains(&printed(out), "team.toml: your own config");
    assert!(config.exists() && !state.exists());
}

/// Files below a directory.
fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let of_entry = |path: PathBuf| match path.is_dir() {
        true => below(&path),
        false => vec![path],
    };
    entries.flat_map(of_entry).collect()
}
