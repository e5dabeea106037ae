//! Gemini's replies in one piece: read, and joined.

use super::Gemini;
use bytes::Bytes;

use super::chunk::{self, GeminiChunk, NO_PARTS};
use super::request::text_part;
use super::streamed_call;
use super::usage::{GeminiUsage, stopped};
use crate::mark::escape::Escaper;
use crate::text::json;
use crate::text::splice::{self, Edit};
use crate::wire::call_fingerprint::{Fingerprints, MessageNumber};
use crate::wire::leg::LegReport;
use crate::wire::leg_usage::ProviderUsage;
use crate::wire::served::ServedBy;
use crate::wire::view::{self, TurnPartKind};
use crate::wire::{Ending, Leg, Replies, ResponseWatch, View, fingerprints};

/// `place` is where the transcript will have the reply.
fn read(body: &Bytes, watch: ResponseWatch, place: MessageNumber) -> Option<LegReport> {
    let text: &[u8] = body;
    let chunk = GeminiChunk::read(text)?;
    if chunk.candidate.is_none() && chunk.get(text, "promptFeedback").is_none() {
        return None;
    }
    let id = chunk
        .get(text, "responseId")
        .and_then(|i| json::string(text, i))
        .unwrap_or_default();
    let mut report = LegReport {
        id: id.into_owned(),
        usage: counters(text, &chunk).usage(),
        ended: true,
        served: ServedBy::of(text, chunk.root),
        ..LegReport::default()
    };
    let mut fingerprints = Fingerprints::default();
    let mut escaper = Escaper::default();
    let mut in_text = false;
    for piece in chunk.pieces(text) {
        report.broken_up += chunk::breaks(text, &piece, &mut escaper).len();
        let is_text = piece.part.kind == TurnPartKind::Text;
        if piece.part.kind == TurnPartKind::Thinking || piece.is_empty_text() {
            continue;
        }
        if let Some(tool) = piece.called(text).and_then(|name| watch.hide.find(&name)) {
            let call = streamed_call::whole(text, &piece, tool, report.parts, watch.buffered_bytes);
            report.hidden.push(call);
            continue;
        }
        if piece.part.kind == TurnPartKind::Call {
            let fingerprint = fingerprints.next(text, piece.traits(), place);
            report.call(fingerprint.text());
        }
        report.parts += usize::from(!(is_text && in_text));
        in_text = is_text;
    }
    report.stop = chunk.stop(text, !report.calls.is_empty() || !report.hidden.is_empty());
    Some(report)
}

fn counters(text: &[u8], chunk: &GeminiChunk) -> GeminiUsage {
    GeminiUsage::read(text, chunk.get(text, "usageMetadata"))
}

/// The visible parts of a reply, model text escaped where it looks like ours.
fn visible(leg: &Leg, chunk: &GeminiChunk) -> Vec<String> {
    let body: &[u8] = &leg.body;
    let mut escaper = Escaper::default();
    let pieces = chunk.pieces(body);
    let visible = pieces
        .iter()
        .filter(|p| !p.called(body).is_some_and(|name| leg.report.hides(&name)));
    visible
        .map(|piece| view::edited_part(body, piece.part.span, &chunk::breaks(body, piece, &mut escaper)))
        .collect()
}

impl Replies for Gemini {
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
        let read: Option<Vec<GeminiChunk>> = legs.iter().map(|l| GeminiChunk::read(&l.body)).collect();
        let Some(read) = read else {
            return last.body.clone();
        };
        let (Some(first_chunk), Some(chunk)) = (read.first(), read.last()) else {
            return Bytes::new();
        };
        let mut parts: Vec<String> = opening.map(text_part).into_iter().collect();
        let mut before = 0;
        for (leg, chunk) in legs.iter().zip(&read) {
            before = parts.len();
            parts.extend(visible(leg, chunk));
            parts.extend(leg.then.as_deref().map(text_part));
        }
        let list = match parts.is_empty() {
            true => NO_PARTS.to_owned(),
            false => format!("[{}]", parts.join(",")),
        };
        let all: Vec<_> = legs
            .iter()
            .zip(&read)
            .map(|(l, c)| counters(&l.body, c))
            .collect();
        // The last leg's reply with the first one's identity: all other members are the last one's.
        let text: &[u8] = &last.body;
        let mut edits = vec![chunk.with_parts(text, &list)];
        if let Some(reason) = chunk.finish.filter(|_| ending.next_input().is_some()) {
            edits.push(Edit::replace(reason, r#""STOP""#));
        }
        if let Some(usage) = GeminiUsage::joined(&all, ending, stopped) {
            edits.extend(chunk.with(text, "usageMetadata", usage));
        }
        edits.extend(grounding(text, chunk, before));
        if legs.len() > 1 {
            for key in ["responseId", "modelVersion"] {
                let own = first_chunk.get(&legs[0].body, key).map(|v| v.text(&legs[0].body));
                edits.extend(own.and_then(|own| chunk.with(text, key, own)));
            }
        }
        splice::edited(&last.body, edits)
    }
}

/// What the last leg's grounding says of parts by their number, `by` parts further on.
fn grounding(text: &[u8], chunk: &GeminiChunk, by: usize) -> Vec<Edit> {
    let supports = chunk
        .candidate
        .filter(|_| by > 0)
        .and_then(|c| json::at_path(text, c, &["groundingMetadata", "groundingSupports"]));
    let supports = supports.map_or(Vec::new(), |s| json::elements(text, s));
    let segments = supports.into_iter().filter_map(|s| json::get(text, s, "segment"));
    let shifted = segments.map(|segment| match json::get(text, segment, "partIndex") {
        Some(index) => {
            let now = json::number(index.of(text)).unwrap_or_default() + by as u64;
            Edit::replace(index, now.to_string())
        }
        None if json::members(text, segment).is_empty() => {
            Edit::replace(segment, format!(r#"{{"partIndex":{by}}}"#))
        }
        None => Edit::insert(segment.start + 1, format!(r#""partIndex":{by},"#)),
    });
    shifted.collect()
}
