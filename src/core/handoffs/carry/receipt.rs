//! Statistics of carried items, and of items that models omit.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::record::{CarriedItem, CarriedKind, CarriedState, Handoff};

/// Numbers of checked items by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Rules and to-dos that the prompt includes.
    pub in_prompt: usize,
    /// Rules and to-dos that baton added.
    pub added: usize,
    /// Items that did not fit.
    pub left_out: usize,
    /// Claims that the evidence contradicts.
    pub contradicted: usize,
}

impl Receipt {
    pub fn new(items: &[CarriedItem]) -> Self {
        let mut receipt = Self::default();
        for item in items {
            *match (item.kind, item.state) {
                (_, CarriedState::LeftOut) => &mut receipt.left_out,
                (CarriedKind::Claim, _) => &mut receipt.contradicted,
                (_, CarriedState::InPrompt) => &mut receipt.in_prompt,
                (_, CarriedState::Added) => &mut receipt.added,
            } += 1;
        }
        receipt
    }

    /// The receipt in words; `None` if there was nothing to carry.
    pub fn line(&self) -> Option<String> {
        let Self {
            in_prompt,
            added,
            left_out,
            contradicted,
        } = self;
        let counted = |count: usize, what: &str| match count {
            0 => String::new(),
            _ => format!(", {count} {what}"),
        };
        let left_over = counted(*left_out, "did not fit");
        let wrong = counted(*contradicted, "contradicted by what was seen");
        (in_prompt + added + left_out + contradicted > 0)
            .then(|| format!("{in_prompt} in the prompt, {added} added by baton{left_over}{wrong}"))
    }
}

/// Items that the prompts of a model omit. The names are API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Omissions {
    /// Number of handoffs that had something to carry.
    pub handoffs: usize,
    /// Number of rules and to-dos that their prompts omitted.
    pub missing_items: usize,
}

/// The omissions of each model.
pub fn omissions<'h>(handoffs: impl IntoIterator<Item = &'h Handoff>) -> BTreeMap<&'h str, Omissions> {
    let mut models: BTreeMap<&str, Omissions> = BTreeMap::new();
    // Other user statements need not be in a prompt.
    let is_due = |item: &&CarriedItem| {
        matches!(
            item.kind,
            CarriedKind::Rule | CarriedKind::Todo | CarriedKind::Claim
        )
    };
    let has_due = |handoff: &&Handoff| handoff.carried.iter().any(|item| is_due(&item));
    for handoff in handoffs.into_iter().filter(has_due) {
        let of_model = models
            .entry(handoff.model.as_deref().unwrap_or("unknown"))
            .or_default();
        let lacks = |item: &&CarriedItem| {
            matches!(item.kind, CarriedKind::Rule | CarriedKind::Todo) && item.state != CarriedState::InPrompt
        };
        of_model.handoffs += 1;
        of_model.missing_items += handoff.carried.iter().filter(lacks).count();
    }
    models
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_counted_once_by_what_came_of_it() {
        let item = |kind, state| CarriedItem {
            kind,
            state,
            text: "x".to_owned(),
        };
        let items = [
            item(CarriedKind::Rule, CarriedState::InPrompt),
            item(CarriedKind::Todo, CarriedState::Added),
            item(CarriedKind::Claim, CarriedState::Added),
            item(CarriedKind::Rule, CarriedState::LeftOut),
        ];
        let line = Receipt::new(&items).line();
        assert_eq!(
            line.as_deref(),
            Some("1 in the prompt, 1 added by baton, 1 did not fit, 1 contradicted by what was seen")
        );
        assert_eq!(
            Receipt::new(&items[..1]).line().as_deref(),
            Some("1 in the prompt, 0 added by baton")
        );
        assert_eq!(Receipt::new(&[]).line(), None);
    }
}
