//! Describes each edit and each event of an exchange in a sentence. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::diff::MessageState;
use super::exchange::{ExchangeDetail, LegDetail, MessageSummary};
use super::row::LegChange;
use super::units::size;
use baton_core::rewrite::ChangeReason;
use baton_core::rewrite::untooled::ToolOmission;
use baton_core::text::words::plural;
use baton_core::tools::RECALL_NAME;

/// The sentences, in the order in which things happened.
pub(super) fn notes(exchange: &ExchangeDetail) -> Vec<String> {
    let event = &exchange.exchange.event;
    let mut out = Vec::new();
    if event.unpinned {
        out.push(
            "The conversation had a handoff before, but this transcript does not hold its sentinel: it was sent on whole."
                .to_owned(),
        );
    }
    if let Some(why) = event.untooled.as_deref().and_then(ToolOmission::named) {
        out.push(format!("No tool was offered: {} ({}).", why.about(), why.name()));
    }
    let mut fired = event.fired.as_slice();
    let mut failed = false;
    for (i, leg) in exchange.legs.iter().enumerate() {
        let next = exchange.legs.get(i + 1);
        let label = match exchange.legs.len() {
            1 => String::new(),
            _ => format!("Leg {}: ", leg.n + 1),
        };
        out.extend(edits(exchange, leg).map(|text| format!("{label}{text}")));
        let served = event.served.get(leg.n as usize).and_then(Option::as_ref);
        let miss = served.and_then(|served| served.cache_miss);
        out.extend(miss.map(|miss| format!("{label}{}", miss.text())));
        if let Some(text) = failure(exchange, leg, next.is_some()) {
            failed = true;
            out.push(format!("{label}{text}"));
        }
        if let Some((first, rest)) = fired.split_first()
            && next.is_some_and(|next| cut_at(exchange, next).as_deref() == Some(first))
        {
            out.push(format!("{label}{}", handed_over(first)));
            fired = rest;
        }
    }
    out.extend(fired.iter().map(|id| handed_over(id)));
    out.extend(counted(exchange, failed));
    out
}

fn handed_over(id: &str) -> String {
    format!(
        "The model called session_handoff; handoff {id} was written, its sentinel shown in place of the call."
    )
}

/// The handoff at which a leg was cut.
fn cut_at(exchange: &ExchangeDetail, leg: &LegDetail) -> Option<String> {
    let mut changes = exchange.exchange.changes.iter();
    let cut = changes.find(|change| change.leg == leg.n && change.why == ChangeReason::Cut)?;
    cut.handoff.map(|id| id.to_string())
}

fn edits<'a>(exchange: &'a ExchangeDetail, leg: &'a LegDetail) -> impl Iterator<Item = String> + 'a {
    let of_leg = move |change: &&LegChange| change.leg == leg.n;
    let changes = exchange.exchange.changes.iter().filter(of_leg);
    changes.map(move |change| sentence(exchange, leg, change))
}

/// The failure of a leg.
fn failure(exchange: &ExchangeDetail, leg: &LegDetail, again: bool) -> Option<String> {
    let repeated = if again { ", and was asked again" } else { "" };
    match leg.response.status {
        Some(status) if status >= 400 => Some(format!("Upstream answered {status}{repeated}.")),
        None if !exchange.exchange.open && leg.ended_ms.is_some() => {
            Some(format!("Upstream gave no answer{repeated}."))
        }
        Some(_) if leg.response.stop.as_deref() == Some("error") => {
            Some(format!("Upstream broke off with an error{repeated}."))
        }
        _ => None,
    }
}

/// Facts of the whole exchange.
fn counted(exchange: &ExchangeDetail, failed: bool) -> impl Iterator<Item = String> {
    let row = &exchange.exchange;
    let event = &row.event;
    let (refused, broken_up) = (u64::from(event.refused_calls), u64::from(event.broken_up));
    let was = |n: u64| if n == 1 { "was" } else { "were" };
    let refused = (refused > 0).then(|| {
        let calls = plural(refused, "handoff call");
        format!(
            "{calls} {} answered with an error; the agent saw none of it.",
            was(refused)
        )
    });
    let broken_up = (broken_up > 0).then(|| {
        let texts = plural(broken_up, "text");
        format!(
            "{texts} of the model looked like a sentinel and {} escaped for the agent.",
            was(broken_up)
        )
    });
    let nudges = event.nudges.iter().filter_map(|outcome| nudged(outcome));
    let saved = event.shadow.as_ref().and_then(|moment| moment.saved);
    let shadow = saved.map(|saved| {
        let verb = if saved < 0.0 { "cost" } else { "saved" };
        format!("A handoff here would have {verb} about ${:.2}.", saved.abs())
    });
    let recalled = (!event.recalls.is_empty()).then(|| {
        format!(
            "The model called session_recall, which searched what was cut ({}); the agent saw none of it.",
            event.recalls.join(", ")
        )
    });
    let retries = u64::from(event.retries);
    let retries =
        (retries > 0 && !failed).then(|| format!("A later leg was retried {}.", plural(retries, "time")));
    let partial = row.partial.then(|| {
        "Part of this exchange is missing here: it was faster than the journal could write, or the process ended."
            .to_owned()
    });
    let dropped = u64::from(event.dropped_thinking);
    let dropped = (dropped > 0).then(|| {
        let blocks = plural(dropped, "block");
        format!("Upstream dropped {blocks} of thinking from what the model saw: the prefix or the model is another one.")
    });
    let lacked = event.lacked.map(|lacked| {
        let things = plural(lacked.into(), "thing");
        format!("The carry-over prompt lacked {things} that it should say; what fitted stands behind it.")
    });
    let undo = event.undo.as_deref().and_then(undone).map(str::to_owned);
    let others = [
        lacked, recalled, undo, refused, broken_up, dropped, retries, partial,
    ]
    .into_iter()
    .flatten();
    others.chain(nudges.map(str::to_owned)).chain(shadow)
}

/// The meaning of each outcome of notifying the model how full its context is.
fn nudged(outcome: &str) -> Option<&'static str> {
    Some(match outcome {
        "told" => {
            "The model was notified how full its context is, and prompted to finish its step and hand off."
        }
        "followed" => "The model handed over after it had been notified how full its context is.",
        "not_written" => {
            "The notice of how full the context is could not be stored, so the model was not notified."
        }
        "auto_failed" => "The context was so full that a handoff was to be drafted, but the draft failed.",
        "would_tell" => "In its shadow baton would have notified the model here how full its context is.",
        "would_hand_over" => {
            "In its shadow baton would have handed over here by itself: the context is that full."
        }
        "would_follow_plan" => "In its shadow baton would have a handoff here, where a plan is accepted.",
        "would_cut_free" => "In its shadow baton would have handed over here, where the cut costs nothing.",
        "large_cut" => {
            "What follows the handoff is over the threshold by itself: the model is not notified again in this task."
        }
        "close_handoffs" => {
            "Two handoffs came in close succession: the model is not notified again in this task."
        }
        _ => return None,
    })
}

/// The outcome of a requested undo.
fn undone(outcome: &str) -> Option<&'static str> {
    Some(match outcome {
        "undone" => "A handoff was undone: the model sees the history before it again.",
        "taken_back" => "The undo of a handoff was reverted: the transcript is cut there again.",
        "refused" => "A requested undo was refused; the answer says why.",
        _ => return None,
    })
}

fn total<'a>(messages: impl Iterator<Item = &'a MessageSummary>) -> (usize, u64) {
    messages.fold((0, 0), |(n, bytes), message| (n + 1, bytes + message.bytes))
}

fn cut(exchange: &ExchangeDetail, leg: &LegDetail, change: &LegChange) -> String {
    let received = exchange.received.messages.iter().zip(&leg.received_states);
    let all = leg.received_states.len();
    let (gone, bytes) = total(
        received
            .filter(|(_, state)| **state == MessageState::Cut)
            .map(|(message, _)| message),
    );
    let because = |why| leg.sent.messages.iter().filter(move |m| m.why == Some(why));
    let (_, prompt) = total(because(ChangeReason::Cut).filter(|m| m.state == MessageState::New));
    let (kept, kept_bytes) = total(because(ChangeReason::Preamble));
    let at = match (&change.handoff, &exchange.exchange.event.pinned, leg.n) {
        (Some(id), ..) => format!(" at handoff {id}"),
        (None, Some(id), 0) => format!(" at handoff {id}"),
        _ => String::new(),
    };
    let preamble = match kept {
        0 => String::new(),
        n => format!(
            " The preamble was kept ({}, {}).",
            plural(n as u64, "message"),
            size(kept_bytes)
        ),
    };
    format!(
        "The transcript was cut{at}: {gone} of {} ({}) were replaced by the carry-over prompt ({}).{preamble}",
        plural(all as u64, "message"),
        size(bytes),
        size(prompt),
    )
}

/// Whether the tool that searches what was cut is among a leg's tools.
fn offers_recall(leg: &LegDetail) -> bool {
    let mut rows = leg.sent.envelope.iter();
    rows.any(|row| row.why == Some(ChangeReason::Tool) && row.first_line.trim() == RECALL_NAME)
}

fn sentence(exchange: &ExchangeDetail, leg: &LegDetail, change: &LegChange) -> String {
    let added = size(change.added as u64);
    match change.why {
        ChangeReason::Cut | ChangeReason::Preamble => cut(exchange, leg, change),
        ChangeReason::Pair => {
            format!("A hidden call that the agent never saw was restored with its result ({added}).")
        }
        ChangeReason::Note => {
            let removed = size(change.removed as u64);
            format!("Commands that baton answered by itself, and what they undid, were left out ({removed}).")
        }
        ChangeReason::Inserted => format!("A text of baton's own was inserted after a message ({added})."),
        ChangeReason::Thinking => {
            let removed = size(change.removed as u64);
            format!(
                "Thinking that upstream had refused, since it was made after another prefix, was left out ({removed})."
            )
        }
        ChangeReason::GivenBack => {
            "Escaped text of the model was restored as the model wrote it.".to_owned()
        }
        ChangeReason::Tool => match offers_recall(leg) {
            true => format!("The tools session_handoff and session_recall were offered ({added})."),
            false => format!("The tool session_handoff was offered ({added})."),
        },
        ChangeReason::Reference => {
            "A reference to an item of baton's, which upstream does not know, was left out.".to_owned()
        }
        ChangeReason::Previous => {
            "The earlier response that the request continues was named by upstream's id.".to_owned()
        }
        ChangeReason::History => {
            "Members that have the provider hold the agent's history, or describe that history, were left out: it got another one."
                .to_owned()
        }
        ChangeReason::AskAgain if !exchange.exchange.event.recalls.is_empty() => {
            "The model's hidden call was answered, and the model continued.".to_owned()
        }
        ChangeReason::AskAgain => {
            "The model got the reason why its handoff call was refused, and was asked again.".to_owned()
        }
        ChangeReason::Model => {
            "It was sent to the model that the handoff names, without the settings of the requested one.".to_owned()
        }
        ChangeReason::Draft => format!("The model was asked for the document of a handoff ({added})."),
    }
}
