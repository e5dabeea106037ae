//! Determines the conversation that a request belongs to.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use baton_core::record::WireId;
use baton_core::text::units::digest;

/// Headers that name an agent's session.
///
/// The first row with a header in the request is used, with all headers of that row. Subagents share their
/// parent's session id and differ only in the second header.
const HEADERS: &[&[&str]] = &[
    // Claude Code. Its subagents send the second header.
    &["x-claude-code-session-id", "x-claude-code-agent-id"],
    // Codex sends both on every request. OpenCode sends the first on the Responses wire.
    &["session-id", "thread-id"],
    // OpenCode.
    &["x-session-id"],
    // Goose.
    &["agent-session-id"],
    // pi, on the Responses wire.
    &["session_id"],
];

/// The key of a conversation in the store.
pub struct ConversationKey {
    pub key: String,
    /// Whether the agent named its session. An opening may be shared with another conversation.
    pub named: bool,
}

/// Returns the key of the conversation in the store.
///
/// The agent's session headers come first, then `body_session` (`prompt_cache_key`, a session in `metadata`),
/// then `opening`, which is called only in that case. Keys of different principals, wires or sources never
/// agree.
pub fn conversation_key(
    principal: &str,
    wire: WireId,
    header: impl Fn(&str) -> Option<String>,
    body_session: Option<&str>,
    opening: &dyn Fn() -> String,
) -> ConversationKey {
    let mut parts: Vec<String> = Vec::new();
    let mut add = |part: &str| parts.push(part.to_owned());
    add(principal);
    add(wire.name());
    let headers = named(header);
    let mut named = true;
    if !headers.is_empty() {
        for (name, value) in headers {
            add(name);
            add(&value);
        }
    } else if let Some(session) = body_session.map(str::trim).filter(|s| !s.is_empty()) {
        add("body");
        add(session);
    } else {
        named = false;
        add("opening");
        add(&opening());
    }
    let key = digest(&parts);
    ConversationKey { key, named }
}

/// Returns the agent's name for its session, which subagents share with their parent: from its headers, or
/// from the body.
pub fn session_name(header: impl Fn(&str) -> Option<String>, body_session: Option<&str>) -> Option<String> {
    // Whatever names a subagent comes after the session in each row.
    let named = named(header).into_iter().next().map(|(_, name)| name);
    named.or_else(|| {
        body_session
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
    })
}

/// Returns the key of a ledger's record: of a session, a day or a directory of this principal.
pub fn ledger_key(principal: &str, kind: &str, name: &str) -> String {
    digest(&["ledger", principal, kind, name])
}

/// Returns the headers of the first row that has any in the request.
fn named(header: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, String)> {
    let value = |name: &&'static str| {
        let text = header(name)?;
        let text = text.trim();
        (!text.is_empty()).then(|| (*name, text.to_owned()))
    };
    let rows = HEADERS.iter().map(|row| row.iter().filter_map(value).collect());
    let found = rows.into_iter().find(|row: &Vec<_>| !row.is_empty());
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(principal: &str, wire: WireId, headers: &[(&str, &str)], body: Option<&str>) -> String {
        let header = |name: &str| {
            let found = headers.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        conversation_key(principal, wire, header, body, &|| "opening".to_owned()).key
    }

    fn claude(headers: &[(&str, &str)]) -> String {
        key("local", WireId::Anthropic, headers, None)
    }

    #[test]
    fn is_stable() {
        let made = claude(&[("x-claude-code-session-id", "s")]);
        assert_eq!(made.len(), 32);
        assert!(made.bytes().all(|b| b.is_ascii_hexdigit()));
        assert_eq!(
            made,
            claude(&[("x-claude-code-session-id", " s "), ("x-session-id", "t")])
        );
        // Stores contain this value, so it must not change between versions.
        assert_eq!(made, "b8f29602cf234c26a4b21cc334ff7a9b");
    }

    #[test]
    fn subagents_stand_alone() {
        let parent = claude(&[("x-claude-code-session-id", "s")]);
        let one = claude(&[("x-claude-code-session-id", "s"), ("x-claude-code-agent-id", "1")]);
        let two = claude(&[("x-claude-code-session-id", "s"), ("x-claude-code-agent-id", "2")]);
        assert_ne!(parent, one);
        assert_ne!(one, two);
        let codex = |branch| {
            key(
                "local",
                WireId::OpenaiResponses,
                &[("session-id", "s"), ("thread-id", branch)],
                None,
            )
        };
        assert_ne!(codex("a"), codex("b"));
    }

    #[test]
    fn nobody_shares() {
        let headers = [("x-session-id", "s")];
        let mut keys = vec![
            key("local", WireId::Anthropic, &headers, None),
            key("other", WireId::Anthropic, &headers, None),
            key("local", WireId::OpenaiChat, &headers, None),
            key("local", WireId::Anthropic, &[("session_id", "s")], None),
            key("local", WireId::Anthropic, &[], Some("s")),
            key("local", WireId::Anthropic, &[("x-session-id", "")], None),
        ];
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 6);
    }

    #[test]
    fn order_of_sources() {
        let header = [("x-session-id", "s")];
        assert_eq!(
            key("local", WireId::OpenaiChat, &header, Some("b")),
            key("local", WireId::OpenaiChat, &header, None)
        );
        let body = conversation_key("p", WireId::Gemini, |_| None, Some("b"), &|| panic!("not asked"));
        let opened = conversation_key("p", WireId::Gemini, |_| None, None, &String::new);
        assert_eq!((body.named, opened.named), (true, false));
        assert_ne!(body.key, key("p", WireId::Gemini, &[], None));
        assert_eq!(
            key("p", WireId::Gemini, &[], Some(" ")),
            key("p", WireId::Gemini, &[], None)
        );
    }
}
