//! Calls of baton's tools as they arrive.
//!
//! A call may be a single part. With `streamFunctionCallArguments` (Vertex) it is a run of parts, the first
//! with the name and the others with pieces of the arguments.

use super::pairs;
use super::part::{self, LOST_SIGNATURE, PartMembers};
use crate::text::{Span, json};
use crate::wire::HiddenCall;

/// Call whose arguments are streaming.
#[derive(Debug, Default)]
pub(super) enum StreamingCall {
    /// No call.
    #[default]
    None,
    /// A visible call.
    Shown,
    /// A call of one of baton's tools.
    Hidden(Box<StreamedCall>),
}

/// A hidden call whose arguments are streaming.
#[derive(Debug, Default)]
pub(super) struct StreamedCall {
    call: HiddenCall,
    limit: usize,
    signature: Option<String>,
    /// Arguments by name, in the order of their first pieces.
    arguments: Vec<(String, Argument)>,
}

/// An argument, as far as it has arrived.
#[derive(Debug)]
enum Argument {
    /// A string, which comes in pieces.
    Text(String),
    /// JSON of any other value, which comes whole.
    Value(String),
}

impl Argument {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Value(text) => text.len(),
        }
    }

    /// Adds the next piece.
    fn add(&mut self, piece: Self) {
        match (self, piece) {
            (Self::Text(text), Self::Text(piece)) => text.push_str(&piece),
            (known, piece) => *known = piece,
        }
    }

    fn json(&self) -> String {
        match self {
            Self::Text(text) => json::quote(text),
            Self::Value(value) => value.clone(),
        }
    }
}

/// Whether more parts of the same call follow.
pub(super) fn goes_on(data: &[u8], piece: &PartMembers) -> bool {
    let goes_on = piece.call.and_then(|c| part::get(data, c, "willContinue"));
    goes_on.is_some_and(|w| json::is_true(w.of(data)))
}

/// Creates a hidden call from a single part. Arguments longer than `limit` bytes are dropped.
pub(super) fn whole(
    data: &[u8],
    piece: &PartMembers,
    tool: &'static str,
    after: usize,
    limit: usize,
) -> HiddenCall {
    let arguments = piece.part.value.map_or("{}".to_owned(), |a| a.text(data));
    let mut call = HiddenCall::whole(id(data, piece), tool, after, &arguments, limit);
    // Without its arguments the part cannot be returned unchanged, so its signature would be invalid.
    call.raw = if !call.oversize && arguments.starts_with('{') {
        Some(piece.part.span.text(data))
    } else {
        piece.part.signature.map(|_| signed(&call, LOST_SIGNATURE))
    };
    call
}

/// Serializes a hidden call with a signature.
fn signed(call: &HiddenCall, signature: &str) -> String {
    let call = pairs::hidden_call(call);
    // The signature becomes the last member of the part.
    let open = call.strip_suffix('}').unwrap_or(&call);
    format!(r#"{open},"thoughtSignature":"{signature}"}}"#)
}

fn id(data: &[u8], piece: &PartMembers) -> String {
    json::string_or_empty(data, piece.part.id.map(Span::outer)).into_owned()
}

impl StreamedCall {
    /// Starts a call whose arguments follow, of at most `limit` bytes in all.
    pub(super) fn new(
        data: &[u8],
        piece: &PartMembers,
        tool: &'static str,
        after: usize,
        limit: usize,
    ) -> Self {
        let mut streamed = Self {
            call: HiddenCall {
                id: id(data, piece),
                tool,
                after,
                ..HiddenCall::default()
            },
            limit,
            ..Self::default()
        };
        streamed.take(data, piece);
        streamed
    }

    /// Reads a part of the run.
    pub(super) fn take(&mut self, data: &[u8], piece: &PartMembers) {
        if let Some(signature) = piece.part.signature {
            self.signature = Some(signature.text(data));
        }
        let pieces = piece.call.and_then(|c| part::get(data, c, "partialArgs"));
        for piece in pieces.map_or(Vec::new(), |p| part::list(data, p)) {
            self.argument(data, piece);
        }
    }

    fn argument(&mut self, data: &[u8], piece: Span) {
        let string = |name| part::get(data, piece, name).and_then(|value| json::string(data, value));
        let Some(path) = string("jsonPath") else {
            return;
        };
        let value = |name| part::get(data, piece, name).map(|value| Argument::Value(value.text(data)));
        let text = string("stringValue").map(|text| Argument::Text(text.into_owned()));
        let number = || value("numberValue");
        let added = text.or_else(number).or_else(|| value("boolValue"));
        // A null is as good as an absent argument.
        let Some(added) = added else {
            return;
        };
        let name = member(&path);
        let arguments = self.arguments.iter();
        let length: usize = arguments.map(|(name, known)| name.len() + known.len()).sum();
        if length + name.len() + added.len() > self.limit {
            self.call.oversize = true;
            return;
        }
        match self.arguments.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => known.add(added),
            None => self.arguments.push((name.to_owned(), added)),
        }
    }

    /// Builds the call from the collected arguments.
    pub(super) fn finish(mut self, complete: bool) -> HiddenCall {
        let members = self.arguments.iter();
        let members = members.map(|(name, argument)| format!("{}:{}", json::quote(name), argument.json()));
        if !self.call.oversize {
            self.call.arguments = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        }
        self.call.complete = complete;
        if let Some(signature) = &self.signature {
            // A signature is valid only for the arguments that it was issued with.
            let signature = if self.call.oversize {
                LOST_SIGNATURE
            } else {
                signature
            };
            self.call.raw = Some(signed(&self.call, signature));
        }
        self.call
    }
}

/// Member that a path such as `$.prompt` or `$['prompt']` refers to.
fn member(path: &str) -> &str {
    path.trim_start_matches(['$', '.', '[', '\'', '"'])
        .trim_end_matches([']', '\'', '"'])
}
