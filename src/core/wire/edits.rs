//! Edits of JSON: insert, replace and remove members and parts.

use std::borrow::Cow;

use bytes::Bytes;

use super::turn::TurnPart;
use crate::text::splice::{self, Edit};
use crate::text::{Span, json, lossy};

/// Returns the edit that restores the hidden call `raw` at `offset` parts from `parts[part]`. A negative
/// offset means before it.
pub fn beside(parts: &[TurnPart], part: usize, offset: i32, raw: &str) -> Edit {
    let distance = usize::try_from(offset.unsigned_abs()).unwrap_or_default();
    if offset < 0 {
        // Clamped, because an agent may have dropped parts since.
        let at = parts[part.saturating_sub(distance - 1)].span.start;
        Edit::insert(at, format!("{raw},"))
    } else {
        let at = parts[(part + distance).min(parts.len() - 1)].span.end;
        Edit::insert(at, format!(",{raw}"))
    }
}

/// Returns the edits that remove the lost items of a list, with their commas. `None` means that no item is
/// kept.
pub fn kept(items: &[Span], lost: &[bool]) -> Option<Vec<Edit>> {
    let first = lost.iter().position(|l| !l)?;
    let mut edits = Vec::new();
    // Up to the start of the first item that stays, so that the comma between them goes with the lost ones.
    if first > 0 {
        edits.push(Edit::delete(Span::new(items[0].start, items[first].start)));
    }
    for i in first + 1..items.len() {
        if lost[i] {
            // From the end of the item before, which takes the comma along.
            edits.push(Edit::delete(Span::new(items[i - 1].end, items[i].end)));
        }
    }
    Some(edits)
}

/// Returns the edit that sets a member of `object`. A new member is appended.
pub(super) fn set_member(text: &[u8], object: Span, key: &str, value: String) -> Edit {
    let members = json::members(text, object);
    let now = members.iter().rfind(|(name, _)| name.of(text) == key.as_bytes());
    let comma = if members.is_empty() { "" } else { "," };
    match now {
        Some((_, now)) => Edit::replace(*now, value),
        None => Edit::insert(object.end - 1, format!(r#"{comma}"{key}":{value}"#)),
    }
}

/// Returns the edit that inserts a member as the first one of `object`.
pub(super) fn first_member(text: &[u8], object: Span, key: &str, value: &str) -> Edit {
    let is_empty = json::members(text, object).is_empty();
    let comma = if is_empty { "" } else { "," };
    Edit::insert(object.start + 1, format!(r#""{key}":{value}{comma}"#))
}

/// Returns the edit that removes the member `key` from `object`, or `None` if it is absent.
pub fn without_member(text: &[u8], object: Span, key: &str) -> Option<Edit> {
    take_out(text, object, key).into_iter().next()
}

/// Returns the edits that remove all members `key` from `object`.
fn take_out(text: &[u8], object: Span, key: &str) -> Vec<Edit> {
    let members = json::members(text, object);
    let edits = members_without(&members, |name| name.of(text) == key.as_bytes());
    // No other member is left, so the object becomes empty.
    edits.unwrap_or_else(|| vec![Edit::delete(object.inner())])
}

/// Returns the object `raw` without its members `key`, or `raw` itself if it has none.
pub fn without<'a>(raw: &'a str, key: &str) -> Cow<'a, str> {
    let text = raw.as_bytes();
    let whole = Span::new(0, text.len());
    match &take_out(text, whole, key)[..] {
        [] => Cow::Borrowed(raw),
        edits => Cow::Owned(edited_part(text, whole, edits)),
    }
}

/// Returns the edits that remove the matching members, or `None` if that would leave none.
pub(super) fn members_without(members: &[(Span, Span)], is_lost: impl Fn(Span) -> bool) -> Option<Vec<Edit>> {
    let lost: Vec<bool> = members.iter().map(|(key, _)| is_lost(*key)).collect();
    if !lost.contains(&true) {
        return Some(Vec::new());
    }
    // Key spans exclude the quotes, so an item begins one byte earlier.
    let items = members
        .iter()
        .map(|(key, value)| Span::new(key.start - 1, value.end));
    kept(&items.collect::<Vec<_>>(), &lost)
}

/// Returns the string of `span` after applying those of the edits that lie within it.
pub fn edited_part(data: &[u8], span: Span, edits: &[Edit]) -> String {
    let is_within = |e: &&Edit| span.start <= e.span.start && e.span.end <= span.end;
    let within = edits.iter().filter(is_within);
    let moved = within
        .map(|e| {
            let at = Span::new(e.span.start - span.start, e.span.end - span.start);
            Edit::replace(at, e.with.clone())
        })
        .collect();
    let part = splice::edited(&Bytes::copy_from_slice(span.of(data)), moved);
    lossy(&part).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_taken_out_wherever_it_stands() {
        assert_eq!(without(r#"{"a":1,"b":2}"#, "a"), r#"{"b":2}"#);
        assert_eq!(without(r#"{"a":1, "b":2}"#, "b"), r#"{"a":1}"#);
        assert_eq!(without(r#"{"b":{"c":1}}"#, "b"), "{}");
        assert_eq!(without(r#"{"b":1}"#, "c"), r#"{"b":1}"#);
        assert_eq!(
            without(r#"{"a":1, "b":2,"a":3 , "c":4,"a":5}"#, "a"),
            r#"{"b":2 , "c":4}"#
        );
        assert_eq!(without(r#"{ "a":1,"a":3 }"#, "a"), "{}");
    }

    #[test]
    fn a_member_that_is_repeated_goes_at_once() {
        let many = format!(r#"{{"b":2{}}}"#, r#","a":1"#.repeat(200_000));
        assert_eq!(without(&many, "a"), r#"{"b":2}"#);
    }
}
