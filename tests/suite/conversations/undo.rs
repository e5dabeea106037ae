//! Undos at any place: in the chat, or requested from outside of it.

use std::time::Duration;

use baton_core::nudge::Windows;
use baton_core::record::UndoAnswer;
use baton_llm::state::session::UndoRefused;
use uuid::Uuid;

use super::plan::{Broken, LegPlan};
use super::{Checked, Proxies, Run};

impl Run {
    /// A person requests it in the chat: baton answers, nothing goes upstream, and none of it is ever in the model's
    /// view.
    pub async fn undo_in_the_chat(&mut self, who: usize, stream: bool) -> Checked {
        if !self.conversations[who].may_command() {
            return Ok(());
        }
        let undoes = self.conversations[who].view.may_undo();
        self.conversations[who].command("::handoff undo");
        let body = self.conversations[who].body(stream);
        let before = self.provider.requests().len();
        let path = (self.profile.variant.path)(stream);
        let response = self.send(who, path, &body).await;
        let text = response.text();
        if response.status != 200 || self.provider.requests().len() != before {
            return Err(format!("an undo was not answered: {} {text}", response.status));
        }
        let answer =
            (self.profile.variant.parse)(&response.raw, stream).map_err(|e| format!("{e}\n{text}"))?;
        let wanted = match undoes {
            Some(true) => " was undone. The model sees",
            Some(false) => "baton: the undo was reverted. The model sees",
            None => "baton: there is nothing to undo",
        };
        if !answer.text.contains(wanted) {
            return Err(format!("an undo, {undoes:?}: {text}"));
        }
        let conversation = &mut self.conversations[who];
        conversation.keep(answer.keep, Vec::new());
        if let Some(undoes) = undoes {
            conversation.view.undo();
            self.happened.in_the_chat[usize::from(undoes)] += 1;
        }
        Ok(())
    }

    /// It is requested from outside, and the conversation's next request does it. Only without faults: its own tests
    /// check what a broken answer leaves of the line that reports it.
    pub async fn undo_outside(&mut self, who: usize, legs: &[LegPlan], stream: bool) -> Checked {
        let conversation = &self.conversations[who];
        if !conversation.begun() || conversation.quirks.stored() || !conversation.may_ask() {
            return Ok(());
        }
        let Some(id) = conversation.view.undo_of() else {
            return Ok(());
        };
        let undoes = conversation.view.may_undo();
        self.conversations[who].undoes = match self.ask_undo(id).await? {
            Ok(UndoAnswer::Requested(asked)) if Some(asked.undone) == undoes => {
                self.happened.outside[usize::from(asked.undone)] += 1;
                true
            }
            // The last request was of another branch of the conversation, or there is none of it in this store.
            Err(UndoRefused::NotActive { .. } | UndoRefused::UnknownConversation) => false,
            other => return Err(format!("an undo of {id} was asked for, {undoes:?}: {other:?}")),
        };
        let legs = legs.iter().cloned().map(|leg| LegPlan { trouble: None, ..leg });
        self.model.script().legs = legs.collect();
        self.turn(who, stream, 0, Broken::Again, false).await
    }

    async fn ask_undo(&mut self, id: Uuid) -> Result<Result<UndoAnswer, UndoRefused>, String> {
        let store = self.store();
        let handoff = store.handoff("local", id).await.map_err(|e| e.to_string())?;
        let Some(handoff) = handoff else {
            return Ok(Err(UndoRefused::UnknownConversation));
        };
        let sessions = match &mut self.proxies {
            Proxies::One(one) => one.as_ref().unwrap().0.sessions.clone(),
            Proxies::Many(replicas) => replicas.next().sessions.clone(),
        };
        let mut answer = Err(UndoRefused::UnknownConversation);
        // What the last request reported is written after its answer.
        for _ in 0..10 {
            let asked = sessions
                .request_undo(&handoff, None, &Windows::default(), 1)
                .await;
            answer = asked.map_err(|e| e.to_string())?;
            match answer {
                Err(UndoRefused::NotActive { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
                _ => break,
            }
        }
        Ok(answer)
    }
}

/// The handoff whose sentinel a text shows last.
pub fn last_shown(text: &str) -> Option<Uuid> {
    let shown = text.match_indices("[[handoff-resume:").filter_map(|(at, mark)| {
        let (id, rest) = text[at + mark.len()..].split_at_checked(36)?;
        let is_whole = rest.starts_with("]]\n*Handed over: ");
        Uuid::try_parse(id).ok().filter(|_| is_whole)
    });
    shown.last()
}
