//! Every split of the stream gives the same output, on every wire.

use bytes::Bytes;
use proptest::prelude::*;

use super::StreamMerge;
use crate::record::WireId;
use crate::tools::ToolNames;
use crate::wire::{Ending, LegMachine, Operation, ResponseWatch, WIRES, Wire};

fn machine(wire: &Wire, hide: bool) -> LegMachine {
    let (list, says) = match wire.id() {
        WireId::OpenaiResponses => ("input", "content"),
        WireId::Gemini => ("contents", "parts"),
        _ => ("messages", "content"),
    };
    let text = if says == "parts" {
        r#"[{"text":"a"}]"#
    } else {
        r#""a""#
    };
    let body = format!(r#"{{"model":"m","{list}":[{{"role":"user","{says}":{text}}}]}}"#);
    let view = wire.read(&body.into(), Operation::Generate).unwrap();
    let watch = ResponseWatch {
        hide: match hide {
            true => ToolNames::HANDOFF,
            false => ToolNames::NONE,
        },
        buffered_bytes: 1 << 10,
    };
    wire.machine(&view, watch)
}

/// Formats the frames of one kind, with a string (the inside of a literal) and a number.
fn frame(wire: WireId, kind: usize, text: &str, n: usize) -> String {
    let name = if kind.is_multiple_of(2) {
        "Read"
    } else {
        "session_handoff"
    };
    let json = match wire {
        WireId::Anthropic => return anthropic(kind, text, n, name),
        WireId::OpenaiResponses => return responses(kind, text, n, name),
        WireId::OpenaiChat => chat(kind, text, n, name),
        WireId::Gemini => return format!("data: {}\r\n\r\n", gemini(kind, text, n, name)),
        WireId::Ollama => return format!("{}\n", ollama(kind, text, n, name)),
    };
    format!("data: {json}\n\n")
}

fn anthropic(kind: usize, text: &str, n: usize, name: &str) -> String {
    let index = n % 2;
    let delta = |of: &str, key: &str| {
        let delta = format!(r#"{{"type":"{of}","{key}":"{text}"}}"#);
        format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
    };
    let start =
        |block: &str| format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#);
    let json = match kind {
        0..=5 => delta("text_delta", "text"),
        6 => delta("input_json_delta", "partial_json"),
        7 => delta("thinking_delta", "thinking"),
        8 => start(r#"{"type":"text","text":""}"#),
        9 | 10 => start(&format!(
            r#"{{"type":"tool_use","id":"t{n}","name":"{name}","input":{{}}}}"#
        )),
        11 => format!(r#"{{"type":"content_block_stop","index":{index}}}"#),
        12 => r#"{"type":"ping"}"#.to_owned(),
        13 => return ": a comment\n\n".to_owned(),
        _ => delta("signature_delta", "signature"),
    };
    format!("event: e\ndata: {json}\n\n")
}

fn chat(kind: usize, text: &str, n: usize, name: &str) -> String {
    let index = n % 2;
    let call = |inside: &str| format!(r#"{{"tool_calls":[{{"index":{index},{inside}}}]}}"#);
    let delta = match kind {
        0..=3 => format!(r#"{{"content":"{text}"}}"#),
        4 => format!(r#"{{"role":"assistant","content":"{text}"}}"#),
        5 => format!(r#"{{"content":null,"reasoning_content":"{text}"}}"#),
        6 => format!(r#"{{"content":"","reasoning":"{text}","refusal":null}}"#),
        7 | 8 => call(&format!(r#""function":{{"arguments":"{text}"}}"#)),
        9 | 10 => call(&format!(
            r#""id":"c{n}","type":"function","function":{{"name":"{name}","arguments":""}}"#
        )),
        11 => call(&format!(
            r#""id":"c0","function":{{"name":"{name}","arguments":"{text}"}}"#
        )),
        12 => format!(
            r#"{{"tool_calls":[{{"function":{{"arguments":"{text}"}}}},{{"index":1,"function":{{"arguments":"{text}"}}}}]}}"#
        ),
        _ => "{}".to_owned(),
    };
    let more = match n % 5 {
        0 => format!(r#","obfuscation":"{n}x""#),
        1 => format!(r#","usage":{{"prompt_tokens":3,"completion_tokens":{n}}}"#),
        _ => r#","usage":null"#.to_owned(),
    };
    let choices = format!(r#"[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}]"#);
    format!(
        r#"{{"id":"x","object":"chat.completion.chunk","created":{},"model":"m","choices":{choices}{more}}}"#,
        n / 4
    )
}

fn responses(kind: usize, text: &str, n: usize, name: &str) -> String {
    let index = n % 2;
    let (of, inside) = match kind {
        0..=4 => (
            "output_text.delta",
            format!(r#""content_index":0,"delta":"{text}","logprobs":[]"#),
        ),
        5 | 6 => (
            "function_call_arguments.delta",
            format!(r#""delta":"{text}","obfuscation":"{n}""#),
        ),
        7 => (
            "reasoning_summary_text.delta",
            format!(r#""summary_index":0,"delta":"{text}""#),
        ),
        8 => (
            "output_item.added",
            format!(r#""item":{{"type":"message","id":"m{n}","content":[]}}"#),
        ),
        9 | 10 => (
            "output_item.added",
            format!(
                r#""item":{{"type":"function_call","id":"f{n}","call_id":"c{n}","name":"{name}","arguments":""}}"#
            ),
        ),
        11 => (
            "output_item.done",
            format!(
                r#""item":{{"type":"function_call","id":"f{n}","call_id":"c{n}","name":"{name}","arguments":"{{}}","status":"completed"}}"#
            ),
        ),
        12 => (
            "content_part.added",
            r#""content_index":0,"part":{"type":"output_text","text":""}"#.to_owned(),
        ),
        _ => (
            "output_text.delta",
            format!(r#""content_index":{},"delta":"{text}""#, n % 3),
        ),
    };
    format!(
        "event: response.{of}\ndata: {{\"type\":\"response.{of}\",\"output_index\":{index},{inside},\"sequence_number\":{n}}}\n\n"
    )
}

fn gemini(kind: usize, text: &str, n: usize, name: &str) -> String {
    let parts = match kind {
        0..=6 => format!(r#"{{"text": "{text}"}}"#),
        7 | 8 => format!(r#"{{"text": "{text}","thought": true}}"#),
        9 | 10 => format!(r#"{{"functionCall": {{"name": "{name}","args": {{"prompt":"{n}"}}}}}}"#),
        11 => format!(r#"{{"text": "{text}"}},{{"text": "b"}}"#),
        12 => r#"{"text": ""}"#.to_owned(),
        _ => format!(r#"{{"text": "{text}","thoughtSignature": "s{n}"}}"#),
    };
    let usage = match n % 3 {
        0 => String::new(),
        _ => format!(
            r#""usageMetadata": {{"promptTokenCount": 4,"candidatesTokenCount": {n},"promptTokensDetails": [{{"modality": "TEXT"}}]}},"#
        ),
    };
    format!(
        r#"{{"candidates": [{{"content": {{"parts": [{parts}],"role": "model"}},"index": 0}}],{usage}"modelVersion": "m","responseId": "r"}}"#
    )
}

fn ollama(kind: usize, text: &str, n: usize, name: &str) -> String {
    let inside = match kind {
        0..=6 => format!(r#""content":"{text}""#),
        7 | 8 => format!(r#""content":"","thinking":"{text}""#),
        9 | 10 => format!(
            r#""content":"{text}","tool_calls":[{{"function":{{"name":"{name}","arguments":{{"prompt":"{n}"}}}}}}]"#
        ),
        11 => format!(r#""content":"{text}","tool_calls":[]"#),
        _ => format!(r#""content":"{text}","thinking":"{text}""#),
    };
    format!(
        r#"{{"model":"m","created_at":"2026-01-01T00:00:{n}Z","message":{{"role":"assistant",{inside}}},"done":false}}"#
    )
}

/// Pieces of text: markers and their beginnings, escapes, and brackets in every spelling.
const PIECES: [&str; 18] = [
    "a",
    "a longer piece of text, with more than a block",
    "",
    "[",
    "[[",
    "/",
    "handoff-",
    "resume",
    "aside",
    ":",
    r"\\",
    r"\n",
    r#"\""#,
    r"\u005b",
    r"\u005B",
    r"\u2019",
    "é ü",
    "[[handoff-resume:",
];

/// A leg: frames by kind, piece and number.
type Frames = Vec<(usize, usize, usize)>;

fn leg() -> impl Strategy<Value = Frames> {
    // Runs of one kind, as models produce them.
    let run = (
        0usize..15,
        proptest::collection::vec((0..PIECES.len(), 0usize..4), 1..6),
    );
    proptest::collection::vec(run, 1..8).prop_map(|runs| {
        let frames = runs
            .into_iter()
            .flat_map(|(kind, pieces)| pieces.into_iter().map(move |(piece, step)| (kind, piece, step)));
        let mut n = 0;
        frames
            .map(|(kind, piece, step)| {
                n += step / 2 * 2;
                (kind, piece, n)
            })
            .collect()
    })
}

/// Returns the agent's stream and the reports of these legs, with the stream split into reads of these sizes.
fn shown(machine: LegMachine, wire: WireId, legs: &[Frames], cuts: &[usize]) -> (String, Vec<String>) {
    let mut merge = StreamMerge::new(machine, 1 << 20, true);
    let (mut out, mut reports) = (Vec::new(), Vec::new());
    let mut cuts = cuts.iter().cycle();
    for (i, frames) in legs.iter().enumerate() {
        if i > 0 {
            merge.say("said", &mut out);
            merge.next_leg();
        }
        let text: String = frames
            .iter()
            .map(|(kind, piece, n)| frame(wire, *kind, PIECES[*piece], *n))
            .collect();
        let mut stream = Bytes::from(text);
        while !stream.is_empty() {
            let cut = cuts.next().map_or(stream.len(), |c| *c.min(&stream.len()));
            merge.feed(stream.split_to(cut), &mut out);
        }
        merge.finish_leg(&mut out);
        reports.push(format!("{:?}", merge.report()));
    }
    merge.close(Ending::Stopped { next_input: 7 }, &mut out);
    (String::from_utf8(out.concat()).unwrap(), reports)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_size_of_the_reads_changes_nothing(
        legs in proptest::collection::vec(leg(), 1..3),
        cuts in proptest::collection::vec(1usize..900, 1..6),
        hide in any::<bool>(),
    ) {
        for wire in WIRES {
            let id = wire.id();
            let whole = shown(machine(wire, hide), id, &legs, &[]);
            let in_pieces = shown(machine(wire, hide), id, &legs, &cuts);
            prop_assert_eq!(&whole, &in_pieces, "{}", id.name());
        }
    }
}
