//! The sources of the user's words: the history, and the record of an earlier handoff, whose history may be gone.

use super::user::UserMessages;
use super::{block, rule};
use crate::record::{CarriedItem, CarriedKind, Handoff};
use crate::redact::Redactor;
use crate::work::{requests, said};

/// Before the model's question, and before a finished request, in a newest message.
pub(super) const ASKED: &str = "(The model asked: ";
pub(super) const DONE_BEFORE: &str = "(The request before it, which is done: ";

/// Sources of rules, and exclusions.
#[derive(Debug, Clone, Copy)]
pub struct RuleSources<'s> {
    pub earlier: &'s EarlierWords,
    pub said: &'s UserMessages,
    /// The turn of the last cut. Requests from before it are over.
    pub since: Option<usize>,
    /// Rules that the user dropped, and text that is carried otherwise.
    pub without: &'s [String],
    /// Additional words that make a rule.
    pub markers: &'s [String],
    pub redactor: &'s Redactor,
}

/// The user's words of an earlier handoff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EarlierWords {
    /// Rules, newest first.
    pub rules: Vec<String>,
    /// Other statements, newest message first.
    pub(super) said: Vec<String>,
    /// The newest message, if its request is still open.
    pub(super) newest: Option<String>,
}

impl EarlierWords {
    /// The words that a handoff was checked for, in its block or in its prompt.
    pub fn of_handoff(handoff: &Handoff) -> Self {
        let of = |kind: CarriedKind| {
            let items = handoff.carried.iter();
            items
                .filter(move |item: &&CarriedItem| item.kind == kind)
                .map(|item| &*item.text)
        };
        let newest = of(CarriedKind::Newest).next().map(own_words);
        let lines = newest.as_deref().map(|newest| said::typed(newest).join("\n"));
        let said = of(CarriedKind::Said).map(|text| rule::unmarked(text).to_owned());
        Self {
            rules: of(CarriedKind::Rule)
                .map(|text| rule::unmarked(text).to_owned())
                .collect(),
            said: lines.into_iter().chain(said).collect(),
            newest: newest.filter(|_| !requests::claims_done(block::split(&handoff.prompt).0)),
        }
    }

    /// The rules in the block after a prompt whose handoff is unknown.
    pub fn behind_prompt(prompt: &str) -> Self {
        let rules = block::split(prompt).1.into_iter();
        Self {
            rules: rules.map(|text| rule::unmarked(text).to_owned()).collect(),
            ..Self::default()
        }
    }
}

/// A newest message as it was carried, without the model's question and a finished request.
fn own_words(newest: &str) -> String {
    let after = newest
        .strip_prefix(DONE_BEFORE)
        .and_then(|rest| rest.split_once(")\n"));
    let own = after.map_or(newest, |(_, rest)| rest);
    let lines = own.lines().filter(|line| !line.starts_with(ASKED));
    lines.collect::<Vec<_>>().join("\n")
}
