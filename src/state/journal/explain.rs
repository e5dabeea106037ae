//! Describes each edit and each event of an exchange in a sentence. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::diff::{ComparedMessage, MessageFate, MessageState};
use super::row::{ExchangeDetail, LegDetail, MessageSummary};
use crate::telemetry::{ExchangeFacts, FACTS, Fact, TextsOf, size};
use baton_core::rewrite::{ChangeReason, SizeChange};
use baton_core::text::words::plural;
use baton_core::tools::TOOL_NAME;

/// Returns the sentences in the order of the events.
pub(super) fn notes(exchange: &ExchangeDetail) -> Vec<String> {
    let event = &exchange.exchange.event;
    let of_facts =
        |texts: fn(&Fact) -> TextsOf<ExchangeFacts>| FACTS.iter().flat_map(move |fact| texts(fact)(event));
    let mut out: Vec<_> = of_facts(|fact| fact.before).collect();
    let mut fired = event.fired.as_slice();
    // A draft has legs of its own, or none at all.
    let is_models = |leg: Option<&LegDetail>, id: &str| {
        leg.is_some_and(|leg| {
            !event.draft_legs.contains(&leg.n) && cut_at(exchange, leg).as_deref() != Some(id)
        })
    };
    let handed_over = |leg, id: &String| match is_models(leg, id) {
        true => format!(
            "The model called {TOOL_NAME}. baton stored handoff {id}, and showed its sentinel instead of the call."
        ),
        false => format!("baton stored handoff {id} without a call from the model, and showed its sentinel."),
    };
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
        // A handoff belongs to the leg before the first one that it cut.
        if let Some((first, rest)) = fired.split_first()
            && next.is_some_and(|next| cut_at(exchange, next).as_deref() == Some(first))
        {
            out.push(format!("{label}{}", handed_over(Some(leg), first)));
            fired = rest;
        }
    }
    // Handoffs without a later leg, for example in mode `stop`.
    out.extend(fired.iter().map(|id| handed_over(exchange.legs.last(), id)));
    out.extend(of_facts(|fact| fact.after));
    // A failed leg was already described with its status.
    if event.retries > 0 && !failed {
        let times = plural(event.retries.into(), "time");
        out.push(format!("A later leg was retried {times}."));
    }
    if exchange.exchange.partial {
        out.push(
            "Part of this exchange is missing: the journal could not keep up, or the process ended."
                .to_owned(),
        );
    }
    out
}

/// Returns the handoff at which a leg was cut.
fn cut_at(exchange: &ExchangeDetail, leg: &LegDetail) -> Option<String> {
    let cut = changes(exchange, leg).find(|change| change.why == ChangeReason::Cut)?;
    cut.handoff.map(|id| id.to_string())
}

fn edits<'a>(exchange: &'a ExchangeDetail, leg: &'a LegDetail) -> impl Iterator<Item = String> + 'a {
    changes(exchange, leg).map(move |change| sentence(exchange, leg, &change))
}

/// Returns the changes in a leg's request.
fn changes<'a>(exchange: &'a ExchangeDetail, leg: &'a LegDetail) -> impl Iterator<Item = SizeChange> + 'a {
    let all = exchange.exchange.changes.iter();
    all.filter(move |of_leg| of_leg.leg == leg.n)
        .map(|of_leg| of_leg.change)
}

/// Describes the failure of a leg.
fn failure(exchange: &ExchangeDetail, leg: &LegDetail, again: bool) -> Option<String> {
    let repeated = if again {
        ", and baton sent another request"
    } else {
        ""
    };
    match leg.response.status {
        Some(status) if status >= 400 => Some(format!("Upstream responded with {status}{repeated}.")),
        // A leg of an open exchange may still get a response.
        None if !exchange.exchange.open && leg.ended_ms.is_some() => {
            Some(format!("Upstream did not respond{repeated}."))
        }
        Some(_) if leg.response.stop.as_deref() == Some("error") => {
            Some(format!("Upstream ended the response with an error{repeated}."))
        }
        _ => None,
    }
}

fn total<'a>(messages: impl Iterator<Item = &'a MessageSummary>) -> (usize, u64) {
    messages.fold((0, 0), |(n, bytes), message| (n + 1, bytes + message.bytes))
}

fn cut(exchange: &ExchangeDetail, leg: &LegDetail, change: &SizeChange) -> String {
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
            " baton kept the preamble ({}, {}).",
            plural(n as u64, "message"),
            size(kept_bytes)
        ),
    };
    format!(
        "The transcript was cut{at}: the carry-over prompt ({2}) replaced {gone} of {0} ({1}).{preamble}",
        plural(all as u64, "message"),
        size(bytes),
        size(prompt),
    )
}

/// Names baton's tools in a leg's request. Each row begins with the name of its tool.
fn offered(leg: &LegDetail) -> String {
    let rows = leg.sent.envelope.iter();
    let rows = rows.filter(|row| row.why == Some(ChangeReason::Tool));
    let names = rows.filter_map(|row| row.first_line.split_whitespace().next());
    let names: Vec<_> = names.collect();
    match names[..] {
        [] => format!("The tool {TOOL_NAME} was"),
        [name] => format!("The tool {name} was"),
        _ => format!("The tools {} were", names.join(" and ")),
    }
}

fn sentence(exchange: &ExchangeDetail, leg: &LegDetail, change: &SizeChange) -> String {
    let added = size(change.added as u64);
    match change.why {
        ChangeReason::Cut | ChangeReason::Preamble => cut(exchange, leg, change),
        ChangeReason::Pair => {
            format!("baton restored a hidden call, which the agent never saw, with its result ({added}).")
        }
        ChangeReason::Note => {
            let removed = size(change.removed as u64);
            format!("baton left out chat commands that it had answered, and everything they undid ({removed}).")
        }
        ChangeReason::Inserted => format!("baton inserted a notice after a message ({added})."),
        ChangeReason::Thinking => {
            let removed = size(change.removed as u64);
            format!(
                "baton left out thinking that upstream had refused, because it belongs to another prefix ({removed})."
            )
        }
        ChangeReason::Unescaped => {
            "baton restored escaped text to the model's original wording.".to_owned()
        }
        ChangeReason::Tool => format!("{} offered ({added}).", offered(leg)),
        ChangeReason::Reference => {
            "baton left out a reference to an item that upstream does not know, because baton created it.".to_owned()
        }
        ChangeReason::Previous => {
            "baton replaced the previous response's id with upstream's.".to_owned()
        }
        ChangeReason::History => {
            "baton left out fields that ask the provider to store the agent's history, or that describe it, because the model sees a different history."
                .to_owned()
        }
        ChangeReason::AskAgain if !exchange.exchange.event.recalls.is_empty() => {
            "baton answered the model's hidden call, and the model continued.".to_owned()
        }
        ChangeReason::AskAgain => {
            "baton refused the model's handoff call with a reason, and the model continued.".to_owned()
        }
        ChangeReason::Model => {
            "baton sent the request to the model that the handoff names, without the requested model's settings.".to_owned()
        }
        ChangeReason::Draft => format!("baton asked the model to write the document of a handoff ({added})."),
    }
}

/// Names the reasons of the carry-over prompt, the preamble before it, baton's requests to the model, and
/// edited tools.
pub(super) fn name(sent: &[ComparedMessage], whys: &[ChangeReason], fates: &mut [MessageFate]) {
    let carry_over = match whys.contains(&ChangeReason::Cut) {
        true => carry_over(sent, fates),
        false => None,
    };
    if let Some(carry_over) = carry_over {
        for (item, fate) in sent[..carry_over].iter().zip(&mut *fates) {
            if item.role == "user" || fate.0 == MessageState::New {
                fate.1 = Some(ChangeReason::Preamble);
            }
        }
        fates[carry_over].1 = Some(ChangeReason::Cut);
        for (item, fate) in sent.iter().zip(&mut *fates).skip(carry_over + 1) {
            if item.role == "system" && *fate == (MessageState::New, Some(ChangeReason::Cut)) {
                fate.1 = Some(ChangeReason::Preamble);
            }
        }
    }
    let own_request = whys
        .iter()
        .find(|why| matches!(why, ChangeReason::AskAgain | ChangeReason::Draft));
    if let Some(why) = own_request {
        // Everything after the last message that stays is baton's own request.
        let stays =
            |fate: &MessageFate| fate.0 != MessageState::New || fate.1 == Some(ChangeReason::Preamble);
        let last = fates.iter().rposition(stays).max(carry_over);
        for fate in fates.iter_mut().skip(last.map_or(0, |last| last + 1)) {
            fate.1 = Some(*why);
        }
    }
    if whys.contains(&ChangeReason::Tool) {
        for (item, fate) in sent.iter().zip(fates) {
            if item.role == "tools" && fate.0 == MessageState::Changed {
                fate.1 = Some(ChangeReason::Tool);
            }
        }
    }
}

/// Returns the carry-over prompt: the last user message before another speaker.
fn carry_over(sent: &[ComparedMessage], fates: &[MessageFate]) -> Option<usize> {
    let opens = |item: &&ComparedMessage| matches!(item.role.as_str(), "user" | "system" | "tools");
    let opening = sent.iter().take_while(opens).count();
    (0..opening).rfind(|&i| sent[i].role == "user" && fates[i].0 == MessageState::New)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(sent: &[(&str, MessageState)], whys: &[ChangeReason]) -> Vec<Option<ChangeReason>> {
        let items: Vec<ComparedMessage> = sent
            .iter()
            .map(|(role, _)| ComparedMessage {
                chunk: 0,
                role: (*role).to_owned(),
            })
            .collect();
        let mut fates: Vec<MessageFate> = sent
            .iter()
            .map(|(_, state)| (*state, (*state != MessageState::Kept).then(|| whys[0])))
            .collect();
        name(&items, whys, &mut fates);
        fates.into_iter().map(|(_, why)| why).collect()
    }

    #[test]
    fn the_preamble_is_no_carry_over_prompt() {
        use MessageState::{Changed, Kept, New};
        let (cut, preamble, again) = (
            Some(ChangeReason::Cut),
            Some(ChangeReason::Preamble),
            Some(ChangeReason::AskAgain),
        );
        // Codex: `AGENTS.md` unchanged, the environment at the time of the handoff, then the prompt.
        let sent = [
            ("system", Kept),
            ("user", Kept),
            ("user", New),
            ("user", New),
            ("system", New),
            ("assistant", Changed),
            ("user", Kept),
        ];
        assert_eq!(
            named(&sent, &[ChangeReason::Cut, ChangeReason::Tool]),
            [None, preamble, preamble, cut, preamble, cut, None]
        );
        // A later leg, repeated: the refused call and its result follow the prompt.
        let sent = [("system", Kept), ("user", New), ("assistant", New), ("user", New)];
        assert_eq!(
            named(&sent, &[ChangeReason::Cut, ChangeReason::AskAgain]),
            [None, cut, again, again]
        );
        let sent = [("user", Kept), ("assistant", New), ("tool", New)];
        assert_eq!(
            named(&sent, &[ChangeReason::Tool, ChangeReason::AskAgain]),
            [None, again, again]
        );
    }

    #[test]
    fn an_edited_list_of_tools_is_about_the_tool() {
        let sent = [
            ("tools", MessageState::Changed),
            ("assistant", MessageState::Changed),
        ];
        assert_eq!(
            named(&sent, &[ChangeReason::Unescaped, ChangeReason::Tool]),
            [Some(ChangeReason::Tool), Some(ChangeReason::Unescaped)]
        );
    }
}
