//! Undos at any position.

use super::{Checked, Met, Proxies, Run};

impl Run {
    /// A user requests an undo in the chat. baton answers, nothing is sent upstream, and the model's view
    /// never contains any of it.
    pub async fn undo_in_the_chat(&mut self, who: usize, stream: bool) -> Checked {
        if !self.conversations[who].may_command() || matches!(self.proxies, Proxies::Pure(_)) {
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
        let traits = self.profile.traits;
        let conversation = &mut self.conversations[who];
        conversation.keep(answer.keep, Vec::new());
        if let Some(undoes) = undoes {
            conversation.view.undo(traits.blocks || traits.thought_is_content);
            self.met[who][Met::Undo as usize] = true;
            self.happened.undos[usize::from(undoes)] += 1;
        }
        Ok(())
    }
}
