//! Converts an event to spans: one for the exchange and a child for each leg. Attribute names are those of
//! the log line.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::super::fields::CONVERSATION;
use super::super::{ExchangeEvent, ExchangeOutcome, FactValue, shortened};
use baton_core::wire::{StopReason, Usage};

/// Release of OpenTelemetry's semantic conventions that defines these names.
pub(super) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";

/// Returns the span of an exchange, and one for each leg.
pub(super) fn of(event: &ExchangeEvent) -> Vec<SpanData> {
    let ids = Ids::new(event);
    let mut spans = vec![exchange(event, &ids)];
    let legs = event.leg_starts.len();
    spans.extend((0..legs).map(|index| leg(event, &ids, index)));
    spans
}

/// The ids of a trace, derived from the exchange's id.
struct Ids {
    trace: TraceId,
    root: u64,
    /// Span of the sender. An invalid id means none.
    parent: SpanId,
}

/// Span that a request names as its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentSpan {
    trace: TraceId,
    span: SpanId,
}

impl ParentSpan {
    /// Parses a `traceparent` header: `00-TRACE-SPAN-FLAGS` (W3C Trace Context). Returns `None` if it is invalid.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, length| {
            text.len() == length
                && text
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let is_known = is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(span, 16);
        let parent = Self {
            trace: TraceId::from_hex(trace).ok().filter(|_| is_known)?,
            span: SpanId::from_hex(span).ok()?,
        };
        (parent.trace != TraceId::INVALID && parent.span != SpanId::INVALID).then_some(parent)
    }
}

impl Ids {
    /// Derives the ids from the exchange's id.
    ///
    /// The trace id is the sender's if it names one, otherwise the exchange's id. Span ids count up from the random
    /// half of that id.
    fn new(event: &ExchangeEvent) -> Self {
        let exchange = event.id.as_str();
        let bytes = Uuid::parse_str(exchange).map(Uuid::into_bytes);
        // An id that is not a UUID is hashed to the length of a trace id.
        let bytes = bytes.unwrap_or_else(|_| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&Sha256::digest(exchange)[..16]);
            bytes
        });
        Self {
            trace: event
                .parent
                .map_or(TraceId::from_bytes(bytes), |parent| parent.trace),
            root: u128::from_be_bytes(bytes) as u64,
            parent: event.parent.map_or(SpanId::INVALID, |parent| parent.span),
        }
    }

    fn root(&self) -> SpanId {
        SpanId::from_bytes(self.root.to_be_bytes())
    }

    fn leg(&self, index: usize) -> SpanId {
        // Wraps, because the random half may be near the maximum.
        let number = self.root.wrapping_add(1 + index as u64);
        SpanId::from_bytes(number.to_be_bytes())
    }
}

fn exchange(event: &ExchangeEvent, ids: &Ids) -> SpanData {
    let status = match event.outcome.has_failed() {
        true => Status::error(event.outcome.name()),
        false => Status::Unset,
    };
    let started = UNIX_EPOCH + event.started;
    let times = (started, started + event.total());
    SpanData {
        span_kind: SpanKind::Server,
        parent_span_id: ids.parent,
        parent_span_is_remote: ids.parent != SpanId::INVALID,
        status,
        ..span(ids, ids.root(), "exchange".into(), times, of_exchange(event).0)
    }
}

/// Returns the span of a leg, which ends when the next one begins.
fn leg(event: &ExchangeEvent, ids: &Ids, index: usize) -> SpanData {
    let starts = &event.leg_starts;
    // The last leg ends with the exchange.
    let end = starts.get(index + 1).copied().unwrap_or(event.total());
    let name = match event.model.as_deref() {
        Some(model) => format!("chat {}", shortened(model)),
        // A relayed request has no model.
        None => "relay".to_owned(),
    };
    let at = |since: Duration| UNIX_EPOCH + event.started + since;
    SpanData {
        span_kind: SpanKind::Client,
        parent_span_id: ids.root(),
        ..span(
            ids,
            ids.leg(index),
            name,
            (at(starts[index]), at(end)),
            of_leg(event, index).0,
        )
    }
}

fn span(
    ids: &Ids,
    id: SpanId,
    name: String,
    (start_time, end_time): (SystemTime, SystemTime),
    attributes: Vec<KeyValue>,
) -> SpanData {
    SpanData {
        // Always sampled: every exchange is exported.
        span_context: SpanContext::new(ids.trace, id, TraceFlags::SAMPLED, false, TraceState::NONE),
        // An invalid id means no parent. Spans of legs override it.
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: name.into(),
        start_time,
        end_time,
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("baton")
            .with_version(env!("CARGO_PKG_VERSION"))
            .with_schema_url(SCHEMA_URL)
            .build(),
    }
}

/// An attribute builder that omits unknown values.
#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn put(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push(KeyValue::new(name, value));
    }

    /// Adds a fact, unless it is unknown.
    fn fact<'v>(&mut self, name: &'static str, value: impl Into<FactValue<'v>>) {
        match value.into() {
            FactValue::Unknown => {}
            FactValue::Flag(flag) => self.put(name, flag),
            // OpenTelemetry has no unsigned integers.
            FactValue::Count(count) => self.put(name, i64::try_from(count).unwrap_or(i64::MAX)),
            FactValue::Number(number) => self.put(name, number),
            FactValue::Text(text) => self.put(name, shortened(&text).to_owned()),
        }
    }

    /// Adds the attributes that the spans of the exchange and of the legs share but the log does not have.
    fn operation(&mut self, event: &ExchangeEvent) {
        if event.wire.is_some() {
            self.put("gen_ai.operation.name", "chat");
        }
        if let Some(server) = &event.server {
            self.fact("server.address", &*server.host);
            self.fact("server.port", server.port);
        }
    }

    /// Adds the values that upstream reported with the leg's response.
    fn answer(&mut self, event: &ExchangeEvent, index: usize) {
        if let Some(Some(served)) = event.served.get(index) {
            self.fact("gen_ai.response.model", some(&served.model));
        }
        let Some(Some(end)) = event.ends.get(index) else {
            return;
        };
        self.fact("gen_ai.response.id", some(&end.id));
        if let Some(reason) = finish_reason(end.stop) {
            let reasons = Array::String(vec![StringValue::from(reason)]);
            self.put("gen_ai.response.finish_reasons", Value::Array(reasons));
        }
    }

    /// Adds the class of the exchange's failure: upstream's status if it is an error, or else the outcome.
    fn error(&mut self, event: &ExchangeEvent) {
        match event.outcome {
            ExchangeOutcome::Complete => {}
            ExchangeOutcome::UpstreamError => self.put("error.type", event.status.to_string()),
            outcome => self.put("error.type", outcome.name()),
        }
    }

    fn tokens(&mut self, tokens: Usage) {
        self.fact("gen_ai.usage.input_tokens", tokens.all_input());
        self.fact("gen_ai.usage.cache_read.input_tokens", tokens.cache_read);
        self.fact("gen_ai.usage.cache_creation.input_tokens", tokens.cache_write);
        self.fact("gen_ai.usage.output_tokens", tokens.output);
        // Many providers do not report reasoning tokens, and a zero would claim that there were none.
        if tokens.reasoning > 0 {
            self.fact("gen_ai.usage.reasoning.output_tokens", tokens.reasoning);
        }
    }
}

/// Returns the string unless it is empty.
fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Returns the conventions' name of a stop reason. `None` if the response did not reach its end.
fn finish_reason(stop: StopReason) -> Option<&'static str> {
    match stop {
        StopReason::Open => None,
        StopReason::Done => Some("stop"),
        StopReason::Calls => Some("tool_call"),
        StopReason::Truncated => Some("length"),
        StopReason::Refused => Some("content_filter"),
        StopReason::Paused => Some("pause"),
        StopReason::Error => Some("error"),
    }
}

fn of_exchange(event: &ExchangeEvent) -> Attributes {
    let mut a = Attributes::default();
    for (name, value) in event.fields() {
        a.fact(name, value);
    }
    a.operation(event);
    a.error(event);
    a
}

fn of_leg(event: &ExchangeEvent, index: usize) -> Attributes {
    let mut a = Attributes::default();
    a.fact("baton.leg", index as u64 + 1);
    a.fact("baton.client", event.client.as_deref());
    for (name, value) in CONVERSATION {
        a.fact(name, value(event));
    }
    a.operation(event);
    if let Some(bytes) = event.sent_bytes.get(index) {
        a.fact("baton.sent_bytes", *bytes);
    }
    if let Some(Some(tokens)) = event.tokens.get(index) {
        a.tokens(*tokens);
    }
    a.answer(event, index);
    // The exchange's failure belongs to its last leg.
    if index + 1 == event.leg_starts.len() {
        a.error(event);
    }
    a
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::telemetry::{ExchangeFacts, ServerAddress};
    use baton_core::record::WireId;
    use baton_core::wire::{LegReport, ServedBy};

    /// Names of attributes and metrics in the release of [`SCHEMA_URL`], one per line.
    const PUBLISHED: &str = include_str!("../genai_names.txt");

    fn published() -> BTreeSet<&'static str> {
        PUBLISHED.lines().filter(|line| !line.starts_with('#')).collect()
    }

    fn event() -> ExchangeEvent {
        let mut event = ExchangeEvent {
            wire: Some(WireId::Anthropic),
            model: Some("m".to_owned()),
            conversation: Some("c".to_owned()),
            facts: ExchangeFacts {
                sent_bytes: vec![1],
                status: 529,
                outcome: ExchangeOutcome::UpstreamError,
                ..ExchangeFacts::default()
            },
            leg_starts: vec![Duration::ZERO],
            server: Some(ServerAddress {
                host: "api.example".to_owned(),
                port: 443,
            }),
            ..ExchangeEvent::new("e", "anthropic", "POST /v1/messages")
        };
        let served = ServedBy {
            model: "m-2".to_owned(),
            service: None,
            cache_miss: None,
        };
        event.count_leg(&LegReport {
            id: "msg_1".to_owned(),
            stop: StopReason::Calls,
            usage: Usage {
                reasoning: 7,
                ..Usage::default()
            },
            served,
            ..LegReport::default()
        });
        event
    }

    #[test]
    fn every_name_is_baton_s_own_or_published() {
        let published = published();
        let spans = of(&event());
        let names = spans.iter().flat_map(|span| span.attributes.iter());
        let names: BTreeSet<_> = names.map(|attribute| attribute.key.as_str().to_owned()).collect();
        for name in &names {
            assert!(
                name.starts_with("baton.") || published.contains(name.as_str()),
                "{name}"
            );
        }
        for name in [
            "gen_ai.response.model",
            "gen_ai.response.id",
            "gen_ai.response.finish_reasons",
            "gen_ai.usage.reasoning.output_tokens",
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_creation.input_tokens",
            "error.type",
            "server.address",
        ] {
            assert!(names.contains(name), "{name}");
        }
        assert!(!published.contains("gen_ai.system"), "deprecated");
    }

    #[test]
    fn a_leg_has_what_upstream_reported() {
        let spans = of(&event());
        let leg = &spans[1];
        let value = |name: &str| {
            let mut attributes = leg.attributes.iter();
            let found = attributes.find(|attribute| attribute.key.as_str() == name);
            found.map_or_else(String::new, |attribute| attribute.value.to_string())
        };
        assert_eq!(value("gen_ai.response.model"), "m-2");
        assert_eq!(value("gen_ai.response.id"), "msg_1");
        assert_eq!(value("gen_ai.response.finish_reasons"), r#"["tool_call"]"#);
        assert_eq!(value("gen_ai.usage.reasoning.output_tokens"), "7");
        assert_eq!(value("error.type"), "529");
        assert_eq!(value("server.port"), "443");
        assert_eq!(leg.instrumentation_scope.schema_url(), Some(SCHEMA_URL));
    }

    #[test]
    fn the_metrics_of_the_conventions_have_published_names() {
        let metrics = crate::telemetry::Metrics::new();
        let mut event = event();
        event.first_byte_ms = Some(1.0);
        metrics.record(&event);
        let text = metrics.text().unwrap();
        let types = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE gen_ai_"));
        let mut count = 0;
        for line in types {
            let name = line.split(' ').next().unwrap();
            // Prometheus writes dots as underscores, and appends the unit.
            let known = published().iter().any(|published| {
                let plain = published.replace('.', "_");
                [plain.clone(), format!("{plain}_seconds")].contains(&format!("gen_ai_{name}"))
            });
            assert!(known, "gen_ai_{name}");
            count += 1;
        }
        assert_eq!(count, 3);
    }

    #[test]
    fn a_valid_traceparent_is_the_parent() {
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let event = ExchangeEvent {
            parent: ParentSpan::parse(given),
            leg_starts: vec![Duration::ZERO],
            ..ExchangeEvent::new("e", "anthropic", "POST /v1/messages")
        };
        let spans = of(&event);
        let trace = spans[0].span_context.trace_id().to_string();
        assert_eq!(trace, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(spans[0].parent_span_id.to_string(), "00f067aa0ba902b7");
        assert!(spans[0].parent_span_is_remote && !spans[1].parent_span_is_remote);
        assert_eq!(spans[1].parent_span_id, spans[0].span_context.span_id());
        for wrong in [
            "",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf9-00f067aa0ba902b7-01",
        ] {
            assert_eq!(ParentSpan::parse(wrong), None, "{wrong}");
        }
    }
}
