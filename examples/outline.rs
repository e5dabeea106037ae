//! The transcript reader as a library: prints each part of a request on a line, and how the agent's commands ended.
//!
//! `cargo run --example outline --no-default-features -- anthropic tests/golden/transcripts/claude_code_anthropic.json`
#![allow(clippy::print_stdout)]

use std::error::Error;

use baton_core::agents::may_run_commands;
use baton_core::record::WireId;
use baton_core::transcript::{AgentKind, JsonText, Transcript, TranscriptPart, TranscriptPartKind};
use baton_core::wire::{Operation, wire};

/// Maximum displayed size of a string in bytes.
const SHOWN: usize = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err("outline WIRE FILE".into());
    };
    let wire = wire(WireId::named(&name).ok_or("there is no such wire")?);
    let body = std::fs::read(file)?.into();
    let view = wire
        .read(&body, Operation::Generate)
        .map_err(|why| format!("{why:?}"))?;
    let transcript = Transcript::from_view(&view);
    for (n, turn) in transcript.turns().enumerate() {
        for part in turn.parts() {
            println!("{n:>4} {:<10} {}", format!("{:?}", turn.role), line(&part));
        }
    }
    let agent = transcript.agent();
    println!("\nagent: {}", agent.map_or("not known", AgentKind::name));
    let uses = transcript.tool_uses();
    for tool in uses.iter().filter(|tool| may_run_commands(&tool.call.named())) {
        let command = tool.call.arguments.map(|arguments| arguments.get());
        let exit = tool
            .end(agent)
            .code
            .map_or("?".to_owned(), |code| code.to_string());
        println!("exit {exit:>3}  {}", command.unwrap_or_default());
    }
    Ok(())
}

fn line(part: &TranscriptPart<'_>) -> String {
    let said = |text: Option<JsonText<'_>>| {
        format!("{:?}", text.map(|text| text.beginning(SHOWN)).unwrap_or_default())
    };
    let first = || said(part.texts().first().copied());
    match part.kind {
        TranscriptPartKind::Text(text) => format!("text     {}", said(Some(text))),
        TranscriptPartKind::Call(call) => format!("call     {}", said(call.name)),
        TranscriptPartKind::Result(_) => format!("result   {}", first()),
        TranscriptPartKind::Thinking => format!("thinking {}", first()),
        TranscriptPartKind::Image => "image".to_owned(),
        TranscriptPartKind::ToolChange => "tools change".to_owned(),
        TranscriptPartKind::Other(name) => format!("other    {}", said(Some(name))),
    }
}
