//! Readings of real requests, of every kind of part on every wire, and of what is no transcript at all.

mod answers;
mod linear;
mod outlines;
mod random;
mod spoken;

use bytes::Bytes;

use super::*;
use crate::wire::{Operation, View, WIRES, Wire};

/// The wire of this name.
fn named(name: &str) -> &'static dyn Wire {
    let found = WIRES.iter().find(|wire| wire.id().name() == name);
    *found.unwrap_or_else(|| panic!("no wire {name}"))
}

fn view(wire: &str, body: impl Into<Bytes>) -> View {
    named(wire).read(&body.into(), Operation::Generate).unwrap()
}

/// Every span of a part: its own, and those of all its texts.
fn spans(part: &Part<'_>) -> Vec<Span> {
    let mut all: Vec<Span> = part.texts().iter().map(|text| text.span).collect();
    match part.kind {
        Kind::Text(text) | Kind::Other(text) => all.push(text.span),
        Kind::Call(call) => {
            all.extend([call.id, call.name].into_iter().flatten().map(|text| text.span));
            all.extend(call.arguments.map(|arguments| arguments.span));
        }
        Kind::Result(result) => {
            all.extend(
                [result.call, result.name]
                    .into_iter()
                    .flatten()
                    .map(|text| text.span),
            );
        }
        Kind::Thinking | Kind::Image | Kind::ToolChange => {}
    }
    all.push(part.span);
    all
}
