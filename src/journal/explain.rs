//! Each edit in a plain sentence.

use super::diff::State;
use super::exchange::{Exchange, Leg};
use super::row::LegChange;
use crate::handoff::plan::Why;
use crate::handoff::untooled::Untooled;

/// The sentences, in the order in which things happened.
pub(super) fn notes(exchange: &Exchange) -> Vec<String> {
    let row = &exchange.exchange;
    let many = exchange.legs.len() > 1;
    let mut out = Vec::new();
    if row.event.unpinned {
        out.push(
            "The conversation had a handoff before, but this transcript does not hold its sentinel: it was sent on whole."
                .to_owned(),
        );
    }
    if let Some(why) = row.event.untooled.as_deref().and_then(Untooled::named) {
        out.push(format!("No tool was offered: {} ({}).", why.about(), why.name()));
    }
    for leg in &exchange.legs {
        let label = if many {
            format!("Leg {}: ", leg.n + 1)
        } else {
            String::new()
        };
        let changes = row.changes.iter().filter(|change| change.leg == leg.n);
        out.extend(changes.map(|change| format!("{label}{}", sentence(exchange, leg, change))));
    }
    for id in &row.event.fired {
        out.push(format!(
            "The model called session_handoff; handoff {id} was written, its sentinel shown in place of the call."
        ));
    }
    if row.event.refused_calls > 0 {
        out.push(format!(
            "{} handoff call(s) were answered with an error; the agent saw none of it.",
            row.event.refused_calls
        ));
    }
    if row.event.broken_up > 0 {
        out.push(format!(
            "{} text(s) of the model looked like a sentinel and were broken up on their way to the agent.",
            row.event.broken_up
        ));
    }
    if row.event.retries > 0 {
        out.push(format!(
            "A later leg was tried again {} time(s).",
            row.event.retries
        ));
    }
    if row.partial {
        out.push("Part of this exchange is missing here: it went by faster than it could be written, or the process ended.".to_owned());
    }
    out
}

fn sentence(exchange: &Exchange, leg: &Leg, change: &LegChange) -> String {
    match change.why {
        Why::Cut => {
            let all = leg.received_states.len();
            let cut = leg.received_states.iter().filter(|s| **s == State::Cut).count();
            let at = match (&exchange.exchange.event.pinned, leg.n) {
                (Some(id), 0) => format!(" at handoff {id}"),
                (None, 0) => String::new(),
                _ => " at the handoff that had fired".to_owned(),
            };
            format!(
                "The transcript was cut{at}: {cut} of {all} messages ({} bytes) gave way to the carry-over prompt ({} bytes).",
                change.removed, change.added
            )
        }
        Why::Pair => format!(
            "A call of session_handoff that the agent never saw was put back with its result ({} bytes).",
            change.added
        ),
        Why::GivenBack => {
            "Text of the model that had been broken up was given back as the model wrote it.".to_owned()
        }
        Why::Tool => format!("The tool session_handoff was offered ({} bytes).", change.added),
        Why::Reference => {
            "A reference to an item of ours, which means nothing to upstream, was left out.".to_owned()
        }
        Why::Previous => {
            "The earlier response that the request goes on from was named as upstream knows it.".to_owned()
        }
        Why::AskAgain => {
            "The model was told why its handoff call was refused, and was asked again.".to_owned()
        }
    }
}
