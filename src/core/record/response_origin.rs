//! Upstream's origin of a response id that an agent knows (Responses).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::HandoffId;
use super::pair::HiddenResult;

/// Marks a response without an upstream response: it ended at a handoff.
const HANDOFF: &str = "handoff:";

/// Origin of a request that names a previous response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseOrigin {
    /// The response that upstream knows by this id; empty: there is none, since baton itself answered the
    /// conversation's first request.
    Response(String),
    /// No response: it ended at this handoff.
    Handoff(HandoffId),
    /// A response in which something is open.
    Open(OpenResponse),
}

/// A response whose transcript upstream holds, and in which something waits for the next request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenResponse {
    /// Upstream's id of it.
    pub response: String,
    /// Calls of our tools in it that have no result there. The API refuses a request that continues it without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owed: Vec<PendingResult>,
    /// Carry-over prompt and reason of a handoff that waits for the end of the turn: the call is in a transcript
    /// that later requests do not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<(String, Option<String>)>,
}

/// The result of a hidden call that upstream has not been sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingResult {
    /// Upstream's id of the call.
    pub call_id: String,
    /// The result that the model reads.
    pub answer: HiddenResult,
}

impl ResponseOrigin {
    /// As stores keep it.
    pub fn written(&self) -> String {
        match self {
            Self::Response(id) => id.clone(),
            Self::Handoff(id) => format!("{HANDOFF}{id}"),
            // Strings and lists of strings always serialise.
            Self::Open(open) => serde_json::to_string(open).unwrap_or_else(|_| open.response.clone()),
        }
    }

    /// The same, read back.
    pub fn read(written: &str) -> Self {
        if let Some(id) = written
            .strip_prefix(HANDOFF)
            .and_then(|id| Uuid::try_parse(id).ok())
        {
            return Self::Handoff(id);
        }
        let open = written
            .starts_with('{')
            .then(|| serde_json::from_str(written).ok());
        match open.flatten() {
            Some(open) => Self::Open(open),
            None => Self::Response(written.to_owned()),
        }
    }

    /// Upstream's id of the response; `None` after a handoff.
    pub fn response(&self) -> Option<&str> {
        match self {
            Self::Response(id) => Some(id),
            Self::Open(open) => Some(&open.response),
            Self::Handoff(_) => None,
        }
    }

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
