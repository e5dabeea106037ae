//! Commands that the user ran in the agent's shell, as calls of the index with their results.

use serde_json::json;

use super::message::{IndexedCall, IndexedItem, ItemPosition};
use super::reader::MessageReader;
use crate::agents::user_shell::{self, UserShell};
use crate::transcript::AgentKind;

/// Tool name of such a call, if the agent has none for it.
const SHELL: &str = "shell";

impl MessageReader<'_> {
    /// Adds a command that the user ran, with its output; `false` if the text has none.
    pub(crate) fn user_ran(&self, text: &str, items: &mut Vec<IndexedItem>) -> bool {
        let backslashes = self.agent == Some(AgentKind::GeminiCli);
        let ran = user_shell::read(text, backslashes);
        ran.inspect(|(ran, _)| self.add_run(ran, items)).is_some()
    }

    fn add_run(&self, ran: &UserShell<'_>, items: &mut Vec<IndexedItem>) {
        if let Some(command) = &ran.command {
            let arguments = json!({"command": command}).to_string();
            items.push(IndexedItem::Call(IndexedCall {
                by_user: true,
                ..self.called(SHELL.to_owned(), &arguments)
            }));
        }
        let Some(place) = self.last_run(items) else { return };
        let call = match place {
            (at, item) if at == self.before.len() => items.get(item),
            (at, item) => self.before.get(at).and_then(|message| message.items.get(item)),
        };
        let Some(IndexedItem::Call(call)) = call else {
            return;
        };
        // The agent writes the command and its output into two blocks; the second one is still to come.
        if ran.printed.is_none() && !ran.has_ended() {
            return;
        }
        let text = ran.printed.as_deref().unwrap_or_default();
        let end = ran.end(call.command.as_deref().unwrap_or_default());
        let mut outcome = self.outcome(Some(call), end, text);
        outcome.call = Some(place);
        items.push(IndexedItem::Result(outcome));
    }

    /// The user's last command, if it has no result yet: in this message, or at the end of the previous one.
    fn last_run(&self, items: &[IndexedItem]) -> Option<ItemPosition> {
        let waits = |items: &[IndexedItem]| {
            let last = items.len().checked_sub(1)?;
            matches!(items.get(last), Some(IndexedItem::Call(call)) if call.by_user).then_some(last)
        };
        if !items.is_empty() {
            return Some((self.before.len(), waits(items)?));
        }
        let before = self.before.len().checked_sub(1)?;
        Some((before, waits(&self.before[before].items)?))
    }
}
