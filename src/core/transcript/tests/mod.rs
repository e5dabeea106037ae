//! Readings of real requests, of every kind of part on every wire, and of bytes that are not a transcript.

mod answers;
mod goals;
mod linear;
mod outlines;
mod random;
mod spoken;

use bytes::Bytes;

use super::*;
use crate::text::Span;
use crate::wire::{Operation, View, WIRES, Wire};

fn named(name: &str) -> &'static Wire {
    let found = WIRES.iter().find(|wire| wire.id().name() == name);
    found.unwrap_or_else(|| panic!("no wire {name}"))
}

fn view(wire: &str, body: impl Into<Bytes>) -> View {
    named(wire).read(&body.into(), Operation::Generate).unwrap()
}

/// All spans of a part, including those of its texts.
fn spans(part: &TranscriptPart<'_>) -> Vec<Span> {
    let mut all: Vec<Span> = part.texts().iter().map(|text| text.span).collect();
    match part.kind {
        TranscriptPartKind::Text(text) | TranscriptPartKind::Other(text) => all.push(text.span),
        TranscriptPartKind::Call(call) => {
            all.extend([call.id, call.name].into_iter().flatten().map(|text| text.span));
            all.extend(call.arguments.map(|arguments| arguments.span));
        }
        TranscriptPartKind::Result(result) => {
            all.extend(
                [result.call, result.name]
                    .into_iter()
                    .flatten()
                    .map(|text| text.span),
            );
        }
        TranscriptPartKind::Thinking | TranscriptPartKind::Image | TranscriptPartKind::ToolChange => {}
    }
    all.push(part.span);
    all
}
