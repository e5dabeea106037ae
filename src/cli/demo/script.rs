//! Script of the user, the model and the tools (`script.json`), and the scripted provider.
//!
//! The provider is an HTTP server that answers in Anthropic's format, and keeps the requests. The model has
//! no memory: it reads its position in the script from the transcript, so a wrong cut leads it astray.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::state::sync::locked;
use baton_core::tools::TOOL_NAME;

/// Number of tool calls in each task.
pub(super) const TURNS: usize = 6;

#[derive(Deserialize)]
pub(super) struct Script {
    /// The agent's request without messages.
    request: Value,
    /// The harness's preamble.
    preamble: String,
    /// Tasks. A handoff follows each but the last.
    pub(super) tasks: Vec<PlanTask>,
    /// Tool, thought and text of each step, repeated in order.
    steps: Vec<[String; 3]>,
    /// Lines that the source files are made of.
    source_lines: Vec<String>,
}

/// A task of the plan, and the model's finding when it is done.
#[derive(Deserialize)]
pub(super) struct PlanTask {
    title: String,
    directory: String,
    found: String,
}

#[allow(clippy::expect_used)] // `script.json` is part of the program, and every test of the demo reads it.
pub(super) static SCRIPT: LazyLock<Script> =
    LazyLock::new(|| serde_json::from_str(include_str!("script.json")).expect("script.json is a script"));

/// Marker before the number of the next task in a prompt.
const NEXT: &str = "Next: task ";

/// Builds the first message: the preamble and the user's request.
pub(super) fn opening() -> Value {
    let (tasks, title) = (SCRIPT.tasks.len(), &SCRIPT.tasks[0].title);
    let wish = format!(
        "Work through docs/plan.md: {tasks} tasks, one after the other, without asking me in between. {NEXT}1 of {tasks}: \
         {title}."
    );
    json!({"role": "user", "content": [text(&SCRIPT.preamble), text(&wish)]})
}

/// Builds the agent's request for a history.
///
/// The request does not stream, because a response in one piece shows the same cut.
pub(super) fn request(history: &[Value]) -> Value {
    let mut request = SCRIPT.request.clone();
    request["messages"] = history.into();
    request
}

/// Blocks of this type in a message.
pub(super) fn blocks<'a>(message: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let blocks = message["content"].as_array().into_iter().flatten();
    blocks.filter(move |block| block["type"] == kind)
}

/// Writes the model's response to a request, as content blocks. `number` makes the ids of its calls unique.
pub(super) fn answer(request: &Value, number: usize) -> Vec<Value> {
    let call = |name: &str, input: Value| json!({"type": "tool_use", "id": format!("toolu_{number:020}"), "name": name, "input": input});
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    // The last prompt counts, because earlier tasks are done.
    let prompts = messages.iter().enumerate().rev();
    let prompt = prompts
        .filter_map(|(at, message)| Some((at, task_of(message)?)))
        .next();
    let (at, task) = prompt.unwrap_or_default();
    // Tasks count from 1.
    let Some(now) = task.checked_sub(1).and_then(|task| SCRIPT.tasks.get(task)) else {
        return vec![text(&format!("There is no task {task}."))];
    };
    let done = messages[at..]
        .iter()
        .flat_map(|message| blocks(message, "tool_result"))
        .count();
    if done < TURNS {
        let (thought, words, name, input) = step(now, done);
        return vec![thinking(thought), text(&words), call(name, input)];
    }
    if task == SCRIPT.tasks.len() {
        return vec![text(&format!("All {task} tasks are done, and all tests pass."))];
    }
    let mut tools = request["tools"].as_array().into_iter().flatten();
    // Makes a proxy that does not offer the tool visible.
    if !tools.any(|tool| tool["name"] == TOOL_NAME) {
        return vec![text("I was not given the tool to hand over with.")];
    }
    vec![
        thinking("That was the last step. The file dumps above are of no more use."),
        text(&format!("Task {task} is done: {}.", now.title)),
        call(TOOL_NAME, carry_over(task)),
    ]
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn thinking(words: &str) -> Value {
    json!({"type": "thinking", "thinking": words, "signature": "c2lnbmVk".repeat(8)})
}

/// Number of the task that a user message asks for.
///
/// A carry-over prompt comes before the text that baton appends to it, and names its task last.
fn task_of(message: &Value) -> Option<usize> {
    let texts = blocks(message, "text").filter_map(|block| block["text"].as_str());
    let number = texts.filter_map(|text| {
        text[text.find(NEXT)? + NEXT.len()..]
            .split(' ')
            .next()?
            .parse()
            .ok()
    });
    number.last().filter(|_| message["role"] == "user")
}

/// Files of a task, which its steps use in turn.
const FILES: [&str; 6] = [
    "mod.rs", "codec.rs", "index.rs", "lock.rs", "batch.rs", "tests.rs",
];

/// Returns the thought, the text, and the call's name and arguments of a step.
fn step(task: &PlanTask, done: usize) -> (&'static str, String, &'static str, Value) {
    let file = |n: usize| format!("{}/{}", task.directory, FILES[n % FILES.len()]);
    let path = file(done);
    let [tool, thought, text] = &SCRIPT.steps[done % SCRIPT.steps.len()];
    let arguments = match tool.as_str() {
        "read_file" => json!({"path": path}),
        "edit_file" => {
            let (old, new) = (listing(&path, 700), listing(&file(done + 1), 900));
            json!({"path": path, "old_text": old, "new_text": new})
        }
        _ => json!({"command": "cargo test"}),
    };
    (thought, text.replace("{path}", &path), tool, arguments)
}

/// Writes the arguments of the handoff after `task`.
fn carry_over(task: usize) -> Value {
    let (tasks, next) = (&SCRIPT.tasks, &SCRIPT.tasks[task]);
    let done = tasks[..task].iter().enumerate();
    let done: Vec<_> = done
        .map(|(n, task)| format!("{}. {}: {}", n + 1, task.title, task.found))
        .collect();
    let prompt = format!(
        "Goal: take linkshort off its single JSON file, following docs/plan.md. The HTTP API must not change; \
         `cargo test` must pass after every task; the user need not be asked in between.\n\nDone:\n{}\n\n\
         {NEXT}{} of {}: {}. Start with {}/mod.rs.",
        done.join("\n"),
        task + 1,
        tasks.len(),
        next.title,
        next.directory,
    );
    json!({"prompt": prompt, "reason": format!("task {task} is done: {}", tasks[task - 1].title)})
}

/// Computes the result of a tool call. The same call and turn always give the same result.
pub(super) fn result(call: &Value, turn: usize) -> Value {
    let path = call["input"]["path"].as_str().unwrap_or_default();
    let text = match call["name"].as_str().unwrap_or_default() {
        "read_file" => listing(path, 3_500 + 1_700 * (turn % 4)),
        "edit_file" => format!("{path} changed, 1 place."),
        "run" => tests_passed(28 + 9 * (turn % 3)),
        other => format!("there is no tool {other}"),
    };
    json!({"type": "tool_result", "tool_use_id": call["id"], "content": text})
}

/// Writes about `bytes` bytes of a source file, with line numbers as agents show them.
fn listing(path: &str, bytes: usize) -> String {
    let lines = &SCRIPT.source_lines;
    let seed: usize = path.bytes().map(usize::from).sum();
    let mut out = format!("     1\t//! {path}\n");
    let mut line = 2;
    while out.len() < bytes {
        let text = &lines[(seed + line * 5 + line / 7) % lines.len()];
        out.push_str(&format!("{line:6}\t{text}\n"));
        line += 1;
    }
    out
}

fn tests_passed(tests: usize) -> String {
    const NAMES: [&str; 4] = [
        "put_then_get",
        "expired_is_missing",
        "two_writers",
        "scan_is_sorted",
    ];
    let line = |test: usize| format!("test store::tests::{}_{test} ... ok\n", NAMES[test % NAMES.len()]);
    let lines: String = (0..tests).map(line).collect();
    format!("running {tests} tests\n{lines}\ntest result: ok. {tests} passed; 0 failed; finished in 0.41s\n")
}

/// A running provider. It ends with the runtime.
pub(super) struct Provider {
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<Bytes>>>,
}

impl Provider {
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                let service = service_fn(move |request| answered(request, Arc::clone(&kept)));
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self { address, requests })
    }

    /// Bodies of the requests after the first `seen`.
    pub(super) fn received(&self, seen: usize) -> Vec<Bytes> {
        locked(&self.requests)[seen..].to_vec()
    }
}

async fn answered(
    request: Request<Incoming>,
    kept: Arc<Mutex<Vec<Bytes>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes());
    let request = body
        .ok()
        .and_then(|body| Some((serde_json::from_slice(&body).ok()?, body)));
    let Some((value, body)) = request else {
        let mut refusal = Response::new(Full::default());
        *refusal.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(refusal);
    };
    let mut kept = locked(&kept);
    let answer = message(&value, kept.len());
    kept.push(body);
    let mut response = Response::new(Full::from(answer.to_string()));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    Ok(response)
}

fn message(request: &Value, number: usize) -> Value {
    let content = answer(request, number);
    let calls = content.iter().any(|block| block["type"] == "tool_use");
    json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": request["model"], "content": content,
        "stop_reason": if calls { "tool_use" } else { "end_turn" }, "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    })
}
