//! Every handoff leaves a document: two files and a row, made from the recorded traffic. It is written after
//! the handoff and never delays it.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use baton_core::handoffs::document::{HandoffDocument, HandoffSize, validate};
use baton_core::record::{DocumentRecord, Handoff, HandoffStatus};
use baton_llm::serve::app::App;
use baton_llm::state::config::Config;
use baton_llm::state::files::documents::{
    self, DocumentSettings, DocumentWriter, JSON, MARKDOWN, StoredHandoff,
};
use baton_llm::state::files::yaml_files::{HandoffDirectory, read_file};
use baton_llm::state::store::{DocumentFilter, HandoffFilter, SharedStore};
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness;
use crate::harness::program::{baton_in, printed, refused};
use crate::harness::texts::{assert_begins, assert_contains, assert_ends, assert_members};
use crate::matrix::fixture::{Fixture, PROMPT, carry, fresh, handoff, handoff_beside};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{self, Variant};

const LONG: Duration = Duration::from_secs(20);

/// A secret whose form matches no rule; only its name reveals it.
const SECRET: &str = "k7QfP2mZ8rT4wX1yB6nC3dV9aH5jL0sE9xZ2";

struct Run {
    talk: Talk,
    store: SharedStore,
    writer: DocumentWriter,
    dir: tempfile::TempDir,
}

fn settings(dir: &Path, change: impl FnOnce(&mut Config)) -> Option<DocumentSettings> {
    let mut config = harness::config("http://127.0.0.1:1");
    config.state_dir = dir.to_owned();
    change(&mut config);
    DocumentSettings::from_config(&config)
}

impl Run {
    async fn start(side: Variant) -> Self {
        let dir = harness::temp();
        let settings = settings(dir.path(), |_| {});
        Self::with(side, dir, settings).await
    }

    async fn with(side: Variant, dir: tempfile::TempDir, settings: Option<DocumentSettings>) -> Self {
        let store = harness::sqlite(dir.path());
        let writer = DocumentWriter::start(settings, store.clone());
        let mut stage = Fixture::new(side, []).await;
        stage.restart_as(store.clone(), writing(&writer));
        Self {
            talk: Talk::opened(stage),
            store,
            writer,
            dir,
        }
    }

    /// Returns all documents, newest first, after they are written.
    async fn records(&self) -> Vec<DocumentRecord> {
        assert!(self.writer.flush(LONG).await);
        self.store.documents(&DocumentFilter::default()).await.unwrap()
    }

    fn directory(&self) -> PathBuf {
        self.dir.path().join("handoffs")
    }
}

fn writing(writer: &DocumentWriter) -> impl FnOnce(App) -> App {
    let documents = writer.clone();
    |mut app| {
        app.documents = documents;
        app
    }
}

/// Another handoff, beside other words.
fn again() -> Reply {
    handoff_beside(Reply::new().thinking("Again?").say("Done again."))
}

fn statuses(records: &[DocumentRecord]) -> Vec<&str> {
    records.iter().map(|record| record.status.name()).collect()
}

/// A handoff of which nothing else is known.
fn stored(handoff: Handoff) -> StoredHandoff {
    StoredHandoff {
        handoff,
        carry_over: None,
        exchange: None,
        run: None,
        topic: None,
        context_tokens: None,
        bytes: HandoffSize::default(),
        transcript: Box::new(|| None),
    }
}

fn files(record: &DocumentRecord) -> (HandoffDocument, String) {
    let directory = Path::new(&record.directory);
    let json = std::fs::read_to_string(directory.join(JSON)).unwrap();
    let markdown = std::fs::read_to_string(directory.join(MARKDOWN)).unwrap();
    assert_eq!(validate(&json, Some(&markdown)), []);
    let schema = serde_json::from_str(include_str!("../../docs/handoff.schema.json")).unwrap();
    let value: Value = serde_json::from_str(&json).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<_> = validator
        .iter_errors(&value)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(wrong, [""; 0]);
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 2);
    let document = HandoffDocument::read(&json).unwrap();
    handoff_file(directory, &document);
    (document, markdown)
}

/// Checks that the handoff file next to the document's directory has the same content.
fn handoff_file(directory: &Path, document: &HandoffDocument) {
    let all = HandoffDirectory::new(directory.parent().unwrap()).unwrap();
    let listed = all.list(None, 0, false).unwrap().found;
    let read = listed.iter().map(|one| read_file(&one.path).unwrap());
    let its: Vec<_> = read
        .filter(|found| found.file.findings.get("handoff") == Some(&document.id.to_string()))
        .collect();
    assert_eq!(its.len(), 1, "{}", document.id);
    assert_eq!(its[0].errors, []);
    assert_eq!(its[0].file.created_at, document.created_at);
    let used = document.context.map_or(0, |context| context.used);
    assert_eq!(u64::try_from(its[0].file.tokens_used), Ok(used));
    assert_begins(
        its[0].path.file_name().unwrap().to_str().unwrap(),
        "auto-handoff-",
    );
}

macro_rules! on_every_wire {
    ($($test:ident)*) => {
        $(mod $test {
            on_every_wire!(@ $test: anthropic ANTHROPIC, openai_chat CHAT, openai_responses RESPONSES, gemini GEMINI,
                ollama OLLAMA);
        })*
    };
    (@ $test:ident: $($wire:ident $side:ident),*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $wire() {
            super::$test(super::variants::$side).await;
        })*
    };
}

on_every_wire!(a_chain resumed_and_compared);

/// Work with a tool, a handoff, more work, another one.
async fn a_chain(side: Variant) {
    let mut run = Run::start(side).await;
    let talk = &mut run.talk;
    // Longer than the tool that the first handoff adds.
    talk.history[1] = (side.message)("assistant", &"Looking. ".repeat(200));
    talk.history.push(talk.user("Go on."));
    let read = Reply::new().thinking("Which file?");
    talk.runs(
        read.call("read_file", json!({"path": "src/reader.rs"})),
        "fn main() {}",
    )
    .await;
    talk.push(handoff());
    talk.push(fresh());
    talk.goes_on().await;
    let [record] = &run.records().await[..] else {
        panic!("one document")
    };
    let (first, markdown) = files(record);
    assert_eq!(first.next_action.as_deref(), Some("reader.rs."));
    assert_eq!((first.status, first.parent), (HandoffStatus::Active, None));
    assert_eq!(first.origin, "model");
    assert_eq!(first.summary, "Goal: skip BOMs. Next: reader.rs.");
    assert!(
        first.turns >= 2 && first.bytes.before > first.bytes.after,
        "{first:?}"
    );
    assert!(markdown.contains("## Next action\n\nreader.rs.\n"), "{markdown}");
    let events = run.talk.baton.events(2).await.into_iter();
    let legs = events.flat_map(|event| event.facts.tokens);
    let counted: Vec<_> = legs
        .map(|tokens| tokens.map(|all| all.all_input() + all.output))
        .collect();
    // The request with the tool's result is the one whose response hands over.
    let [_, firing, _] = counted[..] else {
        panic!("{counted:?}")
    };
    assert!(firing.is_some_and(|tokens| tokens > 0), "{counted:?}");
    assert_eq!(first.context.map(|context| context.used), firing, "{counted:?}");
    // The second document covers only the work after the first handoff.
    run.talk.push(again());
    run.talk.stream = false;
    run.talk.says("On.", fresh()).await;
    let records = run.records().await;
    assert_eq!(records.len(), 2);
    let ((second, _), (first_again, _)) = (files(&records[0]), files(&records[1]));
    assert_eq!(
        (second.parent, second.status),
        (Some(first.id), HandoffStatus::Active)
    );
    // Its files say so, too.
    assert_eq!(first_again, first.with_status(HandoffStatus::Superseded));
    assert_eq!(second.prerequisites[0].what, first_again.id.to_string());
    assert_eq!(run.writer.counts(), [2, 0, 0]);
    run.talk.assert_clean();
}

/// The document's directory cannot be created. The agent does not notice, a metric counts it, and the next
/// start writes the files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_document_touches_nothing_and_the_next_start_writes_it() {
    let dir = harness::temp();
    let file = dir.path().join("taken");
    std::fs::write(&file, "x").unwrap();
    let within = settings(dir.path(), |config| {
        config.documents.dir = Some(file.join("handoffs"))
    });
    let mut run = Run::with(variants::ANTHROPIC, dir, within.clone()).await;
    let said = run.talk.hands_over("Go on.").await;
    assert!(said.text.ends_with("Fresh."), "{}", said.text);
    let records = run.records().await;
    assert_eq!(run.writer.counts(), [0, 1, 0]);
    assert_eq!(records.len(), 1, "it is in the store");
    std::fs::remove_file(&file).unwrap();
    let again = DocumentWriter::start(within, run.store.clone());
    assert!(again.flush(LONG).await);
    let (document, _) = files(&records[0]);
    assert_eq!(document.id, records[0].handoff);
    run.talk.assert_clean();
}

/// A process that is killed between the handoff and its document leaves only the handoff, and the document is
/// never written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn off_writes_none_and_a_handoff_without_a_document_stays_one() {
    let dir = harness::temp();
    let off = settings(dir.path(), |config| config.documents.enabled = false);
    assert!(off.is_none());
    let mut run = Run::with(variants::ANTHROPIC, dir, off).await;
    run.talk.hands_over("Go on.").await;
    assert_eq!(run.records().await, []);
    assert!(!run.directory().exists());
    let later = DocumentWriter::start(settings(run.dir.path(), |_| {}), run.store.clone());
    assert!(later.flush(LONG).await);
    assert_eq!(run.records().await, []);
    let handoffs = run.store.handoffs(&HandoffFilter::default()).await.unwrap();
    assert_eq!(handoffs.len(), 1);
    run.talk.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_in_a_document() {
    let prompt =
        format!("Goal: deploy. The key is api_key={SECRET}.\nNext: export TOKEN={SECRET} and go on.");
    let reply = Reply::new()
        .thinking("So.")
        .call("session_handoff", json!({"prompt": prompt}));
    let mut run = Run::start(variants::ANTHROPIC).await;
    let decided = format!("Decided to use api_key={SECRET} because it works.");
    run.talk.says("Go on.", decided.as_str()).await;
    run.talk.push(reply);
    run.talk.says("Go on.", fresh()).await;
    let records = run.records().await;
    let (document, markdown) = files(&records[0]);
    assert_begins(&document.prompt, "Goal: deploy.");
    for text in [&markdown, &document.json(), &records[0].document] {
        assert!(!text.contains(SECRET), "{text}");
    }
}

/// A user's line in a new session makes a superseded document active again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resuming_a_superseded_handoff_makes_it_active() {
    let mut run = Run::start(variants::ANTHROPIC).await;
    run.talk.hands_over("Go on.").await;
    run.talk.push(again());
    run.talk.says("On.", fresh()).await;
    let records = run.records().await;
    assert_eq!(statuses(&records), ["active", "superseded"]);
    let first = records[1].handoff;
    run.talk.history.clear();
    let line = format!("[[handoff-resume:{first}]]\nGo on from there.");
    run.talk.says(&line, "Resumed.").await;
    let records = run.records().await;
    assert_eq!(statuses(&records), ["superseded", "active"]);
    assert_eq!(files(&records[1]).0.status, HandoffStatus::Active);
    run.talk.assert_clean();
}

/// An undone handoff has that status, and the previous one is active until the undo is reverted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undone_handoff_has_a_status_of_its_own() {
    let mut run = Run::start(variants::ANTHROPIC).await;
    run.talk.hands_over("Go on.").await;
    run.talk.push(again());
    run.talk.says("On.", fresh()).await;
    for expected in [["undone", "active"], ["active", "superseded"]] {
        // The documents are written.
        run.records().await;
        run.talk.asks("::handoff undo").await;
        let records = run.records().await;
        assert_eq!(statuses(&records), expected);
        assert_eq!(files(&records[0]).0.status.name(), expected[0]);
    }
    run.talk.assert_clean();
}

/// A user who resumes a handoff, by its line or by a command, learns about changes in the repository. The
/// model gets the same notice once, and it stays unchanged on every later request.
async fn resumed_and_compared(side: Variant) {
    let dir = harness::temp();
    let repository = dir.path().join("repository");
    std::fs::create_dir(&repository).unwrap();
    let git = |args: &[&str]| harness::git(&repository, args);
    assert!(git(&["init", "-q", "-b", "main"]));
    assert!(git(&["commit", "-q", "--allow-empty", "-m", "x"]));
    let store = harness::sqlite(dir.path());
    let compared = |config: &mut Config| config.documents.git_dir = Some(repository.clone());
    let mut talk = Talk::opened(Fixture::with(side, [], store.clone(), |_| {}).await);
    let writer = DocumentWriter::start(settings(dir.path(), compared), store.clone());
    talk.hands_over("Go on.").await;
    let mut made = store.handoffs(&HandoffFilter::default()).await.unwrap();
    let made = made.pop().unwrap();
    let (id, principal) = (made.id, made.principal.clone());
    writer.handoff(stored(made));
    assert!(writer.flush(LONG).await);
    let record = documents::find(&store, &principal, id).await.unwrap().unwrap();
    assert_eq!(record.branch, "main");
    assert!(git(&["checkout", "-q", "-b", "next"]));
    let line = "branch was main, is next";

    // By its line: with the first request that has a position for it.
    talk.history.clear();
    let resume = format!("[[handoff-resume:{id}]]\nGo on from there.");
    talk.says(&resume, "Resumed.").await;
    assert_eq!(talk.sent(), [format!("{}Go on from there.", carry())]);
    let mut tries = 0;
    while notices(&talk.sent()) == 0 {
        tries += 1;
        assert!(tries < 200, "{:?}", talk.sent());
        tokio::time::sleep(Duration::from_millis(50)).await;
        talk.stream = tries % 2 == 0;
        talk.says(&format!("More, {tries}."), "More of it.").await;
    }
    assert_contains(talk.sent().last().unwrap(), "tell the user");
    stays(&mut talk, line).await;

    // By a command, in another session, after the document was archived.
    documents::set_status(&store, &principal, id, HandoffStatus::Archived)
        .await
        .unwrap();
    talk.restart_as(store.clone(), writing(&writer));
    let here = (side.message)("assistant", "Here.");
    talk.history = vec![talk.user("Another session."), here];
    let said = talk.asks(&format!("::handoff resume {id}")).await.text;
    for part in ["The handoff was archived; it is active again.", "Drift: ", line] {
        assert_contains(&said, part);
    }
    let record = documents::find(&store, &principal, id).await.unwrap().unwrap();
    assert_eq!(record.status, HandoffStatus::Active);
    talk.says("Go on.", "On it.").await;
    stays(&mut talk, line).await;

    // Without changes there is no notice.
    assert!(git(&["checkout", "-q", "main"]));
    talk.history.truncate(3);
    assert_contains(&talk.goes_on().await.text, "Up to date: ");
    talk.assert_clean();
}

fn notices(sent: &[String]) -> usize {
    sent.iter()
        .filter(|text| text.contains("<since-handoff>"))
        .count()
}

/// The last message has the notice with this line, and the next request begins with the same bytes.
async fn stays(talk: &mut Talk, line: &str) {
    let first = talk.sent();
    assert_eq!(notices(&first), 1, "{first:?}");
    assert_contains(first.last().unwrap(), line);
    talk.says("And on.", "On.").await;
    let later = talk.sent();
    assert_eq!((&later[..first.len()], notices(&later)), (&first[..], 1));
}

/// The commands with the state of a proxy that has stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_list_show_validate_and_archive() {
    let mut run = Run::start(variants::ANTHROPIC).await;
    run.talk.hands_over("Go on.").await;
    let records = run.records().await;
    let Run { dir, .. } = run;
    let (id, directory) = (records[0].handoff.to_string(), records[0].directory.clone());
    let baton = |line: &str| baton_in(dir.path(), &format!("handoffs {line}"));
    let ok = |line: &str| printed(baton(line));
    let json_of = |line: &str| serde_json::from_str::<Value>(&ok(line)).unwrap();
    let members = json!({"id": id, "status": "active", "next_action": "reader.rs."});
    assert_members(&json_of("list --status active --json")[0], &members);
    assert!(ok("list").contains(&id));
    assert_eq!(ok("list --status superseded"), "");
    assert!(ok(&format!("show {} --format md", &id[..13])).starts_with(&format!("# Handoff {id}\n")));
    let stored = std::fs::read_to_string(Path::new(&directory).join(JSON)).unwrap();
    assert_eq!(ok("show --format json"), stored);
    assert_eq!(ok("show --path").trim(), directory);
    assert!(ok("check --syntax").trim().ends_with(": valid"));
    let shown = ok(&format!("show {id}"));
    assert_contains(&shown, &directory);
    assert_contains(&shown, "\nnext ");
    assert_contains(&shown, "\nlineage ");
    assert_ends(&shown, &format!("{PROMPT}\n"));
    assert_eq!(json_of("list --json")[0]["status"], "active");

    let markdown = Path::new(&directory).join(MARKDOWN);
    let text = std::fs::read_to_string(&markdown).unwrap();
    let changed = text.replace("action\n\nreader.rs.", "action\n\nwriter.rs.");
    std::fs::write(&markdown, changed).unwrap();
    let done = baton(&format!("check --syntax {id} --json"));
    let checked: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(checked[0]["errors"][0]["field"], "Next action");
    assert_eq!(done.status.code(), Some(65));

    assert!(ok(&format!("archive {id}")).contains("archived"));
    refused(&baton("show"), 66, &["no handoffs yet", "handoffs list --all"]);
    // Written again, with its status; and its handoff file.
    assert_eq!(ok("check --syntax").matches(": valid").count(), 2);
    refused(&baton(&format!("archive {id}")), 64, &[]);
    // A command that only prints changes nothing.
    let before = std::fs::read(dir.path().join("baton.db")).unwrap();
    let archived = "this handoff is archived; it can still be resumed";
    refused(&baton(&format!("resume {id} --with claude")), 0, &[archived]);
    assert!(std::fs::read(dir.path().join("baton.db")).unwrap() == before);
    assert_eq!(json_of("list --all --json")[0]["status"], "archived");
    // An agent that does not exist leaves the handoff as it is.
    let missing = baton(&format!("resume {id} --with /no/such/agent --run"));
    refused(&missing, 127, &["/no/such/agent is not found"]);
    assert_eq!(json_of(&format!("show {id} --format json"))["status"], "archived");
    refused(
        &baton("show ffff"),
        66,
        &["there is no handoff, session or file ffff"],
    );
}

/// The document in docs/handoffs.md is real: of an hour's work with Claude Code, shortened.
#[tokio::test]
async fn the_readme_shows_a_document_as_it_is_written() {
    let ran = |n: usize, tool: &str, input: Value, result: &str| {
        let (id, failed) = (format!("toolu_{n}"), result.starts_with("Exit code"));
        vec![
            json!({"role": "assistant", "content": [{"type": "text", "text": format!("Step {n} follows.")},
                {"type": "tool_use", "id": id, "name": tool, "input": input}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "is_error": failed, "content": result}]}),
        ]
    };
    let updated = "The file /home/dev/app/src/reader.rs has been updated successfully.";
    let made = "File created successfully at: /home/dev/app/tests/bom.rs";
    let todos = json!([{"content": "Strip the BOM in reader.rs", "status": "completed"},
        {"content": "Make tests/bom.rs pass", "status": "in_progress"}]);
    let failed = "Exit code 101\nthread 'utf16' panicked at tests/bom.rs:12:5:\nassertion failed: utf16\n\
                  test result: FAILED. 1 passed; 1 failed";
    let edit = json!({"file_path": "/home/dev/app/src/reader.rs", "old_string": "a", "new_string": "b"});
    let write = json!({"file_path": "/home/dev/app/tests/bom.rs", "content": "x"});
    let cargo = |arguments: &str| json!({"command": format!("cargo test {arguments}")});
    let passed = "test result: ok. 41 passed; 0 failed";
    let messages = [
        vec![json!({"role": "user", "content": "The importer chokes on files with a BOM. Mend it."})],
        ran(1, "Bash", cargo("-p importer"), passed),
        ran(2, "Edit", edit, updated),
        ran(3, "Write", write, made),
        ran(4, "TodoWrite", json!({"todos": todos}), "ok"),
        ran(5, "Bash", cargo("--test bom"), failed),
    ];
    let body = json!({"model": "claude-sonnet", "max_tokens": 1000, "messages": messages.concat(),
        "system": "You are Claude Code.\n - Primary working directory: /home/dev/app\n\nCurrent branch: bom\n"});
    let prompt = "# Goal\nThe importer must read files that begin with a BOM.\n\n## Done\nreader.rs strips a UTF-8 BOM; all tests pass.\n\n\
        ## Next\n1. Make the UTF-16 case in tests/bom.rs pass\n";
    let handoff = Handoff {
        id: "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11".parse().unwrap(),
        principal: "local".into(),
        conversation: "c0ffee".into(),
        prompt: prompt.into(),
        model: Some("claude-sonnet".into()),
        created_ms: 1_795_300_000_000,
        ..Handoff::default()
    };
    let dir = harness::temp();
    let body = body.to_string();
    let bytes = HandoffSize {
        before: 412_300,
        after: 9_800,
    };
    let stored = StoredHandoff {
        bytes,
        transcript: Box::new(move || Some(body.into())),
        ..stored(handoff)
    };
    let settings = Arc::new(settings(dir.path(), |_| {}).unwrap());
    let directory = documents::write(&settings, &harness::memory(), stored)
        .await
        .unwrap();
    let markdown = std::fs::read_to_string(directory.join(MARKDOWN)).unwrap();
    let shown = &markdown[..markdown.find("\n## Failed attempts").unwrap()];
    let page = include_str!("../../docs/handoffs.md");
    assert!(page.contains(shown), "docs/handoffs.md should have\n{shown}");
}

/// Documents and handoff files share the same commands. Each command accepts either, or prints the right one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_takes_a_document_or_a_handoff_file_or_says_what_to_type() {
    let dir = harness::temp();
    let path = dir.path().to_owned();
    let baton = |line: &str| baton_in(&path, &format!("handoffs {line}"));
    let complained = |done: &Output| String::from_utf8_lossy(&done.stderr).into_owned();
    let said = |line: &str| {
        let done = baton(line);
        let complaint = complained(&done);
        (printed(done), complaint)
    };
    // No handoffs at all.
    assert_eq!(said("list"), (String::new(), "no handoffs yet\n".to_owned()));
    let words = ["handoffs", "list", "--state-dir", "nowhere"];
    let nowhere = harness::program::baton(&path, &words).output().unwrap();
    refused(&nowhere, 66, &["there is no directory nowhere"]);
    let (out, beside) = said("list --files");
    assert_eq!(out, "");
    assert_contains(&beside, "no handoff files");
    assert_contains(&beside, "baton handoffs list");
    // Only files.
    let (file, _) = said("create api --goal 'Login works' --now Logout --alone");
    let file = file.trim().to_owned();
    let (_, beside) = said("list");
    assert_contains(&beside, "no handoffs yet");
    assert_contains(&beside, "1 handoff file: baton handoffs list --files");
    refused(&baton("show"), 66, &["1 handoff file", "show --files"]);
    // The file is looked at.
    said("check --syntax");
    // A document next to it, with its own file.
    let settings = settings(&path, |_| {});
    let mut run = Run::with(variants::ANTHROPIC, dir, settings).await;
    run.talk.hands_over("Go on.").await;
    let record = run.records().await.remove(0);
    let Run { dir: _dir, .. } = run;
    let (id, directory) = (record.handoff.to_string(), record.directory.clone());
    let json = format!("{directory}/{JSON}");
    let (out, beside) = said("list");
    assert!(out.contains(&id) && beside.is_empty(), "{out}{beside}");
    // The document by its id, its directory and its JSON, and a file by its path and its position in the
    // directory.
    let short = format!("api/{}", Path::new(&file).file_name().unwrap().to_str().unwrap());
    for name in [id.as_str(), &id[..13], &directory, &json] {
        let shown = |how: &str| said(&format!("show {name} {how}")).0;
        assert_begins(&shown("--format md"), &format!("# Handoff {id}"));
        assert_contains(&shown("--format yaml"), "\nnow: reader.rs.\n");
        assert_eq!(shown("--path").trim(), directory);
        assert_begins(&shown("--for fresh"), "Now: reader.rs.\n");
        refused(&baton(&format!("check {name}")), 66, &["not a Git repository"]);
        assert_ends(&said(&format!("check --syntax {name}")).0, ": valid\n");
        refused(&baton(&format!("delete {name}")), 64, &["baton handoffs archive"]);
    }
    for name in [file.as_str(), &short] {
        assert_contains(&said(&format!("show {name}")).0, "goal: Login works\n");
        assert_begins(&said(&format!("show {name} --for fresh")).0, "Now: Logout\n");
        refused(&baton(&format!("check {name}")), 66, &["not a Git repository"]);
    }
    // Both in one call, with complete output.
    let (out, _) = said(&format!("check --syntax {id} {short} api --json"));
    let checked: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!(checked.len(), 3);
    assert_eq!(said("check --syntax").0.lines().count(), 3);
    // A session instead of a document, and names of nothing.
    for command in ["archive", "delete"] {
        refused(
            &baton(&format!("{command} api")),
            64,
            &["baton handoffs list api"],
        );
    }
    refused(&baton("show nothing"), 66, &["list --files"]);
    refused(&baton("check nothing"), 66, &[]);
    assert_eq!(said("show nothing --for fresh").0, "");
    let (out, hints) = said("list nothing");
    assert_eq!(out, "");
    assert_contains(&hints, "sessions that have some: ");
    // The newest file of a session, and the newest of all.
    assert!(said("show api").0.contains("goal: Login works\n"));
    assert!(!said("show --files").0.is_empty());
    // Both kinds are archived and restored.
    let archived = said(&format!("archive {short}")).0.trim().to_owned();
    assert_eq!(said(&format!("archive {archived} --undo")).0.trim(), file);
    refused(&baton(&format!("archive {file} --undo")), 64, &[]);
    assert!(said(&format!("archive {directory}")).0.starts_with("archived: "));
    let (_, beside) = said("list");
    assert_contains(&beside, "none of 1: baton handoffs list --all");
    assert_begins(&said(&format!("archive {json} --undo --activate")).0, "active: ");
}

/// `list --follow` prints a line of JSON for each document that is new or has a new status, and none for
/// earlier ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_follow_prints_what_changes_as_json_lines() {
    use std::io::BufRead;

    let dir = harness::temp();
    let store = harness::sqlite(dir.path());
    let document = |n: u128| DocumentRecord {
        handoff: uuid::Uuid::from_u128(n),
        principal: "local".into(),
        repository: "/app".into(),
        branch: "main".into(),
        topic: "t".into(),
        status: HandoffStatus::Active,
        created_ms: 1000 * u64::try_from(n).unwrap(),
        directory: format!("/handoffs/{n}"),
        document: "{}".into(),
    };
    store.put_document(&document(1)).await.unwrap();
    let mut child = harness::program::baton(dir.path(), &["handoffs", "list", "--follow", "--state-dir"])
        .arg(dir.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    // The command takes its first look at an unknown time, so changes before that are not reported.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while let Some(Ok(line)) = lines.next() {
            let _ = tell.send(line);
        }
    });
    let mut n = 1;
    let first = loop {
        n += 1;
        store.put_document(&document(n)).await.unwrap();
        match told.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => break line,
            Err(_) => assert!(n < 60, "nothing is printed"),
        }
    };
    let second = told.recv_timeout(LONG).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut all = [first, second].map(|line| serde_json::from_str::<Value>(&line).unwrap());
    all.sort_by_key(|row| row["created_ms"].as_u64());
    let row = |n: u128| uuid::Uuid::from_u128(n).to_string();
    assert_members(&all[0], &json!({"id": row(n - 1), "status": "superseded"}));
    let folder = format!("/handoffs/{n}");
    assert_members(
        &all[1],
        &json!({"id": row(n), "status": "active", "folder": folder}),
    );
}
