//! A scripted provider for any agent or SDK, which enforces the rules of the real APIs. Its model obeys
//! `#task K/N steps=S` lines in the prompt (see `baton_strict::Autopilot`), or plays the script of a file
//! (`baton_strict::Script`).
//!
//! `cargo run --example strict_provider -- --listen 127.0.0.1:9999`
#![allow(clippy::print_stdout)]

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_strict::{
    Autopilot, Complaint, Endpoint, Fault, Model, Options, Part, Received, Reply, Role, Script, Strict, Usage,
};
use clap::Parser;
use serde_json::{Value, json};

/// A scripted LLM provider that enforces the rules of the real APIs.
///
/// It speaks Anthropic Messages, OpenAI Chat and Responses, Gemini and Ollama, each at its own paths. Every
/// request is printed, with the rules that it breaks. A prompt with a line `#task 1/3 steps=2` makes its model
/// call a tool twice for each of three tasks, and hand over between them where `session_handoff` is on offer.
#[derive(Parser)]
#[command(after_help = "\
Where to point a client:
  Anthropic          ANTHROPIC_BASE_URL=http://ADDRESS
  OpenAI (both)      OPENAI_BASE_URL=http://ADDRESS/v1
  Gemini             GOOGLE_GEMINI_BASE_URL=http://ADDRESS
  Ollama             OLLAMA_HOST=http://ADDRESS")]
struct Arguments {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:9999")]
    listen: SocketAddr,
    /// Write bodies this many bytes at a time (0: one event at a time).
    #[arg(long, default_value_t = 0)]
    chunk: usize,
    /// Wait this many milliseconds between two writes.
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// Drop the connection after this many events of each reply.
    #[arg(long, value_name = "EVENTS", conflicts_with = "error_after")]
    cut_after: Option<usize>,
    /// End each reply with the wire's in-stream error after this many events.
    #[arg(long, value_name = "EVENTS")]
    error_after: Option<usize>,
    /// Say what this file says, in order: a JSON list of {"thinking", "text", "calls": [{"name", "arguments"}]}.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Append each request with its complaints, and each reply with its tokens, to this file, a line of JSON each.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

impl Arguments {
    fn model(&self) -> std::io::Result<Box<dyn Model>> {
        let Some(file) = &self.script else {
            return Ok(Box::new(Autopilot));
        };
        let script = Script::read(&std::fs::read_to_string(file)?)?;
        Ok(Box::new(script))
    }

    fn fault(&self) -> Option<Fault> {
        let error = |events| Fault::ErrorEvent {
            events,
            kind: "server_error".to_owned(),
            message: "an error, as requested".to_owned(),
        };
        let cut = self.cut_after.map(Fault::CutAfterEvents);
        cut.or_else(|| self.error_after.map(error))
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let listen = arguments.listen;
    let says = arguments.model()?;
    let (delay_ms, chunk, fault) = (arguments.delay_ms, arguments.chunk, arguments.fault());
    let model = move |request: &Received| {
        let mut reply = says.reply(request).delay(Duration::from_millis(delay_ms));
        reply.fault = fault.clone();
        if chunk > 0 { reply.in_bytes(chunk) } else { reply }
    };
    let log = Arc::new(Log::open(arguments.log.as_ref())?);
    let replies = Arc::clone(&log);
    let watch = move |request: &Received, complaints: &[Complaint]| {
        print(request, complaints);
        log.write(|| logged(request, complaints));
    };
    let watch_replies = move |request: &Received, reply: &Reply, usage: &Usage| {
        replies.write(|| logged_reply(request, reply, usage));
    };
    let options = Options::default()
        .listen(listen)
        .watch(watch)
        .watch_replies(watch_replies);
    let provider = Strict::start(model, options).await?;
    println!("strict provider listening on {}", provider.url());
    provider.serve().await;
    Ok(())
}

/// The file of `--log`, if any.
struct Log(Option<Mutex<File>>);

impl Log {
    fn open(file: Option<&PathBuf>) -> std::io::Result<Self> {
        let open = |file| File::options().create(true).append(true).open(file);
        Ok(Self(file.map(open).transpose()?.map(Mutex::new)))
    }

    fn write(&self, entry: impl FnOnce() -> Value) {
        let Some(file) = &self.0 else { return };
        let line = format!("{}\n", entry());
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            println!("not logged: {error}");
        }
    }
}

fn print(request: &Received, complaints: &[Complaint]) {
    println!(
        "#{} {} {} {} {} bytes, {} messages, {} tools{}",
        request.number,
        request.wire,
        request.method,
        request.path,
        request.raw.len(),
        request.messages().len(),
        request.tool_names().len(),
        if request.offers_handoff() {
            ", handoff on offer"
        } else {
            ""
        },
    );
    for complaint in complaints {
        let verb = if complaint.rule.refuses() { "!" } else { "~" };
        println!("  {verb} {complaint}");
    }
}

/// A request in one shape for all wires: the model's input, and the rules that it breaks.
fn logged(request: &Received, complaints: &[Complaint]) -> Value {
    let role = |role| match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let turns = request.turns().into_iter().map(|turn| {
        let calls: Vec<_> = turn.calls.into_iter().map(|call| call.name).collect();
        let results: Vec<_> = turn.results.into_iter().map(|result| result.text).collect();
        json!({"role": role(turn.role), "texts": turn.texts, "calls": calls, "results": results})
    });
    let complaints = complaints.iter().map(|complaint| {
        json!({"rule": format!("{:?}", complaint.rule), "refuses": complaint.rule.refuses(), "text": complaint.to_string()})
    });
    json!({
        "number": request.number,
        "wire": request.wire.to_string(),
        "path": request.path,
        "generates": request.endpoint == Endpoint::Generate,
        "bytes": request.raw.len(),
        "tools": request.tool_names(),
        "system": request.body.get("system"),
        "turns": turns.collect::<Vec<_>>(),
        "complaints": complaints.collect::<Vec<_>>(),
    })
}

/// The calls of a reply, and the tokens that it reports.
fn logged_reply(request: &Received, reply: &Reply, usage: &Usage) -> Value {
    let calls = reply.parts.iter().filter_map(|part| match part {
        Part::Call { name, .. } => Some(name.as_str()),
        _ => None,
    });
    json!({
        "reply_to": request.number,
        "calls": calls.collect::<Vec<_>>(),
        "input_tokens": usage.prompt(),
        "output_tokens": usage.output,
    })
}
