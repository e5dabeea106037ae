//! Windows of models that a base URL declares, for agents that can be given no header: `/w/500000/v1/messages`,
//! `/w/gpt-6=500000,my-model=32768/u/NAME/…`.

use http::HeaderValue;
use http::request::Parts;
use http::uri::PathAndQuery;

use super::headers::DECLARED_WINDOWS;
use baton_core::nudge::declares_windows;

/// How such a path begins.
const PREFIX: &str = "/w/";

/// Moves the declaration from the path into its header. A header of the request's own counts, and a path without a
/// valid declaration stays as it is.
pub(super) fn take_from_path(parts: &mut Parts) {
    let whole = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
    let Some(rest) = whole.strip_prefix(PREFIX) else {
        return;
    };
    let (text, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if !declares_windows(text) {
        return;
    }
    let root = if rest.starts_with('/') { "" } else { "/" };
    let (Ok(value), Ok(path)) = (HeaderValue::from_str(text), format!("{root}{rest}").parse()) else {
        return;
    };
    let mut uri = std::mem::take(&mut parts.uri).into_parts();
    uri.path_and_query = Some(path);
    parts.uri = uri.try_into().unwrap_or_default();
    parts.headers.entry(DECLARED_WINDOWS).or_insert(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn taken(uri: &str, header: Option<&str>) -> (String, Option<String>) {
        let mut request = Request::builder().uri(uri);
        if let Some(header) = header {
            request = request.header(DECLARED_WINDOWS, header);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        take_from_path(&mut parts);
        let value = parts.headers.get(DECLARED_WINDOWS);
        (
            parts.uri.to_string(),
            value.map(|value| value.to_str().unwrap().to_owned()),
        )
    }

    #[test]
    fn a_declaration_goes_from_the_path_into_the_header() {
        let some = |text: &str| Some(text.to_owned());
        for (uri, path, value) in [
            (
                "/w/500000/v1/messages?beta=true",
                "/v1/messages?beta=true",
                some("500000"),
            ),
            (
                "/w/a=5000,b:1=6000/u/mine/v1/x",
                "/u/mine/v1/x",
                some("a=5000,b:1=6000"),
            ),
            ("/w/500000", "/", some("500000")),
            ("/w/500000?x=%2Fw", "/?x=%2Fw", some("500000")),
            ("http://h:1/w/500000/v1/", "http://h:1/v1/", some("500000")),
            ("/w/500000//v1", "//v1", some("500000")),
            ("/w/12/v1/messages", "/w/12/v1/messages", None),
            ("/w//v1", "/w//v1", None),
            ("/w/v1/messages", "/w/v1/messages", None),
            ("/v1/messages", "/v1/messages", None),
            ("*", "*", None),
        ] {
            assert_eq!(taken(uri, None), (path.to_owned(), value), "{uri}");
        }
        assert_eq!(
            taken("/w/500000/v1", Some("400000")),
            ("/v1".to_owned(), some("400000"))
        );
    }
}
