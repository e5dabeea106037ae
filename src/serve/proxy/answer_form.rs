//! Form of a response: a stream or one JSON document, by the request and by the head of upstream's response.
//! Free of I/O.

use http::{HeaderMap, HeaderValue, Response, header};

use super::response_body::{AgentResponse, ResponseBody};
use super::{headers, route};
use baton_core::wire::{AnswerShape, Framing};

/// Response form that a request expects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerForm {
    /// Framing requested by the path, if it differs from the wire's default.
    by_path: Option<Framing>,
    usual: Framing,
    wants_stream: bool,
}

impl AnswerForm {
    /// Determines the form for a request to `target`. `usual` is the default stream framing of the wire.
    pub(crate) fn from_target(target: &str, usual: Framing, wants_stream: bool) -> Self {
        Self {
            by_path: route::streams_array(target).then_some(Framing::JsonArray),
            usual,
            wants_stream,
        }
    }

    /// Framing of a streamed response.
    pub(crate) fn framing(self) -> Framing {
        self.by_path.unwrap_or(self.usual)
    }

    /// Shape and content type of a synthetic response.
    pub(crate) fn own_shape(self) -> (AnswerShape, &'static str) {
        match self.wants_stream {
            true => (AnswerShape::Stream(self.framing()), content_type(self.framing())),
            false => (AnswerShape::Whole, "application/json"),
        }
    }

    /// Whether a response with these headers is a stream. `None` if it is neither a stream nor a JSON document.
    pub(crate) fn streams(self, headers: &HeaderMap) -> Option<bool> {
        let streams = self.is_stream(headers);
        (streams || self.is_whole(headers)).then_some(streams)
    }

    /// Whether a response with these headers is a stream.
    ///
    /// The content type decides, or the array that the path requests. Without a content type the request
    /// decides, because ChatGPT's server for Codex sends none.
    fn is_stream(self, headers: &HeaderMap) -> bool {
        headers::is_stream(headers)
            || self.by_path == Some(Framing::JsonArray) && is_json(headers)
            || is_untyped(headers) && self.wants_stream
    }

    /// Whether a response with these headers is one JSON document. Without a content type the request decides.
    fn is_whole(self, headers: &HeaderMap) -> bool {
        is_json(headers) || is_untyped(headers) && !self.wants_stream
    }
}

/// Content type of a synthetic stream.
fn content_type(framing: Framing) -> &'static str {
    match framing {
        Framing::JsonArray => "application/json",
        Framing::Sse => "text/event-stream; charset=utf-8",
        Framing::Lines => "application/x-ndjson",
    }
}

/// Creates a synthetic response with a body of this content type.
pub(crate) fn own_response(kind: &'static str, body: ResponseBody) -> AgentResponse {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // The response belongs to one exchange, so no cache may reuse it.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

pub(super) fn is_json(headers: &HeaderMap) -> bool {
    headers::media_type(headers).is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
}

fn is_untyped(headers: &HeaderMap) -> bool {
    !headers.contains_key(header::CONTENT_TYPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATE: &str = "/v1beta/models/gemini-3-pro:generateContent";
    const STREAM: &str = "/v1beta/models/gemini-3-pro:streamGenerateContent";
    const STREAM_SSE: &str = "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse";

    fn typed(kind: Option<&'static str>) -> HeaderMap {
        let value = kind.map(HeaderValue::from_static);
        value
            .into_iter()
            .map(|value| (header::CONTENT_TYPE, value))
            .collect()
    }

    /// Path, whether the request wants a stream, content type; then whether the response is read as a stream
    /// or as one document.
    type Row = (&'static str, bool, Option<&'static str>, bool, bool);

    #[test]
    fn an_answer_is_read_by_its_content_type_or_without_one_as_it_was_requested() {
        let sse = Some("text/event-stream; charset=utf-8");
        let json = Some("Application/JSON; charset=utf-8");
        let rows: &[Row] = &[
            ("/v1/messages", true, sse, true, false),
            ("/v1/messages", false, json, false, true),
            // An error in one piece, although a stream was requested.
            ("/v1/messages", true, json, false, true),
            ("/v1/responses", true, None, true, false),
            ("/v1/responses", false, None, false, true),
            ("/v1/messages", true, Some("text/html"), false, false),
            ("/v1/messages", false, Some("application/jsonlines"), false, false),
            (STREAM_SSE, true, sse, true, false),
            (GENERATE, false, json, false, true),
        ];
        for (target, wants_stream, kind, stream, whole) in rows {
            let form = AnswerForm::from_target(target, Framing::Sse, *wants_stream);
            let headers = typed(*kind);
            let read = (form.is_stream(&headers), form.is_whole(&headers));
            assert_eq!(read, (*stream, *whole), "{target} {kind:?}");
        }
    }

    #[test]
    fn a_path_that_requests_an_array_streams_json() {
        let array = AnswerForm::from_target(STREAM, Framing::Sse, true);
        assert_eq!(array.framing(), Framing::JsonArray);
        assert!(array.is_stream(&typed(Some("application/json"))));
        assert!(array.is_stream(&typed(Some("text/event-stream"))));
        let sse = AnswerForm::from_target(STREAM_SSE, Framing::Sse, true);
        assert_eq!(sse.framing(), Framing::Sse);
        assert!(!sse.is_stream(&typed(Some("application/json"))));
    }

    #[test]
    fn streams_of_our_own_name_what_they_are() {
        let kinds = [Framing::Sse, Framing::JsonArray, Framing::Lines].map(content_type);
        assert_eq!(
            kinds,
            [
                "text/event-stream; charset=utf-8",
                "application/json",
                "application/x-ndjson"
            ]
        );
    }
}
