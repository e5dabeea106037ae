//! Requests as outlines: one file each in `tests/golden/transcripts`, with the outline next to it.
//!
//! A new case is a new file. `UPDATE_OUTLINES=1` writes the outlines, to be examined before they are committed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;

use super::*;
use crate::agents::may_run_commands;
use crate::marker::{self, MarkerKind, RawMarker};
use crate::rewrite::preamble::{self, Preamble};

/// Tags that Claude Code, Codex, Gemini CLI and Qwen Code put before the user's words.
const TAGS: [&str; 3] = ["<system-reminder>", "<environment_context>", "<session_context>"];

fn golden(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/golden")
        .join(name)
}

fn short(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let cut: String = text.chars().take(MAX_CHARS).collect();
    match cut.len() == text.len() {
        true => format!("{text:?}"),
        false => format!("{cut:?}…"),
    }
}

fn texts(all: &[JsonText<'_>]) -> String {
    let all: Vec<_> = all.iter().map(|text| short(&text.get())).collect();
    all.join(" ")
}

fn text_of(text: Option<JsonText<'_>>) -> String {
    text.map_or("-".to_owned(), |text| text.get().into_owned())
}

fn line(part: &TranscriptPart<'_>) -> String {
    match part.kind {
        TranscriptPartKind::Text(text) => format!("text {}", short(&text.get())),
        TranscriptPartKind::Call(call) => {
            let arguments = call.arguments.map(|arguments| short(&arguments.get()));
            format!(
                "call {} {} {}",
                text_of(call.id),
                text_of(call.name),
                arguments.unwrap_or_default()
            )
        }
        TranscriptPartKind::Result(result) => {
            let (call, name) = (text_of(result.call), text_of(result.name));
            format!(
                "result {call} {name} error={:?} {}",
                result.error,
                texts(&part.texts())
            )
        }
        TranscriptPartKind::Thinking => format!("thinking {}", texts(&part.texts())),
        TranscriptPartKind::Image => "image".to_owned(),
        TranscriptPartKind::ToolChange => "tools".to_owned(),
        TranscriptPartKind::Other(name) => format!("other {:?} {}", name.get(), texts(&part.texts())),
    }
}

fn outline(view: &View) -> String {
    let transcript = Transcript::from_view(view);
    let mut out = String::new();
    let agent = transcript.agent();
    let _ = writeln!(out, "agent: {}", agent.map_or("-", AgentKind::name));
    let tools: Vec<_> = transcript
        .tool_names()
        .iter()
        .map(|name| name.get().into_owned())
        .collect();
    let _ = writeln!(out, "tools: {}", tools.join(" "));
    let _ = writeln!(out, "system: {}", texts(&transcript.system_texts()));
    let Preamble { turns, blocks } = preamble::of(view, None, &TAGS.map(str::to_owned));
    let _ = writeln!(out, "preamble: {} turns, {} blocks", turns.len(), blocks.len());
    for (at, turn) in transcript.turns().enumerate() {
        let time = turn.time().map(|time| format!(" at {time}")).unwrap_or_default();
        let _ = writeln!(out, "{at} {:?}{time}", turn.role);
        for part in turn.parts() {
            let _ = writeln!(out, "  {}", line(&part).trim_end());
        }
    }
    for RawMarker { span, kind } in marker::marks_in(&view.body, view.list, &marker::stems(&view.body)).0 {
        let shown = match kind {
            MarkerKind::Open(id) => format!("Handoff({id})"),
            MarkerKind::Close(_) => "HandoffEnd".to_owned(),
            MarkerKind::Aside(id) => format!("Aside({id})"),
            MarkerKind::Note(_) | MarkerKind::Broken(_) => continue,
        };
        let _ = writeln!(out, "mark in {}: {shown}", view.turn_at(span.start).unwrap());
    }
    for tool in transcript.tool_uses() {
        let answered = tool
            .answer
            .map_or("nowhere".to_owned(), |(turn, _)| turn.to_string());
        let (name, end) = (text_of(tool.call.name), tool.end(agent));
        let (exit, failed) = (end.code, end.failed);
        let _ = writeln!(
            out,
            "{name} of {} answered in {answered}: exit {exit:?}, failed {failed:?}",
            tool.turn
        );
    }
    out
}

fn check(wire: &str, request: &Path, expected: &Path) {
    let view = view(wire, fs::read(request).unwrap());
    let outline = outline(&view);
    if std::env::var_os("UPDATE_OUTLINES").is_some() {
        fs::write(expected, &outline).unwrap();
    }
    assert_eq!(
        outline,
        fs::read_to_string(expected).unwrap_or_default(),
        "{}",
        request.display()
    );
}

/// Checks all files of a wire: the recorded ones, the one with every kind of part, and the golden ones of the
/// rewrite.
fn check_all(wire: &str) {
    let mut count = 0;
    let directory = golden("transcripts");
    for file in fs::read_dir(&directory).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if file.extension().is_some_and(|end| end == "json") && name.contains(wire) {
            check(wire, &file, &file.with_extension("txt"));
            count += 1;
        }
    }
    assert!(count > 0, "no request of {wire}");
    for name in ["07_next_request_agent", "23_mixed_next_upstream"] {
        let expected = directory.join(format!("{wire}_{name}.txt"));
        check(wire, &golden(wire).join(name).with_extension("json"), &expected);
    }
}

macro_rules! outlines {
    ($($wire:ident)*) => {$(
        #[test]
        fn $wire() {
            check_all(stringify!($wire));
        }
    )*};
}

outlines!(anthropic openai_chat openai_responses gemini ollama);

/// Exit codes of the commands that the agents ran in the recorded requests.
#[test]
fn recorded_commands_tell_how_they_ended() {
    let ended = |file: &str, wire: &str| -> Vec<Option<i32>> {
        let view = view(wire, fs::read(golden("transcripts").join(file)).unwrap());
        let transcript = Transcript::from_view(&view);
        let agent = transcript.agent();
        assert!(agent.is_some(), "{file}");
        let uses = transcript.tool_uses();
        assert!(
            uses.iter().all(|tool| may_run_commands(&tool.call.named())),
            "{file}"
        );
        uses.iter().map(|tool| tool.end(agent).code).collect()
    };
    let (zero, unknown) = (Some(0), None);
    // In order: exit 3, echo, ls of nothing, grep of nothing, true, diff of two files, echo into a file.
    let all = [Some(3), zero, Some(2), Some(1), zero, Some(1), zero];
    for file in ["codex_openai_responses.json", "codex_openai_responses_exec.json"] {
        assert_eq!(ended(file, "openai_responses"), all);
    }
    assert_eq!(ended("pi_anthropic.json", "anthropic"), all);
    assert_eq!(ended("gemini_cli_gemini.json", "gemini"), all);
    assert_eq!(ended("qwen_code_openai_chat.json", "openai_chat"), all);
    // These two treat exit code 1 of grep and diff as a success, and do not report it.
    let judged = [Some(3), zero, Some(2), unknown, zero, unknown, zero];
    assert_eq!(ended("claude_code_anthropic.json", "anthropic"), judged);
    let failures = all.map(|code| code.filter(|code| *code != 0));
    assert_eq!(ended("goose_openai_chat.json", "openai_chat"), failures);
    assert_eq!(ended("opencode_anthropic.json", "anthropic"), [unknown; 7]);
}
