//! Exports an exchange as HAR 1.2 for browsers and HTTP viewers: the agent's request with its response, then
//! each leg.

use serde_json::{Value, json};

use super::query::{BodySide, JournalReader};
use super::row::{ExchangeDetail, LegDetail};
use super::schema::JournalResult;
use baton_core::text::date;

/// Base URL shown for the agent's request, whose real one is unknown here.
const PROXY: &str = "http://baton";

impl JournalReader {
    /// Returns an exchange as HAR.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn har(&self, id: &str) -> JournalResult<Option<Value>> {
        let entries = self.har_entries(id)?;
        Ok((!entries.is_empty()).then(|| {
            json!({"log": {
                "version": "1.2",
                "creator": {"name": "baton", "version": env!("CARGO_PKG_VERSION")},
                "entries": entries,
            }})
        }))
    }

    /// Returns the entries of one exchange, the agent's request first. Empty if the journal does not have the
    /// exchange.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn har_entries(&self, id: &str) -> JournalResult<Vec<Value>> {
        let Some(exchange) = self.exchange(id)? else {
            return Ok(Vec::new());
        };
        let mut entries = vec![self.agents_entry(id, &exchange)?];
        for leg in &exchange.legs {
            entries.push(self.leg_entry(id, &exchange, leg)?);
        }
        Ok(entries)
    }

    fn agents_entry(&self, id: &str, exchange: &ExchangeDetail) -> JournalResult<Value> {
        let event = &exchange.exchange.event;
        let wait = event.first_byte_ms.unwrap_or(0.0);
        let parts = HarEntry {
            at_ms: exchange.exchange.at_ms,
            time: event.total_ms,
            wait,
            url: format!("{PROXY}{}", path(exchange)),
            headers: &exchange.headers.received,
            body: self.body_text(id, BodySide::Received)?,
            status: event.status,
            back_headers: &exchange.headers.response,
            back: self.body_text(id, BodySide::Shown)?,
            comment: "the agent's request, and what it was shown".to_owned(),
        };
        Ok(parts.json(method(exchange)))
    }

    fn leg_entry(&self, id: &str, exchange: &ExchangeDetail, leg: &LegDetail) -> JournalResult<Value> {
        let wait = leg.answered_ms.or(leg.ended_ms).unwrap_or_default();
        let parts = HarEntry {
            at_ms: leg.at_ms,
            // From the start of the leg to the end of its body. A float represents whole milliseconds
            // exactly.
            time: leg.ended_ms.unwrap_or(wait).max(wait) as f64,
            wait: wait as f64,
            url: leg.sent.url.clone(),
            headers: &leg.sent.headers,
            body: self.body_text(id, BodySide::Sent(leg.n))?,
            status: leg.response.status.unwrap_or(0),
            back_headers: &leg.response.headers,
            back: self.body_text(id, BodySide::Response(leg.n))?,
            comment: match leg.response.status {
                Some(_) => format!("leg {}: as sent to upstream, and its answer", leg.n + 1),
                None => format!("leg {}: as sent to upstream, which gave no answer", leg.n + 1),
            },
        };
        Ok(parts.json(method(exchange)))
    }

    fn body_text(&self, id: &str, side: BodySide) -> JournalResult<String> {
        let body = self.body(id, side)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}

fn route(exchange: &ExchangeDetail) -> (&str, &str) {
    let route = exchange.exchange.route.as_deref().unwrap_or("POST /");
    route.split_once(' ').unwrap_or(("POST", route))
}

fn method(exchange: &ExchangeDetail) -> &str {
    route(exchange).0
}

fn path(exchange: &ExchangeDetail) -> &str {
    route(exchange).1
}

struct HarEntry<'a> {
    at_ms: u64,
    time: f64,
    wait: f64,
    url: String,
    headers: &'a [(String, String)],
    body: String,
    status: u16,
    back_headers: &'a [(String, String)],
    back: String,
    comment: String,
}

impl HarEntry<'_> {
    fn json(&self, method: &str) -> Value {
        let named = |headers: &[(String, String)]| {
            let headers = headers.iter();
            let all = headers.map(|(name, value)| json!({"name": name, "value": value}));
            all.collect::<Vec<_>>()
        };
        let kind = self.back_headers.iter().find(|(name, _)| name == "content-type");
        let kind = kind.map_or("application/json", |(_, value)| value.as_str());
        // HAR requires members such as `cookies` and `queryString` even if they are empty.
        json!({
            "startedDateTime": date::rfc3339_millis(self.at_ms),
            "time": self.time,
            "request": {
                "method": method, "url": self.url, "httpVersion": "HTTP/1.1", "cookies": [],
                "headers": named(self.headers), "queryString": [], "headersSize": -1, "bodySize": self.body.len(),
                "postData": {"mimeType": "application/json", "params": [], "text": self.body},
            },
            "response": {
                "status": self.status, "statusText": "", "httpVersion": "HTTP/1.1", "cookies": [],
                "headers": named(self.back_headers), "redirectURL": "", "headersSize": -1,
                "bodySize": self.back.len(),
                "content": {"size": self.back.len(), "mimeType": kind, "text": self.back},
            },
            "cache": {},
            "timings": {"send": 0, "wait": self.wait, "receive": (self.time - self.wait).max(0.0)},
            "comment": self.comment,
        })
    }
}
