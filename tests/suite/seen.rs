//! Facts that are stated as seen are true.
//!
//! Work with a known outcome is played on every wire. It includes results that show less than they seem to:
//! pipes, chains, commands that may change files, refused calls, failed edits.

use std::collections::{BTreeMap, HashMap};

use baton_core::agents::files::FileChange;
use baton_core::record::WireId;
use baton_core::redact::Redactor;
use baton_core::transcript::Transcript;
use baton_core::wire::{Operation, WIRES};
use baton_core::work::{DraftIndex, DraftIndexSettings, SeenFacts};

use crate::drafts::history::Seeded;
use crate::drafts::sessions::{Event, Session, Tool};

pub(crate) fn seen(wire: WireId, body: Vec<u8>) -> SeenFacts {
    let wire = baton_core::wire::wire(wire);
    let view = wire.read(&body.into(), Operation::Generate).unwrap();
    let transcript = Transcript::from_view(&view);
    let settings = DraftIndexSettings {
        redactor: Redactor::new(&[]),
        ..DraftIndexSettings::default()
    };
    let index = DraftIndex::from_transcript(settings.clone(), &transcript);
    let seen = index.seen();
    // The facts that a carry-over prompt is checked against are the same without quotations.
    let work = SeenFacts::of_work(settings, &transcript);
    assert_eq!(
        (work.verification, work.failures),
        (seen.verification.clone(), seen.failures.clone())
    );
    assert_eq!(
        (work.turns, work.todos, work.finished),
        (seen.turns, seen.todos.clone(), seen.finished.clone())
    );
    seen
}

/// The real state of a file.
#[derive(Clone, Copy)]
struct File {
    was_there: bool,
    is_there: bool,
    touched: bool,
}

/// The actual events.
#[derive(Default)]
struct Truth {
    at: usize,
    turn: usize,
    changed_at: usize,
    files: BTreeMap<String, File>,
    /// The last run of each command by name: its exit code, its turn, and its position.
    runs: HashMap<String, (i32, usize, usize)>,
    /// Names by the typed command.
    names: HashMap<String, String>,
    /// The last run of each line: its exit code and its position. Also the position of its last success.
    lines: HashMap<String, (i32, usize)>,
    went_well: HashMap<String, usize>,
    /// The commands of each line.
    of_line: HashMap<String, Vec<String>>,
    command_went_well: HashMap<String, usize>,
    todos: Vec<(String, &'static str)>,
}

impl Truth {
    fn touch(&mut self, path: &str, there: bool) {
        let at = self.at;
        let file = self.files.entry(path.to_owned()).or_insert(File {
            was_there: false,
            is_there: false,
            touched: false,
        });
        file.is_there = there;
        file.touched = true;
        self.changed_at = at;
    }

    /// Records a line with its commands: name, typed command, exit code.
    fn ran(&mut self, line: &str, exit: i32, commands: &[(&str, &str, i32)]) {
        self.lines.insert(line.to_owned(), (exit, self.at));
        if exit == 0 {
            self.went_well.insert(line.to_owned(), self.at);
        }
        let names = commands.iter().map(|(name, ..)| (*name).to_owned());
        self.of_line.insert(line.to_owned(), names.collect());
        for (name, typed, own) in commands {
            self.names.insert((*typed).to_owned(), (*name).to_owned());
            self.runs.insert((*name).to_owned(), (*own, self.turn, self.at));
            if *own == 0 {
                self.command_went_well.insert((*name).to_owned(), self.at);
            }
        }
    }

    /// Returns the number of stated facts, and the false ones.
    fn judge(&self, seen: &SeenFacts) -> (usize, Vec<String>) {
        let mut stated = 0;
        let mut wrong = Vec::new();
        let mut hold = |holds: bool, what: String| {
            stated += 1;
            if !holds {
                wrong.push(what);
            }
        };
        for run in &seen.verification {
            let known = self.names.get(&run.command).and_then(|name| self.runs.get(name));
            let Some((exit, turn, at)) = known else {
                hold(false, format!("never ran: {run:?}"));
                continue;
            };
            hold(run.turn == *turn, format!("turn {turn}: {run:?}"));
            if let Some(stated) = run.exit {
                hold(stated == *exit, format!("exit {exit}: {run:?}"));
            }
            if let Some(passed) = run.passed {
                hold(passed == (*exit == 0), format!("passed: {run:?}"));
            }
            if let Some(stale) = run.stale {
                hold(stale == (self.changed_at > *at), format!("stale: {run:?}"));
            }
        }
        for failed in seen.failed() {
            let Some((exit, at)) = self.lines.get(&failed.command) else {
                hold(false, format!("never ran: {failed:?}"));
                continue;
            };
            let again = self.went_well.get(&failed.command).is_some_and(|well| well > at);
            let mut names = self.of_line[&failed.command].iter();
            let done = names.any(|name| self.command_went_well.get(name).is_some_and(|well| well > at));
            hold(
                Some(*exit) == failed.exit && !again && !done,
                format!("exit {exit}: {failed:?}"),
            );
        }
        for changed in &seen.files {
            let file = self.files.get(&changed.path);
            let holds = file.is_some_and(|file| {
                file.touched
                    && match changed.change {
                        FileChange::Created => !file.was_there && file.is_there,
                        FileChange::Modified => file.was_there && file.is_there,
                        FileChange::Deleted => file.was_there && !file.is_there,
                        FileChange::Written => file.is_there,
                    }
            });
            hold(holds, format!("{changed:?}"));
        }
        let todos: Vec<_> = seen
            .todos
            .iter()
            .map(|todo| (todo.text.clone(), todo.state.name()))
            .collect();
        if !todos.is_empty() {
            hold(todos == self.todos, format!("{todos:?}"));
        }
        (stated, wrong)
    }
}

/// Work with its true outcome.
struct Work<'r> {
    random: &'r mut Seeded,
    events: Vec<Event>,
    truth: Truth,
}

impl Work<'_> {
    fn path(&mut self) -> String {
        let (parts, files) = if self.random.below(3) == 0 {
            (40, 40)
        } else {
            (3, 5)
        };
        format!(
            "src/part{}/file{}.rs",
            self.random.below(parts),
            self.random.below(files)
        )
    }

    /// Returns a path that exists or not, as requested, whose state is known.
    fn a_file(&mut self, there: bool) -> String {
        loop {
            let path = self.path();
            let is_there = self.truth.files.get(&path).map_or(there, |file| file.is_there);
            self.truth.files.entry(path.clone()).or_insert(File {
                was_there: there,
                is_there: there,
                touched: false,
            });
            if is_there == there {
                return path;
            }
        }
    }

    fn call(&mut self, tool: Tool, output: &str, exit: i32) {
        self.events.push(Event::Call(tool, output.to_owned(), exit));
    }

    fn plain(&mut self, tool: Tool, output: &str, failed: bool) {
        self.events.push(Event::Plain(tool, output.to_owned(), failed));
    }

    fn shell(&mut self, line: &str, exit: i32, commands: &[(&str, &str, i32)]) {
        self.truth.ran(line, exit, commands);
        let output = if exit == 0 { "ok" } else { "error: it is not so" };
        self.call(Tool::Shell(line.to_owned()), output, exit);
    }

    fn step(&mut self) {
        self.truth.at += 1;
        let fails = self.random.below(2) == 0;
        match self.random.below(18) {
            0..=2 => {
                let path = self.a_file(true);
                self.truth.touch(&path, true);
                let text = format!("The file {path} has been updated successfully.");
                self.plain(Tool::Edit(path), &text, false);
            }
            3 => {
                let path = self.a_file(true);
                self.plain(Tool::Edit(path), "Error: old_string not found in file.", true);
            }
            4 => {
                let path = self.a_file(false);
                self.truth.touch(&path, true);
                let text = match fails {
                    true => format!("File created successfully at: {path}"),
                    false => format!("Successfully wrote 1 bytes to {path}"),
                };
                self.plain(Tool::Write(path), &text, false);
            }
            5 => self.takes_away(),
            6 | 7 => {
                let name = format!("cargo test -p part{}", self.random.below(3));
                let typed = match self.random.below(3) {
                    0 => format!("RUST_LOG=debug {name}"),
                    1 => format!("{name} 2>&1"),
                    _ => name.clone(),
                };
                let exit = if fails { 101 } else { 0 };
                self.shell(&typed, exit, &[(&name, &typed, exit)]);
            }
            8 => {
                let own = if fails { 101 } else { 0 };
                self.shell(
                    "cargo test -p part0 2>&1 | tail -3",
                    0,
                    &[("cargo test -p part0", "cargo test -p part0 2>&1", own)],
                );
            }
            9 => {
                let own = i32::from(fails);
                self.shell(
                    "cargo clippy || true",
                    0,
                    &[("cargo clippy", "cargo clippy", own)],
                );
            }
            10 => self.chain(),
            11 => {
                let exit = i32::from(fails);
                let typed = "cd app && npm test";
                // Some shells stay in the directory.
                let line = if self.random.below(2) == 0 {
                    typed.to_owned()
                } else {
                    format!("({typed})")
                };
                self.shell(&line, exit, &[("app: npm test", typed, exit)]);
            }
            12 => self.may_change(),
            13 => {
                let line = [
                    "ls -la",
                    "grep -rn zzz src",
                    "git diff --stat",
                    "cat a.txt | head -3",
                ][self.random.below(4)];
                self.shell(line, i32::from(fails && line.starts_with("grep")), &[]);
            }
            14 => {
                let tool = Tool::Shell("cargo clippy".to_owned());
                self.plain(tool, "The user doesn't want to proceed with this tool use.", true);
            }
            15 => {
                self.truth.ran(
                    "cargo build",
                    0,
                    &[("cargo build", "cargo build", if fails { 101 } else { 0 })],
                );
                let tool = Tool::Shell("cargo build".to_owned());
                self.plain(tool, "Command timed out after 2m 0s", true);
            }
            16 => {
                let typed = "git commit -qm 'x; y'; cargo build";
                let exit = if fails { 101 } else { 0 };
                self.shell(typed, exit, &[("cargo build", "cargo build", exit)]);
            }
            _ => {
                let states = ["completed", "in_progress", "pending"];
                let names = ["done", "in progress", "pending"];
                let some: Vec<usize> = (0..3).map(|_| self.random.below(3)).collect();
                let text = |n: usize| format!("Step {n} of {}", self.truth.at);
                let todos = some
                    .iter()
                    .enumerate()
                    .map(|(n, state)| (text(n), states[*state]))
                    .collect();
                self.truth.todos = some
                    .iter()
                    .enumerate()
                    .map(|(n, state)| (text(n), names[*state]))
                    .collect();
                self.call(Tool::Todo(todos), "ok", 0);
            }
        }
    }

    /// Runs a chain of two commands, in which one or none fails.
    fn chain(&mut self) {
        let (line, build, test) = ("cargo build && cargo test", "cargo build", "cargo test");
        match self.random.below(3) {
            0 => self.shell(line, 0, &[(build, build, 0), (test, test, 0)]),
            1 => self.shell(line, 101, &[(build, build, 0), (test, test, 101)]),
            _ => {
                // The second command does not run, which is not visible, so no statement about it can be its
                // end.
                self.shell(line, 101, &[(build, build, 101), (test, test, -1)]);
            }
        }
    }

    /// A command removes a file.
    fn takes_away(&mut self) {
        let path = self.a_file(true);
        self.truth.touch(&path, false);
        self.shell(&format!("rm {path}"), 0, &[]);
    }

    /// A command that may have changed a file.
    fn may_change(&mut self) {
        let line = [
            "cargo fmt",
            "python gen.py",
            "sed -i s/a/b/ notes.txt",
            "npm install",
        ][self.random.below(4)];
        if self.random.below(2) == 0 {
            self.truth.touch("notes.txt", true);
        }
        let commands: &[(&str, &str, i32)] = match line {
            "cargo fmt" => &[("cargo fmt", "cargo fmt", 0)],
            _ => &[],
        };
        self.shell(line, 0, commands);
    }
}

fn work(seed: u64, turns: usize) -> (Session, Truth) {
    let mut random = Seeded::new(seed);
    let mut work = Work {
        random: &mut random,
        events: Vec::new(),
        truth: Truth::default(),
    };
    for turn in 1..=turns {
        work.truth.turn = turn;
        work.events.push(Event::User(format!("Please do number {turn}.")));
        for _ in 0..1 + work.random.below(6) {
            work.step();
        }
        work.events.push(Event::Say("That is done.".to_owned()));
    }
    let session = Session {
        events: work.events,
        kept: Vec::new(),
        finished: Vec::new(),
        open: String::new(),
        secrets: Vec::new(),
    };
    (session, work.truth)
}

/// Returns the true outcome of a session of the bench.
fn truth_of(session: &Session) -> Truth {
    let mut truth = Truth::default();
    for event in &session.events {
        truth.at += 1;
        match event {
            Event::User(_) => truth.turn += 1,
            Event::Call(Tool::Edit(path), ..) => {
                let file = File {
                    was_there: true,
                    is_there: true,
                    touched: true,
                };
                truth.files.insert(path.clone(), file);
                truth.changed_at = truth.at;
            }
            Event::Call(Tool::Shell(line), _, exit) => {
                let checks = line.starts_with("cargo test") || line.starts_with("npm run lint");
                let command = [(line.as_str(), line.as_str(), *exit)];
                truth.ran(line, *exit, if checks { &command } else { &[] });
            }
            Event::Call(Tool::Todo(todos), ..) => {
                let name = |state: &str| {
                    if state == "completed" {
                        "done"
                    } else {
                        "in progress"
                    }
                };
                truth.todos = todos
                    .iter()
                    .map(|(text, state)| (text.clone(), name(state)))
                    .collect();
            }
            _ => {}
        }
    }
    // `export API_KEY=…; make`, with the value removed.
    truth.names.insert("make".to_owned(), "make".to_owned());
    truth.runs.insert("make".to_owned(), (0, 0, 0));
    truth
}

#[test]
fn a_stated_fact_is_false_in_fewer_than_one_of_500() {
    let (mut stated, mut wrong) = (0, Vec::new());
    let mut by_wire = BTreeMap::new();
    for wire in WIRES {
        for seed in 0..60 {
            let (session, truth) = work(seed, 4 + seed as usize % 12);
            let (count, false_ones) = truth.judge(&seen(wire.id(), session.body(wire.id())));
            stated += count;
            *by_wire.entry(wire.id().name()).or_insert(0) += count;
            wrong.extend(
                false_ones
                    .into_iter()
                    .map(|what| format!("{} {seed}: {what}", wire.id().name())),
            );
        }
    }
    println!("{stated} facts stated, {} false; {by_wire:?}", wrong.len());
    assert!(
        stated > 5_000 && by_wire.values().all(|count| *count > 500),
        "{by_wire:?}"
    );
    assert!(
        wrong.len() * 500 < stated,
        "{} of {stated}: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(12)]
    );
}

#[test]
fn the_benchs_sessions_are_told_as_they_were() {
    let (mut stated, mut wrong) = (0, Vec::new());
    for wire in WIRES {
        for (seed, turns) in [(1, 30), (2, 60), (3, 120)] {
            let session = Session::new(seed, turns);
            let truth = truth_of(&session);
            let seen = seen(wire.id(), session.body(wire.id()));
            let make = seen
                .verification
                .iter()
                .filter(|run| run.command == "make")
                .count();
            let without_make = SeenFacts {
                verification: seen
                    .verification
                    .iter()
                    .filter(|run| run.command != "make")
                    .cloned()
                    .collect(),
                ..seen
            };
            let (count, false_ones) = truth.judge(&without_make);
            stated += count + make;
            wrong.extend(
                false_ones
                    .into_iter()
                    .map(|what| format!("{} {seed}: {what}", wire.id().name())),
            );
        }
    }
    println!("{stated} facts stated, {} false", wrong.len());
    assert!(stated > 500, "{stated}");
    assert!(
        wrong.len() * 500 < stated,
        "{} of {stated}: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(12)]
    );
}

#[test]
fn a_question_is_open_until_the_user_says_something() {
    let questions = serde_json::json!([{"question": "Short or long?"}]);
    let asks = serde_json::json!({"type": "tool_use", "id": "toolu_1", "name": "AskUserQuestion", "input": {"questions": questions}});
    let refused = "The user doesn't want to proceed with this tool use.";
    let refuses = serde_json::json!({"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": refused});
    let mut messages = vec![
        serde_json::json!({"role": "user", "content": "Print the numbers."}),
        serde_json::json!({"role": "assistant", "content": [asks]}),
        serde_json::json!({"role": "user", "content": [refuses]}),
    ];
    let open = |messages: &[serde_json::Value]| {
        let body = serde_json::json!({"model": "m", "max_tokens": 9, "messages": messages}).to_string();
        seen(WireId::Anthropic, body.into_bytes()).questions.len()
    };
    assert_eq!(open(&messages), 1);
    messages.push(serde_json::json!({"role": "assistant", "content": "I wait."}));
    messages.push(serde_json::json!({"role": "user", "content": "Short ones."}));
    assert_eq!(open(&messages), 0);
}

/// Commands of seven agents in their recorded requests.
///
/// `exit 3`, `echo`, `ls` and `grep` without matches, `true`, `diff` of two files, and `echo` into a file.
#[test]
fn recorded_requests_of_real_agents_are_told_as_they_were() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/transcripts");
    let exits = [
        ("exit 3", 3),
        ("| diff", 1),
        ("cat made.txt", 0),
        ("ls ", 2),
        ("grep ", 1),
        ("true", 0),
        ("echo", 0),
    ];
    let mut told = 0;
    for (file, wire) in [
        ("claude_code_anthropic.json", WireId::Anthropic),
        ("codex_openai_responses.json", WireId::OpenaiResponses),
        ("codex_openai_responses_exec.json", WireId::OpenaiResponses),
        ("gemini_cli_gemini.json", WireId::Gemini),
        ("goose_openai_chat.json", WireId::OpenaiChat),
        ("opencode_anthropic.json", WireId::Anthropic),
        ("pi_anthropic.json", WireId::Anthropic),
        ("qwen_code_openai_chat.json", WireId::OpenaiChat),
    ] {
        let seen = seen(wire, std::fs::read(directory.join(file)).unwrap());
        for ran in &seen.commands {
            let Some(stated) = ran.exit else { continue };
            let known = exits.iter().find(|(words, _)| ran.command.contains(words));
            assert_eq!(known.map(|(_, exit)| *exit), Some(stated), "{file}: {ran:?}");
            told += 1;
        }
        // Only `exit 3` really failed. For the others, finding nothing is not a failure.
        for failed in seen.failed() {
            assert!(
                failed.exit == Some(3) && failed.command.contains("exit 3"),
                "{file}: {failed:?}"
            );
        }
        assert_eq!(seen.verification, [], "{file}");
        assert_eq!(seen.files, [], "{file}");
    }
    assert!(told >= 30, "{told}");
}
