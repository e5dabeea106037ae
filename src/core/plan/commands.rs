//! Removes chat commands and their replies from a transcript.

use super::{Known, KnownConversation, Need, Policy, Records};
use crate::commands;
use crate::handoffs::yaml::Drift;
use crate::marker::pasted;
use crate::record::{CutPoint, Handoff, HandoffStatus};
use crate::rewrite::RequestReading;
use crate::rewrite::notes::{self, CleanedTranscript, UndoneHandoffs};
use crate::text::units::brief;
use crate::wire::{LocatedBody, View};
use std::sync::Arc;

/// Parts of the agent's transcript that are not passed on.
#[derive(Debug, Clone, Default)]
pub struct RemovedCommands {
    /// Number of removed bytes; `None` if the transcript had no command.
    pub removed: Option<usize>,
    /// Transcript before the removal, kept until it is in the journal.
    pub original: Option<LocatedBody>,
    /// Whether the user's last message was removed.
    pub is_last: bool,
    /// Whether a removed command had no reply, because the agent left it out.
    pub unanswered: bool,
}

impl RemovedCommands {
    /// Records that another transcript is passed on in place of `before`.
    pub(super) fn replaced(&mut self, before: RequestReading, now: &RequestReading) {
        self.add(before.view.body.len().saturating_sub(now.view.body.len()));
        self.original
            // Only the first time: later steps replace a transcript that the agent never sent.
            .get_or_insert_with(|| LocatedBody::from(&before.view));
    }

    /// Adds bytes that a later step removes from the same transcript.
    pub fn add(&mut self, removed: usize) {
        self.removed = Some(self.removed.unwrap_or_default() + removed);
    }
}

/// Removes commands and their replies from the request; `None` if it has none.
///
/// # Errors
/// A note names a handoff without a sentinel in the transcript. The cut points of the conversation must be
/// read first.
pub(super) fn taken_out(
    reading: &RequestReading,
    live: Option<&KnownConversation>,
    policy: &Policy<'_>,
) -> Known<Option<CleanedTranscript>> {
    let tooled = live.is_some_and(|live| live.tooled == Some(true));
    let unquoted = without_quoted(reading, tooled, policy);
    let noted = unquoted.as_ref().unwrap_or(reading);
    let unseen = notes::unseen(noted);
    // Most requests have no such note, and are spared a read of the lists.
    let points = match live.filter(|_| !unseen.is_empty()) {
        Some(live) => &live.listed()?.cut_points[..],
        None => &[],
    };
    let points = points.iter().filter(|point| unseen.contains(&point.handoff));
    let points: Vec<&CutPoint> = points.map(|point| &**point).collect();
    let cleaned = notes::take_out(noted, policy.look, &points);
    Ok(cleaned.or_else(|| {
        Some(CleanedTranscript {
            reading: unquoted?,
            removed: 0,
            undone: UndoneHandoffs::default(),
        })
    }))
}

/// The user's last message, if it is a command.
pub(super) fn command(view: &View, policy: &Policy<'_>) -> Option<String> {
    let prefix = policy.look.prefix;
    if !notes::may_say(view, prefix) {
        return None;
    }
    let text = notes::last_message(view, policy.look.tags)?;
    commands::parse(&text, prefix).is_some().then_some(text)
}

/// Removes the command from a request that only quotes it, such as one for a title or a classification.
///
/// A reply to such a request would execute the command twice. It has no tools of the agent. In addition, its
/// conversation has baton's tool, or it asks for a format, or its last message is not a command. If it asks for a
/// format and has tools, it may be the agent's own, so only the wording of a title's request shows a quotation.
fn without_quoted(reading: &RequestReading, tooled: bool, policy: &Policy<'_>) -> Option<RequestReading> {
    let view = &reading.view;
    let has_tools = view.tools.is_some_and(|tools| tools.client);
    if has_tools && !view.facts.structured || !notes::may_say(view, policy.look.prefix) {
        return None;
    }
    let beside = view.facts.structured || tooled;
    let may_quote = beside || command(view, policy).is_none();
    may_quote
        .then(|| notes::without_quoted(reading, policy.look, has_tools))
        .flatten()
}

const UNKNOWN: &str = "this handoff is not known here. Give the whole id, as the handoff's line has it. (Its first 13 characters \
                       are enough in its own session, and on a proxy that only you reach. If others reach the proxy, a \
                       truncated id needs 23, and ten unknown ones are refused for a minute.)";

const AMBIGUOUS: &str = "more than one handoff has an id that begins like this: give more of it.";

/// Finds the handoff whose id begins like this, or explains to the user why there is none.
///
/// # Errors
/// Returns the records to read first.
pub fn handoff_to_resume(id: &str, records: &Records) -> Known<Result<Arc<Handoff>, &'static str>> {
    let Some((first, last)) = pasted::id_range(id) else {
        return Ok(Err(UNKNOWN));
    };
    Ok(match records.ids(Need::HandoffsBetween(first, last))? {
        [] => Err(UNKNOWN),
        [only] => records.handoff(*only)?.cloned().ok_or(UNKNOWN),
        _ => Err(AMBIGUOUS),
    })
}

/// Composes the reply to the user.
///
/// `before` is the previous status of the handoff's document. `drift` describes changes in the repository.
pub fn resumed_text(handoff: &Handoff, before: Option<HandoffStatus>, drift: Option<&Drift>) -> String {
    let (id, about) = (brief(handoff.id), handoff.about());
    let mut text = format!("from here on the model continues from the handoff {id}{about}.");
    if let Some(before) = before.filter(|before| *before != HandoffStatus::Active) {
        text += &format!(" The handoff was {}; it is active again.", before.name());
    }
    if let Some(drift) = drift {
        text += &format!("\n\n{}.", drift.line());
    }
    text
}
