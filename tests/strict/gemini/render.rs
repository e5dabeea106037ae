//! Formats a reply as a response, or as a stream of chunks.

use bytes::Bytes;
use serde_json::{Value, json};

use super::signatures::TurnPrefix;
use super::transcript::{field, in_envelope, inner, model};
use crate::dialect::{Received, RenderedBody, derived_id};
use crate::reply::{Part, Reply, Stop, pieces};
use crate::usage::{self, Usage};

/// Framing of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeminiFraming {
    /// `alt=sse`.
    Sse,
    /// A JSON array, written element by element.
    Array,
}

impl GeminiFraming {
    pub(super) fn from_request(request: &Received) -> Self {
        let query = request.path.split_once('?').map_or("", |(_, query)| query);
        let sse = query
            .split('&')
            .any(|pair| pair == "alt=sse" || pair == "$alt=sse");
        if sse {
            GeminiFraming::Sse
        } else {
            GeminiFraming::Array
        }
    }

    /// Formats the chunk with index `at`. `last` closes the array.
    pub(super) fn event(self, chunk: &Value, at: usize, last: bool) -> Bytes {
        match (self, at) {
            (GeminiFraming::Sse, _) => format!("data: {chunk}\r\n\r\n").into(),
            (GeminiFraming::Array, at) => {
                let open = if at == 0 { "[" } else { ",\r\n" };
                let close = if last { "]" } else { "" };
                format!("{open}{chunk}{close}").into()
            }
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            GeminiFraming::Sse => "text/event-stream",
            GeminiFraming::Array => "application/json; charset=UTF-8",
        }
    }
}

pub(super) fn render(request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody {
    let shape = ChunkShared::new(request, reply, usage);
    let streamed = request.stream();
    let chunks = shape.chunks(request, reply, streamed);
    if !streamed {
        let parts = chunks.into_iter().flatten().collect();
        return RenderedBody::json(&shape.response(parts, Some(reply), shape.output));
    }
    let framing = GeminiFraming::from_request(request);
    let end = chunks.len().saturating_sub(1);
    let mut events = Vec::new();
    let mut written = 0;
    for (at, parts) in chunks.into_iter().enumerate() {
        written += parts.iter().map(|part| part.to_string().len() / 4).sum::<usize>();
        let last = at == end;
        let output = if last {
            shape.output
        } else {
            written.min(shape.output)
        };
        let chunk = shape.response(parts, last.then_some(reply), output);
        events.push(framing.event(&chunk, at, last));
    }
    RenderedBody {
        content_type: Some(framing.content_type()),
        ..RenderedBody::stream(events)
    }
}

/// Members that all chunks of one reply share.
struct ChunkShared {
    id: String,
    model: String,
    usage: Usage,
    thoughts: usize,
    /// Tokens of the reply without its thoughts.
    output: usize,
    candidates: u64,
    shows_thoughts: bool,
    size: usize,
    in_envelope: bool,
}

impl ChunkShared {
    fn new(request: &Received, reply: &Reply, usage: &Usage) -> Self {
        let config = field(inner(&request.body), "generationConfig").unwrap_or(&Value::Null);
        let shows = field(config, "thinkingConfig").and_then(|config| field(config, "includeThoughts"));
        let candidates = field(config, "candidateCount").and_then(Value::as_u64);
        let thoughts = usage::thoughts(reply).min(usage.output);
        ChunkShared {
            id: derived_id("", request, 0),
            model: model(request).to_owned(),
            usage: *usage,
            thoughts,
            output: usage.output - thoughts,
            candidates: candidates.unwrap_or(1).max(1),
            shows_thoughts: shows.and_then(Value::as_bool).unwrap_or(false),
            size: reply.delivery.delta,
            in_envelope: in_envelope(request),
        }
    }

    /// Creates a chunk. The last one, or a complete response, has a finish reason.
    fn response(&self, parts: Vec<Value>, ended: Option<&Reply>, output: usize) -> Value {
        let candidates: Vec<Value> = (0..self.candidates)
            .map(|index| {
                let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": index});
                if let Some(reply) = ended {
                    candidate["finishReason"] = json!(finish_reason(reply));
                }
                candidate
            })
            .collect();
        let prompt = self.usage.prompt();
        let response = json!({
            "candidates": candidates,
            "usageMetadata": {
                "promptTokenCount": prompt, "candidatesTokenCount": output, "thoughtsTokenCount": self.thoughts,
                "cachedContentTokenCount": self.usage.cache_read,
                "totalTokenCount": prompt + output + self.thoughts,
            },
            "modelVersion": self.model, "responseId": self.id,
        });
        match self.in_envelope {
            true => json!({"response": response, "traceId": self.id}),
            false => response,
        }
    }

    /// Parts of each chunk: streamed text in pieces, consecutive calls together.
    fn chunks(&self, request: &Received, reply: &Reply, streamed: bool) -> Vec<Vec<Value>> {
        let size = if streamed { self.size } else { usize::MAX };
        let mut out: Vec<Vec<Value>> = Vec::new();
        let mut calling = false;
        for (at, part) in reply.parts.iter().enumerate() {
            let calls_before = std::mem::replace(&mut calling, matches!(part, Part::Call { .. }));
            match part {
                Part::Thinking(text) if self.shows_thoughts => {
                    let pieces = pieces(text, size).into_iter();
                    out.extend(pieces.map(|piece| vec![json!({"text": piece, "thought": true})]));
                }
                Part::Thinking(_) | Part::Redacted => {}
                Part::Text(text) => {
                    let pieces = pieces(text, size).into_iter();
                    out.extend(pieces.map(|piece| vec![json!({"text": piece})]));
                }
                Part::Call { id, name, arguments } => {
                    let id = id.clone().unwrap_or_else(|| derived_id("fc-", request, at));
                    let mut call = json!({"id": id, "name": name, "args": arguments.value()});
                    if let (true, Value::Object(fields)) = (id.is_empty(), &mut call) {
                        fields.shift_remove("id");
                    }
                    let call = json!({"functionCall": call});
                    match out.last_mut().filter(|_| calls_before) {
                        Some(last) => last.push(call),
                        None => out.push(vec![call]),
                    }
                }
                Part::Block(whole) => out.push(vec![whole.clone()]),
            }
        }
        sign(request, reply, &mut out);
        if out.is_empty() {
            out.push(vec![json!({"text": ""})]);
        }
        out
    }
}

/// Adds the signature to the first call. If there is thinking but no call, it goes on an empty text part at
/// the end.
fn sign(request: &Received, reply: &Reply, chunks: &mut Vec<Vec<Value>>) {
    let prefix = TurnPrefix::of_next_turn(&request.body);
    let first = chunks
        .iter_mut()
        .flatten()
        .find(|part| part.get("functionCall").is_some());
    if let Some(call) = first {
        call["thoughtSignature"] = json!(prefix.sign(call));
        return;
    }
    let thinks = |part: &Part| matches!(part, Part::Thinking(_) | Part::Redacted);
    if reply.parts.iter().any(thinks) {
        let mut part = json!({"text": ""});
        part["thoughtSignature"] = json!(prefix.sign(&part));
        chunks.push(vec![part]);
    }
}

fn finish_reason(reply: &Reply) -> &str {
    match &reply.stop {
        Stop::MaxTokens => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
        Stop::ContentFilter => "PROHIBITED_CONTENT",
        Stop::Word(word) => word,
        Stop::Natural | Stop::PauseTurn => "STOP",
    }
}
