//! The texts of the scripted person, model and tools. The model has no memory: it reads its position in the script from the
//! transcript, so a wrong cut leads it astray.

use serde_json::{Value, json};

use crate::cli::args::MOST_TASKS;
use baton_core::tools::TOOL_NAME;
use baton_strict::{Model, Received, Reply, Role, Turn};

/// Length of the demo.
#[derive(Debug, Clone, Copy)]
pub(super) struct DemoLength {
    /// Number of consecutive tasks.
    pub(super) tasks: usize,
    /// Tool calls in each task.
    pub(super) turns: usize,
}

/// A task of the plan, and what the model has learnt when it is done.
struct PlanTask {
    title: &'static str,
    folder: &'static str,
    found: &'static str,
}

const TASKS: [PlanTask; 8] = [
    PlanTask {
        title: "survey the storage layer",
        folder: "src/store",
        found: "All reads and writes go through `Links` in src/store/mod.rs. Four callers hold its lock over an await: \
                redirect.rs, admin.rs, import.rs, stats.rs.",
    },
    PlanTask {
        title: "put a trait in front of it",
        folder: "src/store",
        found: "`trait Store` has get, put, delete and scan, all async. `FileStore` implements it. No caller names \
                the file any more.",
    },
    PlanTask {
        title: "write the SQLite store",
        folder: "src/store/sqlite",
        found: "`SqliteStore` passes the same tests as `FileStore`. One writer thread, WAL, schema version 1 in \
                src/store/sqlite/schema.rs.",
    },
    PlanTask {
        title: "move the old file over",
        folder: "src/migrate",
        found: "`linkshort migrate` copies links.json in batches of 500 and can be run twice. The old file is \
                renamed, never deleted.",
    },
    PlanTask {
        title: "serve redirects from a cache",
        folder: "src/http",
        found: "A bounded cache in front of `Store::get`, filled on the first hit, emptied by put and delete.",
    },
    PlanTask {
        title: "count visits",
        folder: "src/stats",
        found: "Visits are added up in memory and written every five seconds. The old per-visit write is gone.",
    },
    PlanTask {
        title: "limit the public endpoint",
        folder: "src/http",
        found: "A token bucket for each address, 20 a second, answered with 429 and retry-after.",
    },
    PlanTask {
        title: "write the operator's guide",
        folder: "docs",
        found: "docs/operate.md covers start, backup, migration and the two alarms.",
    },
];

const _: () = assert!(TASKS.len() as i64 == MOST_TASKS);

/// Precedes the number of the next task in a prompt.
const NEXT: &str = "Next: task ";

pub(super) const SYSTEM: &str = "You are a careful coding agent. You work in the user's repository with the tools \
    that you are given. Read before you write. Keep changes small, run the tests after each of them, and say in one \
    sentence what you are about to do.";

/// The harness's preamble.
pub(super) const PREAMBLE: &str = "<system-reminder>\n# CLAUDE.md\nlinkshort is a URL shortener in Rust.\n\
    - `cargo test` must pass before a task counts as done.\n- No new dependency without a reason in docs/decisions.md.\n\
    - The HTTP API in docs/api.md is a promise: do not change it.\n</system-reminder>";

/// The person's request.
pub(super) fn wish(script: DemoLength) -> String {
    format!(
        "Work through docs/plan.md: {} tasks, one after the other, without asking me in between. {NEXT}1 of {}: {}.",
        script.tasks, script.tasks, TASKS[0].title
    )
}

/// The agent's tools: name, description, and required parameters.
pub(super) const TOOLS: [(&str, &str, &[&str]); 3] = [
    ("read_file", "Read a file, with line numbers.", &["path"]),
    (
        "edit_file",
        "Replace a text in a file.",
        &["path", "old_text", "new_text"],
    ),
    ("run", "Run a command and return its output.", &["command"]),
];

impl Model for DemoLength {
    fn reply(&self, seen: &Received) -> Reply {
        let turns = seen.turns();
        let Some((at, task)) = turns.iter().enumerate().rev().find_map(newest_result) else {
            return Reply::text("What shall I do?");
        };
        let Some(now) = task.checked_sub(1).and_then(|t| TASKS.get(t)) else {
            return Reply::text(format!("There is no task {task}."));
        };
        let done: usize = turns[at..].iter().map(|turn| turn.results.len()).sum();
        if done < self.turns {
            return step(now, done);
        }
        if task >= self.tasks {
            return Reply::text(format!("All {} tasks are done, and all tests pass.", self.tasks));
        }
        if !seen.offers_handoff() {
            return Reply::text("I was not given the tool to hand over with.");
        }
        Reply::new()
            .thinking("That was the last step. The file dumps above are of no more use.")
            .say(format!("Task {task} is done: {}.", now.title))
            .call(TOOL_NAME, self.carry_over(task))
    }
}

/// The task that a user text asks for, and its turn.
fn newest_result((at, turn): (usize, &Turn)) -> Option<(usize, usize)> {
    let texts = turn.texts.iter().filter(|_| turn.role == Role::User);
    let mut number = texts.filter_map(|text| {
        let rest = &text[text.rfind(NEXT)? + NEXT.len()..];
        rest.split(' ').next()?.parse().ok()
    });
    Some((at, number.next_back()?))
}

fn step(task: &PlanTask, done: usize) -> Reply {
    let file = |n: usize| {
        let names = [
            "mod.rs", "codec.rs", "index.rs", "lock.rs", "batch.rs", "tests.rs",
        ];
        format!("{}/{}", task.folder, names[n % names.len()])
    };
    let (thought, text, name, arguments) = match done % 4 {
        0 | 1 => (
            "What is there already?",
            format!("Reading {}.", file(done)),
            "read_file",
            json!({"path": file(done)}),
        ),
        2 => (
            "A small change first.",
            format!("Changing {}.", file(done)),
            "edit_file",
            json!({"path": file(done), "old_text": listing(&file(done), 700), "new_text": listing(&file(done + 1), 900)}),
        ),
        _ => (
            "Does it hold?",
            "Running the tests.".to_owned(),
            "run",
            json!({"command": "cargo test"}),
        ),
    };
    Reply::new().thinking(thought).say(text).call(name, arguments)
}

impl DemoLength {
    /// The carry-over prompt after `task`.
    fn carry_over(&self, task: usize) -> Value {
        let done: Vec<_> = (1..=task)
            .map(|n| format!("{n}. {}: {}", TASKS[n - 1].title, TASKS[n - 1].found))
            .collect();
        let next = &TASKS[task];
        let prompt = format!(
            "Goal: take linkshort off its single JSON file, following docs/plan.md. The HTTP API must not change; \
             `cargo test` must pass after every task; the user need not be asked in between.\n\nDone:\n{}\n\n\
             {NEXT}{} of {}: {}. Start with {}/mod.rs.",
            done.join("\n"),
            task + 1,
            self.tasks,
            next.title,
            next.folder,
        );
        json!({"prompt": prompt, "reason": format!("task {task} is done: {}", TASKS[task - 1].title)})
    }
}

/// The result of a tool call; the same for the same call.
pub(super) fn tool_result(name: &str, arguments: &Value, turn: usize) -> String {
    let word = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    match name {
        "read_file" => listing(word("path"), 3_500 + 1_700 * (turn % 4)),
        "edit_file" => format!("{} changed, 1 place.", word("path")),
        "run" => tests_passed(28 + 9 * (turn % 3)),
        other => format!("there is no tool {other}"),
    }
}

/// Lines of a source file, numbered as agents show them; about so many bytes.
fn listing(path: &str, bytes: usize) -> String {
    const LINES: [&str; 12] = [
        "    let entry = self.index.get(key).ok_or(Error::Missing)?;",
        "    if entry.expires_ms < now_ms {",
        "        return Err(Error::Expired { key: key.to_owned() });",
        "    }",
        "",
        "/// Writes after the batch that is open; the caller waits for its commit.",
        "pub async fn put(&self, link: &Link) -> Result<Receipt, Error> {",
        "    let mut batch = self.batch.lock().await;",
        "    batch.push(link.encode(&self.codec)?);",
        "    tracing::debug!(key = %link.key, pending = batch.len(), \"queued\");",
        "    Ok(Receipt::new(batch.generation(), link.key.clone()))",
        "}",
    ];
    let seed: usize = path.bytes().map(usize::from).sum();
    let mut out = format!("     1\t//! {path}\n");
    let mut line = 2;
    while out.len() < bytes {
        let text = LINES[(seed + line * 5 + line / 7) % LINES.len()];
        out.push_str(&format!("{line:6}\t{text}\n"));
        line += 1;
    }
    out
}

fn tests_passed(tests: usize) -> String {
    let names = [
        "put_then_get",
        "expired_is_missing",
        "two_writers",
        "scan_is_sorted",
    ];
    let mut out = format!("running {tests} tests\n");
    for test in 0..tests {
        out.push_str(&format!(
            "test store::tests::{}_{test} ... ok\n",
            names[test % names.len()]
        ));
    }
    out + &format!("\ntest result: ok. {tests} passed; 0 failed; finished in 0.41s\n")
}
