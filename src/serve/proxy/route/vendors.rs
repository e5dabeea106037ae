//! Vendors: issuers of credentials, owners of hosts, and contradictions between the two.
//!
//! A host that is not in the tables is a gateway. It takes the keys that its owner uses, so it contradicts nothing.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use crate::state::access::clients::without_parameters;
use crate::state::config::UpstreamConfig;
use baton_core::record::WireId;
use baton_core::wire::error::CREDENTIAL_HEADERS;

/// A vendor that issues credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vendor {
    Anthropic,
    Openai,
    Google,
    Azure,
    Amazon,
    /// A vendor without a row in [`HOSTS`], by name.
    Other(&'static str),
}

/// Prefixes of credentials. The first match counts.
const FORMS: &[(&str, Vendor)] = &[
    ("sk-ant-", Vendor::Anthropic),
    ("sk-proj-", Vendor::Openai),
    ("sk-svcacct-", Vendor::Openai),
    ("sk-admin-", Vendor::Openai),
    ("sess-", Vendor::Openai),
    ("AIza", Vendor::Google),
    ("AQ.", Vendor::Google),
    ("ya29.", Vendor::Google),
    ("ABSK", Vendor::Amazon),
    ("AWS4-HMAC-SHA256", Vendor::Amazon),
    ("bedrock-api-key-", Vendor::Amazon),
    ("sk-or-", Vendor::Other("OpenRouter")),
    ("gsk_", Vendor::Other("Groq")),
    ("xai-", Vendor::Other("xAI")),
    ("pplx-", Vendor::Other("Perplexity")),
    ("nvapi-", Vendor::Other("NVIDIA")),
    ("hf_", Vendor::Other("Hugging Face")),
    ("ghp_", Vendor::Other("GitHub")),
    ("gho_", Vendor::Other("GitHub")),
    ("ghu_", Vendor::Other("GitHub")),
    ("github_pat_", Vendor::Other("GitHub")),
];

/// Headers that only one vendor reads.
const HEADERS: &[(&str, Vendor)] = &[
    ("x-api-key", Vendor::Anthropic),
    ("x-goog-api-key", Vendor::Google),
    ("api-key", Vendor::Azure),
    (SESSION_TOKEN, Vendor::Amazon),
];

/// Header with the token of temporary credentials, which accompanies a signature.
const SESSION_TOKEN: &str = "x-amz-security-token";

/// Query parameters that hold a credential, each with its vendor if only one reads it.
const PARAMETERS: &[(&str, Option<Vendor>)] = &[
    ("key", Some(Vendor::Google)),
    ("X-Amz-Credential", Some(Vendor::Amazon)),
    ("access_token", None),
    ("api_key", None),
    ("api-key", None),
];

/// Hosts of vendors, matched as the whole name or as its last labels.
const HOSTS: &[(&str, Vendor)] = &[
    ("api.anthropic.com", Vendor::Anthropic),
    ("api.openai.com", Vendor::Openai),
    ("chatgpt.com", Vendor::Openai),
    ("googleapis.com", Vendor::Google),
    ("openai.azure.com", Vendor::Azure),
    ("services.ai.azure.com", Vendor::Azure),
    ("cognitiveservices.azure.com", Vendor::Azure),
    ("amazonaws.com", Vendor::Amazon),
    ("api.aws", Vendor::Amazon),
];

/// A credential in a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credential {
    pub(super) vendor: Vendor,
    /// Whether its form identifies the vendor, whatever its header or parameter is called.
    by_form: bool,
}

impl Vendor {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic",
            Self::Openai => "OpenAI",
            Self::Google => "Google",
            Self::Azure => "Azure",
            Self::Amazon => "Amazon",
            Self::Other(name) => name,
        }
    }

    /// Upstream that takes this vendor's credentials if the path names none.
    pub(super) fn home(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("anthropic"),
            Self::Openai => Some("openai"),
            Self::Google => Some("gemini"),
            Self::Azure => Some("azure"),
            Self::Amazon => Some("bedrock"),
            Self::Other(_) => None,
        }
    }

    /// Wire of the vendor's API.
    pub(super) fn wire(self) -> Option<WireId> {
        match self {
            Self::Anthropic => Some(WireId::Anthropic),
            Self::Google => Some(WireId::Gemini),
            Self::Openai | Self::Azure | Self::Amazon | Self::Other(_) => None,
        }
    }
}

/// Returns the vendor that owns an upstream's host, or `None` for a gateway.
pub(super) fn vendor_of(upstream: &UpstreamConfig) -> Option<Vendor> {
    let url: Uri = upstream.base_url.parse().ok()?;
    // A fully qualified name may end with a dot.
    let host = url.host()?.trim_end_matches('.').to_ascii_lowercase();
    // Matches whole labels: `notgoogleapis.com` is not a host of `googleapis.com`.
    let is_at = |name: &str| {
        host.strip_suffix(name)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let mut rows = HOSTS.iter();
    rows.find(|(name, _)| is_at(name)).map(|(_, vendor)| *vendor)
}

/// Finds the credentials of known vendors in a request. Skips headers for which `is_local` holds, which are not sent.
pub(super) fn credentials<'a>(
    query: Option<&'a str>,
    headers: &'a HeaderMap,
    is_local: impl Fn(&HeaderValue) -> bool + 'a,
) -> impl Iterator<Item = Credential> + 'a {
    let names = CREDENTIAL_HEADERS.iter().chain([&SESSION_TOKEN]);
    let given = names.flat_map(|name| headers.get_all(*name).iter().map(move |value| (*name, value)));
    let in_headers = given
        .filter(move |(_, value)| !is_local(value))
        .filter_map(|(name, value)| in_header(name, value.as_bytes()));
    in_headers.chain(parameters(query).filter_map(|(name, value)| in_parameter(&name, &value)))
}

/// Returns the vendor of the credential that decides where a request goes if its path does not.
///
/// `openai` is the upstream that takes all others. If it is a gateway, a key that only its header identifies
/// may be the gateway's, and does not count.
pub(super) fn deciding<'a>(
    query: Option<&'a str>,
    headers: &'a HeaderMap,
    openai: Option<&UpstreamConfig>,
) -> Option<Vendor> {
    let is_gateway = openai.is_some_and(|openai| vendor_of(openai).is_none());
    credentials(query, headers, |_| false)
        .find(|given| given.by_form || !is_gateway)
        .map(|given| given.vendor)
}

/// Removes query parameters that hold a credential.
pub(in crate::proxy) fn without_credentials(target: String) -> String {
    let holds = |part: &str| parameters(Some(part)).any(|(name, value)| is_credential(&name, &value));
    without_parameters(target, holds)
}

fn in_header(name: &str, value: &[u8]) -> Option<Credential> {
    // The scheme or the key: either may have a known form.
    let mut words = value.split(u8::is_ascii_whitespace);
    let known = words.find_map(|word| by_form(&String::from_utf8_lossy(word)));
    known.or_else(|| by_name(HEADERS.iter().copied(), name))
}

fn in_parameter(name: &str, value: &str) -> Option<Credential> {
    let rows = PARAMETERS
        .iter()
        .filter_map(|(name, vendor)| Some((*name, (*vendor)?)));
    by_form(value).or_else(|| by_name(rows, name))
}

fn is_credential(name: &str, value: &str) -> bool {
    by_form(value).is_some() || PARAMETERS.iter().any(|(row, _)| row.eq_ignore_ascii_case(name))
}

fn by_form(value: &str) -> Option<Credential> {
    let (_, vendor) = FORMS.iter().find(|(form, _)| value.starts_with(form))?;
    Some(Credential {
        vendor: *vendor,
        by_form: true,
    })
}

fn by_name(mut rows: impl Iterator<Item = (&'static str, Vendor)>, name: &str) -> Option<Credential> {
    let (_, vendor) = rows.find(|(row, _)| row.eq_ignore_ascii_case(name))?;
    Some(Credential {
        vendor,
        by_form: false,
    })
}

/// Decoded names and values of a query.
fn parameters(query: Option<&str>) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    let parts = query.into_iter().flat_map(|query| query.split('&'));
    parts.map(|part| {
        // A part without `=` may be a bare key.
        let (name, value) = part.split_once('=').unwrap_or(("", part));
        let plain = |text| percent_decode_str(text).decode_utf8_lossy();
        (plain(name), plain(value))
    })
}
