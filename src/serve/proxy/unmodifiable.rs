//! Requests that are relayed unchanged although they may carry a transcript.
//!
//! Upstream would refuse a changed byte, or their responses have a framing that baton does not read.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{RequestContext, headers};

/// Reason why a request is relayed unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmodifiable {
    /// AWS Signature Version 4: the signature covers a hash of the body.
    Signed,
    /// A header holds a digest of the body.
    Digest,
    /// A path of Bedrock, whose requests and streams have another shape.
    Bedrock,
}

/// Headers that bind the body's bytes, apart from AWS's.
const DIGESTS: [&str; 6] = [
    "content-digest",
    "repr-digest",
    "digest",
    "content-md5",
    "signature-input",
    "signature",
];

/// Returns headers without those that bind the body's bytes.
pub(super) fn unbound(headers: HeaderMap) -> HeaderMap {
    let is_aws = signed(&headers);
    let binds = |name: &HeaderName, value: &HeaderValue| {
        DIGESTS.contains(&name.as_str())
            || is_aws && (name.as_str().starts_with("x-amz-") || is_aws_signature(value))
    };
    if !headers.iter().any(|(name, value)| binds(name, value)) {
        return headers;
    }
    let kept = headers.iter().filter(|(name, value)| !binds(name, value));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Actions after `/model/ID` on Bedrock.
const BEDROCK: [&str; 5] = [
    "/invoke",
    "/invoke-with-response-stream",
    "/converse",
    "/converse-stream",
    "/count-tokens",
];

impl Unmodifiable {
    /// Returns the first reason that applies.
    pub(super) fn from_request(target: &str, headers: &HeaderMap) -> Option<Self> {
        let path = target.split('?').next().unwrap_or(target);
        if signed(headers) {
            Some(Self::Signed)
        } else if headers.keys().any(|name| DIGESTS.contains(&name.as_str())) {
            Some(Self::Digest)
        } else if path.contains("/model/") && BEDROCK.iter().any(|end| path.ends_with(end)) {
            Some(Self::Bedrock)
        } else {
            None
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Signed => {
                "the body is signed (AWS Signature Version 4), so that upstream would refuse it with the tool in it; \
                 use a Bedrock API key and an endpoint of the Messages API instead"
            }
            Self::Digest => "a header holds a digest of the body, which a change would invalidate",
            Self::Bedrock => {
                "Bedrock's own requests and streams are not read; use its endpoint of the Messages API instead"
            }
        }
    }

    /// Logs the reason once for each upstream, because agents send hundreds of such requests.
    pub(super) fn say(self, ctx: &RequestContext) {
        // Each reason has its own bit.
        if ctx.upstream.first_time(1 << self as u8) {
            tracing::warn!(
                exchange = ctx.id,
                upstream = ctx.upstream.name,
                why = self.why(),
                "requests to this upstream are relayed unchanged, without handoffs (logged once)"
            );
        }
    }
}

/// Whether AWS's signature covers the body. `UNSIGNED-PAYLOAD` excludes it.
fn signed(headers: &HeaderMap) -> bool {
    let hash = headers::value(headers, "x-amz-content-sha256");
    let aws = hash.is_some() || headers.get(header::AUTHORIZATION).is_some_and(is_aws_signature);
    aws && hash.is_none_or(|hash| !hash.as_bytes().starts_with(b"UNSIGNED-PAYLOAD"))
}

fn is_aws_signature(value: &HeaderValue) -> bool {
    value.as_bytes().starts_with(b"AWS4-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(target: &str, headers: &[(&'static str, &'static str)]) -> Option<Unmodifiable> {
        let all = headers
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)));
        Unmodifiable::from_request(target, &all.collect())
    }

    #[test]
    fn what_is_bound_to_its_bytes_is_recognised() {
        let aws = (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=A/20261122/us-east-1/bedrock/aws4_request",
        );
        let hash = ("x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb924");
        let messages = "/anthropic/v1/messages";
        assert_eq!(of(messages, &[]), None);
        assert_eq!(of(messages, &[("authorization", "Bearer AWS4-")]), None);
        assert_eq!(of(messages, &[aws]), Some(Unmodifiable::Signed));
        assert_eq!(of(messages, &[hash]), Some(Unmodifiable::Signed));
        assert_eq!(
            of(messages, &[aws, ("x-amz-content-sha256", "UNSIGNED-PAYLOAD")]),
            None
        );
        assert_eq!(of(messages, &[("content-md5", "x")]), Some(Unmodifiable::Digest));
        for path in [
            "/model/anthropic.claude-v1%3A0/invoke",
            "/model/a/converse-stream?x=1",
        ] {
            assert_eq!(of(path, &[]), Some(Unmodifiable::Bedrock));
        }
        assert_eq!(of("/v1/model/a/other", &[]), None);
        assert_eq!(of("/v1/invoke", &[]), None);
    }

    #[test]
    fn unbound_headers_bind_nothing() {
        let rows = [
            ("accept", "a"),
            ("content-md5", "x"),
            ("authorization", "AWS4-HMAC-SHA256 Credential=A"),
            ("x-amz-date", "20261122T000000Z"),
            ("signature-input", "x"),
            ("accept", "b"),
        ];
        let headers: HeaderMap = rows
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect();
        let kept = unbound(headers);
        assert!(kept.get_all("accept").iter().eq(["a", "b"]));
        assert_eq!(kept.len(), 2, "{kept:?}");
    }
}
