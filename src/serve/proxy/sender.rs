//! Agent of a request according to its headers: its name, and whether a subscription pays for its tokens.

use http::HeaderMap;
use http::header::{AUTHORIZATION, USER_AGENT};

/// Maximum length of a recorded agent name, in bytes.
const MAX_AGENT: usize = 48;

/// Prefix of access tokens of Claude subscriptions. API keys begin with `sk-ant-api`.
const CLAUDE_SUBSCRIPTION: &str = "Bearer sk-ant-oat";

/// Header that Codex sends with a ChatGPT plan.
const CHATGPT_ACCOUNT: &str = "chatgpt-account-id";

/// Path prefix of Code Assist, which Gemini CLI calls with a Google account.
const CODE_ASSIST: &str = "/v1internal";

/// Returns the first word of `user-agent`: name and version. `None` if it is too long or not printable ASCII.
pub(super) fn agent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(USER_AGENT)?.to_str().ok()?;
    let word = text.split_whitespace().next()?;
    let is_plain = word.bytes().all(|byte| byte.is_ascii_graphic());
    (is_plain && word.len() <= MAX_AGENT).then(|| word.to_owned())
}

/// Whether the credentials belong to a subscription instead of an API account.
pub(super) fn is_on_subscription(headers: &HeaderMap, path: &str) -> bool {
    let claude = headers
        .get(AUTHORIZATION)
        .is_some_and(|value| value.as_bytes().starts_with(CLAUDE_SUBSCRIPTION.as_bytes()));
    claude || headers.contains_key(CHATGPT_ACCOUNT) || path.contains(CODE_ASSIST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn an_agent_is_named_by_its_first_word() {
        let of = |text: &str| agent(&headers(&[("user-agent", text)]));
        assert_eq!(
            of("claude-cli/2.1.330 (external, cli)").as_deref(),
            Some("claude-cli/2.1.330")
        );
        assert_eq!(of(&"x".repeat(MAX_AGENT + 1)), None);
        assert_eq!(agent(&HeaderMap::new()), None);
    }

    #[test]
    fn a_subscription_is_known_by_its_credentials() {
        let of = |pairs: &[(&'static str, &str)], path| is_on_subscription(&headers(pairs), path);
        assert!(of(&[("authorization", "Bearer sk-ant-oat01-x")], "/v1/messages"));
        assert!(of(&[("chatgpt-account-id", "a")], "/backend-api/codex/responses"));
        assert!(of(&[], "/v1internal:streamGenerateContent"));
        assert!(!of(&[("authorization", "Bearer sk-ant-api03-x")], "/v1/messages"));
        assert!(!of(&[("x-api-key", "sk-ant-api03-x")], "/v1/messages"));
    }
}
