//! Destination of a request: a pure function of its path and headers.
//!
//! The agent's path and query are appended to the upstream's base URL byte for byte. The one exception is the
//! table of accounts.

mod vendors;

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue};

use self::vendors::Vendor;
pub(super) use self::vendors::without_credentials;
use crate::state::config::UpstreamConfig;
use baton_core::record::WireId;
use baton_core::wire::Operation;

/// Destination of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Name of the upstream, which the config may lack.
    pub upstream: String,
    /// Wire, if path, headers or config determine it.
    pub wire: Option<WireId>,
    /// Operation that the request asks of its wire. `None` if it has no transcript that baton must read.
    pub operation: Option<Operation>,
    /// Path and query to append to the upstream's base URL, as the agent wrote them or as the table of
    /// accounts maps them.
    pub target: String,
    /// Whether the path names the upstream, as `/u/NAME/…`.
    pub named: bool,
    /// Upstream of the vendor whose path this is, if it is not configured.
    pub missing: Option<&'static str>,
}

impl Route {
    /// Returns the wire whose format baton's error responses have. An unknown wire counts as OpenAI Chat.
    pub fn shape(&self) -> WireId {
        self.wire.unwrap_or(WireId::OpenaiChat)
    }

    /// Reason why the request must not go to the upstream that was found for it.
    ///
    /// `Some` if a path or a credential would reach another vendor. The reason names no part of the
    /// credential. Headers for which `is_local` holds are not sent upstream.
    pub(super) fn misdirection(
        &self,
        upstream: &UpstreamConfig,
        headers: &HeaderMap,
        is_local: impl Fn(&HeaderValue) -> bool,
    ) -> Option<String> {
        let vendor = vendors::vendor_of(upstream).filter(|_| !self.named)?;
        let (name, vendor_name) = (&self.upstream, vendor.name());
        if let Some(missing) = self.missing {
            return Some(format!(
                "the path is one of `{missing}`, which is not configured, and `{name}` is {vendor_name}"
            ));
        }
        // The configured key replaces the agent's credentials, so none of them can reach another vendor.
        if upstream.api_key.is_some() {
            return None;
        }
        let query = self.target.split_once('?').map(|(_, query)| query);
        let mut credentials = vendors::credentials(query, headers, is_local);
        let foreign = credentials.find(|given| given.vendor != vendor)?.vendor.name();
        Some(format!(
            "the credential is for {foreign}, and `{name}` is {vendor_name}"
        ))
    }
}

/// Pattern of a path in [`ENDPOINTS`].
enum Path {
    /// End of the path. Prefixes vary with the vendor: `/openai/v1/responses`, `/backend-api/codex/responses`.
    Ends(&'static str),
    /// Method of a model in the style of Google, `…/models/NAME:method`, with its publisher's directory.
    ///
    /// Includes custom models (`tunedModels`, `endpoints`).
    Method(&'static str, &'static str),
}

/// Directories that contain the model's name in a path in the style of Google.
const MODELS: [&str; 3] = ["/models/", "/tunedModels/", "/endpoints/"];

/// Wire and operation of a call with a transcript.
type Call = (WireId, Operation);

const MESSAGES: Call = (WireId::Anthropic, Operation::Generate);
const COUNT_MESSAGES: Call = (WireId::Anthropic, Operation::Count);
const COMPLETIONS: Call = (WireId::OpenaiChat, Operation::Generate);
const RESPONSES: Call = (WireId::OpenaiResponses, Operation::Generate);
const COUNT_RESPONSES: Call = (WireId::OpenaiResponses, Operation::Count);
const COMPACT: Call = (WireId::OpenaiResponses, Operation::Compact);
const CONTENT: Call = (WireId::Gemini, Operation::Generate);
const COUNT_CONTENT: Call = (WireId::Gemini, Operation::Count);
const CHAT: Call = (WireId::Ollama, Operation::Generate);

/// Calls with a transcript, by path. The first match counts.
const ENDPOINTS: &[(Path, Call)] = &[
    (Path::Ends("/v1/messages"), MESSAGES),
    (Path::Ends("/v1/messages/count_tokens"), COUNT_MESSAGES),
    (Path::Ends("/chat/completions"), COMPLETIONS),
    (Path::Ends("/responses"), RESPONSES),
    (Path::Ends("/responses/input_tokens"), COUNT_RESPONSES),
    (Path::Ends("/responses/compact"), COMPACT),
    (Path::Ends("/api/chat"), CHAT),
    // Precedes the method below, which would match as well.
    (
        Path::Ends("/publishers/anthropic/models/count-tokens:rawPredict"),
        COUNT_MESSAGES,
    ),
    (Path::Method("publishers/anthropic/", "rawPredict"), MESSAGES),
    (
        Path::Method("publishers/anthropic/", "streamRawPredict"),
        MESSAGES,
    ),
    (Path::Method("", "generateContent"), CONTENT),
    (Path::Method("", "streamGenerateContent"), CONTENT),
    (Path::Method("", "countTokens"), COUNT_CONTENT),
    // Code Assist names the model in the body.
    (Path::Ends("/v1internal:generateContent"), CONTENT),
    (Path::Ends("/v1internal:streamGenerateContent"), CONTENT),
    (Path::Ends("/v1internal:countTokens"), COUNT_CONTENT),
];

/// Calls with a transcript whose path does not identify the wire. They need an upstream with a configured wire: a header
/// of the client would make them of paths that mean something else, such as OpenAI's `/v1/threads/ID/messages`.
///
/// Databricks and SageMaker use `…/invocations`, and some gateways have no version in the path.
const UNAMBIGUOUS: &[(&str, Call)] = &[
    ("/invocations", COMPLETIONS),
    ("/messages", MESSAGES),
    ("/messages/count_tokens", COUNT_MESSAGES),
    ("/chat", CHAT),
];

/// Prefixes of paths without a transcript that still identify their wire.
const FAMILIES: &[(&str, WireId)] = &[
    ("/v1/messages", WireId::Anthropic),
    ("/api/hello", WireId::Anthropic),
    ("/v1beta/", WireId::Gemini),
    ("/v1internal", WireId::Gemini),
    ("/v1/responses", WireId::OpenaiResponses),
    ("/backend-api/codex/responses", WireId::OpenaiResponses),
    ("/openai/v1/responses", WireId::OpenaiResponses),
    ("/openai/responses", WireId::OpenaiResponses),
];

/// Kind of account whose calls use the paths of an API, but are answered by another server at other paths.
struct Account {
    /// Header that names the account.
    header: &'static str,
    /// Prefix of the agent's paths.
    from: &'static str,
    /// Prefix of the server's paths.
    to: &'static str,
}

/// Known kinds of accounts.
///
/// Codex has one base URL for both of its sign-ins, and api.openai.com refuses the token of a ChatGPT plan.
/// With a base URL in `/backend-api/codex`, Codex 0.169 first asks chatgpt.com for the host of its workspace,
/// and sends nothing if that fails.
const ACCOUNTS: &[Account] = &[Account {
    header: "chatgpt-account-id",
    from: "/v1/",
    to: "/backend-api/codex/",
}];

/// Path prefixes of vendors, with the upstream that serves them if it is configured.
const VENDORS: &[(&str, &str)] = &[
    ("/backend-api/", "chatgpt"),
    ("/openai/", "azure"),
    ("/anthropic/", "azure"),
    ("/projects/", "vertex"),
    ("/v1/projects/", "vertex"),
    ("/v1beta1/projects/", "vertex"),
    ("/v1internal", "codeassist"),
    ("/model/", "bedrock"),
    ("/api/chat", "ollama"),
    ("/api/generate", "ollama"),
    ("/api/ps", "ollama"),
    ("/api/show", "ollama"),
    ("/api/tags", "ollama"),
    ("/api/version", "ollama"),
];

/// Upstream of requests without a match.
const FALLBACK: &str = "openai";

/// Wires whose upstream is not [`FALLBACK`] if the path names none.
const HOMES: &[(WireId, &str)] = &[(WireId::Anthropic, "anthropic"), (WireId::Gemini, "gemini")];

/// Headers that identify the API that an agent speaks.
const SIGNS: &[(&str, WireId)] = &[
    ("anthropic-version", WireId::Anthropic),
    ("x-goog-api-key", WireId::Gemini),
];

/// Finds the route of a request.
///
/// Never fails: a request without a match goes to `openai` unchanged. `Route::misdirection` decides whether
/// it may go there.
pub fn find(
    path_and_query: &PathAndQuery,
    headers: &HeaderMap,
    upstreams: &BTreeMap<String, UpstreamConfig>,
) -> Route {
    let whole = path_and_query.as_str();
    // `/u/NAME` names an upstream explicitly, so the path is not mapped for an account.
    let (named, target) = match whole.strip_prefix("/u/") {
        Some(rest) => {
            let (name, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (Some(name), Cow::Borrowed(rest))
        }
        None => (None, target_of_account(whole, headers)),
    };
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&*target, None),
    };
    let claimed = claim(path);
    let by_path = claimed.map(|(wire, _)| wire).or_else(|| family(path));
    let by_header = by_path.or_else(|| sign(headers));
    // A credential decides only if neither path nor headers identify the wire.
    let holder = match by_header {
        Some(_) => None,
        None => vendors::deciding(query, headers, upstreams.get(FALLBACK)),
    };
    let recognised = by_header.or_else(|| holder.and_then(Vendor::wire));
    let vendor_path = VENDORS.iter().find(|(begin, _)| path.starts_with(begin));
    let vendor_path = vendor_path.map(|(_, vendor)| *vendor);
    let is_configured = |name: &&'static str| upstreams.contains_key(*name);
    // The most specific hint wins: `/u/NAME`, the vendor's path, the wire, then the credential.
    let upstream = match named {
        Some(name) => name,
        None => vendor_path
            .filter(is_configured)
            .or_else(|| home_of(path, recognised, headers))
            .or_else(|| holder.and_then(Vendor::home).filter(is_configured))
            .unwrap_or(FALLBACK),
    };
    let upstream = upstream.to_owned();
    // A path of one wire outranks the configured wire, which outranks prefixes, headers and credentials.
    let configured = upstreams.get(&upstream).and_then(|u| u.wire);
    let wire = claimed.map(|(wire, _)| wire).or(configured).or(recognised);
    let by_config = || {
        let mut rows = UNAMBIGUOUS.iter();
        let row = rows.find(|(tail, (of, _))| Some(*of) == configured && path.ends_with(tail));
        row.map(|(_, call)| *call)
    };
    let call = claimed.or_else(by_config);
    Route {
        wire,
        operation: call.map(|(_, operation)| operation),
        // `/u/NAME?x=1` leaves a query without a path.
        target: if target.starts_with('/') {
            target.into_owned()
        } else {
            format!("/{target}")
        },
        upstream,
        named: named.is_some(),
        missing: vendor_path.filter(|name| !upstreams.contains_key(*name)),
    }
}

/// Maps path and query to the server of the agent's account, if the request names one.
///
/// Paths of other vendors have no account, and a key with a recognised vendor is not an account's token.
fn target_of_account<'a>(target: &'a str, headers: &HeaderMap) -> Cow<'a, str> {
    let moved = ACCOUNTS.iter().find_map(|account| {
        let rest = target.strip_prefix(account.from)?;
        let to = headers.contains_key(account.header).then_some(account.to)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let wire = claim(path).map(|(wire, _)| wire).or_else(|| family(path));
        let is_elsewhere =
            wire.and_then(home).is_some() || VENDORS.iter().any(|(begin, _)| path.starts_with(begin));
        let mut keys = vendors::credentials(Some(query), headers, |_| false);
        (!is_elsewhere && keys.next().is_none()).then(|| format!("{to}{rest}"))
    });
    moved.map_or(Cow::Borrowed(target), Cow::Owned)
}

fn claim(path: &str) -> Option<Call> {
    first(ENDPOINTS, |shape| shape.matches(path))
}

/// Directory of the API whose call with a transcript a path is: `/openai/v1` of `/openai/v1/responses`.
pub(super) fn directory(path: &str) -> Option<&str> {
    let shape = ENDPOINTS.iter().find(|(shape, _)| shape.matches(path));
    match shape {
        Some((Path::Ends(tail), _)) => path.strip_suffix(tail),
        Some((Path::Method(..), _)) => {
            let (before, name) = MODELS
                .iter()
                .filter_map(|models| path.split_once(*models))
                .min()?;
            (!name.contains('/')).then_some(before)
        }
        None => {
            let mut tails = UNAMBIGUOUS.iter();
            tails.find_map(|(tail, _)| path.strip_suffix(tail))
        }
    }
}

/// Returns the value of the first row whose key fits.
fn first<K, V: Copy>(rows: &[(K, V)], fits: impl Fn(&K) -> bool) -> Option<V> {
    rows.iter().find(|(key, _)| fits(key)).map(|(_, value)| *value)
}

impl Path {
    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Ends(tail) => path.ends_with(tail),
            Self::Method(directory, method) => {
                let Some((place, name)) = path.rsplit_once(':') else {
                    return false;
                };
                name == *method && MODELS.iter().any(|m| place.contains(m)) && place.contains(directory)
            }
        }
    }
}

fn family(path: &str) -> Option<WireId> {
    first(FAMILIES, |head| path.starts_with(head))
}

fn sign(headers: &HeaderMap) -> Option<WireId> {
    first(SIGNS, |name| headers.contains_key(*name))
}

/// Returns the upstream of the wire that a path or a header indicates, if that is not [`FALLBACK`].
///
/// `/v1beta/openai/…` is Google's own imitation of OpenAI's API, so its upstream is not that of the wire.
fn home_of(path: &str, wire: Option<WireId>, headers: &HeaderMap) -> Option<&'static str> {
    let google = path.starts_with("/v1beta/").then_some(WireId::Gemini);
    let recognised = google.or(wire).and_then(home);
    recognised.or_else(|| sign(headers).and_then(home))
}

fn home(wire: WireId) -> Option<&'static str> {
    first(HOMES, |of| *of == wire)
}

/// Returns the model that a path names: `…/models/NAME:method` (Gemini, Vertex), `…/deployments/NAME/…` (Azure).
pub fn model(target: &str) -> Option<&str> {
    let path = target.split('?').next().unwrap_or(target);
    let name = match path.split_once("/deployments/") {
        Some((_, rest)) => rest.split('/').next()?,
        None => {
            let (place, _) = path.rsplit_once(':')?;
            MODELS
                .iter()
                .find_map(|directory| place.rsplit_once(directory))?
                .1
        }
    };
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// Returns the path with another model. `None` if it names no model, or if `other` would have to be encoded.
pub fn with_model(target: &str, other: &str) -> Option<String> {
    let named = model(target)?;
    // `named` is a slice of `target`, so their addresses give its offset.
    let at = named.as_ptr() as usize - target.as_ptr() as usize;
    let plain = other
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-._~@".contains(&b));
    plain.then(|| format!("{}{other}{}", &target[..at], &target[at + named.len()..]))
}

/// Splits a target into the part before the response id in its path, the id, and the rest.
pub(super) fn stored_response(target: &str) -> Option<(&str, &str, &str)> {
    const FOLDER: &str = "/responses/";
    let path = target.split('?').next().unwrap_or(target);
    let start = path.find(FOLDER)? + FOLDER.len();
    let len = path[start..].find('/').unwrap_or(path.len() - start);
    let id = &target[start..start + len];
    // A longer path may mean something else than this response.
    let is_known = TAILS.contains(&&path[start + len..]);
    (id.starts_with("resp_") && is_known).then(|| (&target[..start], id, &target[start + len..]))
}

/// Paths of a stored response, after its id.
const TAILS: [&str; 3] = ["", "/input_items", "/cancel"];

/// Whether the path itself requests a stream.
pub fn streams(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or(target);
    path.ends_with(":streamGenerateContent") || path.ends_with(":streamRawPredict")
}

/// Query parameters that select server-sent events in Google's APIs.
const SSE: [&str; 3] = ["alt=sse", "$alt=sse", "%24alt=sse"];

/// Whether the response is one JSON array sent element by element: Gemini's stream without `alt=sse`.
pub fn streams_array(target: &str) -> bool {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    path.ends_with(":streamGenerateContent") && !query.split('&').any(|q| SSE.contains(&q))
}

#[cfg(test)]
mod tests;
