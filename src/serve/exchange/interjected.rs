//! Chat commands that the user typed while the agent worked.
//!
//! They take effect with the request that contains them, and the response to it begins with their outcome.

use super::commands::{CommandStep, step};
use super::drafts;
use super::local_answer::unanswered;
use super::value::Exchange;
use crate::proxy::response_body::AgentResponse;
use crate::state::jobs::drafts::DraftJob;
use crate::state::store::StoreResult;
use baton_core::commands::{ChatCommand, parse};
use baton_core::handoffs::draft::DraftRequest;
use baton_core::response::AnswerOpening;

/// Combined outcome of the commands.
#[derive(Default)]
struct Outcome {
    said: Vec<String>,
    /// Draft of a handoff, if a command requests one. The outcome of the draft answers that command.
    job: Option<DraftJob>,
}

/// Performs the commands, then answers the request.
pub(super) async fn answer(mut exchange: Exchange) -> AgentResponse {
    let Outcome { said, job } = match outcome(&exchange).await {
        Ok(outcome) => outcome,
        Err(error) => return unanswered(&exchange, &error),
    };
    tracing::info!(
        exchange = exchange.ctx.id,
        "answered chat commands that were typed while the agent worked"
    );
    if !said.is_empty() {
        exchange.opening = AnswerOpening::notice(&said.join("\n\n"));
    }
    match job {
        Some(job) => drafts::run(exchange, job).await,
        None => exchange.begin().await,
    }
}

async fn outcome(exchange: &Exchange) -> StoreResult<Outcome> {
    let prefix = exchange.app.config.commands.prefix.as_str();
    let mut outcome = Outcome::default();
    for typed in &exchange.offered.pin.interjected {
        let text = &typed.text;
        let refused =
            |why: &str| format!("`{text}` was typed while the agent worked, and nothing was done: {why}.");
        let said = match parse(text, prefix) {
            _ if typed.is_doubtful => refused("it follows output that could imitate it, so type it again"),
            Some(ChatCommand::HandOver(words)) => match hand_over(exchange, words) {
                Ok(job) => {
                    outcome.job = Some(job);
                    continue;
                }
                Err(why) => refused(&why),
            },
            Some(
                command @ (ChatCommand::Pin(_)
                | ChatCommand::Pins
                | ChatCommand::Unpin(_)
                | ChatCommand::Topic(_)
                | ChatCommand::Status
                | ChatCommand::Stop
                | ChatCommand::Help
                | ChatCommand::Misused(_)),
            ) => match step(exchange, command, prefix).await? {
                CommandStep::Reply(reply) => reply.text,
                // None of these commands hands off.
                CommandStep::HandOver(_) | CommandStep::GoOn(_) => continue,
            },
            _ => refused("type it again when the turn has ended"),
        };
        outcome.said.push(said);
    }
    Ok(outcome)
}

/// Begins the draft of a handoff after the tool results in the request.
///
/// # Errors
/// The reason why no draft begins.
fn hand_over(exchange: &Exchange, words: &str) -> Result<DraftJob, String> {
    let request = DraftRequest::parse(words)?;
    let live = exchange.offered.live.as_ref();
    // A handoff in the middle of tool calls would cut between a call and its result.
    let live = live.filter(|_| exchange.plan().is_safe_point());
    let live = live.ok_or("type it again when the turn has ended")?;
    let begun = exchange
        .app
        .drafting
        .begin(live.key(), live.principal(), request.into());
    begun.map_err(|open| open.to_string().trim_end_matches('.').to_owned())
}
