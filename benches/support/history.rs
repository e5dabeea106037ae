//! Histories like those of coding agents, from a seeded generator: the same seed gives the same bytes.
//!
//! Nearly all of a history is text inside JSON strings, with an escape about every forty bytes (line breaks,
//! quotes, tabs), between calls with short ids and short inputs.

use std::fmt::Write as _;

/// The contents of a history.
#[derive(Clone)]
pub(crate) struct Shape {
    /// Approximate size of the body in bytes.
    pub(crate) bytes: usize,
    /// Sentinel, as in the agent's transcript, before the last `kept` bytes.
    pub(crate) sentinel: Option<String>,
    /// Approximate bytes after the sentinel.
    pub(crate) kept: usize,
}

/// splitmix64: small, and good enough to choose words.
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns two words.
    pub(crate) fn words(&mut self) -> String {
        format!("{} {}", self.pick(&WORDS), self.pick(&WORDS))
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const WORDS: [&str; 40] = [
    "reader", "parse", "offset", "the", "and", "of", "config", "importer", "returns", "handle", "stream",
    "buffer", "error", "token", "match", "let", "self", "with", "into", "cache", "value", "index", "request",
    "upstream", "session", "store", "write", "frame", "header", "route", "test", "assert", "result", "line",
    "file", "module", "trait", "impl", "where", "which",
];

/// Appends text as inside a JSON string literal: lines of code, with an escape about every forty bytes.
fn code(random: &mut Seeded, bytes: usize, out: &mut String) {
    let end = out.len() + bytes;
    let mut line = 0;
    while out.len() < end {
        let start = out.len();
        if line == 0 {
            out.push_str(["    ", "\\t", "        ", ""][random.below(4)]);
        }
        let words = 4 + random.below(5);
        for _ in 0..words {
            out.push_str(random.pick(&WORDS));
            out.push_str(["_", " ", "::", "(", ", "][random.below(5)]);
        }
        line += out.len() - start;
        match random.below(8) {
            0 | 1 => {
                let (a, b) = (random.pick(&WORDS), random.pick(&WORDS));
                let _ = write!(out, "\\\"{a} {b}\\\"");
            }
            2 if line > 20 => out.push_str("// é — ü"),
            _ => {}
        }
        if line > 50 || random.below(3) == 0 {
            out.push_str("\\n");
            line = 0;
        }
    }
}

pub(crate) fn text(random: &mut Seeded, bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + 100);
    code(random, bytes, &mut out);
    out
}

fn id(random: &mut Seeded) -> String {
    format!("toolu_{:016x}{:06x}", random.next(), random.next() & 0xFF_FFFF)
}

/// Appends one round: a short text and a tool call of the model, and the agent's result.
fn round(random: &mut Seeded, result: usize, out: &mut String) {
    let (say, name) = (text(random, 160), random.pick(&["Read", "Bash", "Grep", "Edit"]));
    let (id, path) = (id(random), random.pick(&WORDS));
    let (line, input) = (random.below(900), text(random, 90));
    let result = text(random, result);
    let _ = write!(
        out,
        r#",{{"role":"assistant","content":[{{"type":"text","text":"{say}"}},{{"type":"tool_use","id":"{id}","name":"{name}","input":{{"file_path":"/repo/src/{path}.rs","offset":{line},"note":"{input}"}}}}]}},{{"role":"user","content":[{{"tool_use_id":"{id}","type":"tool_result","content":[{{"type":"text","text":"{result}"}}]}}]}}"#
    );
}

fn rounds(random: &mut Seeded, bytes: usize, out: &mut String) {
    let end = out.len() + bytes;
    while out.len() + 600 < end {
        let left = end - out.len() - 600;
        let result = [300, 900, 2_500, 6_000][random.below(4)].min(left.max(100));
        round(random, result, out);
    }
}

fn tools(random: &mut Seeded, count: usize) -> String {
    let all = (0..count).map(|i| {
        let description = text(random, if count > 2 { 600 } else { 60 });
        format!(
            r#"{{"name":"Tool{i}","description":"{description}","input_schema":{{"type":"object","properties":{{"file_path":{{"type":"string","description":"Path of the file"}},"offset":{{"type":"number"}}}},"required":["file_path"]}}}}"#
        )
    });
    all.collect::<Vec<_>>().join(",")
}

/// Returns a request body of this shape.
pub(crate) fn body(seed: u64, shape: &Shape) -> Vec<u8> {
    let mut random = Seeded::new(seed);
    let large = shape.bytes > 20_000;
    let (system, tools) = (
        text(&mut random, if large { 6_000 } else { 100 }),
        tools(&mut random, if large { 12 } else { 1 }),
    );
    let opening = text(&mut random, if large { 800 } else { 60 });
    let mut out = String::with_capacity(shape.bytes + 20_000);
    let _ = write!(
        out,
        r#"{{"model":"claude-opus-4-8","max_tokens":32000,"stream":true,"system":[{{"type":"text","text":"{system}","cache_control":{{"type":"ephemeral"}}}}],"metadata":{{"user_id":"{{\"session_id\":\"bench-{seed}\"}}"}},"tools":[{tools}],"messages":[{{"role":"user","content":[{{"type":"text","text":"<system-reminder>\n# CLAUDE.md\nBe brief.\n</system-reminder>"}},{{"type":"text","text":"{opening}"}}]}}"#
    );
    match &shape.sentinel {
        None => rounds(&mut random, shape.bytes.saturating_sub(out.len()), &mut out),
        Some(sentinel) => {
            let kept = shape.kept.min(shape.bytes / 2);
            let before = shape
                .bytes
                .saturating_sub(out.len() + kept + sentinel.len() + 150);
            rounds(&mut random, before, &mut out);
            let (id, say) = (id(&mut random), text(&mut random, 80));
            let _ = write!(
                out,
                r#",{{"role":"assistant","content":[{{"type":"text","text":"Done."}},{{"type":"text","text":"{sentinel}"}},{{"type":"text","text":"{say}"}},{{"type":"tool_use","id":"{id}","name":"Read","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"ok"}}]}}"#
            );
            rounds(&mut random, kept, &mut out);
        }
    }
    out.push_str("]}");
    out.into_bytes()
}

/// Returns a stream frame with a piece of text.
pub(crate) fn text_frame(random: &mut Seeded, index: usize) -> String {
    let words = format!("{} {}", random.pick(&WORDS), random.pick(&WORDS));
    format!(
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{{\"type\":\"text_delta\",\"text\":\"{words} \"}}}}\n\n"
    )
}

pub(crate) const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-opus-4-8\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n";

pub(crate) fn block_start(index: usize) -> String {
    format!(
        "event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n"
    )
}

pub(crate) fn call_start(index: usize, name: &str) -> String {
    format!(
        "event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{{\"type\":\"tool_use\",\"id\":\"toolu_{index}\",\"name\":\"{name}\",\"input\":{{}}}}}}\n\n"
    )
}

pub(crate) fn block_stop(index: usize) -> String {
    format!("event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":{index}}}\n\n")
}

pub(crate) fn ending(reason: &str) -> String {
    format!(
        "event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{reason}\",\"stop_sequence\":null}},\"usage\":{{\"output_tokens\":15}}}}\n\nevent: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
    )
}
