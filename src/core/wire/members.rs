//! Edits of the members that are around a transcript: settings put in, replaced, taken out.

use super::view::{ToolChoice, View, members_without};
use crate::text::splice::Edit;
use crate::text::{Span, json};

/// Whether a key is this name.
pub(super) type NameTest = fn(&[u8], &str) -> bool;

/// A key is its name, letter by letter.
pub(super) fn exactly(key: &[u8], name: &str) -> bool {
    key == name.as_bytes()
}

/// What a wire changes in a request that asks for a text, and for no call.
pub(super) struct TextRules {
    /// How names are spelled.
    pub(super) named: NameTest,
    /// Members that are invalid without tools and history.
    pub(super) with_tools: &'static [&'static str],
    /// The edits for another model, where it is not a member in the place of the others.
    pub(super) for_model: Option<fn(&View, &str) -> Vec<Edit>>,
    /// Members that other models may not support.
    pub(super) of_model: &'static [&'static str],
    /// Bounds the output; whether a request without a bound gets one is the last argument.
    pub(super) bound: fn(&TranscriptMembers<'_>, u64, bool) -> Option<Edit>,
    /// Whether a lone message gets a bound where the request has none.
    pub(super) bounds_lone: bool,
    /// Sets another choice of tools; none where the wire has no choice.
    pub(super) choice: fn(&TranscriptMembers<'_>, ToolChoice) -> Option<Edit>,
}

/// The members of the object that holds the transcript.
pub(super) struct TranscriptMembers<'v> {
    view: &'v View,
    all: Vec<(Span, Span)>,
    named: NameTest,
}

impl<'v> TranscriptMembers<'v> {
    /// The members of the body, or of the envelope in it.
    pub(super) fn of(view: &'v View, named: NameTest) -> Self {
        let text: &[u8] = &view.body;
        let mut all = json::members(text, json::root(text));
        while !all.iter().any(|(_, value)| *value == view.list) {
            let around = all.iter().find(|(_, value)| value.holds(view.list.start));
            match around {
                Some((_, value)) if text.get(value.start) == Some(&b'{') => all = json::members(text, *value),
                _ => break,
            }
        }
        Self { view, all, named }
    }

    /// The value under a name.
    pub(super) fn get(&self, name: &str) -> Option<Span> {
        self.in_list(&self.all, name)
    }

    /// The value under a name of an object that is under another.
    pub(super) fn get_in(&self, outer: &str, name: &str) -> Option<Span> {
        self.get_of(self.get(outer)?, name)
    }

    /// The value under a name of this object.
    pub(super) fn get_of(&self, object: Span, name: &str) -> Option<Span> {
        self.in_list(&json::members(&self.view.body, object), name)
    }

    fn in_list(&self, all: &[(Span, Span)], name: &str) -> Option<Span> {
        let text: &[u8] = &self.view.body;
        let mut found = all
            .iter()
            .rev()
            .filter(|(key, _)| (self.named)(key.of(text), name));
        found.next().map(|(_, value)| *value)
    }

    /// The number under a name.
    pub(super) fn number(&self, value: Option<Span>) -> Option<u64> {
        json::number(value?.of(&self.view.body))
    }

    /// Sets a member; a new one follows the transcript.
    pub(super) fn set(&self, name: &str, value: &str) -> Edit {
        match self.get(name) {
            Some(now) => Edit::replace(now, value.to_owned()),
            None => Edit::insert(self.view.list.end, format!(r#","{name}":{value}"#)),
        }
    }

    /// Sets a member of an object, which is made where it is missing.
    pub(super) fn set_in(&self, outer: &str, name: &str, value: &str) -> Edit {
        let text: &[u8] = &self.view.body;
        let Some(object) = self.get(outer).filter(|object| text[object.start] == b'{') else {
            return self.set(outer, &format!(r#"{{"{name}":{value}}}"#));
        };
        let inside = json::members(text, object);
        if let Some(now) = self.in_list(&inside, name) {
            return Edit::replace(now, value.to_owned());
        }
        let comma = if inside.is_empty() { "" } else { "," };
        Edit::insert(object.start + 1, format!(r#""{name}":{value}{comma}"#))
    }

    /// Sets `tool_choice`, a word.
    pub(super) fn tool_choice(&self, choice: ToolChoice) -> Option<Edit> {
        let word = if choice == ToolChoice::None {
            r#""none""#
        } else {
            r#""auto""#
        };
        Some(self.set("tool_choice", word))
    }

    /// The bound of the output under the name that the request has it by.
    pub(super) fn bound(&self, names: &[&str], most: u64, adds: bool) -> Option<Edit> {
        let named = names.iter().find(|name| self.get(name).is_some());
        let own = named.and_then(|name| self.number(self.get(name)));
        // Many servers refuse one of two names; a request without any has the server's own.
        let name = named.or(names.first().filter(|_| adds))?;
        bounded(own, most).map(|tokens| self.set(name, &tokens))
    }

    /// Makes `turn` the only turn of the transcript.
    pub(super) fn only_turn(&self, turn: &str) -> Edit {
        Edit::replace(self.view.list, format!("[{turn}]"))
    }

    /// Takes out what a request without tools cannot have, and where the model is another one, what that may not know;
    /// a model that the body names is replaced.
    pub(super) fn without_tools(
        &self,
        with_tools: &[&str],
        of_model: &[&str],
        model: Option<&str>,
    ) -> Vec<Edit> {
        let Some(model) = model else {
            return self.without(with_tools);
        };
        let named = self.get("model").map(|_| self.set("model", &json::quote(model)));
        let gone = [with_tools, of_model].concat();
        named.into_iter().chain(self.without(&gone)).collect()
    }

    /// Takes members out.
    pub(super) fn without(&self, names: &[&str]) -> Vec<Edit> {
        let text: &[u8] = &self.view.body;
        // The transcript stays, so something is kept.
        let is_lost = |key: Span| names.iter().any(|name| (self.named)(key.of(text), name));
        members_without(&self.all, is_lost).unwrap_or_default()
    }
}

/// The bound of the output where the request's own is missing or larger; `None`: it stays.
pub(super) fn bounded(own: Option<u64>, most: u64) -> Option<String> {
    own.is_none_or(|own| own > most).then(|| most.to_string())
}

/// The choice of tools that a request for a text alone has, where it is another than its own.
pub(super) fn other_choice(view: &View, forbids_calls: bool) -> Option<ToolChoice> {
    let wanted = match forbids_calls {
        true => ToolChoice::None,
        false => ToolChoice::Auto,
    };
    // Without tools there is no choice, and servers refuse the member.
    let has_tools = view.tools.is_some_and(|tools| tools.count > 0);
    (has_tools && view.facts.choice != wanted).then_some(wanted)
}
