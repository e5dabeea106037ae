//! How a text of ours goes into a message: the shapes that wires share.

use super::view::TurnContent;
use crate::text::json;
use crate::text::splice::Edit;

/// Shown where a turn would otherwise hold nothing, or end in thinking: agents send such a message back, and
/// it is refused.
pub const EMPTY_TURN: &str = "(The session goes on.)";

/// The member with an id in front of others; nothing without one.
pub(super) fn id_member(id: &str) -> String {
    match id {
        "" => String::new(),
        id => format!(r#""id":{},"#, json::quote(id)),
    }
}

/// A block of plain text.
pub(super) fn block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, json::quote(text))
}

/// A message of the user's: blocks, and the text as the last one; a string where there are no blocks.
pub(super) fn user_message(blocks: &[String], text: &str) -> String {
    let content = match blocks {
        [] => json::quote(text),
        blocks => format!("[{},{}]", blocks.join(","), block(text)),
    };
    format!(r#"{{"role":"user","content":{content}}}"#)
}

/// The block as the last one of a list; `None` where there is no list, or an empty one: of two blocks of ours, which are placed
/// by two passes, neither would know whether it is the first.
pub(super) fn among_blocks(content: &TurnContent, block: &str) -> Option<Vec<Edit>> {
    let list = content.list.filter(|_| !content.parts.is_empty())?;
    Some(vec![Edit::insert(list.end - 1, format!(",{block}"))])
}

/// Makes a list of the part that stands in its place, between the two strings of `around`, and puts the block after it.
pub(super) fn after_lone(content: &TurnContent, around: [&str; 2], block: &str) -> Option<Vec<Edit>> {
    let only = content.parts.first()?.span;
    let [open, close] = around;
    Some(vec![
        Edit::insert(only.start, format!("[{open}")),
        Edit::insert(only.end, format!("{close},{block}]")),
    ])
}

/// The text at the end of a string, as a paragraph of its own.
pub(super) fn in_string(content: &TurnContent, text: &str) -> Option<Vec<Edit>> {
    let inside = content.parts.first()?.text?;
    let quoted = json::quote(&format!("\n\n{text}"));
    Some(vec![Edit::insert(
        inside.end,
        quoted[1..quoted.len() - 1].to_owned(),
    )])
}
