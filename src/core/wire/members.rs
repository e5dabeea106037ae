//! Edits of the members that are around a transcript: settings put in, replaced, taken out.

use super::view::{ToolChoice, View, first_member, members_without};
use crate::text::splice::Edit;
use crate::text::{Span, json};

/// What a wire changes in a request that asks for a text, and for no call. A path is the names of a member, outer ones
/// first.
pub(super) struct TextRules {
    /// Whether a key is this name.
    pub(super) named: fn(&[u8], &str) -> bool,
    /// Members that are invalid without tools and history.
    pub(super) with_tools: &'static [&'static str],
    /// The edits for another model, where it is not a member in the place of the others.
    pub(super) for_model: Option<fn(&View, &str) -> Vec<Edit>>,
    /// Members that other models may not support.
    pub(super) of_model: &'static [&'static str],
    /// Paths of the bound of the output, best first: many servers refuse one of two.
    pub(super) bounds: &'static [&'static [&'static str]],
    /// The path of a number that is added to the bound.
    pub(super) thinks: &'static [&'static str],
    /// Whether a request without a bound always gets one.
    pub(super) always_bounds: bool,
    /// Whether a lone message gets a bound where the request has none.
    pub(super) bounds_lone: bool,
    /// The path of the choice of tools, with the values for none and for any; `None`: the wire has no choice.
    pub(super) choice: Option<(&'static [&'static str], [&'static str; 2])>,
}

impl TextRules {
    /// What most wires have.
    pub(super) const DEFAULT: Self = Self {
        named: |key, name| key == name.as_bytes(),
        with_tools: &[],
        for_model: None,
        of_model: &[],
        bounds: &[],
        thinks: &[],
        always_bounds: true,
        bounds_lone: true,
        choice: None,
    };
}

/// The members of the object that holds the transcript.
#[derive(Clone, Copy)]
pub(super) struct TranscriptMembers<'v> {
    view: &'v View,
    rules: &'static TextRules,
}

impl<'v> TranscriptMembers<'v> {
    pub(super) fn of(view: &'v View, rules: &'static TextRules) -> Self {
        Self { view, rules }
    }

    /// The value at a path.
    pub(super) fn get(self, path: &[&str]) -> Option<Span> {
        let (first, rest) = path.split_first()?;
        let inside = |object: Span, name: &&str| self.find(&json::members(&self.view.body, object), name);
        rest.iter().try_fold(self.find(&self.view.around, first)?, inside)
    }

    fn find(self, all: &[(Span, Span)], name: &str) -> Option<Span> {
        let is_named = |(key, _): &&(Span, Span)| (self.rules.named)(self.view.text(*key), name);
        all.iter().rfind(is_named).map(|(_, value)| *value)
    }

    fn number(self, path: &[&str]) -> Option<u64> {
        json::number(self.view.text(self.get(path)?))
    }

    /// Sets the member at a path, and makes what is missing; a new member follows the transcript.
    fn set(self, path: &[&str], value: &str) -> Option<Edit> {
        if let Some(now) = self.get(path) {
            return Some(Edit::replace(now, value.to_owned()));
        }
        let (name, outer) = path.split_last()?;
        let object = self
            .get(outer)
            .filter(|object| self.view.text(*object).starts_with(b"{"));
        match object {
            Some(object) => Some(first_member(&self.view.body, object, name, value)),
            None if outer.is_empty() => {
                Some(Edit::insert(self.view.list.end, format!(r#","{name}":{value}"#)))
            }
            None => self.set(outer, &format!(r#"{{"{name}":{value}}}"#)),
        }
    }

    /// Sets the choice of tools where it is another.
    pub(super) fn choose(self, forbids_calls: bool) -> Option<Edit> {
        // Without tools there is no choice, and servers refuse the member.
        self.view.tools.filter(|tools| tools.count > 0)?;
        let (wanted, at) = match forbids_calls {
            true => (ToolChoice::None, 0),
            false => (ToolChoice::Auto, 1),
        };
        let (path, values) = self.rules.choice.filter(|_| self.view.facts.choice != wanted)?;
        self.set(path, values[at])
    }

    /// Bounds the output where the request's own bound is larger; one without a bound gets one where `adds` says so.
    pub(super) fn bound(self, most: u64, adds: bool) -> Option<Edit> {
        let rules = self.rules;
        let own = rules.bounds.iter().find(|path| self.get(path).is_some());
        let path = own.or(rules.bounds.first().filter(|_| adds || rules.always_bounds))?;
        let most = most + self.number(rules.thinks).unwrap_or_default();
        if self.number(path).is_some_and(|own| own <= most) {
            return None;
        }
        self.set(path, &most.to_string())
    }

    /// Makes `turn` the only turn of the transcript.
    pub(super) fn only_turn(self, turn: &str) -> Edit {
        Edit::replace(self.view.list, format!("[{turn}]"))
    }

    /// Replaces the model where the body names it, and takes out what another one may not know.
    pub(super) fn for_model(self, model: &str) -> Vec<Edit> {
        let named = self
            .get(&["model"])
            .map(|named| Edit::replace(named, json::quote(model)));
        named
            .into_iter()
            .chain(self.without(self.rules.of_model))
            .collect()
    }

    /// Takes members out.
    pub(super) fn without(self, names: &[&str]) -> Vec<Edit> {
        // The transcript stays, so something is kept.
        let is_lost = |key: Span| {
            names
                .iter()
                .any(|name| (self.rules.named)(self.view.text(key), name))
        };
        members_without(&self.view.around, is_lost).unwrap_or_default()
    }
}
