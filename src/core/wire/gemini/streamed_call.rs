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
    prompt: Option<String>,
    reason: Option<String>,
}

/// Whether more parts of the same call follow.
pub(super) fn goes_on(data: &[u8], piece: &PartMembers) -> bool {
    piece
        .call
        .and_then(|c| part::get(data, c, "willContinue"))
        .is_some_and(|w| json::is_true(w.of(data)))
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
    /// Starts a call whose arguments follow, each of at most `limit` bytes.
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
        let pieces = piece
            .call
            .and_then(|c| part::get(data, c, "partialArgs"))
            .map_or(Vec::new(), |p| part::list(data, p));
        for piece in pieces {
            self.argument(data, piece);
        }
    }

    fn argument(&mut self, data: &[u8], piece: Span) {
        let path = part::get(data, piece, "jsonPath").and_then(|p| json::string(data, p));
        let to = match path.as_deref().map(member) {
            Some("prompt") => &mut self.prompt,
            Some("reason") => &mut self.reason,
            _ => return,
        };
        let Some(text) = part::get(data, piece, "stringValue").and_then(|v| json::string(data, v)) else {
            return;
        };
        let to = to.get_or_insert_default();
        if to.len() + text.len() > self.limit {
            self.call.oversize = true;
        } else {
            to.push_str(&text);
        }
    }

    /// Builds the call from the collected arguments.
    pub(super) fn finish(mut self, complete: bool) -> HiddenCall {
        let member = |name: &str, text: &Option<String>| {
            text.as_ref().map(|t| format!(r#""{name}":{}"#, json::quote(t)))
        };
        let members: Vec<_> = [member("prompt", &self.prompt), member("reason", &self.reason)]
            .into_iter()
            .flatten()
            .collect();
        if !self.call.oversize {
            self.call.arguments = format!("{{{}}}", members.join(","));
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
