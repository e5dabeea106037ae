//! `baton replay`: a journaled request goes out once more, and the two answers are compared.

use std::path::PathBuf;
use std::process::Output;

use baton_llm::state::journal::{BodySide, JournalReader};
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::matrix::fixture::{fresh, handoff};
use crate::matrix::variants::{ANTHROPIC, GEMINI};
use crate::savings::{Run, WIRES};

/// A journal of one exchange with a handoff in it, and the program to look at it with.
struct Replays {
    run: Run,
    config: PathBuf,
    id: String,
}

impl Replays {
    async fn new(run: Run, streamed: bool) -> Self {
        run.fixture.ask(&run.fixture.history(), streamed).await;
        let id = run.bill(1).await.remove(0).id;
        Self::over(run, id)
    }

    /// The program for an exchange of a journal that there is.
    fn over(run: Run, id: String) -> Self {
        let url = run.fixture.provider.url();
        let upstreams = ["anthropic", "openai", "gemini", "ollama"].map(|name| {
            let wire = if name == "ollama" {
                "wire = \"ollama\"\n"
            } else {
                ""
            };
            format!("[upstreams.{name}]\nbase_url = \"{url}\"\n{wire}")
        });
        let config = run.dir.path().join("baton.toml");
        std::fs::write(&config, upstreams.concat()).unwrap();
        Self { run, config, id }
    }

    fn command(&self, args: &[&str], key: Option<&str>) -> Output {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_baton"));
        command.env_clear().env("HOME", self.run.dir.path());
        if let Some(key) = key {
            for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
                command.env(name, key);
            }
        }
        command.args([
            "replay",
            &self.id,
            "--config",
            self.config.to_str().unwrap(),
            "--state-dir",
        ]);
        command.arg(self.run.dir.path()).args(args).output().unwrap()
    }

    async fn output(&self, args: &[&str]) -> String {
        let output = tokio::task::block_in_place(|| self.command(args, Some("sk-mine")));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn sent(&self, side: BodySide) -> Value {
        let query = JournalReader::open(self.run.dir.path()).unwrap().unwrap();
        serde_json::from_slice(&query.body(&self.id, side).unwrap().unwrap()).unwrap()
    }
}

/// On every wire, streamed and in one piece: the provider gets the leg's request again, with the key of the environment, and no
/// rule of its API is broken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leg_is_sent_again_as_it_was() {
    for variant in WIRES {
        for streamed in [true, false] {
            let run = Run::new(variant, [handoff(), fresh()]).await;
            let replays = Replays::new(run, streamed).await;
            replays
                .run
                .fixture
                .script
                .push((variant.style)(Reply::text("Another answer.")));
            let report: Value =
                serde_json::from_str(&replays.output(&["--leg", "2", "--json"]).await).unwrap();
            let received = replays.run.fixture.provider.generations();
            let (then, again) = (&received[1], &received[2]);
            assert_eq!(then.body, again.body, "{} {streamed}", variant.model);
            assert_eq!(report["now"]["text"], "Another answer.\n", "{report}");
            assert_eq!(report["same"], false);
            assert_eq!(report["then"]["model"], report["now"]["model"]);
            assert!(report["now"]["tokens"]["output"].as_u64() > Some(0), "{report}");
            assert_eq!(replays.run.fixture.provider.complaints(), []);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_agent_sent_goes_out_whole_and_to_another_model() {
    let run = Run::new(ANTHROPIC, [handoff(), fresh()]).await;
    let replays = Replays::new(run, true).await;
    replays.run.fixture.script.push(Reply::text("Read src/lib.rs."));
    let text = replays.output(&["--received", "--model", "claude-other"]).await;
    assert!(
        text.contains("now   200 claude-other") && text.contains("+ Read src/lib.rs."),
        "{text}"
    );
    let again = replays.run.fixture.provider.generations().pop().unwrap();
    let mut expected = replays.sent(BodySide::Received);
    expected["model"] = "claude-other".into();
    assert_eq!(again.body, expected);
}

/// The line that is printed sends the same request, where there is a shell and curl.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_for_a_shell_names_no_credential_and_works() {
    for variant in [ANTHROPIC, GEMINI] {
        let run = Run::new(variant, [handoff(), fresh()]).await;
        let replays = Replays::new(run, true).await;
        let line = replays.output(&["--leg", "2", "--dry-run"]).await;
        assert!(!line.contains("sk-mine") && line.contains("_API_KEY\""), "{line}");
        assert_eq!(
            replays.run.fixture.provider.generations().len(),
            2,
            "nothing was sent"
        );
        let sent = replays.sent(BodySide::Sent(1));
        std::fs::write(replays.run.dir.path().join("body"), sent.to_string()).unwrap();
        replays
            .run
            .fixture
            .script
            .push((variant.style)(Reply::text("By curl.")));
        let (_, curl) = line.split_once(" | ").unwrap();
        let script = format!("{} < body", curl.trim());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(replays.run.dir.path());
        shell.env("ANTHROPIC_API_KEY", "k").env("GEMINI_API_KEY", "k");
        let Ok(output) = tokio::task::block_in_place(|| shell.output()) else {
            return;
        };
        if output.status.code() == Some(127) {
            return; // There is no curl.
        }
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("By curl."),
            "{output:?}"
        );
        assert_eq!(replays.run.fixture.provider.complaints(), []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_replayed_says_what_to_do() {
    let run = Run::new(ANTHROPIC, [handoff(), fresh()]).await;
    let replays = Replays::new(run, true).await;
    for (args, key, code, words) in [
        (
            &["--leg", "3"][..],
            Some("k"),
            66,
            "there is no leg 3: the exchange has 2",
        ),
        (
            &["--to", "nowhere"],
            Some("k"),
            64,
            "--to takes one of: anthropic",
        ),
        (
            &["--to", "ollama"],
            Some("k"),
            64,
            "the request is anthropic, and `ollama` speaks ollama",
        ),
        (&[], None, 64, "set ANTHROPIC_API_KEY"),
    ] {
        let output = tokio::task::block_in_place(|| replays.command(args, key));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
    assert_eq!(replays.run.fixture.provider.generations().len(), 2);
}

const PRICES: &str = "source = \"mine\"\ndate = \"2026-11-24\"\n[[provider]]\nid = \"t\"\n[[provider.model]]\nid = \"m\"\nnames = [\"*strict*\"]\n\
                      price = [{ input = 4.0, cache_read = 0.2, cache_write = 5.0, output = 20.0 }]\n";

/// A journaled conversation is simulated by its own sizes: the arm of its own handoff has one cut, and nothing is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_simulated_once_for_each_arm() {
    for variant in WIRES {
        let run = Run::new(variant, [handoff(), fresh()]).await;
        let replays = Replays::new(run, true).await;
        let dir = replays.run.dir.path();
        let prices = dir.join("prices.toml");
        std::fs::write(&prices, PRICES).unwrap();
        let config = std::fs::read_to_string(&replays.config).unwrap();
        std::fs::write(&replays.config, format!("[bill]\nprices = {prices:?}\n{config}")).unwrap();
        let sent = replays.run.fixture.provider.generations().len();
        let plot = dir.join("arms.svg");
        let arms = ["--arms", "none,model,free,nudge=pays"];
        let report = replays.output(&[&arms[..], &["--json"]].concat()).await;
        let report: Value = serde_json::from_str(&report).unwrap();
        let names: Vec<_> = report["arms"]
            .as_array()
            .unwrap()
            .iter()
            .map(|arm| &arm["arm"])
            .collect();
        assert_eq!(names, ["none", "model", "free", "nudge=pays"]);
        assert_eq!(report["arms"][0]["cuts"].as_array().unwrap().len(), 0);
        assert_eq!(report["arms"][1]["cuts"][0]["reason"], "the model handed over");
        assert_eq!(report["session"]["calls"].as_array().unwrap().len(), 1);
        let text = replays
            .output(&[&arms[..], &["--plot", plot.to_str().unwrap()]].concat())
            .await;
        assert!(text.contains("1 cut") && text.contains("before call 1"), "{text}");
        assert!(std::fs::read_to_string(&plot).unwrap().starts_with("<svg"));
        assert_eq!(replays.run.fixture.provider.generations().len(), sent);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arms_that_cannot_be_run_are_named() {
    let run = Run::new(ANTHROPIC, [handoff(), fresh()]).await;
    let replays = Replays::new(run, true).await;
    for (args, message, code) in [
        (["--arms", "both"], "one of none, model, free", 64),
        (["--arms", "none"], "no price is known of a model", 65),
    ] {
        let output = tokio::task::block_in_place(|| replays.command(&args, None));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(message), "{stderr}");
        assert_eq!(output.status.code(), Some(code), "{stderr}");
    }
}

/// The turns after the first cut are sent to an upstream again, in each arm: whole, and after a carry-over prompt that
/// the model writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_turns_are_sent_anew_in_each_arm() {
    for variant in WIRES {
        let message = variant.message;
        let mut history = vec![
            message("user", "Mend read_bom in src/parse.rs."),
            message("assistant", "Looking."),
            message("user", "Go on."),
        ];
        let run = Run::new(variant, [handoff(), fresh()]).await;
        let answer = run.fixture.ask(&history, true).await;
        history.extend(answer.keep);
        history.push(message("user", "And the tests of it?"));
        run.fixture
            .push(Reply::text("read_bom in src/parse.rs is mended."));
        run.fixture.ask(&history, true).await;
        let id = run.bill(2).await.remove(0).id;
        let replays = Replays::over(run, id);
        let dir = replays.run.dir.path();
        let prices = dir.join("prices.toml");
        std::fs::write(&prices, PRICES).unwrap();
        let config = std::fs::read_to_string(&replays.config).unwrap();
        std::fs::write(&replays.config, format!("[bill]\nprices = {prices:?}\n{config}")).unwrap();
        // Whole, then the document and the same turns after it.
        for text in [
            "Nothing.",
            "read_bom in src/parse.rs.",
            "## Goal\nMend src/parse.rs.",
            "Nothing.",
            "src/parse.rs.",
        ] {
            replays.run.fixture.push(Reply::text(text));
        }
        let before = replays.run.fixture.provider.generations().len();
        let args = [
            "--arms",
            "none,model",
            "--provider",
            &upstream(&variant),
            "--turns",
            "2",
            "--json",
        ];
        let report: Value = serde_json::from_str(&replays.output(&args).await).unwrap();
        let sent = &replays.run.fixture.provider.generations()[before..];
        assert_eq!(sent.len(), 5, "{report}");
        let [whole, cut] = [&report["arms"][0]["resent"], &report["arms"][1]["resent"]];
        assert_eq!(
            (&whole["turns"], &cut["turns"]),
            (&2.into(), &2.into()),
            "{report}"
        );
        assert!(whole["known"].as_u64() > cut["known"].as_u64(), "{report}");
        assert!(cut["cost"].as_f64() > Some(0.0), "{report}");
        let behind = String::from_utf8_lossy(&sent[4].raw);
        assert!(behind.contains("<handoff-context>") && behind.contains("And the tests of it?"));
        assert_eq!(replays.run.fixture.provider.complaints(), []);
    }
}

/// The upstream that the requests of this wire go to.
fn upstream(variant: &crate::matrix::variants::Variant) -> String {
    let name = match variant.model {
        model if model.starts_with("claude") => "anthropic",
        model if model.starts_with("gemini") => "gemini",
        model if model.starts_with("llama") => "ollama",
        _ => "openai",
    };
    name.to_owned()
}
