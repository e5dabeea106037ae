//! The official SDKs, each with the real program and the strict provider, over five tasks (`tests/sdk/`).
//!
//! The scripts check the SDK's view of the streams. This file checks the provider's view: no rule is broken,
//! and the context starts over with every task.
//!
//! `tests/sdk/setup` installs the SDKs under `target/`. `.ci/full sdks` runs these tests, and the others that
//! need Python.

#![allow(clippy::print_stdout)] // A judge's messages belong to the test's output.

mod agent_mail;
mod mail_server;
mod yaml;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use baton_strict::{Autopilot, Fault, Model, Options, Received, Reply, Role, Strict};

use crate::harness::program::{self, Program};

/// Number of retries of a later leg. The `lost` fault lasts longer.
const RETRIES: usize = 1;

/// Number of tasks in a run.
const TASKS: usize = 5;

macro_rules! judges {
    ($($name:ident: $runner:ident $script:literal;)*) => {
        $(
            #[test]
            #[ignore = "needs the SDKs: .ci/full sdks"]
            fn $name() {
                judge(&Runner::$runner, $script);
            }
        )*
    };
}

judges! {
    python_anthropic: Python "anthropic_messages.py";
    python_openai_chat: Python "openai_chat.py";
    python_openai_responses: Python "openai_responses.py";
    python_openai_responses_held: Python "openai_responses_held.py";
    python_google_genai_models: Python "google_genai_models.py";
    python_google_genai_chats: Python "google_genai_chats.py";
    python_ollama: Python "ollama_chat.py";
    typescript_anthropic: Node "anthropic_messages.mjs";
    typescript_openai_chat: Node "openai_chat.mjs";
    typescript_openai_responses: Node "openai_responses.mjs";
    typescript_google_genai_models: Node "google_genai_models.mjs";
    typescript_google_genai_chats: Node "google_genai_chats.mjs";
    ai_sdk_anthropic: Node "ai_sdk_anthropic.mjs";
    ai_sdk_openai_chat: Node "ai_sdk_openai_chat.mjs";
    ai_sdk_openai_responses: Node "ai_sdk_openai_responses.mjs";
    ai_sdk_google: Node "ai_sdk_google.mjs";
}

/// The interpreter of a script.
enum Runner {
    Python,
    Node,
}

impl Runner {
    /// Returns the interpreter. Fails if the SDKs are not installed.
    fn program(&self) -> PathBuf {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
        // Node comes from the PATH.
        let (installed, program) = match self {
            Runner::Python => ("sdk-venv", target.join("sdk-venv/bin/python")),
            Runner::Node => ("sdk-node", PathBuf::from("node")),
        };
        let is_there = target.join(installed).join("ready").exists();
        assert!(is_there, "the SDKs are not installed: run tests/sdk/setup");
        program
    }

    /// Returns the directory of the scripts.
    fn scripts(&self) -> PathBuf {
        let directory = match self {
            Runner::Python => "py",
            Runner::Node => "js",
        };
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/sdk")
            .join(directory)
    }
}

fn judge(runner: &Runner, script: &str) {
    let program = runner.program();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let provider = runtime.block_on(Strict::start(Judged::default(), Options::default()));
    let provider = provider.unwrap();
    let proxy = Proxy::start(&provider.url());
    let output = Command::new(program)
        .arg(runner.scripts().join(script))
        .env("BATON_URL", &proxy.program.data)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<String> = provider.complaints().iter().map(ToString::to_string).collect();
    assert!(
        complaints.is_empty(),
        "the provider complains:\n{}\nthe script says:\n{said}{errors}",
        complaints.join("\n")
    );
    assert!(output.status.success(), "{script}:\n{said}{errors}");
    println!("{said}");
    let runs = runs(&provider);
    assert!(runs.len() > TASKS, "the script made {} runs only", runs.len());
    for (run, requests) in &runs {
        sawtooth(run, requests);
    }
}

/// Returns the generation requests by run.
fn runs(provider: &Strict) -> BTreeMap<String, Vec<Arc<Received>>> {
    let mut runs: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for seen in provider.generations() {
        let run = seen.header("x-judge-run").expect("every request names its run");
        runs.entry(run.to_owned()).or_default().push(seen);
    }
    runs
}

/// Asserts that each task starts in a new context, which grows to the same size as the previous one.
fn sawtooth(run: &str, requests: &[Arc<Received>]) {
    let mut teeth: Vec<Vec<(usize, usize)>> = Vec::new();
    for seen in requests {
        assert!(
            seen.offers_handoff(),
            "run {run}: request {} lacks the tool",
            seen.number
        );
        assert!(
            !String::from_utf8_lossy(&seen.raw).contains("[[handoff-"),
            "run {run}: request {} shows the provider a mark of the proxy",
            seen.number
        );
        let point = (seen.turns().len(), seen.raw.len());
        if opens_a_task(seen) {
            // A retried request counts once.
            if teeth.last().is_none_or(|tooth| tooth.len() > 1) {
                teeth.push(vec![point]);
            }
        } else {
            teeth
                .last_mut()
                .expect("a run begins with its first task")
                .push(point);
        }
    }
    assert_eq!(teeth.len(), TASKS, "run {run}: contexts {teeth:?}");
    let lengths = |tooth: &[(usize, usize)]| tooth.iter().map(|(turns, _)| *turns).collect::<Vec<_>>();
    let usual = lengths(&teeth[2]);
    assert!(usual.is_sorted(), "run {run}: contexts {teeth:?}");
    // If the user's "Go on." was necessary, that message is in the second context.
    let odd = requests
        .iter()
        .any(|seen| seen.header("x-judge-fault") == Some("lost"));
    for (task, tooth) in teeth[..TASKS - 1].iter().enumerate() {
        let same = lengths(tooth) == usual || (odd && task == 1);
        assert!(same, "run {run}: contexts {teeth:?}");
    }
    let highest = |tooth: &[(usize, usize)]| tooth.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    for tooth in &teeth[3..TASKS - 1] {
        let apart = highest(tooth).abs_diff(highest(&teeth[2]));
        assert!(apart < 64, "run {run}: contexts {teeth:?}");
    }
}

/// Whether the model has not responded yet.
fn opens_a_task(seen: &Received) -> bool {
    seen.turns().iter().all(|turn| turn.role != Role::Assistant)
}

/// The autopilot, with the delivery and the faults that the request's headers select.
#[derive(Default)]
struct Judged {
    /// Number of faults so far, by run.
    faults: Mutex<HashMap<String, usize>>,
}

impl Model for Judged {
    fn reply(&self, seen: &Received) -> Reply {
        if self.fails(seen) {
            return Reply::failing(Fault::Status {
                status: 529,
                retry_after: Some(0),
                message: "Overloaded".to_owned(),
            });
        }
        match seen.header("x-judge-chunk").and_then(|size| size.parse().ok()) {
            None | Some(0) => Autopilot.reply(seen),
            Some(size) => Autopilot.reply(seen).in_bytes(size),
        }
    }
}

impl Judged {
    fn fails(&self, seen: &Received) -> bool {
        let second = opens_a_task(seen) && String::from_utf8_lossy(&seen.raw).contains("#task 2/");
        let times = match seen.header("x-judge-fault") {
            Some("first") => 1,
            Some("leg2") if second => RETRIES,
            Some("lost") if second => RETRIES + 1,
            _ => 0,
        };
        let run = seen.header("x-judge-run").unwrap_or_default().to_owned();
        let mut faults = self.faults.lock().unwrap();
        let so_far = faults.entry(run).or_default();
        let fails = *so_far < times;
        *so_far += usize::from(fails);
        fails
    }
}

/// The program, as a user runs it.
struct Proxy {
    program: Program,
    _state: tempfile::TempDir,
}

impl Proxy {
    fn start(provider: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut command = program::serve(state.path());
        for upstream in ["ANTHROPIC", "OPENAI", "GEMINI", "OLLAMA"] {
            command.env(format!("BATON_UPSTREAMS__{upstream}__BASE_URL"), provider);
        }
        command.env("BATON_HANDOFF__RETRIES", RETRIES.to_string());
        // The scripts check the prompts alone. The block after a prompt has tests of its own.
        command.env("BATON_HANDOFF__APPEND_TOKENS", "0");
        // The brake must stop none of these runs.
        command.env("BATON_BRAKE__NO_PROGRESS", "true");
        Proxy {
            program: Program::launch(&mut command),
            _state: state,
        }
    }
}
