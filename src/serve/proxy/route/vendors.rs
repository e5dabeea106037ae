//! Vendors: whose credentials a request has, whose host an upstream is, and whether the two contradict each other.
//!
//! A host that is not in the tables is a gateway, which takes the keys that its owner uses: it contradicts nothing.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

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
    /// A vendor without a host in [`HOSTS`], by its name.
    Other(&'static str),
}

/// Forms of credentials: how they begin. The first match counts.
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

/// Headers that one vendor alone reads.
const HEADERS: &[(&str, Vendor)] = &[
    ("x-api-key", Vendor::Anthropic),
    ("x-goog-api-key", Vendor::Google),
    ("api-key", Vendor::Azure),
    (SESSION_TOKEN, Vendor::Amazon),
];

/// The token of temporary credentials, which comes with a signature.
const SESSION_TOKEN: &str = "x-amz-security-token";

/// Query parameters that hold a credential, and the vendor that alone reads them.
const PARAMETERS: &[(&str, Option<Vendor>)] = &[
    ("key", Some(Vendor::Google)),
    ("X-Amz-Credential", Some(Vendor::Amazon)),
    ("access_token", None),
    ("api_key", None),
    ("api-key", None),
];

/// Hosts of vendors: the whole name, or how it ends.
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

/// A credential of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credential {
    pub(super) vendor: Vendor,
    /// Recognised by its form, whatever the name of its header or parameter.
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

    /// The upstream that takes this vendor's credentials if the path names none.
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

    /// The wire of the vendor's own API.
    pub(super) fn wire(self) -> Option<WireId> {
        match self {
            Self::Anthropic => Some(WireId::Anthropic),
            Self::Google => Some(WireId::Gemini),
            Self::Openai | Self::Azure | Self::Amazon | Self::Other(_) => None,
        }
    }
}

/// The vendor whose own host an upstream is; `None` for a gateway.
pub(super) fn vendor_of(upstream: &UpstreamConfig) -> Option<Vendor> {
    let url: Uri = upstream.base_url.parse().ok()?;
    let host = url.host()?.trim_end_matches('.').to_ascii_lowercase();
    let is_at = |name: &str| {
        host.strip_suffix(name)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let mut rows = HOSTS.iter();
    rows.find(|(name, _)| is_at(name)).map(|(_, vendor)| *vendor)
}

/// The credentials of a request whose vendor is known. Headers for which `is_local` holds are not sent upstream.
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

/// The credential that decides where a request goes whose path does not say it. `openai` takes all others. A key that is
/// known by its header alone may be that of a gateway, if `openai` is one.
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

/// The target without query parameters that hold a credential.
pub(in crate::proxy) fn without_credentials(target: String) -> String {
    let Some((path, query)) = target.split_once('?') else {
        return target;
    };
    let holds = |part: &&str| parameters(Some(part)).any(|(name, value)| is_credential(&name, &value));
    if !query.split('&').any(|part| holds(&part)) {
        return target;
    }
    let kept: Vec<_> = query.split('&').filter(|part| !holds(part)).collect();
    match kept.is_empty() {
        true => path.to_owned(),
        false => [path, "?", &kept.join("&")].concat(),
    }
}

fn in_header(name: &str, value: &[u8]) -> Option<Credential> {
    // The key, or its scheme: both may have a form.
    let words = value.split(u8::is_ascii_whitespace);
    let known = words
        .filter_map(|word| by_form(&String::from_utf8_lossy(word)))
        .next();
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

/// Names and values of a query, decoded.
fn parameters(query: Option<&str>) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    let parts = query.into_iter().flat_map(|query| query.split('&'));
    parts.map(|part| {
        let (name, value) = part.split_once('=').unwrap_or(("", part));
        let plain = |text| percent_decode_str(text).decode_utf8_lossy();
        (plain(name), plain(value))
    })
}
