//! What differs between two requests outside of their messages. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::exchange::EnvelopeChange;
use crate::json::{self, Span};
use crate::wire;

/// The members that were added, removed or changed, each in words.
pub(super) fn differences(received: &[u8], sent: &[u8]) -> Vec<EnvelopeChange> {
    let members = |text: &[u8]| {
        let whole = json::whole(text).unwrap_or_default();
        let all = json::members(text, whole).into_iter();
        all.map(|(key, value)| (String::from_utf8_lossy(key.of(text)).into_owned(), value))
            .collect::<Vec<_>>()
    };
    let (before, after) = (members(received), members(sent));
    let find = |all: &[(String, Span)], key: &str| all.iter().find(|(k, _)| k == key).map(|(_, v)| *v);
    let mut out = Vec::new();
    for (key, value) in &after {
        let what = match find(&before, key) {
            None => "added".to_owned(),
            Some(old) if old.of(received) == value.of(sent) => continue,
            Some(old) => told(received, old, sent, *value),
        };
        out.push(EnvelopeChange {
            key: key.clone(),
            what,
        });
    }
    let gone = before.iter().filter(|(key, _)| find(&after, key).is_none());
    out.extend(gone.map(|(key, _)| EnvelopeChange {
        key: key.clone(),
        what: "removed".to_owned(),
    }));
    out
}

fn told(received: &[u8], old: Span, sent: &[u8], new: Span) -> String {
    let (before, after) = (
        json::elements(received, old).len(),
        json::elements(sent, new).len(),
    );
    if after == before + 1 && memchr::memmem::find(new.of(sent), wire::TOOL_NAME.as_bytes()).is_some() {
        return format!("{} added ({before} → {after})", wire::TOOL_NAME);
    }
    format!("changed ({} → {} bytes)", old.len(), new.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_tells_what_differs() {
        let before = br#"{"model":"m","tools":[{"name":"a"}],"old":1}"#;
        let after = br#"{"model":"m","tools":[{"name":"a"},{"name":"session_handoff"}],"stream_options":{}}"#;
        let told: Vec<_> = differences(before, after)
            .into_iter()
            .map(|c| format!("{} {}", c.key, c.what))
            .collect();
        assert_eq!(
            told,
            [
                "tools session_handoff added (1 → 2)",
                "stream_options added",
                "old removed"
            ]
        );
    }
}
