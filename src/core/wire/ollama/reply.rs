//! Ollama's replies in one piece: read, and joined.

use super::Ollama;
use bytes::Bytes;

use super::stream::{LineMembers, hidden};
use super::turns::{name, traits};
use super::usage;
use crate::mark::escape::{self, Escaper};
use crate::text::splice::{self, Edit};
use crate::text::{Span, json};
use crate::wire::call_fingerprint::{Fingerprints, MessageNumber};
use crate::wire::leg::LegReport;
use crate::wire::served::ServedBy;
use crate::wire::{Ending, Leg, Replies, ResponseWatch, View, fingerprints};

/// `place` is where the transcript will have the reply.
fn read(body: &Bytes, watch: ResponseWatch, place: MessageNumber) -> Option<LegReport> {
    let text: &[u8] = body;
    let line = LineMembers::read(text)?;
    line.message?;
    let mut report = LegReport {
        usage: usage::of(text, line.root),
        broken_up: line
            .content
            .map_or(0, |c| Escaper::default().follow(c.inner().of(text)).len()),
        ended: true,
        served: ServedBy::of(text, line.root),
        ..LegReport::default()
    };
    let mut fingerprints = Fingerprints::default();
    for call in calls(text, &line) {
        if let Some(tool) = name(text, call).and_then(|name| watch.hide.find(&name)) {
            let call = hidden(text, call, tool, report.parts, watch.buffered_bytes);
            report.hidden.push(call);
            continue;
        }
        let fingerprint = fingerprints.next(text, traits(text, call), place);
        report.call(fingerprint.text());
        report.parts += 1;
    }
    report.parts += usize::from(line.content.is_some_and(|c| !c.inner().is_empty()));
    report.stop = line.stop(text, !report.calls.is_empty() || !report.hidden.is_empty());
    Some(report)
}

pub(super) fn calls(text: &[u8], line: &LineMembers) -> Vec<Span> {
    line.calls.map_or(Vec::new(), |c| json::elements(text, c))
}

/// What the legs emitted, one after the other.
#[derive(Default)]
pub(super) struct JoinedMessage {
    pub(super) content: String,
    pub(super) thinking: String,
    pub(super) calls: Vec<String>,
}

impl JoinedMessage {
    fn take(&mut self, leg: &Leg, line: &LineMembers) {
        let text: &[u8] = &leg.body;
        let string = |span: Option<Span>| span.and_then(|s| json::string(text, s)).unwrap_or_default();
        self.content.push_str(&escape::break_up(&string(line.content)));
        self.thinking.push_str(&string(line.thinking));
        let visible = calls(text, line)
            .into_iter()
            .filter(|c| !name(text, *c).is_some_and(|name| leg.report.hides(&name)));
        self.calls.extend(visible.map(|c| c.text(text)));
    }

    pub(super) fn members(&self) -> String {
        let mut out = format!(r#""role":"assistant","content":{}"#, json::quote(&self.content));
        if !self.thinking.is_empty() {
            out.push_str(&format!(r#","thinking":{}"#, json::quote(&self.thinking)));
        }
        if !self.calls.is_empty() {
            out.push_str(&format!(r#","tool_calls":[{}]"#, self.calls.join(",")));
        }
        out
    }
}

impl Replies for Ollama {
    fn reply(&self, body: &Bytes, watch: ResponseWatch) -> Option<LegReport> {
        read(body, watch, 0)
    }

    fn reply_to(&self, view: &View, body: &Bytes, watch: ResponseWatch) -> Option<LegReport> {
        read(body, watch, fingerprints::place_of_answer(self, view))
    }

    fn join(&self, legs: &[Leg], opening: Option<&str>, ending: Ending) -> Bytes {
        let Some(last) = legs.last() else {
            return Bytes::new();
        };
        let text: &[u8] = &last.body;
        let Some(line) = LineMembers::read(text) else {
            return last.body.clone();
        };
        let mut message = JoinedMessage {
            content: opening.unwrap_or_default().to_owned(),
            ..JoinedMessage::default()
        };
        for leg in legs {
            if let Some(line) = LineMembers::read(&leg.body) {
                message.take(leg, &line);
            }
            message.content.push_str(leg.then.as_deref().unwrap_or_default());
        }
        // The last leg's reply: what is not named here is its own.
        let own = format!("{{{}}}", message.members());
        let mut edits: Vec<Edit> = line.message.map(|m| Edit::replace(m, own)).into_iter().collect();
        let output = |legs: &[Leg]| legs.iter().map(|l| l.report.usage.output).sum::<u64>();
        match ending.next_input() {
            None => edits.extend(usage::summed(text, line.root, output(&legs[..legs.len() - 1]))),
            Some(next_input) => edits.extend(stopped(text, line.root, output(legs), next_input)),
        }
        splice::edited(&last.body, edits)
    }
}

fn stopped(text: &[u8], root: Span, output: u64, next_input: u64) -> Vec<Edit> {
    let set = |key: &str, value: String| match json::get(text, root, key) {
        Some(span) => Edit::replace(span, value),
        None => Edit::insert(root.end - 1, format!(r#","{key}":{value}"#)),
    };
    vec![
        set("done_reason", r#""stop""#.to_owned()),
        set("prompt_eval_count", next_input.to_string()),
        set("eval_count", output.to_string()),
    ]
}
