//! Shapes of messages that baton inserts into a transcript, shared between wires.

use super::view::TurnContent;
use crate::text::json;
use crate::text::splice::Edit;

/// Placeholder for a turn that would otherwise be empty or end in thinking.
///
/// Without it, agents would send such a turn back, and the API would reject their request.
pub const EMPTY_TURN: &str = "(The session goes on.)";

/// Returns the member `id` followed by a comma, or nothing if there is no id.
pub(super) fn id_member(id: &str) -> String {
    match id {
        "" => String::new(),
        id => format!(r#""id":{},"#, json::quote(id)),
    }
}

/// Returns a block of text.
pub(super) fn block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, json::quote(text))
}

/// Returns a user message of `blocks` followed by `text`. Without blocks the content is a string.
pub(super) fn user_message(blocks: &[String], text: &str) -> String {
    let content = match blocks {
        [] => json::quote(text),
        blocks => format!("[{},{}]", blocks.join(","), block(text)),
    };
    format!(r#"{{"role":"user","content":{content}}}"#)
}

/// Appends the block to a list of blocks. Returns `None` without a list, or if the list is empty.
///
/// A message may get two blocks in separate passes. With an empty list neither pass could know whether its block
/// needs a comma.
pub(super) fn among_blocks(content: &TurnContent, block: &str) -> Option<Vec<Edit>> {
    let list = content.list.filter(|_| !content.parts.is_empty())?;
    Some(vec![Edit::insert(list.end - 1, format!(",{block}"))])
}

/// Turns a lone part into a list and appends the block. The part is wrapped between the two strings of
/// `around`.
pub(super) fn after_lone(content: &TurnContent, around: [&str; 2], block: &str) -> Option<Vec<Edit>> {
    let only = content.parts.first()?.span;
    let [open, close] = around;
    Some(vec![
        Edit::insert(only.start, format!("[{open}")),
        Edit::insert(only.end, format!("{close},{block}]")),
    ])
}

/// Appends `text` to a string content as a paragraph.
pub(super) fn in_string(content: &TurnContent, text: &str) -> Option<Vec<Edit>> {
    let inside = content.parts.first()?.text?;
    let quoted = json::quote(&format!("\n\n{text}"));
    Some(vec![Edit::insert(
        inside.end,
        quoted[1..quoted.len() - 1].to_owned(),
    )])
}
