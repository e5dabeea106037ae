//! Seal keys that change while proxies run.
//!
//! In every process that uses the files, new sentinels use the new key, and old ones verify until their key
//! is retired. A killed rotation loses none.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use baton_core::marker::seal::SealKey;
use baton_llm::state::store::seal_key;
use baton_strict::{Options, Queue, Reply, Strict};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::fixture::{PROMPT, handoff, history, said, texts, then, user};
use crate::harness::program::{self, Program, ask, config_for};
use crate::harness::redis::RedisServer;
use crate::harness::temp;
use crate::harness::texts::{assert_begins, assert_contains};

/// Milliseconds that `baton seal-key rotate` takes at most.
const ROTATION: u64 = 60;

fn baton(state: &Path, config: Option<&Path>, args: &[&str]) -> Command {
    let mut command = program::baton(state, args);
    command.arg("--state-dir").arg(state);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    command
}

fn done(state: &Path, args: &[&str]) -> String {
    program::printed(baton(state, None, args).output().unwrap())
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the ids of the keys, beginning with the one that creates seals.
fn ids(state: &Path) -> Vec<String> {
    let shown: Value = serde_json::from_str(&done(state, &["seal-key", "--json"])).unwrap();
    assert_eq!(shown["from"], "file");
    let keys = shown["keys"].as_array().unwrap().iter();
    keys.map(|key| key["id"].as_str().unwrap().to_owned()).collect()
}

struct Team {
    provider: Strict,
    script: Queue,
    dir: tempfile::TempDir,
}

impl Team {
    async fn new() -> Self {
        let script = Queue::new([]);
        Self {
            provider: Strict::start(script.clone(), Options::default()).await.unwrap(),
            script,
            dir: temp(),
        }
    }

    /// Starts a process with its own store, which can verify others' handoffs only by their seals.
    fn start(&self, name: &str) -> Program {
        let config = config_for(&self.provider, self.dir.path(), "store.kind = 'memory'\n");
        let named = self.dir.path().join(format!("{name}.toml"));
        std::fs::rename(config, &named).unwrap();
        Program::start(&named, &self.state())
    }

    fn state(&self) -> std::path::PathBuf {
        self.dir.path().join("state")
    }

    /// Returns a conversation after a handoff, sealed with the current key.
    async fn handed_over(&self, program: &Program) -> Vec<Value> {
        self.script.push(handoff());
        self.script.push(Reply::text("Fresh."));
        // An identical request within seconds would count as a repeat.
        let mut history = history();
        history.push(user(&format!("Now {}.", self.provider.requests().len())));
        let message = ask(program, &history).await;
        assert!(said(&message)[1].contains("[[handoff-resume:"), "{message:?}");
        then(&history, &message, "More.")
    }

    /// Whether a process cuts this conversation.
    async fn cuts(&self, program: &Program, history: &[Value]) -> bool {
        self.script.push(Reply::text("Well."));
        ask(program, history).await;
        let sent = texts(self.provider.requests().last().unwrap().messages());
        let cut = sent[0] == format!("u: {PROMPT}");
        assert_eq!(sent.len(), if cut { 3 } else { history.len() }, "{sent:?}");
        cut
    }
}

/// Returns the seal in the closing line.
fn seal_of(history: &[Value]) -> String {
    let text = json!(history).to_string();
    let at = text.rfind("[[/handoff-resume:").unwrap() + "[[/handoff-resume:".len();
    text[at..at + 22].to_owned()
}

fn id_of(history: &[Value]) -> Uuid {
    let text = json!(history).to_string();
    let at = text.find("[[handoff-resume:").unwrap() + "[[handoff-resume:".len();
    text[at..at + 36].parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_running_proxies_follow_a_rotated_and_a_retired_key() {
    let team = Team::new().await;
    let (one, other) = (team.start("one"), team.start("other"));
    let state = team.state();
    let first = ids(&state);
    assert_eq!(first.len(), 1, "{first:?}");

    let old = team.handed_over(&one).await;
    assert!(team.cuts(&other, &old).await, "by the seal alone");
    let said = done(&state, &["seal-key", "--rotate"]);
    let second = ids(&state);
    assert_eq!(second[1..], first, "{second:?}");
    assert_begins(&said, &format!("new seals are made with key {}\n", second[0]));

    // Each process seals with the new key, and the other one accepts it. Old seals stay valid.
    for (maker, reader) in [(&one, &other), (&other, &one)] {
        let new = team.handed_over(maker).await;
        let keys = seal_key::load(&state).unwrap().unwrap();
        let sealed = |key: &SealKey| key.seal("local", id_of(&new), PROMPT) == seal_of(&new);
        assert!(sealed(&keys.newest.key) && !sealed(&keys.older[0].key));
        assert!(team.cuts(reader, &new).await);
        assert!(team.cuts(reader, &old).await);
    }

    done(&state, &["seal-key", "--retire", &first[0][..4]]);
    assert_eq!(ids(&state), second[..1]);
    assert!(!team.cuts(&other, &old).await, "nothing proves it any more");
    assert!(team.cuts(&one, &old).await, "its own store still knows it");
    assert_eq!(team.provider.complaints(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_killed_at_any_moment_loses_no_key() {
    let team = Team::new().await;
    let program = team.start("one");
    let old = team.handed_over(&program).await;
    let state = team.state();
    let mut made = ids(&state);
    let mut rotated = 0;
    for moment in (0..ROTATION).step_by(4) {
        let mut command = baton(&state, None, &["seal-key", "--rotate"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(moment)).await;
        let _ = child.kill();
        child.wait().unwrap();
        let now = ids(&state);
        assert!(
            now.ends_with(&made) && now.len() <= made.len() + 1,
            "{moment}: {now:?} after {made:?}"
        );
        rotated += now.len() - made.len();
        made = now;
        if made.len() > 10 {
            done(&state, &["seal-key", "--retire", &made[1]]);
            made.remove(1);
        }
    }
    assert!(
        rotated < (ROTATION / 4) as usize,
        "it was killed before it was done, too"
    );
    // Leftover files do no harm.
    done(&state, &["seal-key", "--rotate"]);
    let reader = team.start("other");
    assert!(team.cuts(&reader, &old).await);
    let left: Vec<_> = std::fs::read_dir(&state)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(
        !left.iter().any(|name| name.to_string_lossy().ends_with(".new")),
        "{left:?}"
    );
}

#[test]
fn keys_are_shown_by_their_ids_and_never_printed() {
    let dir = temp();
    let missing = baton(dir.path(), None, &["seal-key"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(66), "{}", complaint(&missing));
    assert_contains(&complaint(&missing), "no seal key");
    assert_contains(&complaint(&missing), "seal-key --rotate");

    seal_key::load_or_make(dir.path()).unwrap();
    let rotated = done(dir.path(), &["seal-key", "--rotate"]);
    let all = ids(dir.path());
    let shown = done(dir.path(), &["seal-key"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].starts_with("2 seal keys in ") && lines[0].ends_with("seal.key"),
        "{shown}"
    );
    assert!(
        lines[2].starts_with(&all[0]) && lines[2].ends_with("makes new seals, and verifies"),
        "{shown}"
    );
    assert!(
        lines[3].starts_with(&all[1]) && lines[3].contains("  now  verifies"),
        "{shown}"
    );
    let files =
        [seal_key::FILE, seal_key::OLDER].map(|name| std::fs::read_to_string(dir.path().join(name)).unwrap());
    let json = done(dir.path(), &["seal-key", "--json"]);
    for key in files.iter().flat_map(|text| text.lines()).map(|line| &line[..64]) {
        for said in [&rotated, &shown, &json] {
            assert!(!said.contains(key), "{said}");
            assert!(!said.contains(&key[..8]), "not even its beginning: {said}");
        }
    }

    for (args, exit, told) in [
        (&["seal-key", "--retire", &all[0]][..], 64, "makes the new seals"),
        (&["seal-key", "--retire", "zz"], 66, "no older key"),
        (&["seal-key", "--retire"], 64, "a value is required"),
    ] {
        let refused = baton(dir.path(), None, args).output().unwrap();
        assert_eq!(
            refused.status.code(),
            Some(exit),
            "{args:?}: {}",
            complaint(&refused)
        );
        assert!(
            complaint(&refused).contains(told),
            "{args:?}: {}",
            complaint(&refused)
        );
    }
    assert_eq!(
        done(dir.path(), &["seal-key", "--retire", "all"]),
        format!("retired: {}\n", all[1])
    );
    assert_eq!(
        done(dir.path(), &["seal-key", "--retire", "all"]),
        "there is no older key to retire\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_the_config_are_a_list_whose_first_makes_seals() {
    let team = Team::new().await;
    let [old, new] = [
        "the-older-key-of-this-team-0123456789",
        "the-newer-key-of-this-team-0123456789",
    ];
    let start = |name: &str, keys: &str| {
        let more = format!("store.kind = 'memory'\nhandoff.seal_key = {keys}\n");
        let dir = team.dir.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        let config = config_for(&team.provider, &dir, &more);
        (
            Program::start(&config, &dir.join("state")),
            config,
            dir.join("state"),
        )
    };
    let (before, ..) = start("before", &format!("'{old}'"));
    let conversation = team.handed_over(&before).await;
    let (both, config, state) = start("both", &format!("['{new}', '{old}']"));
    assert!(team.cuts(&both, &conversation).await);
    let newer = team.handed_over(&both).await;
    assert_eq!(
        seal_of(&newer),
        SealKey::new(new.as_bytes()).seal("local", id_of(&newer), PROMPT)
    );
    let (after, ..) = start("after", &format!("['{new}']"));
    assert!(team.cuts(&after, &newer).await && !team.cuts(&after, &conversation).await);

    let shown = baton(&state, Some(&config), &["seal-key", "--json"])
        .output()
        .unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&value["from"], value["keys"].as_array().map(Vec::len)),
        (&json!("config"), Some(2))
    );
    assert!(!text.contains(new) && !text.contains(old), "{text}");
    for args in [&["seal-key", "--rotate"][..], &["seal-key", "--retire", "all"]] {
        let refused = baton(&state, Some(&config), args).output().unwrap();
        assert_eq!(refused.status.code(), Some(64));
        assert_contains(&complaint(&refused), "handoff.seal_key");
    }
}

/// With a store on a server.
mod redis {
    use super::*;

    /// Three processes over one store have separate state directories.
    ///
    /// The processes share one directory of keys, or each has its own, with copies of the files.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs Redis: .ci/full redis"]
    async fn replicas_with_state_directories_of_their_own_follow_without_a_restart() {
        let server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
        for shares_a_directory in [true, false] {
            let team = Team::new().await;
            let directory = |name: &str| match shares_a_directory {
                true => team.dir.path().join("keys"),
                false => team.dir.path().join(format!("keys of {name}")),
            };
            let names = ["one", "two", "three"];
            let configs = names.map(|name| {
                let dir = team.dir.path().join(name);
                std::fs::create_dir(&dir).unwrap();
                let more = format!(
                    "store.kind = 'redis'\nstore.url = '{}'\nstore.prefix = 'keys-{shares_a_directory}'\nhandoff.seal_key_dir = '{}'\n",
                    server.url(),
                    directory(name).display()
                );
                (config_for(&team.provider, &dir, &more), dir.join("state"))
            });
            let seal_key = |args: &[&str]| {
                let (config, state) = &configs[0];
                let output = baton(state, Some(config), &[&["seal-key"], args].concat())
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{args:?}: {}", complaint(&output));
                String::from_utf8(output.stdout).unwrap()
            };
            // Like a secret manager or a copy does.
            let hand_out = || {
                for name in names.iter().skip(1).filter(|_| !shares_a_directory) {
                    std::fs::create_dir_all(directory(name)).unwrap();
                    for file in [seal_key::OLDER, seal_key::FILE] {
                        let (from, to) = (directory("one").join(file), directory(name).join(file));
                        if from.exists() {
                            std::fs::copy(&from, to.with_extension("new")).unwrap();
                            std::fs::rename(to.with_extension("new"), to).unwrap();
                        }
                    }
                }
            };
            seal_key::load_or_make(&directory("one")).unwrap();
            hand_out();
            let all = configs
                .each_ref()
                .map(|(config, state)| Program::start(config, state));
            let old = team.handed_over(&all[0]).await;
            let made = seal_key(&["--rotate"]);
            hand_out();
            let new = team.handed_over(&all[1]).await;
            let keys = seal_key::load(&directory("one")).unwrap().unwrap();
            assert!(made.contains(&keys.newest.key.id()), "{made}");
            assert_eq!(keys.newest.key.seal("local", id_of(&new), PROMPT), seal_of(&new));
            // The store is lost, and the memory of its processes with it. The seals prove both handoffs in
            // each process.
            drop(all);
            server.cli(&["FLUSHALL"]);
            let all = configs
                .each_ref()
                .map(|(config, state)| Program::start(config, state));
            for program in &all {
                assert!(team.cuts(program, &old).await && team.cuts(program, &new).await);
            }
            drop(all);
            server.cli(&["FLUSHALL"]);
            let all = configs
                .each_ref()
                .map(|(config, state)| Program::start(config, state));
            seal_key(&["--retire", "all"]);
            hand_out();
            for program in &all {
                assert!(team.cuts(program, &new).await && !team.cuts(program, &old).await);
            }
            assert_eq!(team.provider.complaints(), []);
        }
    }
}
