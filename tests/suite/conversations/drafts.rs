//! Handoffs at a threshold. The machine's own tests check when one begins. These check the request for its
//! document, and its result.

use baton_strict::{Fault, Received, Reply, Stop};

use super::items::{self, Item};
use super::oracle::Agent;
use super::view::View;

/// Part of the prompt for a document after the full history. Only this file of these tests depends on it.
const BEHIND: &str = "Stop here: do not go on with the work";

/// Part of the prompt for a document from a selection.
const SELECTED: &str = "You were not in the session.";

/// Text before the user's unanswered message.
const OPEN: &str = "The user's last message, still to be answered:";

/// The model's reaction to a request for a document.
#[derive(Debug, Clone, Copy)]
pub enum DraftPlan {
    /// Writes one.
    Written,
    /// Its server refuses.
    Status(u16),
    /// Its response is interrupted.
    Cut,
    /// Writes nothing.
    Nothing,
    /// Runs out of room.
    OutOfRoom,
}

impl DraftPlan {
    pub fn reply(self, id: usize) -> Reply {
        let document = format!("## Goal\nDocument {id}: mend it.\n\n## Next steps\n1. Go on with {id}.");
        match self {
            Self::Written => Reply::text(document),
            Self::Status(status) => Reply::status(status, "no"),
            Self::Cut => Reply::text(document).fault(Fault::CutAfterBytes(20)),
            Self::Nothing => Reply::text(" "),
            Self::OutOfRoom => Reply::text(document).stop(Stop::MaxTokens),
        }
    }
}

/// Whether a request asks the model for a document.
pub fn is_asked(seen: &Received) -> bool {
    let text = String::from_utf8_lossy(&seen.raw);
    text.contains(BEHIND) || text.contains(SELECTED)
}

/// A handoff at a threshold.
#[derive(Debug, Clone)]
pub struct Drafted {
    /// Prompt as stored.
    pub prompt: String,
    pub reason: String,
    /// Prompts for the model, and its responses.
    pub asked: Vec<(Vec<Item>, Reply)>,
    /// Threshold.
    pub from: u64,
}

impl Drafted {
    /// Checks that the handoff may precede the response to a request with this view.
    pub fn check(&self, agent: &Agent, view: &View) -> Result<(), String> {
        let digits: String = self.reason.chars().filter(char::is_ascii_digit).collect();
        let tokens: u64 = digits.parse().unwrap_or_default();
        if self.from == 0 || tokens < self.from || view.later.is_empty() || view.pending.is_some() {
            return Err(format!(
                "handed over at {tokens} tokens, from {} on, a call waits: {:?}",
                self.from, view.pending
            ));
        }
        let wanted = agent.wanted(view);
        self.tells_nothing_answered_as_open(&wanted)?;
        for (seen, _) in &self.asked {
            let Some(history) = behind_history(seen.clone()) else {
                continue;
            };
            let history = agent.seen(view, history);
            if history != wanted {
                return Err(format!(
                    "a document was asked for behind\n{}\nand should have been behind\n{}",
                    items::lines(&history),
                    items::lines(&wanted)
                ));
            }
        }
        let (_, last) = self.asked.last().ok_or("the model was not asked")?;
        let written = last.fault.is_none() && last.stop == Stop::Natural;
        let texts = last.parts.iter().filter_map(|part| match part {
            baton_strict::Part::Text(text) => Some(text.trim()),
            _ => None,
        });
        let lost = texts
            .filter(|text| written && !self.prompt.contains(text))
            .count();
        if lost > 0 || !self.prompt.starts_with("<handoff-context>\n") {
            return Err(format!("another document than was written: {}", self.prompt));
        }
        Ok(())
    }
}

impl Drafted {
    /// Checks that no user message before the model's newest output is shown as open. It is answered already,
    /// so the model would act on it twice.
    fn tells_nothing_answered_as_open(&self, seen: &[Item]) -> Result<(), String> {
        let models = |item: &Item| matches!(item, Item::Model(_) | Item::Thought(_) | Item::Call { .. });
        let answered = &seen[..seen.iter().rposition(models).unwrap_or_default()];
        // The context may quote such an answer as well.
        let after = self
            .prompt
            .split_once("</handoff-context>")
            .map_or("", |(_, after)| after);
        let Some((_, open)) = after.split_once(OPEN) else {
            return Ok(());
        };
        // Here the user quotes an answer from baton, with the messages that were open then.
        if open.trim_start().starts_with("See ") {
            return Ok(());
        }
        let told = answered.iter().find(|item| match item {
            Item::User(text) => text.starts_with("Go on, ") && open.contains(text.trim()),
            _ => false,
        });
        told.map_or(Ok(()), |told| Err(format!("told as open: {told:?}: {open}")))
    }
}

/// The model's view before the prompt, or `None` if it saw a selection.
fn behind_history(mut seen: Vec<Item>) -> Option<Vec<Item>> {
    let asked = seen
        .iter()
        .rposition(|item| matches!(item, Item::User(text) if text.contains(BEHIND)))?;
    let Item::User(text) = &mut seen[asked] else {
        return None;
    };
    text.truncate(text.find(BEHIND)?);
    Some(seen)
}
