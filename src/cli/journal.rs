//! What commands read from the journal: its conversations, and the newest request of one, with its transcript as it was sent to
//! the provider, and the answer.

use std::path::Path;

use super::exit::{CliResult, Exit};
use super::output::{shown, visible};
use super::stored::only;
use crate::state::journal::{BodySide, ExchangeFilter, ExchangeRow, JournalReader};
use crate::state::telemetry::{ExchangeFacts, ExchangeOutcome};
use baton_core::handoffs::yaml::SessionReader;
use baton_core::record::WireId;
use baton_core::wire::{self, Operation, Role, Usage, View};

/// The journal of a command that needs one.
pub(super) fn open_existing(dir: &Path) -> CliResult<JournalReader> {
    JournalReader::open(dir)?.ok_or_else(|| Exit::NO_INPUT.with_help(nothing_yet(dir), FIRST_RUN))
}

/// What to do where the journal has nothing.
pub(super) const FIRST_RUN: &str =
    "run an agent first: `baton run AGENT`; or name the directory of another journal with --state-dir";

pub(super) fn nothing_yet(dir: &Path) -> String {
    format!("nothing in the journal yet ({})", shown(dir))
}

/// The conversation with this key or unique key prefix.
pub(super) fn full_key(query: &JournalReader, beginning: &str) -> CliResult<String> {
    let all = query.conversations(None, 0)?.into_iter();
    let matching = all.map(|one| one.key).filter(|key| key.starts_with(beginning));
    only(matching, ["conversation", "the key"], beginning, || {
        let message = format!("there is no conversation {} in the journal", visible(beginning));
        let help = "`baton log` has the keys of conversations in the column KEY";
        Exit::NO_INPUT.with_help(message, help)
    })
}

/// Requests of a conversation that are examined, newest first: those for titles and counts hold no tools.
const NEWEST: usize = 50;

/// The newest exchanges of a conversation.
pub(super) fn newest_rows(query: &JournalReader, key: &str) -> CliResult<Vec<ExchangeRow>> {
    let filter = ExchangeFilter {
        conversation: Some(key.to_owned()),
        limit: NEWEST,
        ..ExchangeFilter::default()
    };
    Ok(query.list(&filter)?)
}

/// Which form of a request is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestForm {
    /// As it was sent upstream for the agent, if the journal has that. What baton answered by itself is passed over.
    Sent,
    /// As the agent sent it: its whole history.
    Received,
}

/// A request in the journal, or of a session that another program keeps.
pub(super) struct JournalRequest {
    pub(super) row: ExchangeRow,
    pub(super) wire: WireId,
    pub(super) view: View,
    /// Whether an agent's loop sent it.
    pub(super) of_loop: bool,
    /// The leg whose request this is; none where the journal has the agent's request alone.
    pub(super) leg: Option<u32>,
    /// The answer to it, as far as the journal has it.
    pub(super) answer: Option<Vec<u8>>,
}

impl JournalRequest {
    /// The last request of a session that the journal does not have; `None` where it has nothing.
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

/// The first of these exchanges, newest first, that an agent's loop sent; else the first that can be read.
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
    // The others are the agent's: drafts have another request.
    let of_agent = (0..legs).rfind(|leg| !row.event.draft_legs.contains(leg));
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
