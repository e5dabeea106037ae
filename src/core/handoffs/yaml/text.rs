//! Cuts strings to size.

/// Mark at the end of a string that was cut.
const MORE: &str = "...";

pub use crate::text::cut::cut;
pub(super) use crate::text::prose::joined as one_line;

/// At most this many bytes, with dots if the string was cut.
pub(super) fn shortened(text: &str, bytes: usize) -> String {
    match text.len() <= bytes {
        true => text.to_owned(),
        false => format!("{}{MORE}", cut(text, bytes.saturating_sub(MORE.len())).trim_end()),
    }
}

/// The first items of a list on one line, and the number of the others.
pub(super) fn listed(items: &[String], most: usize, bytes: usize) -> String {
    let first: Vec<_> = items
        .iter()
        .take(most)
        .map(|item| one_line(item))
        .filter(|item| !item.is_empty())
        .collect();
    let text = first.join(", ");
    match items.len().saturating_sub(most) {
        _ if text.is_empty() => text,
        0 => shortened(&text, bytes),
        more => {
            let end = format!(" +{more} more");
            shortened(&text, bytes.saturating_sub(end.len())) + &end
        }
    }
}
