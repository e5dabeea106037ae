//! The request of a replay: the journal's copy, with a current credential.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::log::unread;
use crate::cli::shells::ShellSyntax;
use crate::serve::proxy::headers::{self, Sending};
use crate::state::config::{Config, Secret, UpstreamConfig};
use crate::state::journal::{BodySide, ExchangeDetail, JournalReader, LegDetail};
use baton_core::record::WireId;
use baton_core::text::splice::{self, Edit};
use baton_core::text::{Span, json};
use baton_core::wire::error::{CREDENTIAL_HEADERS, KeyHeader, key_header};
use baton_core::wire::wire;

/// How the journal marks what it left out.
const REDACTED: &str = "[redacted:";

/// Which request is sent, and where.
#[derive(Clone, Copy)]
pub(super) struct RequestChoice<'a> {
    /// What the agent sent, and not what was made of it.
    pub(super) received: bool,
    /// The upstream request, from 1.
    pub(super) leg: u32,
    /// Another upstream than the recorded one.
    pub(super) to: Option<&'a str>,
    /// Another model.
    pub(super) model: Option<&'a str>,
}

/// A request to send again.
pub(super) struct ReplayRequest {
    pub(super) wire: WireId,
    pub(super) method: Method,
    /// Name of the upstream.
    pub(super) upstream: String,
    /// Path and query after the upstream's base URL.
    pub(super) target: String,
    /// As the agent sent them, without credentials.
    headers: HeaderMap,
    pub(super) body: Bytes,
}

impl ReplayRequest {
    pub(super) fn of(
        choice: &RequestChoice<'_>,
        config: &Config,
        query: &JournalReader,
        exchange: &ExchangeDetail,
    ) -> Result<Self, CommandFailure> {
        let row = &exchange.exchange;
        let leg = leg(choice, exchange)?;
        let side = if choice.received {
            BodySide::Received
        } else {
            BodySide::Sent(leg.n)
        };
        let body = query.body(&row.id, side).map_err(unread)?;
        let body = Bytes::from(body.ok_or_else(|| missing("the journal has no copy of this request"))?);
        let wire = row.wire.as_deref().and_then(WireId::named);
        let wire =
            wire.ok_or_else(|| missing("the exchange was relayed unread, so it cannot be replayed"))?;
        let recorded_upstream = row.upstream.as_deref().unwrap_or_default();
        let upstream = choice.to.unwrap_or(recorded_upstream);
        let target = target(config, recorded_upstream, leg);
        let recorded = if choice.received {
            &exchange.headers.received
        } else {
            &leg.sent.headers
        };
        let (method, _) = row
            .route
            .as_deref()
            .unwrap_or("POST /")
            .split_once(' ')
            .unwrap_or(("POST", ""));
        let method = Method::from_bytes(method.as_bytes());
        Ok(Self {
            wire,
            method: method.map_err(|_| missing("the journal's copy has no method"))?,
            upstream: upstream.to_owned(),
            target,
            headers: without_credentials(recorded),
            body: match choice.model {
                Some(model) => with_model(&body, model)?,
                None => body,
            },
        })
    }

    /// The upstream's place in the config, for the same wire.
    pub(super) fn upstream<'c>(&self, config: &'c Config) -> Result<&'c UpstreamConfig, CommandFailure> {
        let names = || {
            config
                .upstreams
                .keys()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let found = config.upstreams.get(&self.upstream).ok_or_else(|| {
            Exit::USAGE
                .failure(format!("the config has no upstream `{}`", self.upstream))
                .help(format!("--to takes one of: {}", names()))
        })?;
        match found.wire {
            Some(other) if other != self.wire => Err(Exit::USAGE
                .failure(format!(
                    "the request is {}, and `{}` speaks {}",
                    self.wire.name(),
                    self.upstream,
                    other.name()
                ))
                .help(
                    "a request is replayed on its own wire; `baton handoffs resume --with` changes the agent",
                )),
            _ => Ok(found),
        }
    }

    /// The headers that go up: the config's credential, else the one of the environment.
    pub(super) fn headers(
        &self,
        upstream: &UpstreamConfig,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<HeaderMap, CommandFailure> {
        let sending = Sending {
            read: true,
            plain: true,
            later_leg: true,
        };
        let mut headers = headers::onward(&self.headers, upstream, (self.wire, &self.target), sending);
        let known = CREDENTIAL_HEADERS.iter().any(|name| headers.contains_key(*name));
        let variables = wire(self.wire).key_variables();
        if known || variables.is_empty() {
            return Ok(headers);
        }
        let key = variables
            .iter()
            .find_map(|name| env(name))
            .filter(|key| !key.is_empty());
        let Some(key) = key.map(Secret::new) else {
            let message = format!("no key for the upstream `{}`", self.upstream);
            let help = format!(
                "set {} or upstreams.{}.api_key",
                variables.join(" or "),
                self.upstream
            );
            return Err(Exit::USAGE.failure(message).help(help));
        };
        let KeyHeader { name, prefix } = key_header(wire(self.wire), &self.target, key.reveal());
        let value = HeaderValue::from_str(&format!("{prefix}{}", key.reveal()));
        let mut value = value.map_err(|_| Exit::USAGE.failure("the key is not a valid header value"))?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
        Ok(headers)
    }

    /// A shell command that sends the same request; the body is read from `baton show`. Credentials are variables.
    pub(super) fn curl(&self, upstream: &UpstreamConfig, body_by: &str) -> String {
        let quoted = |word: &str| ShellSyntax::Sh.quoted(word);
        let url = [upstream.base_url.as_str(), &self.target].concat();
        let mut line = format!("{body_by} | curl -sS -X {} {}", self.method, quoted(&url));
        for (name, value) in &self.headers {
            let value = value.to_str().unwrap_or_default();
            if !CREDENTIAL_HEADERS.contains(&name.as_str()) && !is_remade(name.as_str()) {
                line.push_str(&format!(" -H {}", quoted(&format!("{name}: {value}"))));
            }
        }
        if let Some(variable) = wire(self.wire).key_variables().first() {
            let KeyHeader { name, prefix } = key_header(wire(self.wire), &self.target, "");
            line.push_str(&format!(" -H \"{name}: {prefix}${variable}\""));
        }
        line.push_str(" --data-binary @-");
        line
    }
}

fn missing(message: &str) -> CommandFailure {
    Exit::NO_INPUT.failure(message)
}

fn leg<'e>(
    choice: &RequestChoice<'_>,
    exchange: &'e ExchangeDetail,
) -> Result<&'e LegDetail, CommandFailure> {
    let n = if choice.received { 0 } else { choice.leg - 1 };
    let found = exchange.legs.iter().find(|leg| leg.n == n);
    found.ok_or_else(|| match exchange.legs.len() {
        0 => missing("nothing was sent upstream in this exchange"),
        legs => missing(&format!("there is no leg {}: the exchange has {legs}", n + 1)),
    })
}

/// The part of the leg's URL after the base URL of its upstream. The journal has no queries: the one that makes Gemini
/// stream is restored.
fn target(config: &Config, upstream: &str, leg: &LegDetail) -> String {
    let url = &leg.sent.url;
    let base = config
        .upstreams
        .get(upstream)
        .map(|upstream| upstream.base_url.as_str());
    let after_host = || {
        let (_, rest) = url.split_once("://")?;
        rest.find('/').map(|at| &rest[at..])
    };
    let path = base
        .and_then(|base| url.strip_prefix(base))
        .or_else(after_host)
        .unwrap_or("/");
    let query = if path.ends_with(":streamGenerateContent") {
        "?alt=sse"
    } else {
        ""
    };
    format!("{path}{query}")
}

fn without_credentials(recorded: &[(String, String)]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(recorded.len());
    for (name, value) in recorded {
        if CREDENTIAL_HEADERS.contains(&name.as_str()) || value.contains(REDACTED) {
            continue;
        }
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
    headers
}

/// Headers that the client sets itself.
fn is_remade(name: &str) -> bool {
    matches!(
        name,
        "host" | "content-length" | "accept-encoding" | "connection" | "content-encoding" | "user-agent"
    )
}

fn with_model(body: &Bytes, model: &str) -> Result<Bytes, CommandFailure> {
    let whole = json::whole(body).ok();
    let named = whole.and_then(|whole| json::get(body, whole, "model"));
    let span: Span = named.ok_or_else(|| {
        Exit::USAGE.failure("this wire names its model in the URL: --model cannot change it")
    })?;
    let edit = Edit::replace(span, json::quote(model));
    Ok(splice::flat(splice::splice(body, vec![edit])))
}
