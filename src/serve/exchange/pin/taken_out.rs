//! Takes chat commands and their answers out of a transcript.

use bytes::Bytes;

use super::super::read::AgentRequest;
use super::super::request::Request;
use crate::serve::exchange::app::App;
use crate::state::journal::BodyLayout;
use crate::state::session::LiveConversation;
use baton_core::commands;
use baton_core::rewrite::RequestReading;
use baton_core::rewrite::notes::{self, UndoneHandoffs};
use baton_core::wire::{View, Wire};

/// A transcript as the agent sent it.
#[derive(Clone)]
pub(in crate::serve::exchange) struct OriginalTranscript {
    pub(in crate::serve::exchange) text: Bytes,
    pub(in crate::serve::exchange) layout: BodyLayout,
}

impl OriginalTranscript {
    pub(in crate::serve::exchange) fn of(reading: RequestReading) -> Self {
        let View {
            body, list, turns, ..
        } = reading.view;
        Self {
            text: body,
            layout: BodyLayout { list, turns },
        }
    }
}

/// What of the agent's transcript is not passed on.
#[derive(Clone, Default)]
pub(in crate::serve::exchange) struct TakenOut {
    /// Bytes that were removed; `None`: the transcript had no command.
    pub(in crate::serve::exchange) removed: Option<usize>,
    /// The transcript before the removal, until it is in the journal.
    pub(in crate::serve::exchange) original: Option<OriginalTranscript>,
}

impl TakenOut {
    /// Adds bytes that a later step removes from the same transcript.
    pub(in crate::serve::exchange) fn add(&mut self, removed: usize) {
        self.removed = Some(self.removed.unwrap_or_default() + removed);
    }
}

/// Takes commands and their answers out of the request.
pub(super) fn take_out(app: &App, agent: &mut AgentRequest) -> CommandsTaken {
    let (wire, look) = (agent.wire, app.note_search());
    let unquoted = without_quoted(app, wire, agent.request.reading(), agent.live.as_deref());
    let reading = unquoted.as_ref().unwrap_or_else(|| agent.request.reading());
    let (left, removed, undone) = match (notes::take_out(wire, reading, look), unquoted) {
        (Some(cleaned), _) => (cleaned.reading, cleaned.removed, cleaned.undone),
        (None, Some(unquoted)) => (unquoted, 0, UndoneHandoffs::default()),
        (None, None) => return CommandsTaken::default(),
    };
    let before = std::mem::replace(&mut agent.request, Request::plain(left));
    CommandsTaken {
        taken_out: TakenOut {
            removed: Some(removed),
            original: Some(OriginalTranscript::of(before.into_reading())),
        },
        undone,
    }
}

/// The effects of commands in the transcript.
#[derive(Default)]
pub(super) struct CommandsTaken {
    pub(super) taken_out: TakenOut,
    pub(super) undone: UndoneHandoffs,
}

/// The user's last text, where it is a command.
pub(super) fn command(app: &App, wire: &dyn Wire, reading: &RequestReading) -> Option<String> {
    let prefix = &app.config.commands.prefix;
    if !notes::may_say(wire, &reading.view, prefix) {
        return None;
    }
    let text = notes::last_message(wire, &reading.view, &app.config.handoff.preamble_tags)?;
    commands::parse(&text, prefix).is_some().then_some(text)
}

/// Takes the command out of a request that only quotes it: one that asks for a title or a classification. It has no tools,
/// in a session whose requests have, or asks for JSON; a text that answered it would do the command twice.
fn without_quoted(
    app: &App,
    wire: &dyn Wire,
    reading: &RequestReading,
    live: Option<&LiveConversation>,
) -> Option<RequestReading> {
    let (view, look) = (&reading.view, app.note_search());
    if view.tools.is_some_and(|tools| tools.client) || !notes::may_say(wire, view, look.prefix) {
        return None;
    }
    let beside = view.facts.structured || live.is_some_and(|live| live.tooled() == Some(true));
    let is_own = || command(app, wire, reading).is_some();
    (beside || !is_own())
        .then(|| notes::without_quoted(wire, reading, look))
        .flatten()
}
