//! Reads conversations and requests from the journal, for several commands.
//!
//! A request comes with its transcript as it was sent to the provider, and with the response.

use std::path::Path;

use super::exit::{CliResult, Exit};
use super::output::{shown, visible};
use super::stored::only;
use baton_core::handoffs::yaml::SessionReader;
use baton_core::record::WireId;
use baton_core::wire::{self, Operation, Role, Usage, View};
use baton_state::journal::{BodySide, ExchangeFilter, ExchangeRow, JournalReader};
use baton_state::telemetry::{ExchangeFacts, ExchangeOutcome};

/// Opens the journal for a command that needs one.
pub(super) fn open_existing(dir: &Path) -> CliResult<JournalReader> {
    JournalReader::open(dir)?.ok_or_else(|| Exit::NO_INPUT.with_help(nothing_yet(dir), FIRST_RUN))
}

/// Help for an empty journal.
pub(super) const FIRST_RUN: &str =
    "run an agent first: `baton run AGENT`; or name the directory of another journal with --state-dir";

pub(super) fn nothing_yet(dir: &Path) -> String {
    format!("nothing in the journal yet ({})", shown(dir))
}

/// Completes the key of a conversation from a unique prefix.
pub(super) fn full_key(query: &JournalReader, beginning: &str) -> CliResult<String> {
    let all = query.conversations(None, 0)?.into_iter();
    let matching = all.map(|one| one.key).filter(|key| key.starts_with(beginning));
    only(matching, ["conversation", "the key"], beginning, || {
        let message = format!("there is no conversation {} in the journal", visible(beginning));
        let help = "`baton log` has the keys of conversations in the column KEY";
        Exit::NO_INPUT.with_help(message, help)
    })
}

/// Maximum requests of a conversation that are examined, newest first.
///
/// Several, because requests for titles and token counts hold no tools.
const NEWEST: usize = 50;

/// Reads the newest exchanges of a conversation.
pub(super) fn newest_rows(query: &JournalReader, key: &str) -> CliResult<Vec<ExchangeRow>> {
    Ok(query.list(&ExchangeFilter::newest(Some(key), NEWEST))?)
}

/// Form of a request to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestForm {
    /// As sent upstream for the agent, if the journal has that. Exchanges that baton answered itself are
    /// skipped.
    Sent,
    /// As the agent sent it, with its whole history.
    Received,
}

/// A request from the journal, or from a session file of another program.
pub(super) struct JournalRequest {
    pub(super) row: ExchangeRow,
    pub(super) wire: WireId,
    pub(super) view: View,
    /// Whether an agent's loop sent the request, rather than a helper for titles or counts.
    pub(super) of_loop: bool,
    /// Leg that the request belongs to; `None` if the journal has only the agent's request.
    pub(super) leg: Option<u32>,
    /// Response to the request, as far as the journal has it.
    pub(super) answer: Option<Vec<u8>>,
}

impl JournalRequest {
    /// Builds the last request of a session that ran without baton, from its file. `None` if it has no request.
    pub(super) fn of_session(session: &SessionReader) -> Option<Self> {
        let (wire, body) = session.request();
        let tokens = Usage {
            input: session.usage.tokens,
            ..Usage::default()
        };
        let event = ExchangeFacts {
            received_bytes: body.len() as u64,
            tokens: vec![Some(tokens)],
            ..ExchangeFacts::default()
        };
        let view = wire::wire(wire).read(&body, Operation::Generate).ok()?;
        Some(Self {
            row: ExchangeRow {
                model: session.usage.model.clone(),
                event,
                ..ExchangeRow::default()
            },
            wire,
            view,
            of_loop: true,
            leg: None,
            answer: None,
        })
    }
}

/// Returns the newest of these exchanges that an agent's loop sent; else the newest that can be read.
///
/// `rows` come newest first.
pub(super) fn newest(
    query: &JournalReader,
    rows: impl IntoIterator<Item = ExchangeRow>,
    form: RequestForm,
) -> CliResult<Option<JournalRequest>> {
    let mut other = None;
    for row in rows {
        let Some(found) = read(query, row, form)? else {
            continue;
        };
        if found.of_loop {
            return Ok(Some(found));
        }
        other = other.or(Some(found));
    }
    Ok(other)
}

fn read(query: &JournalReader, row: ExchangeRow, form: RequestForm) -> CliResult<Option<JournalRequest>> {
    let Some(wire) = row.wire.as_deref().and_then(WireId::named) else {
        return Ok(None);
    };
    let legs = u32::try_from(row.statuses.len()).unwrap_or_default();
    // Draft legs have a request that baton made, so they do not count.
    let of_agent = (0..legs).rfind(|leg| !row.event.draft_legs.contains(leg));
    // Baton itself answered, so upstream saw no request.
    let is_answered_here = of_agent.is_none() && row.event.outcome == ExchangeOutcome::Complete;
    if form == RequestForm::Sent && is_answered_here {
        return Ok(None);
    }
    let last = of_agent.unwrap_or_default();
    let sent = match form {
        RequestForm::Sent => query.body(&row.id, BodySide::Sent(last))?,
        RequestForm::Received => None,
    };
    let (body, leg) = match sent {
        Some(body) => (Some(body), Some(last)),
        None => (query.body(&row.id, BodySide::Received)?, None),
    };
    let Some(view) = body.and_then(|body| wire::wire(wire).read(&body.into(), Operation::Generate).ok())
    else {
        return Ok(None);
    };
    let answer = match form {
        RequestForm::Sent => BodySide::Response(last),
        RequestForm::Received => BodySide::Shown,
    };
    let answer = query.body(&row.id, answer)?;
    // Agents send tools in the requests of their loop. Those for titles and counts have none.
    let of_loop = view.tools.is_some_and(|tools| tools.count > 0)
        || view.turns.iter().any(|turn| turn.role == Role::Tools);
    Ok(Some(JournalRequest {
        row,
        wire,
        of_loop,
        view,
        leg,
        answer,
    }))
}
