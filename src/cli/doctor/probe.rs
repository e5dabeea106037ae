//! One HEAD request without credentials to each upstream.

use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};

use crate::serve::proxy::upload::RopeBody;
use crate::serve::proxy::upstream::{Upstream, Upstreams};
use crate::state::config::Config;

/// Time for an answer. A person waits for it.
const PROBE_TIME: Duration = Duration::from_secs(8);

/// The answer of an upstream.
pub(super) struct UpstreamProbe {
    pub(super) name: String,
    pub(super) base_url: String,
    pub(super) answer: Result<ProbeAnswer, String>,
    /// Distance of its clock from ours, where it reports its time.
    pub(super) clock_offset: Option<Duration>,
}

/// The head of an answer.
pub(super) struct ProbeAnswer {
    pub(super) status: StatusCode,
    pub(super) version: Version,
}

/// Sends one request to each upstream, concurrently.
pub(super) fn probe(config: &Config) -> Vec<UpstreamProbe> {
    let failed = |error: &dyn std::fmt::Display| {
        let all = config.upstreams.iter();
        all.map(|(name, upstream)| UpstreamProbe {
            name: name.clone(),
            base_url: upstream.base_url.clone(),
            answer: Err(error.to_string()),
            clock_offset: None,
        })
        .collect()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match (runtime, Upstreams::new(config)) {
        (Ok(runtime), Ok(upstreams)) => runtime.block_on(async {
            let all = config.upstreams.keys().filter_map(|name| upstreams.get(name));
            join_all(all.map(|upstream| ask(upstream))).await
        }),
        (Err(error), _) | (_, Err(error)) => failed(&error),
    }
}

async fn ask(upstream: &Upstream) -> UpstreamProbe {
    let mut headers = HeaderMap::new();
    let agent = HeaderValue::from_static(concat!("baton-doctor/", env!("CARGO_PKG_VERSION")));
    headers.insert(header::USER_AGENT, agent);
    let again = headers.clone();
    let sent = upstream.send(&Method::HEAD, "/", headers, || again, RopeBody::default());
    let mut clock_offset = None;
    let answer = match tokio::time::timeout(PROBE_TIME, sent).await {
        Ok(Ok(response)) => {
            clock_offset = response.headers().get(header::DATE).and_then(offset);
            Ok(ProbeAnswer {
                status: response.status(),
                version: response.version(),
            })
        }
        Ok(Err(fault)) if fault.detail.is_empty() => Err(fault.code.message.to_owned()),
        Ok(Err(fault)) => Err(fault.detail),
        Err(_) => Err(format!("no answer in {} s", PROBE_TIME.as_secs())),
    };
    UpstreamProbe {
        name: upstream.name.clone(),
        base_url: upstream.config.base_url.clone(),
        answer,
        clock_offset,
    }
}

/// Distance between a `Date` header and our clock.
fn offset(date: &HeaderValue) -> Option<Duration> {
    let theirs = httpdate::parse_http_date(date.to_str().ok()?).ok()?;
    let ours = SystemTime::now();
    let later = theirs
        .duration_since(ours)
        .or_else(|_| ours.duration_since(theirs));
    later.ok()
}
