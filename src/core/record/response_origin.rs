//! Upstream's origin of a response id that the agent knows (Responses).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::HandoffId;
use super::pair::HiddenResult;

/// Prefix of an origin without an upstream response, because the response ended at a handoff.
const HANDOFF: &str = "handoff:";

/// Origin of a request that names a previous response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseOrigin {
    /// Upstream's response with this id. An empty id means that baton itself answered the first request of
    /// the conversation.
    Response(String),
    /// No response, because it ended at this handoff.
    Handoff(HandoffId),
    /// A response with unfinished calls.
    Open(OpenResponse),
}

/// A response whose transcript upstream stores, with something pending for the next request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenResponse {
    /// Response id assigned by upstream.
    pub response: String,
    /// Calls of baton's tools without a result in that response. The API rejects a request that continues the
    /// response without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owed: Vec<PendingResult>,
    /// Carry-over prompt and reason of a handoff that waits for the end of the turn. Later requests do not
    /// contain the transcript with its call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<(String, Option<String>)>,
}

/// Result of a hidden call that upstream has not received yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingResult {
    /// Call id assigned by upstream.
    pub call_id: String,
    /// Result that the model reads.
    pub answer: HiddenResult,
}

impl ResponseOrigin {
    /// Serializes the origin for the store.
    pub fn written(&self) -> String {
        match self {
            Self::Response(id) => id.clone(),
            Self::Handoff(id) => format!("{HANDOFF}{id}"),
            // Strings and lists of strings always serialize.
            Self::Open(open) => serde_json::to_string(open).unwrap_or_else(|_| open.response.clone()),
        }
    }

    /// Parses the stored form.
    pub fn read(written: &str) -> Self {
        let id = written.strip_prefix(HANDOFF);
        if let Some(id) = id.and_then(|id| Uuid::try_parse(id).ok()) {
            return Self::Handoff(id);
        }
        // Upstream's ids never begin with a brace.
        let is_object = written.starts_with('{');
        match is_object.then(|| serde_json::from_str(written).ok()).flatten() {
            Some(open) => Self::Open(open),
            None => Self::Response(written.to_owned()),
        }
    }

    /// Upstream's response id, or `None` after a handoff.
    pub fn response(&self) -> Option<&str> {
        match self {
            Self::Response(id) => Some(id),
            Self::Open(open) => Some(&open.response),
            Self::Handoff(_) => None,
        }
    }

    /// The response with its pending results and handoff; `None` if nothing is pending.
    pub fn open(&self) -> Option<&OpenResponse> {
        match self {
            Self::Open(open) => Some(open),
            Self::Response(_) | Self::Handoff(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let open = OpenResponse {
            response: "resp_2".into(),
            owed: vec![PendingResult {
                call_id: "call_1".into(),
                answer: HiddenResult::CUT_OFF,
            }],
            pending: Some(("p \"quoted\"\n".into(), None)),
        };
        let all = [
            ResponseOrigin::Response("resp_1".into()),
            ResponseOrigin::Response(String::new()),
            ResponseOrigin::Handoff(Uuid::from_u128(7)),
            ResponseOrigin::Open(open),
            ResponseOrigin::Open(OpenResponse {
                response: "resp_3".into(),
                ..OpenResponse::default()
            }),
        ];
        for origin in all {
            assert_eq!(ResponseOrigin::read(&origin.written()), origin);
        }
        assert_eq!(
            ResponseOrigin::read("{odd"),
            ResponseOrigin::Response("{odd".into())
        );
    }
}
