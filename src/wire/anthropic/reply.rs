//! Anthropic's replies in one piece: read, joined, and told back to the model.

use bytes::Bytes;

use super::request;
use super::stream::stop;
use super::usage::{self, Counters};
use crate::mark::escape::Escaper;
use crate::record::HiddenPair;
use crate::text::splice::{self, Edit};
use crate::text::{Span, json};
use crate::tools::TOOL_NAME;
use crate::wire::leg::{HiddenCall, LegReport};
use crate::wire::view;
use crate::wire::{Ending, Leg, Spoken, Watch, sse};

pub(super) fn read(body: &Bytes, watch: Watch) -> Option<LegReport> {
    let text: &[u8] = body;
    let whole = json::whole(text).ok()?;
    let [content, id, stop_reason, usage] =
        json::pick(text, whole, ["content", "id", "stop_reason", "usage"]);
    let string = |span: Option<Span>| span.and_then(|s| json::string(text, s));
    let mut report = LegReport {
        id: string(id)?.into_owned(),
        stop: stop(string(stop_reason).as_deref()),
        usage: usage.map(|u| Counters::of(text, u).usage()).unwrap_or_default(),
        ended: true,
        ..LegReport::default()
    };
    // Whatever else stands in its place, nothing can be put into it.
    let content = content.filter(|c| text[c.start] == b'[')?;
    let mut breaker = Escaper::default();
    for [kind, id, name, input, said] in
        json::pick_each(text, content, ["type", "id", "name", "input", "text"])
    {
        let kind = string(kind).unwrap_or_default();
        if let Some(said) = said.filter(|s| kind == "text" && s.len() >= 2) {
            report.broken_up += breaker.follow(said.inner().of(text)).len();
        }
        let is_call = kind == "tool_use";
        let id = string(id).unwrap_or_default().into_owned();
        if watch.hide && is_call && string(name).is_some_and(|n| n == TOOL_NAME) {
            let mut call = HiddenCall {
                id,
                complete: true,
                after: report.parts,
                ..HiddenCall::default()
            };
            call.collect(&raw(text, input.unwrap_or_default()), watch.held_bytes);
            report.hidden.push(call);
            continue;
        }
        if is_call {
            report.calls.push((id, report.parts));
        }
        report.unfit = matches!(&*kind, "thinking" | "redacted_thinking");
        report.parts += 1;
    }
    Some(report)
}

fn counters(text: &[u8], whole: Span) -> Counters {
    json::get(text, whole, "usage").map_or_else(Counters::default, |usage| Counters::of(text, usage))
}

fn is_ours(text: &[u8], block: Span) -> bool {
    json::get_string(text, block, "name").is_some_and(|n| n == TOOL_NAME)
}

fn raw(text: &[u8], span: Span) -> String {
    String::from_utf8_lossy(span.of(text)).into_owned()
}

/// The visible blocks of a reply, model text broken up where it looks like ours.
fn visible(leg: &Leg) -> Vec<String> {
    let body: &[u8] = &leg.body;
    let hides = !leg.report.hidden.is_empty();
    let whole = Span::new(json::blank(body, 0), body.len());
    let content = json::get(body, whole, "content").unwrap_or_default();
    let mut breaker = Escaper::default();
    json::elements(body, content)
        .into_iter()
        .filter(|b| !(hides && hidden(body, *b)))
        .map(|b| broken(body, b, &mut breaker))
        .collect()
}

fn hidden(text: &[u8], block: Span) -> bool {
    json::get_string(text, block, "type").is_some_and(|t| t == "tool_use") && is_ours(text, block)
}

/// Where a block's text is broken up, by offset. All texts of a message are one: agents join them.
fn breaks(text: &[u8], block: Span, breaker: &mut Escaper) -> Vec<Edit> {
    let is_text = json::get_string(text, block, "type").is_some_and(|t| t == "text");
    let Some(literal) = json::get(text, block, "text").filter(|l| is_text && l.len() >= 2) else {
        return Vec::new();
    };
    let inside = literal.inner();
    let found = breaker.follow(inside.of(text)).into_iter();
    found.map(|at| Edit::insert(inside.start + at, r"\\")).collect()
}

fn broken(text: &[u8], block: Span, breaker: &mut Escaper) -> String {
    view::edited_part(text, block, &breaks(text, block, breaker))
}

fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, json::quote(text))
}

pub(super) fn join(legs: &[Leg], opening: Option<&str>, ending: Ending) -> Bytes {
    let (Some(first), Some(last)) = (legs.first(), legs.last()) else {
        return Bytes::new();
    };
    let mut blocks: Vec<String> = opening.map(text_block).into_iter().collect();
    for leg in legs {
        blocks.extend(visible(leg));
        blocks.extend(leg.then.as_deref().map(text_block));
    }
    let all: Vec<_> = legs
        .iter()
        .map(|l| counters(&l.body, Span::new(json::blank(&l.body, 0), l.body.len())))
        .collect();
    // The last leg's reply with the first one's identity: what is not named here is the last one's own.
    let body = &last.body;
    let text: &[u8] = body;
    let whole = Span::new(json::blank(text, 0), text.len());
    let mut edits = Vec::new();
    for (key, value) in json::members(text, whole) {
        match key.of(text) {
            b"content" => edits.push(Edit::replace(value, format!("[{}]", blocks.join(",")))),
            b"id" | b"model" if legs.len() > 1 => {
                let name = String::from_utf8_lossy(key.of(text)).into_owned();
                let whole = Span::new(json::blank(&first.body, 0), first.body.len());
                if let Some(own) = json::get(&first.body, whole, &name) {
                    edits.push(Edit::replace(value, raw(&first.body, own)));
                }
            }
            b"stop_reason" => edits.extend(stop_edit(text, value, ending)),
            b"usage" => edits.extend(usage_now(&all, ending).map(|u| Edit::replace(value, u))),
            _ => {}
        }
    }
    splice::flat(splice::splice(body, edits))
}

fn stop_edit(text: &[u8], value: Span, ending: Ending) -> Option<Edit> {
    let reason = match ending {
        Ending::Own => return None,
        Ending::WithoutCall if value.of(text) != b"\"tool_use\"" => return None,
        Ending::WithoutCall | Ending::Stopped { .. } => r#""end_turn""#,
        Ending::Lost { .. } => r#""pause_turn""#,
    };
    Some(Edit::replace(value, reason))
}

fn usage_now(all: &[Counters], ending: Ending) -> Option<String> {
    match ending {
        Ending::Own | Ending::WithoutCall if all.len() < 2 => None,
        Ending::Own | Ending::WithoutCall => Some(usage::merged(all)),
        Ending::Stopped { next_input } | Ending::Lost { next_input } => Some(usage::stopped(all, next_input)),
    }
}

/// The assistant's own message with our call as its last block (where it stands on every later request, behind
/// what the agent was shown), then the call's result. `None` where thinking follows a call of ours: it is bound
/// to that order.
pub(super) fn ask_again(spoken: &Spoken, pairs: &[HiddenPair]) -> Option<String> {
    let blocks = match spoken {
        Spoken::Reply(body) => {
            let whole = Span::new(json::blank(body, 0), body.len());
            let content = json::get(body, whole, "content")?;
            json::elements(body, content)
                .into_iter()
                .map(|b| raw(body, b))
                .collect()
        }
        Spoken::Stream(frames) => told(frames),
    };
    let ours = |b: &String| hidden(b.as_bytes(), Span::new(0, b.len()));
    let first = blocks.iter().position(ours).unwrap_or(blocks.len());
    if blocks[first..].iter().any(|b| is_thinking(b)) {
        return None;
    }
    let mut content: Vec<String> = blocks.into_iter().filter(|b| !ours(b)).collect();
    content.extend(pairs.iter().map(|p| p.call.clone()));
    let results: Vec<_> = pairs.iter().map(request::result).collect();
    Some(format!(
        r#"{{"role":"assistant","content":[{}]}},{{"role":"user","content":[{}]}}"#,
        content.join(","),
        results.join(",")
    ))
}

fn is_thinking(block: &str) -> bool {
    let kind = json::get_string(block.as_bytes(), Span::new(0, block.len()), "type");
    kind.is_some_and(|k| matches!(&*k, "thinking" | "redacted_thinking"))
}

/// Content blocks from the frames that streamed them.
fn told(frames: &[Bytes]) -> Vec<String> {
    let mut told = Teller { blocks: Vec::new() };
    for frame in frames {
        told.frame(&sse::data(frame));
    }
    told.blocks.iter().filter_map(|b| b.finished()).collect()
}

struct Teller {
    blocks: Vec<Told>,
}

#[derive(Default)]
struct Told {
    start: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    input: Option<String>,
    citations: Vec<String>,
}

impl Teller {
    fn frame(&mut self, data: &[u8]) {
        let whole = Span::new(json::blank(data, 0), data.len());
        match json::get_string(data, whole, "type").as_deref() {
            Some("content_block_start") => {
                let start = json::get(data, whole, "content_block")
                    .map(|b| raw(data, b))
                    .unwrap_or_default();
                self.blocks.push(Told {
                    start,
                    ..Told::default()
                });
            }
            Some("content_block_delta") => {
                if let (Some(block), Some(delta)) = (self.blocks.last_mut(), json::get(data, whole, "delta"))
                {
                    block.delta(data, delta);
                }
            }
            _ => {}
        }
    }
}

impl Told {
    fn delta(&mut self, data: &[u8], delta: Span) {
        let grow = |to: &mut Option<String>, key: &str| {
            if let Some(piece) = json::get_string(data, delta, key) {
                to.get_or_insert_default().push_str(&piece);
            }
        };
        grow(&mut self.text, "text");
        grow(&mut self.thinking, "thinking");
        grow(&mut self.input, "partial_json");
        if let Some(signature) = json::get_string(data, delta, "signature") {
            self.signature = Some(signature.into_owned());
        }
        self.citations
            .extend(json::get(data, delta, "citation").map(|c| raw(data, c)));
    }

    /// The block with its deltas in it; `None` where the API would refuse it.
    fn finished(&self) -> Option<String> {
        let mut block: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&self.start).ok()?;
        let mut join = |key: &str, piece: &Option<String>| {
            if let Some(piece) = piece {
                let before = block.get(key).and_then(|v| v.as_str()).unwrap_or_default();
                let all = format!("{before}{piece}");
                block.insert(key.to_owned(), all.into());
            }
        };
        join("text", &self.text);
        join("thinking", &self.thinking);
        if let Some(signature) = &self.signature {
            block.insert("signature".into(), signature.as_str().into());
        }
        if let Some(input) = self.input.as_deref().filter(|i| !i.trim().is_empty()) {
            let value = serde_json::from_str(input).unwrap_or_else(|_| serde_json::json!({}));
            block.insert("input".into(), value);
        }
        if !self.citations.is_empty() {
            let all: Vec<serde_json::Value> = self
                .citations
                .iter()
                .filter_map(|c| serde_json::from_str(c).ok())
                .collect();
            block.insert("citations".into(), all.into());
        }
        let blank = block.get("type").is_some_and(|t| t == "text")
            && block
                .get("text")
                .and_then(|t| t.as_str())
                .is_none_or(|t| t.trim().is_empty());
        (!blank).then(|| serde_json::Value::Object(block).to_string())
    }
}
