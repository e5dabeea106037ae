//! Edits of the members that are around a transcript: settings put in, replaced, taken out.

use super::view::{ToolChoice, View, first_member, members_without};
use crate::text::splice::Edit;
use crate::text::{Span, json};

/// How a wire's members around the transcript are named, and what changes in them for another model, or where a text is asked
/// for and no call. A path is the names of a member, outer ones first.
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

/// How a request that continues asks only for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOnly {
    /// No tool may be called, and a bound of the output is added where there is none. A server that refuses this is
    /// asked again without both.
    pub forbids_calls: bool,
    /// Most tokens of output; the request's own bound holds where it is smaller.
    pub max_tokens: u64,
}

/// A request of one message, with what else the agent's request sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoneText<'a> {
    /// The message.
    pub text: &'a str,
    /// Another model than the request's: settings that are bound to a model go.
    pub model: Option<&'a str>,
    /// Most tokens of output; the request's own bound holds where it is smaller.
    pub max_tokens: u64,
}

/// Edits of the members around the transcript.
impl View {
    fn text_rules(&self) -> &'static TextRules {
        &self.wire().facts().text
    }

    /// The value at a path.
    pub(super) fn member(&self, path: &[&str]) -> Option<Span> {
        let (first, rest) = path.split_first()?;
        let inside = |object: Span, name: &&str| self.find(&json::members(&self.body, object), name);
        rest.iter().try_fold(self.find(&self.around, first)?, inside)
    }

    fn find(&self, all: &[(Span, Span)], name: &str) -> Option<Span> {
        let named = self.text_rules().named;
        let found = all.iter().rfind(|(key, _)| named(self.text(*key), name));
        found.map(|(_, value)| *value)
    }

    fn number(&self, path: &[&str]) -> Option<u64> {
        json::number(self.text(self.member(path)?))
    }

    /// Sets the member at a path, and makes what is missing; a new member follows the transcript.
    fn set(&self, path: &[&str], value: &str) -> Option<Edit> {
        if let Some(now) = self.member(path) {
            return Some(Edit::replace(now, value.to_owned()));
        }
        let (name, outer) = path.split_last()?;
        let object = self.member(outer);
        match object.filter(|object| self.text(*object).starts_with(b"{")) {
            Some(object) => Some(first_member(&self.body, object, name, value)),
            None if outer.is_empty() => Some(Edit::insert(self.list.end, format!(r#","{name}":{value}"#))),
            None => self.set(outer, &format!(r#"{{"{name}":{value}}}"#)),
        }
    }

    /// Sets the choice of tools where it is another.
    fn choose(&self, forbids_calls: bool) -> Option<Edit> {
        // Without tools there is no choice, and servers refuse the member.
        self.tools.filter(|tools| tools.count > 0)?;
        let (wanted, at) = match forbids_calls {
            true => (ToolChoice::None, 0),
            false => (ToolChoice::Auto, 1),
        };
        let choice = self.text_rules().choice;
        let (path, values) = choice.filter(|_| self.facts.choice != wanted)?;
        self.set(path, values[at])
    }

    /// Bounds the output where the request's own bound is larger; one without a bound gets one where `adds` says so.
    fn bound_output(&self, most: u64, adds: bool) -> Option<Edit> {
        let rules = self.text_rules();
        let own = rules.bounds.iter().find(|path| self.member(path).is_some());
        let path = own.or(rules.bounds.first().filter(|_| adds || rules.always_bounds))?;
        let most = most + self.number(rules.thinks).unwrap_or_default();
        if self.number(path).is_some_and(|own| own <= most) {
            return None;
        }
        self.set(path, &most.to_string())
    }

    /// The edits that take members out; the transcript stays, so something is kept.
    pub fn without(&self, names: &[&str]) -> Vec<Edit> {
        let named = self.text_rules().named;
        let is_lost = |key: Span| names.iter().any(|name| named(self.text(key), name));
        members_without(&self.around, is_lost).unwrap_or_default()
    }

    /// The edits by which the model answers in text. Transcript, system prompt, tools, thinking and sampling stay.
    pub fn text_only(&self, how: TextOnly) -> Vec<Edit> {
        let bound = self.bound_output(how.max_tokens, how.forbids_calls);
        let choice = self.choose(how.forbids_calls);
        bound.into_iter().chain(choice).collect()
    }

    /// The edits around the transcript of a request that keeps its settings, and has one message and no tools.
    pub fn settings_alone(&self, lone: LoneText<'_>) -> Vec<Edit> {
        let rules = self.text_rules();
        let bound = self.bound_output(lone.max_tokens, rules.bounds_lone);
        let model = lone.model.into_iter().flat_map(|model| self.for_model(model));
        let edits = bound.into_iter().chain(self.without(rules.with_tools));
        edits.chain(model).collect()
    }

    /// The edits by which the request goes to another model: its name where the body has one, and settings that are
    /// bound to a model go.
    pub fn for_model(&self, model: &str) -> Vec<Edit> {
        let rules = self.text_rules();
        if let Some(edits) = rules.for_model {
            return edits(self, model);
        }
        let named = self.member(&["model"]);
        let named = named.map(|named| Edit::replace(named, json::quote(model)));
        named.into_iter().chain(self.without(rules.of_model)).collect()
    }
}
