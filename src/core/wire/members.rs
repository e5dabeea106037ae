//! Edits of the members around a transcript: settings are added, replaced or removed.

use super::view::{ToolChoice, View, first_member, members_without};
use crate::text::splice::Edit;
use crate::text::{Span, json};

/// Names of a wire's settings, and the edits for another model or for a request that asks only for text.
///
/// A path lists the names of nested members, the outermost first.
pub(super) struct TextRules {
    /// Compares a key with a name.
    pub(super) named: fn(&[u8], &str) -> bool,
    /// Members that are invalid without tools and history.
    pub(super) with_tools: &'static [&'static str],
    /// Returns the edits for another model, if the model is not the member `model` of the body.
    pub(super) for_model: Option<fn(&View, &str) -> Vec<Edit>>,
    /// Members that other models may not support.
    pub(super) of_model: &'static [&'static str],
    /// Paths of the output limit, best first. Many servers accept only one of two.
    pub(super) bounds: &'static [&'static [&'static str]],
    /// Path of a number that is added to the limit, such as a thinking budget.
    pub(super) thinks: &'static [&'static str],
    /// Whether a request without an output limit always gets one.
    pub(super) always_bounds: bool,
    /// Whether a lone message gets an output limit if the request has none.
    pub(super) bounds_lone: bool,
    /// Path of the tool choice, with its values for "no call" and for "the model decides". `None` if the wire has no
    /// such setting.
    pub(super) choice: Option<(&'static [&'static str], [&'static str; 2])>,
}

impl TextRules {
    /// Defaults that most wires share.
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

/// How a continued request asks only for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOnly {
    /// Forbids calls, and adds an output limit if there is none. If a server rejects this, the request is
    /// retried without both.
    pub forbids_calls: bool,
    /// Maximum output tokens. A smaller limit of the request stays.
    pub max_tokens: u64,
}

/// A request with a single message, and the settings of the agent's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoneText<'a> {
    /// Content of the message.
    pub text: &'a str,
    /// A different model than the request's. Settings bound to the old model are removed.
    pub model: Option<&'a str>,
    /// Maximum output tokens. A smaller limit of the request stays.
    pub max_tokens: u64,
}

/// Edits of the members around the transcript.
impl View {
    fn text_rules(&self) -> &'static TextRules {
        &self.wire().text
    }

    /// Value at a path.
    pub(super) fn member(&self, path: &[&str]) -> Option<Span> {
        let (first, rest) = path.split_first()?;
        let inside = |object: Span, name: &&str| self.find(&json::members(&self.body, object), name);
        rest.iter().try_fold(self.find(&self.around, first)?, inside)
    }

    fn find(&self, all: &[(Span, Span)], name: &str) -> Option<Span> {
        let named = self.text_rules().named;
        // If a key is repeated, most parsers use the last value.
        let found = all.iter().rfind(|(key, _)| named(self.text(*key), name));
        found.map(|(_, value)| *value)
    }

    fn number(&self, path: &[&str]) -> Option<u64> {
        json::number(self.text(self.member(path)?))
    }

    /// Sets the member at a path, creating missing objects. A new member follows the transcript.
    fn set(&self, path: &[&str], value: &str) -> Option<Edit> {
        if let Some(now) = self.member(path) {
            return Some(Edit::replace(now, value.to_owned()));
        }
        let (name, outer) = path.split_last()?;
        let object = self.member(outer);
        match object.filter(|object| self.text(*object).starts_with(b"{")) {
            Some(object) => Some(first_member(&self.body, object, name, value)),
            None if outer.is_empty() => Some(Edit::insert(self.list.end, format!(r#","{name}":{value}"#))),
            // The outer object is missing, so it is created with this member.
            None => self.set(outer, &format!(r#"{{"{name}":{value}}}"#)),
        }
    }

    /// Sets the tool choice if it differs.
    fn choose(&self, forbids_calls: bool) -> Option<Edit> {
        // Without tools the setting is meaningless, and servers reject it.
        self.tools.filter(|tools| tools.count > 0)?;
        let (wanted, at) = match forbids_calls {
            true => (ToolChoice::None, 0),
            false => (ToolChoice::Auto, 1),
        };
        let choice = self.text_rules().choice;
        let (path, values) = choice.filter(|_| self.facts.choice != wanted)?;
        self.set(path, values[at])
    }

    /// Lowers the output limit to `most`. A request without a limit gets one if `adds` is set or the wire
    /// always needs one.
    fn bound_output(&self, most: u64, adds: bool) -> Option<Edit> {
        let rules = self.text_rules();
        let own = rules.bounds.iter().find(|path| self.member(path).is_some());
        // An existing limit keeps its name, because a server may know only one of the names.
        let path = own.or(rules.bounds.first().filter(|_| adds || rules.always_bounds))?;
        // A thinking budget counts toward the limit; without this the model could think and have no tokens
        // left to write.
        let most = most + self.number(rules.thinks).unwrap_or_default();
        if self.number(path).is_some_and(|own| own <= most) {
            return None;
        }
        self.set(path, &most.to_string())
    }

    /// Returns the edits that remove members. The transcript always remains, so the object never becomes
    /// empty.
    pub fn without(&self, names: &[&str]) -> Vec<Edit> {
        let named = self.text_rules().named;
        let is_lost = |key: Span| names.iter().any(|name| named(self.text(key), name));
        members_without(&self.around, is_lost).unwrap_or_default()
    }

    /// Returns the edits that make the model answer in text. Transcript, system prompt, tools, thinking and
    /// sampling stay.
    pub fn text_only(&self, how: TextOnly) -> Vec<Edit> {
        let bound = self.bound_output(how.max_tokens, how.forbids_calls);
        let choice = self.choose(how.forbids_calls);
        bound.into_iter().chain(choice).collect()
    }

    /// Returns the edits around the transcript for a request with the same settings, one message and no
    /// tools.
    pub fn settings_alone(&self, lone: LoneText<'_>) -> Vec<Edit> {
        let rules = self.text_rules();
        let bound = self.bound_output(lone.max_tokens, rules.bounds_lone);
        let model = lone.model.into_iter().flat_map(|model| self.for_model(model));
        let edits = bound.into_iter().chain(self.without(rules.with_tools));
        edits.chain(model).collect()
    }

    /// Returns the edits that send the request to another model: the name, if it is in the body, and the
    /// removal of settings bound to the old model.
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
