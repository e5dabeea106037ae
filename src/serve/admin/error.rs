//! Errors of the admin listener: one table from error to status, code and message.
//!
//! Only [`ApiError::response`] turns a row into a response.

use std::borrow::Cow;
use std::fmt::Display;

use http::header::{ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::state::jobs::drafts::{CancelRefusal, DecisionFailure};
use crate::state::journal::{FilterError, JournalError};
use crate::state::store::StoreError;
use baton_core::handoffs::draft::DraftEnd;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use std::convert::Infallible;

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiError {
    status: StatusCode,
    /// Code of the error. The codes are API.
    code: &'static str,
    pub(super) message: Cow<'static, str>,
    /// Extra JSON field that names the invalid part of the request. Boxed, because few errors have one.
    more: Option<Box<(&'static str, Value)>>,
}

/// Response to a request, or the error to respond with.
pub(super) type ApiResult<T = FullResponse> = Result<T, ApiError>;

macro_rules! errors {
    ($($id:ident = $status:ident, $code:literal, $message:literal;)*) => {
        impl ApiError {
            $(pub(super) const $id: Self = Self {
                status: StatusCode::$status, code: $code, message: Cow::Borrowed($message), more: None,
            };)*
        }
    };
}

errors! {
    AMBIGUOUS_HOST = BAD_REQUEST, "bad_host", "send one Host header, as HTTP/1.1 requires";
    NO_SUCH_LEG = BAD_REQUEST, "bad_request", "there is no such leg";
    SIDE = BAD_REQUEST, "bad_request", "side must be received or sent";
    NO_POSITION = BAD_REQUEST, "bad_request", "i is missing";
    NO_QUERY = BAD_REQUEST, "bad_request", "q is missing";
    TOKEN = UNAUTHORIZED, "token", "present admin.token as `Authorization: Bearer …`";
    TOKEN_SCOPE = FORBIDDEN, "token_scope", "this token does not permit the request; present admin.token";
    FOREIGN_ORIGIN = FORBIDDEN, "origin", "pages of other origins are not allowed";
    FOREIGN_HOST = FORBIDDEN, "host", "use localhost or the bound address, or set admin.token";
    NO_PATH = NOT_FOUND, "not_found", "there is nothing at this path";
    NO_CONVERSATION = NOT_FOUND, "not_found", "there is no such conversation";
    NOT_IN_JOURNAL = NOT_FOUND, "not_found", "there is no such conversation in the journal";
    NO_EXCHANGE = NOT_FOUND, "not_found", "there is no such exchange in the journal";
    NO_MESSAGE = NOT_FOUND, "not_found", "there is no such message in the journal";
    NO_BODY = NOT_FOUND, "not_found", "the journal has no such body";
    NO_HANDOFF = NOT_FOUND, "not_found", "there is no such handoff";
    NO_DRAFT = NOT_FOUND, "not_found", "there is no such draft";
    READ_ONLY = METHOD_NOT_ALLOWED, "method_not_allowed", "this path is read-only";
    ENDED = CONFLICT, "ended", "the draft has ended";
    NOT_IN_REVIEW = CONFLICT, "not_in_review", "the draft is not in review";
    TOO_LARGE = PAYLOAD_TOO_LARGE, "too_large", "the body is too large or incomplete";
    METRICS = INTERNAL_SERVER_ERROR, "metrics", "the metrics cannot be written";
    NO_PROXY = SERVICE_UNAVAILABLE, "no_proxy", "no proxy is running, so this page is read-only";
    JOURNAL_OFF = SERVICE_UNAVAILABLE, "journal_off", "the journal is off (journal.enabled)";
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: String) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            more: None,
        }
    }

    /// Creates the error of an invalid request.
    pub(super) fn bad(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// Adds a field that names the invalid part of the request.
    fn about(self, name: &'static str, value: impl Into<Value>) -> Self {
        let more = Some(Box::new((name, value.into())));
        Self { more, ..self }
    }

    /// Creates the error of an invalid field in the request's body.
    pub(super) fn field(field: &str, why: impl Display) -> Self {
        let message = format!("{field}: {why}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_field", message).about("field", field)
    }

    /// Creates the error of a conversation with too little text for a handoff.
    pub(super) fn nothing_yet() -> Self {
        let why = DraftEnd::NothingYet;
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, why.outcome(), why.to_string())
    }

    /// Creates the error of a conversation that has another open draft.
    pub(super) fn already_drafting(id: impl Display) -> Self {
        let message = format!("a handoff of this conversation is already being written: {id}");
        Self::new(StatusCode::CONFLICT, "already_drafting", message)
    }

    /// Creates the error of a journal or a store that cannot be read, and logs the cause.
    pub(super) fn unavailable(why: impl Display) -> Self {
        let message = why.to_string();
        tracing::warn!(target: "baton", message, "failed to read for the inspector; responding with an error");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// Builds the response.
    pub(super) fn response(self) -> FullResponse {
        let mut error = Map::from_iter([("code".to_owned(), self.code.into())]);
        error.extend(self.more.map(|more| (more.0.to_owned(), more.1)));
        error.insert("message".to_owned(), self.message.into());
        let mut response = respond(self.status, JSON, format!("{}\n", json!({ "error": error })));
        let headers = response.headers_mut();
        // Required by RFC 9110, section 15.5.6.
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            // One header line each: Chromium ignores a list and would not prompt for the password.
            for challenge in ["Bearer", "Basic realm=\"baton\""] {
                headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            }
        }
        response
    }
}

impl From<JournalError> for ApiError {
    fn from(error: JournalError) -> Self {
        Self::unavailable(error)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::unavailable(error)
    }
}

impl From<FilterError> for ApiError {
    fn from(FilterError { position, message }: FilterError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_filter", message).about("position", position)
    }
}

impl From<DecisionFailure> for ApiError {
    fn from(why: DecisionFailure) -> Self {
        match why {
            DecisionFailure::Store(error) => error.into(),
            DecisionFailure::Refused(CancelRefusal::Unknown) => Self::NO_DRAFT,
            DecisionFailure::Refused(CancelRefusal::Ended) => Self::NOT_IN_REVIEW,
        }
    }
}

/// A response with a complete body.
pub(super) type FullResponse = Response<Full<Bytes>>;

/// A response, complete or streamed.
pub(super) type AnyResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

pub(super) const JSON: &str = "application/json";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

pub(super) fn boxed(answer: FullResponse) -> AnyResponse {
    answer.map(BodyExt::boxed_unsync)
}

pub(super) fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> FullResponse {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
