//! Chat replies in one piece: read, and joined.

use super::OpenaiChat;
use bytes::Bytes;
use std::borrow::Cow;

use super::calls::{arguments, extras};
use super::chunk::{self, stop, without};
use super::identity::IDENTITY;
use super::usage::stopped;
use crate::mark::escape::Escaper;
use crate::text::splice::{self, Edit};
use crate::text::{Span, json};
use crate::wire::leg::{HiddenCall, LegReport};
use crate::wire::leg_usage::ProviderUsage;
use crate::wire::openai::OpenaiUsage;
use crate::wire::served::ServedBy;
use crate::wire::{Ending, Leg, Replies, ResponseWatch};

impl Replies for OpenaiChat {
    fn reply(&self, body: &Bytes, watch: ResponseWatch) -> Option<LegReport> {
        let text: &[u8] = body;
        let whole = json::whole(text).ok()?;
        let choices = json::elements(text, json::get(text, whole, "choices")?);
        let choice = *choices.first()?;
        let mut report = LegReport {
            id: json::get_owned(text, whole, "id"),
            stop: stop(json::get_string(text, choice, "finish_reason").as_deref()),
            usage: counters(text, whole).usage(),
            ended: true,
            served: ServedBy::of(text, whole),
            ..LegReport::default()
        };
        if choices.len() > 1 {
            return Some(report);
        }
        // Any other value in its place cannot be extended.
        json::get(text, choice, "message").filter(|m| text[m.start] == b'{')?;
        for call in calls(text, choice) {
            let id = json::get_owned(text, call, "id");
            let Some(tool) = name(text, call).and_then(|name| watch.hide.find(&name)) else {
                report.calls.push((id, report.calls.len()));
                continue;
            };
            let function = json::get(text, call, "function").unwrap_or_default();
            let (arguments, extras) = (arguments(text, function), extras(text, call));
            let mut hidden =
                HiddenCall::whole(id, tool, report.calls.len(), &arguments, watch.buffered_bytes);
            hidden.raw = Some(extras).filter(|e| !e.is_empty());
            report.hidden.push(hidden);
        }
        let content = json::at_path(text, choice, &["message", "content"]);
        report.broken_up = content.map_or(0, |c| breaks(text, c).len());
        let spoken = content.is_some_and(|c| chunk::says_something(c.of(text)));
        report.parts = report.calls.len() + usize::from(spoken);
        Some(report)
    }

    /// The last leg's reply with the first one's identity: all other members are the last one's.
    fn join(&self, legs: &[Leg], opening: Option<&str>, ending: Ending) -> Bytes {
        let (Some(first), Some(last)) = (legs.first(), legs.last()) else {
            return Bytes::new();
        };
        let text: &[u8] = &last.body;
        let (whole, choice) = place(text);
        let mut edits = Vec::new();
        if legs.len() > 1 {
            edits.extend(identity_edits(&first.body, text, whole));
        }
        if let Some(usage) = json::get(text, whole, "usage") {
            let all = legs.iter().map(|l| counters(&l.body, json::root(&l.body)));
            let now = OpenaiUsage::joined(&all.collect::<Vec<_>>(), ending, stopped);
            edits.extend(now.map(|u| Edit::replace(usage, u)));
        }
        if let Some(reason) = json::get(text, choice, "finish_reason") {
            edits.extend(reason_edit(text, reason, ending));
        }
        // More than one choice: a single leg without our tool.
        let many = json::get(text, whole, "choices").is_some_and(|c| json::elements(text, c).len() > 1);
        if let Some(message) = json::get(text, choice, "message").filter(|_| !many) {
            edits.extend(message_edits(legs, opening, text, message));
        }
        splice::edited(&last.body, edits)
    }
}

fn counters(text: &[u8], whole: Span) -> OpenaiUsage {
    OpenaiUsage::read(text, json::get(text, whole, "usage"))
}

fn calls(text: &[u8], choice: Span) -> Vec<Span> {
    json::at_path(text, choice, &["message", "tool_calls"]).map_or(Vec::new(), |c| json::elements(text, c))
}

fn name(text: &[u8], call: Span) -> Option<Cow<'_, str>> {
    json::at_path(text, call, &["function", "name"]).and_then(|n| json::string(text, n))
}

/// The edits that break up sentinel-like text in a content.
fn breaks(text: &[u8], content: Span) -> Vec<Edit> {
    let mut escaper = Escaper::default();
    let literals = chunk::texts(text, content);
    let each = literals
        .into_iter()
        .flat_map(|inside| escaper.breaks(text, inside));
    each.collect()
}

/// The body's one object and its first choice.
fn place(body: &[u8]) -> (Span, Span) {
    let whole = json::root(body);
    let choices = json::get(body, whole, "choices").map_or(Vec::new(), |c| json::elements(body, c));
    (whole, choices.first().copied().unwrap_or_default())
}

/// A piece of the content that the agent gets.
enum ContentPiece {
    /// The inside of a string literal.
    Text(String),
    /// A block of a list.
    Block(String),
}

/// What the legs emitted, one after the other, with what is shown between.
fn pieces_of(legs: &[Leg], opening: Option<&str>) -> Vec<ContentPiece> {
    let own = |text: &str| {
        let quoted = json::quote(text);
        ContentPiece::Text(quoted[1..quoted.len() - 1].to_owned())
    };
    let mut pieces: Vec<ContentPiece> = opening.map(own).into_iter().collect();
    for leg in legs {
        let (_, choice) = place(&leg.body);
        if let Some(content) = json::at_path(&leg.body, choice, &["message", "content"]) {
            pieces.extend(content_pieces(&leg.body, content));
        }
        pieces.extend(leg.then.as_deref().map(own));
    }
    pieces
}

fn content_pieces(body: &Bytes, content: Span) -> Vec<ContentPiece> {
    let edits = breaks(body, content)
        .into_iter()
        .map(|e| Edit::insert(e.span.start - content.start, e.with))
        .collect();
    let broken = splice::edited(&body.slice(content.start..content.end), edits);
    match broken.first() {
        Some(b'"') => vec![ContentPiece::Text(json::root(&broken).inner().text(&broken))],
        Some(b'[') => {
            let blocks = json::elements(&broken, json::root(&broken));
            blocks
                .into_iter()
                .map(|b| ContentPiece::Block(b.text(&broken)))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The content out of its pieces: one string, or a list where a leg had one; `None` where nothing was written.
fn content_of(pieces: &[ContentPiece]) -> Option<String> {
    let text = |p: &ContentPiece| match p {
        ContentPiece::Text(text) => Some(text.clone()),
        ContentPiece::Block(_) => None,
    };
    if pieces.is_empty() {
        return None;
    }
    if let Some(all) = pieces.iter().map(text).collect::<Option<Vec<_>>>() {
        return Some(format!("\"{}\"", all.concat()));
    }
    let blocks: Vec<String> = pieces
        .iter()
        .map(|p| match p {
            ContentPiece::Text(text) => format!(r#"{{"type":"text","text":"{text}"}}"#),
            ContentPiece::Block(raw) => raw.clone(),
        })
        .collect();
    Some(format!("[{}]", blocks.join(",")))
}

fn identity_edits(first: &Bytes, text: &[u8], whole: Span) -> Vec<Edit> {
    let (first_whole, _) = place(first);
    let known = |key: &[u8]| IDENTITY.iter().any(|k| k.as_bytes() == key);
    let own = |key: &[u8]| json::get(first, first_whole, std::str::from_utf8(key).ok()?);
    json::members(text, whole)
        .into_iter()
        .filter(|(key, _)| known(key.of(text)))
        .filter_map(|(key, value)| {
            let own = own(key.of(text))?;
            Some(Edit::replace(value, first.slice(own.start..own.end)))
        })
        .collect()
}

fn reason_edit(text: &[u8], reason: Span, ending: Ending) -> Option<Edit> {
    let asks = reason.of(text) == b"\"tool_calls\"";
    match ending {
        Ending::Own => None,
        Ending::WithoutCall if !asks => None,
        _ => Some(Edit::replace(reason, r#""stop""#)),
    }
}

/// All that was written as its content, and none of our calls.
fn message_edits(legs: &[Leg], opening: Option<&str>, text: &[u8], message: Span) -> Vec<Edit> {
    let hides = |name: &str| legs.last().is_some_and(|l| l.report.hides(name));
    let members = json::members(text, message);
    let find = |name: &str| members.iter().position(|(k, _)| k.of(text) == name.as_bytes());
    let listed = find("tool_calls");
    let elements = listed.map_or(Vec::new(), |i| json::elements(text, members[i].1));
    let (ours, theirs): (Vec<Span>, Vec<Span>) = elements
        .into_iter()
        .partition(|c| name(text, *c).is_some_and(|name| hides(&name)));
    let hidden = listed.filter(|_| !ours.is_empty());
    let bare = hidden.filter(|_| theirs.is_empty());
    // A message without calls must have a content, be it empty, or it cannot be sent back.
    let content = content_of(&pieces_of(legs, opening)).or(bare.map(|_| r#""""#.to_owned()));
    let mut edits = Vec::new();
    match (find("content"), &content) {
        (Some(i), Some(now)) if members[i].1.of(text) != now.as_bytes() => {
            edits.push(Edit::replace(members[i].1, now.clone()));
        }
        (None, Some(now)) if bare.is_none() => {
            let comma = if members.is_empty() { "" } else { "," };
            edits.push(Edit::insert(
                message.start + 1,
                format!(r#""content":{now}{comma}"#),
            ));
        }
        _ => {}
    }
    match (hidden, bare, content) {
        // An empty list would be refused when the agent sends it back: the content takes its place.
        (_, Some(i), Some(now)) if find("content").is_none() => {
            let (key, value) = members[i];
            let place = Span::new(key.start - 1, value.end);
            edits.push(Edit::replace(place, format!(r#""content":{now}"#)));
        }
        (_, Some(i), _) => edits.extend(without(&members, &[members[i].0])),
        (Some(i), None, _) => {
            let kept: Vec<_> = theirs
                .iter()
                .map(|c| String::from_utf8_lossy(c.of(text)))
                .collect();
            edits.push(Edit::replace(members[i].1, format!("[{}]", kept.join(","))));
        }
        (None, None, _) => {}
    }
    edits
}
