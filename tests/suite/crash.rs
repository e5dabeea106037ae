//! The real program, killed with SIGKILL at many moments of a handoff and restarted over the same state.
//!
//! A handoff is never lost once the agent has received its first byte.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use baton_llm::state::store::Store;
use baton_llm::state::store::sqlite::{self, SqliteStore};
use baton_strict::{Received, Reply};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::Value;
use uuid::Uuid;

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{PROMPT, assistant, handoff, history, texts, user};
use crate::harness::program::{Place, Program};
use crate::harness::{AgentWire, client, open};

const OPENING: &str = "[[handoff-resume:";

/// Duration of a handoff of [`model`] in milliseconds, with some margin.
const LAST_MOMENT: u64 = 170;

/// Interval between the kills, in milliseconds.
const STEP: usize = 7;

/// Duration of a first start until the program listens, in milliseconds, with a large margin.
const FIRST_START: u64 = 200;

/// Interval between the kills, in milliseconds.
const FIRST_STEP: usize = 5;

/// Starts the program without waiting until it listens.
fn spawn(config: &Path, state: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["serve", "--log-level", "error", "--config"])
        .arg(config)
        .arg("--state-dir")
        .arg(state)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn url_of(program: &Program) -> String {
    format!("{}{}", program.data, Anthropic.path())
}

impl Program {
    /// SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a request, kills the program after `moment`, and returns the bytes that the agent had received.
    async fn ask_and_die(&mut self, history: &[Value], moment: Duration) -> Vec<u8> {
        let body = Bytes::from(Anthropic.body(history, true).to_string());
        let (agent, url) = (client(), url_of(self));
        let mut raw = Vec::new();
        let reading = async {
            let mut body = open(&agent, &url, Anthropic.headers(), body).await.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                raw.extend(frame.into_data().unwrap_or_default());
            }
            std::future::pending::<()>().await;
        };
        let _ = tokio::time::timeout(moment, reading).await;
        self.kill();
        raw
    }
}

/// A model that hands over if the user's message contains a number.
fn model(seen: &Received) -> Reply {
    let pause = Duration::from_millis(3);
    if texts(seen.messages()) == [format!("u: {PROMPT}")] {
        return Reply::text("Fresh. On with the reader.").deltas(3).delay(pause);
    }
    match seen.last_user_text().is_some_and(|t| t.parse::<u64>().is_ok()) {
        true => handoff().deltas(6).delay(pause),
        false => Reply::text("Next."),
    }
}

#[tokio::test]
async fn a_handoff_that_was_shown_survives_a_kill_at_any_moment() {
    let place = Place::of(model, "").await;
    let (mut shown, mut unseen) = (0, 0);
    let mut moments = (0..).step_by(STEP);
    // On a busy machine the later moments are needed as well.
    while let Some(moment) = moments
        .next()
        .filter(|&m| m < LAST_MOMENT || (shown <= 2 && m < 10 * LAST_MOMENT))
    {
        let mine = [answered("Yes."), vec![user(&format!("{moment}"))]].concat();
        let mut program = place.start();
        let raw = program.ask_and_die(&mine, Duration::from_millis(moment)).await;
        let raw = String::from_utf8(raw).unwrap();
        let program = place.start();
        let Some(at) = raw.find(OPENING) else {
            unseen += 1;
            // Nothing was shown, so the repeated request is answered as if it were the first.
            let response = program.sends(&mine).await;
            assert!(
                response.text().contains("message_stop"),
                "{moment}: {}",
                response.text()
            );
            continue;
        };
        shown += 1;
        let id = raw[at + OPENING.len()..].get(..36).unwrap_or_default();
        let stored = Uuid::parse_str(id).unwrap();
        let store = SqliteStore::open(&place.state).unwrap();
        let handoff = store.handoff("local", stored).await.unwrap();
        assert_eq!(
            handoff.map(|h| h.prompt).as_deref(),
            Some(PROMPT),
            "{moment}: {raw}"
        );
        // The agent kept part of it; the sentinel's opening line is enough.
        let kept = [
            text_block("Done with that."),
            text_block(&format!("{OPENING}{id}]]")),
        ];
        let next = [&mine[..], &[assistant(&kept), user("Go on.")]].concat();
        let response = program.sends(&next).await;
        assert_eq!(response.header("x-baton-handoff"), Some(id), "{moment}");
        let seen = place.provider.requests().last().unwrap().clone();
        assert_eq!(
            texts(seen.messages()),
            [format!("u: {PROMPT}").as_str(), "u: Go on."]
        );
        assert!(seen.offers_handoff());
    }
    assert_eq!(place.provider.complaints(), []);
    assert!(
        shown > 2 && unseen > 2,
        "{shown} shown, {unseen} unseen: choose other moments"
    );
}

/// Killed while a command's handoff is written, while its answer is sent, or afterwards.
///
/// The next request continues from the handoff if its sentinel was shown, or else from the whole history. A
/// handoff that was in the store at the time of the kill may apply without its sentinel, because the user
/// asked for it. The request contains neither the command nor the answer.
#[tokio::test]
async fn a_command_whose_answer_a_kill_cut_off_is_in_no_later_request() {
    let drafts = |seen: &Received| match seen.last_user_text() {
        Some(text) if text.contains("## Goal") => {
            let document = Reply::text("## Goal\nMend the importer.\n\n## Next steps\n1. reader.rs.");
            document.deltas(6).delay(Duration::from_millis(3))
        }
        _ => Reply::text("Next."),
    };
    let mut place = Place::of(drafts, "").await;
    let (mut shown, mut unseen) = (0, 0);
    // On a busy machine the later moments are needed as well.
    for at in 0.. {
        let moment = 4 * STEP as u64 * at;
        if moment > LAST_MOMENT && (shown > 1 || moment > 10 * LAST_MOMENT) {
            break;
        }
        place.state = place.dir.path().join(at.to_string());
        let mut program = place.start();
        let asked = [answered("Yes."), vec![user("::handoff --force")]].concat();
        let requests = place.provider.requests().len();
        let body = Bytes::from(Anthropic.body(&asked, true).to_string());
        let (agent, url) = (client(), url_of(&program));
        let reading = tokio::spawn(async move {
            let mut raw = Vec::new();
            let request = http::Request::post(url).header("content-type", "application/json");
            let headers = Anthropic.headers().iter();
            let request = headers.fold(request, |request, (name, value)| request.header(*name, *value));
            let request = request.body(http_body_util::Full::new(body)).unwrap();
            // Killed before a response head, so the agent has nothing.
            let Ok(response) = agent.request(request).await else {
                return raw;
            };
            let mut body = response.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                raw.extend(frame.into_data().unwrap_or_default());
            }
            raw
        });
        while place.provider.requests().len() == requests {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(moment)).await;
        program.kill();
        let raw = text_of(&reading.await.unwrap());
        let program = place.start();
        let kept = match raw.is_empty() {
            true => Vec::new(),
            false => vec![assistant(&[text_block(&raw)])],
        };
        let next = [&asked[..], &kept, &[user("Go on.")]].concat();
        let response = program.sends(&next).await;
        assert_eq!(response.status, 200, "{moment}: {}", response.text());
        let seen = texts(place.provider.requests().last().unwrap().messages());
        let applies = seen.len() == 2 && seen[0].contains("<handoff-context>");
        match raw.contains(OPENING) {
            true => {
                shown += 1;
                assert!(applies, "{moment}: {seen:?}");
            }
            false => {
                unseen += 1;
                assert!(
                    applies || seen.starts_with(&texts(&history())),
                    "{moment}: {seen:?} behind {raw:?}"
                );
                assert_eq!(seen.last().unwrap(), "u: Go on.", "{moment}: {seen:?}");
            }
        }
    }
    assert_eq!(place.provider.complaints(), []);
    assert!(
        shown > 0 && unseen > 0,
        "{shown} shown, {unseen} unseen: choose other moments"
    );
}

/// Text of a response, as far as it arrived.
fn text_of(raw: &[u8]) -> String {
    let answered = baton_core::transcript::AnswerContent::from_body(raw);
    answered.parts.iter().map(|part| part.text()).collect()
}

#[tokio::test]
async fn a_first_start_killed_at_any_moment_leaves_nothing_or_a_usable_store() {
    let mut place = Place::of(model, "").await;
    let (mut nothing, mut whole) = (0, 0);
    for moment in (0..FIRST_START).step_by(FIRST_STEP) {
        place.state = place.dir.path().join(moment.to_string());
        let mut child = spawn(&place.config, &place.state);
        tokio::time::sleep(Duration::from_millis(moment)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        match place.state.join(sqlite::FILE).exists() {
            true => {
                whole += 1;
                // The state that a command finds if it runs before the next start.
                let left = SqliteStore::open_existing(&place.state).unwrap();
                assert!(left.is_some(), "{moment}: a file without a store in it");
            }
            false => nothing += 1,
        }
        let program = place.start();
        let response = program.sends(&history()).await;
        assert!(
            response.text().contains("message_stop"),
            "{moment}: {}",
            response.text()
        );
    }
    assert!(
        nothing > 0 && whole > 0,
        "{nothing} with nothing, {whole} whole: choose other moments"
    );
}

/// Killed when a command has arrived but nothing was stored. If it is repeated, it is executed. If the user
/// continues instead, the model never sees it.
#[tokio::test]
async fn a_command_that_a_kill_left_unwritten_is_done_when_it_is_sent_again_and_else_never_sent() {
    let mut place = Place::of(|_: &Received| Reply::text("Next."), "").await;
    for (n, (text, said)) in [
        ("::pin Never touch the schema.", "pinned as number 1"),
        (
            "::handoff --force --method local --no-git",
            "handed over (composed without a model)",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        place.state = place.dir.path().join(n.to_string());
        let mut program = place.start();
        assert_eq!(program.sends(&history()).await.status, 200);
        // Nothing can be written meanwhile.
        let lock = rusqlite::Connection::open(place.state.join("baton.db")).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        let before = answered("Next.");
        let asked = [&before[..], &[user(text)]].concat();
        let answer = program.sends(&asked);
        let waits = tokio::time::timeout(Duration::from_millis(400), answer).await;
        assert!(waits.is_err(), "{text}: answered before it was written");
        program.kill();
        drop(lock);
        let program = place.start();
        let next = [&asked[..], &[user("Go on.")]].concat();
        assert_eq!(program.sends(&next).await.status, 200);
        let seen = texts(place.provider.requests().last().unwrap().messages());
        let plain = [&texts(&before)[..], &["u: Go on.".to_owned()]].concat();
        assert_eq!(seen, plain, "{text}");
        let requests = place.provider.requests().len();
        let again = program.sends(&asked).await;
        assert!(again.text().contains(said), "{text}: {}", again.text());
        // After the handoff only baton answers.
        assert_eq!(place.provider.requests().len(), requests, "{text}");
    }
    assert_eq!(place.provider.complaints(), []);
}

/// A request is spilled to an unnamed file while its response streams.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_killed_program_leaves_no_request_behind() {
    // The file exists until the response ends, so that happens after all waits.
    const LIMIT: Duration = Duration::from_secs(50);
    let slow = |_: &Received| Reply::text("A long answer.").delay(LIMIT);
    let more = "limits.request_buffer_bytes = 0\njournal.enabled = false\n";
    let place = Place::of(slow, more).await;
    let (mut program, state) = (place.start(), &place.state);
    let body = Anthropic.body(&[user(&"The canary sings. ".repeat(10_000))], true);
    let agent = client();
    let mut answer = open(
        &agent,
        &url_of(&program),
        Anthropic.headers(),
        body.to_string().into(),
    )
    .await
    .into_body();
    answer.frame().await.unwrap().unwrap();
    let fds = format!("/proc/{}/fd", program.child.id());
    let is_spilled = || {
        let links = std::fs::read_dir(&fds).unwrap().flatten();
        let files = links.filter_map(|fd| Some((fd.path(), std::fs::read_link(fd.path()).ok()?)));
        let mut unnamed = files.filter(|(_, file)| {
            let file = file.to_string_lossy();
            file.starts_with(&*state.to_string_lossy()) && file.ends_with("(deleted)")
        });
        unnamed.any(|(fd, _)| std::fs::read(fd).is_ok_and(|text| text == body.to_string().as_bytes()))
    };
    let began = std::time::Instant::now();
    while !is_spilled() {
        assert!(began.elapsed() < LIMIT, "no unnamed file has the request");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    program.kill();
    for file in std::fs::read_dir(state).unwrap() {
        let file = file.unwrap().path();
        let text = std::fs::read(&file).unwrap();
        let sings = memchr::memmem::find(&text, b"The canary sings.");
        assert_eq!(sings, None, "{}", file.display());
    }
}

/// A conversation, in which the model has answered this.
fn answered(text: &str) -> Vec<Value> {
    [&history()[..], &[assistant(&[text_block(text)])]].concat()
}

fn text_block(text: &str) -> Value {
    serde_json::json!({"type": "text", "text": text})
}
