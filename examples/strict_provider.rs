//! A scripted provider for any agent or SDK: it enforces the rules of the real APIs, and its model obeys
//! `#task K/N steps=S` lines in the prompt (see `baton_strict::Autopilot`), or says what a file tells it to
//! (`baton_strict::Script`).
//!
//! `cargo run --example strict_provider -- --listen 127.0.0.1:9999`
#![allow(clippy::print_stdout)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use baton_strict::{Autopilot, Complaint, Fault, Model, Options, Received, Script, Strict};
use clap::Parser;

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
    let model = move |request: &Received| {
        let delay = Duration::from_millis(arguments.delay_ms);
        let mut reply = says.reply(request).delay(delay);
        reply.fault = arguments.fault();
        if arguments.chunk > 0 {
            reply.in_bytes(arguments.chunk)
        } else {
            reply
        }
    };
    let provider = Strict::start(model, Options::default().listen(listen).watch(print)).await?;
    println!("strict provider listening on {}", provider.url());
    provider.serve().await;
    Ok(())
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
