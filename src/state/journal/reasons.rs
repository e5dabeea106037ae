//! Corrects the reason for a message of a leg's request if its position tells more than its text. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::diff::{ComparedMessage, MessageFate, MessageState};
use baton_core::rewrite::ChangeReason;

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
    let opening = sent
        .iter()
        .take_while(|item| matches!(item.role.as_str(), "user" | "system" | "tools"))
        .count();
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
