//! The message of a complete reply, joined from several legs.

use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::leg_state::LegState;
use crate::wire::view;

/// Content of all legs in order, with baton's text between them.
#[derive(Default)]
pub(super) struct JoinedMessage(Vec<ContentPiece>);

/// A piece of the agent's content.
enum ContentPiece {
    /// Inside of a string literal.
    Text(String),
    /// Block of a list.
    Block(String),
}

impl JoinedMessage {
    /// Appends text from baton.
    pub(super) fn say(&mut self, text: &str) {
        let quoted = json::quote(text);
        self.0
            .push(ContentPiece::Text(quoted[1..quoted.len() - 1].to_owned()));
    }

    /// Appends the content of a leg after applying these edits.
    pub(super) fn take(&mut self, data: &[u8], content: Span, edits: &[Edit]) {
        let broken = view::edited_part(data, content, edits);
        let text = broken.as_bytes();
        let whole = json::root(text);
        match text.first() {
            Some(b'"') => self.0.push(ContentPiece::Text(whole.inner().text(text))),
            Some(b'[') => {
                let blocks = json::elements(text, whole).into_iter();
                self.0
                    .extend(blocks.map(|block| ContentPiece::Block(block.text(text))));
            }
            _ => {}
        }
    }

    /// Joins the pieces: a string, or a list if any leg has one. `None` if there is no content.
    fn content(&self) -> Option<String> {
        let text = |p: &ContentPiece| match p {
            ContentPiece::Text(text) => Some(text.clone()),
            ContentPiece::Block(_) => None,
        };
        let pieces = &self.0;
        if pieces.is_empty() {
            return None;
        }
        if let Some(all) = pieces.iter().map(text).collect::<Option<Vec<_>>>() {
            return Some(format!("\"{}\"", all.concat()));
        }
        let blocks: Vec<String> = pieces
            .iter()
            .map(|p| match p {
                ContentPiece::Text(text) => format!(r#"{{"type":"text","text":"{text}"}}"#),
                ContentPiece::Block(raw) => raw.clone(),
            })
            .collect();
        Some(format!("[{}]", blocks.join(",")))
    }

    /// Returns the edits that set the joined content and remove baton's calls.
    pub(super) fn edits(&self, state: &LegState, text: &[u8], message: Span) -> Vec<Edit> {
        let is_ours = |call: &Span| {
            let name =
                json::at_path(text, *call, &["function", "name"]).and_then(|name| json::string(text, name));
            name.is_some_and(|name| state.ours(&name).is_some())
        };
        let members = json::members(text, message);
        let find = |name: &str| members.iter().find(|(k, _)| k.of(text) == name.as_bytes());
        let listed = find("tool_calls").copied();
        let elements = listed.map_or(Vec::new(), |(_, list)| json::elements(text, list));
        let (ours, theirs): (Vec<Span>, Vec<Span>) = elements.into_iter().partition(is_ours);
        let hidden = listed.filter(|_| !ours.is_empty());
        let bare = hidden.filter(|_| theirs.is_empty());
        // A message without calls needs content, even if empty, or it cannot be sent back.
        let content = self.content().or(bare.map(|_| r#""""#.to_owned()));
        let mut edits = Vec::new();
        match (find("content"), content, bare) {
            (Some((_, old)), Some(now), _) if old.of(text) == now.as_bytes() => {}
            (Some((_, old)), Some(now), _) => edits.push(Edit::replace(*old, now)),
            // The API would reject an empty list of calls when the agent sends it back, so the content
            // replaces it.
            (None, Some(now), Some((key, list))) => {
                let place = Span::new(key.start - 1, list.end);
                return vec![Edit::replace(place, format!(r#""content":{now}"#))];
            }
            (None, Some(now), None) => edits.push(view::first_member(text, message, "content", &now)),
            (_, None, _) => {}
        }
        if bare.is_some() {
            edits.extend(view::without_member(text, message, "tool_calls"));
        } else if let Some((_, list)) = hidden {
            let kept: Vec<String> = theirs.iter().map(|call| call.text(text)).collect();
            edits.push(Edit::replace(list, format!("[{}]", kept.join(","))));
        }
        edits
    }
}
