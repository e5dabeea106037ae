//! Text streams in the format of each wire: the opening frames, then a piece of text in each frame.

use baton_core::record::WireId;
use baton_core::response::StreamMerge;
use baton_core::wire::{self, Operation, ResponseWatch, Wire};
use bytes::Bytes;

use crate::history::{self, Seeded};

/// Content that a response is scanned for.
pub(crate) const WATCH: ResponseWatch = ResponseWatch {
    hide: baton_core::tools::ToolNames::HANDOFF,
    buffered_bytes: 1 << 20,
};

/// Returns the wire with this name.
pub(crate) fn wire(name: &str) -> &'static Wire {
    wire::wire(WireId::named(name).unwrap())
}

/// Returns the frames before the text.
pub(crate) fn opening(wire: WireId) -> String {
    match wire {
        WireId::Anthropic => [history::START, &history::block_start(0)].concat(),
        WireId::OpenaiChat => chat(r#"{"role":"assistant","content":""}"#, 0),
        WireId::OpenaiResponses => [
            responses("created", r#""response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-5","output":[]}"#, 0),
            responses("output_item.added", r#""output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}"#, 1),
            responses("content_part.added", r#""item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":""}"#, 2),
        ]
        .concat(),
        WireId::Gemini | WireId::Ollama => String::new(),
    }
}

/// Returns a frame with a piece of text, the `n`th of its leg.
pub(crate) fn text_frame(wire: WireId, random: &mut Seeded, n: usize) -> String {
    if wire == WireId::Anthropic {
        return history::text_frame(random, 0);
    }
    let words = random.words();
    match wire {
        WireId::Anthropic => String::new(),
        WireId::OpenaiChat => chat(&format!(r#"{{"content":"{words} "}}"#), n),
        WireId::OpenaiResponses => responses(
            "output_text.delta",
            &format!(
                r#""item_id":"msg_1","output_index":0,"content_index":0,"delta":"{words} ","logprobs":[],"obfuscation":"{n:x}""#
            ),
            n + 3,
        ),
        WireId::Gemini => format!(
            "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{{\"text\": \"{words} \"}}],\"role\": \"model\"}},\"index\": 0}}],\"usageMetadata\": {{\"promptTokenCount\": 25,\"candidatesTokenCount\": {n},\"totalTokenCount\": {},\"promptTokensDetails\": [{{\"modality\": \"TEXT\",\"tokenCount\": 25}}]}},\"modelVersion\": \"gemini-2.5-pro\",\"responseId\": \"r1\"}}\r\n\r\n",
            n + 25
        ),
        WireId::Ollama => format!(
            "{{\"model\":\"qwen3\",\"created_at\":\"2026-01-01T00:00:00.{n:06}Z\",\"message\":{{\"role\":\"assistant\",\"content\":\"{words} \"}},\"done\":false}}\n"
        ),
    }
}

fn chat(delta: &str, n: usize) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"gpt-5\",\"service_tier\":\"default\",\"system_fingerprint\":null,\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":null}}],\"usage\":null,\"obfuscation\":\"{n:x}\"}}\n\n"
    )
}

fn responses(kind: &str, inside: &str, n: usize) -> String {
    format!(
        "event: response.{kind}\ndata: {{\"type\":\"response.{kind}\",{inside},\"sequence_number\":{n}}}\n\n"
    )
}

/// Returns frames of text, this many in a read.
pub(crate) fn reads(wire: WireId, events: usize, per_read: usize) -> Vec<Bytes> {
    let mut random = Seeded::new(7);
    let frames: Vec<String> = (0..events).map(|n| text_frame(wire, &mut random, n)).collect();
    frames.chunks(per_read).map(|c| Bytes::from(c.concat())).collect()
}

/// Returns a machine in the last of this many legs, after its opening.
pub(crate) fn machine(wire: &Wire, legs: usize) -> StreamMerge {
    let body = match wire.id() {
        WireId::Gemini => r#"{"contents":[{"role":"user","parts":[{"text":"Go on."}]}]}"#,
        WireId::OpenaiResponses => r#"{"model":"m","input":[{"role":"user","content":"Go on."}]}"#,
        _ => r#"{"model":"m","messages":[{"role":"user","content":"Go on."}]}"#,
    };
    let view = wire.read(&body.into(), Operation::Generate).unwrap();
    let mut merge = StreamMerge::new(wire.machine(&view, WATCH), 1 << 20, true);
    let opening = Bytes::from(opening(wire.id()));
    let mut out = Vec::new();
    merge.feed(opening.clone(), &mut out);
    for _ in 1..legs {
        merge.say("sentinel", &mut out);
        merge.next_leg();
        merge.feed(opening.clone(), &mut out);
    }
    merge
}
