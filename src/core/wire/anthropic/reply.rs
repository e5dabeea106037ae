//! Anthropic's replies in one piece: read, and joined.

use super::Anthropic;
use bytes::Bytes;
use std::borrow::Cow;

use super::stream::stop;
use super::usage::{AnthropicUsage, stopped};
use crate::mark::escape::Escaper;
use crate::text::splice::{self, Edit};
use crate::text::{Span, json};
use crate::wire::leg::{HiddenCall, LegReport};
use crate::wire::leg_usage::ProviderUsage;
use crate::wire::served::ServedBy;
use crate::wire::{DroppedThinking, Ending, Leg, Replies, ResponseWatch};
use crate::wire::{own_text, view};

impl Replies for Anthropic {
    fn reply(&self, body: &Bytes, watch: ResponseWatch) -> Option<LegReport> {
        let text: &[u8] = body;
        let whole = json::whole(text).ok()?;
        let [content, id, stop_reason, usage] =
            json::pick(text, whole, ["content", "id", "stop_reason", "usage"]);
        let string = |span: Option<Span>| span.and_then(|s| json::string(text, s));
        let mut report = LegReport {
            id: string(id)?.into_owned(),
            stop: stop(string(stop_reason).as_deref()),
            usage: AnthropicUsage::read(text, usage).usage(),
            ended: true,
            served: ServedBy::of(text, whole),
            dropped_thinking: DroppedThinking::of_member(text, whole).unwrap_or_default(),
            ..LegReport::default()
        };
        // Any other value in its place cannot be extended.
        let content = content.filter(|c| text[c.start] == b'[')?;
        let mut escaper = Escaper::default();
        for [kind, id, name, input, words] in
            json::pick_each(text, content, ["type", "id", "name", "input", "text"])
        {
            let kind = string(kind).unwrap_or_default();
            if let Some(words) = words.filter(|s| kind == "text" && s.len() >= 2) {
                report.broken_up += escaper.follow(words.inner().of(text)).len();
            }
            let is_call = kind == "tool_use";
            let id = string(id).unwrap_or_default().into_owned();
            let name = string(name).filter(|_| is_call);
            if let Some(tool) = name.and_then(|name| watch.hide.find(&name)) {
                let input = input.unwrap_or_default().text(text);
                let call = HiddenCall::whole(id, tool, report.parts, &input, watch.buffered_bytes);
                report.hidden.push(call);
                continue;
            }
            if is_call {
                report.call(id);
            }
            report.unfit = matches!(&*kind, "thinking" | "redacted_thinking");
            report.parts += 1;
        }
        Some(report)
    }

    fn join(&self, legs: &[Leg], opening: Option<&str>, ending: Ending) -> Bytes {
        let (Some(first), Some(last)) = (legs.first(), legs.last()) else {
            return Bytes::new();
        };
        let mut blocks: Vec<String> = opening.map(own_text::block).into_iter().collect();
        for leg in legs {
            blocks.extend(visible(leg));
            blocks.extend(leg.then.as_deref().map(own_text::block));
        }
        let all: Vec<_> = legs
            .iter()
            .map(|l| AnthropicUsage::read(&l.body, json::get(&l.body, json::root(&l.body), "usage")))
            .collect();
        // The last leg's reply with the first one's identity: all other members are the last one's.
        let body = &last.body;
        let text: &[u8] = body;
        let whole = json::root(text);
        let mut edits = Vec::new();
        for (key, value) in json::members(text, whole) {
            match key.of(text) {
                b"content" => edits.push(Edit::replace(value, format!("[{}]", blocks.join(",")))),
                b"id" | b"model" if legs.len() > 1 => {
                    let name = key.text(text);
                    let whole = json::root(&first.body);
                    if let Some(own) = json::get(&first.body, whole, &name) {
                        edits.push(Edit::replace(value, own.text(&first.body)));
                    }
                }
                b"stop_reason" => edits.extend(stop_edit(text, value, ending)),
                b"usage" => edits
                    .extend(AnthropicUsage::joined(&all, ending, stopped).map(|u| Edit::replace(value, u))),
                _ => {}
            }
        }
        splice::edited(body, edits)
    }
}

/// The visible blocks of a reply, model text escaped where it looks like ours.
fn visible(leg: &Leg) -> Vec<String> {
    let body: &[u8] = &leg.body;
    let whole = json::root(body);
    let content = json::get(body, whole, "content").unwrap_or_default();
    let mut escaper = Escaper::default();
    json::elements(body, content)
        .into_iter()
        .filter(|b| !called(body, *b).is_some_and(|name| leg.report.hides(&name)))
        .map(|b| view::edited_part(body, b, &breaks(body, b, &mut escaper)))
        .collect()
}

/// The name of the tool that a block calls.
pub(super) fn called(text: &[u8], block: Span) -> Option<Cow<'_, str>> {
    json::get_string(text, block, "type").filter(|t| t == "tool_use")?;
    json::get_string(text, block, "name")
}

/// Where a block's text is escaped, by offset. All texts of a message are one: agents join them.
fn breaks(text: &[u8], block: Span, escaper: &mut Escaper) -> Vec<Edit> {
    let is_text = json::get_string(text, block, "type").is_some_and(|t| t == "text");
    let Some(literal) = json::get(text, block, "text").filter(|l| is_text && l.len() >= 2) else {
        return Vec::new();
    };
    escaper.breaks(text, literal.inner())
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
