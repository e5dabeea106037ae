//! A request and its response: record, check, ask the model, write.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::aborted::{Aborted, InFlight};
use super::api::Endpoint;
use super::body::{ReplyBody, plan};
use super::canonical;
use super::complaint::{Complaint, Findings, Rule};
use super::dialect::{Received, RenderedBody, derived_id};
use super::faults::Fault;
use super::lineage::TranscriptLineage;
use super::memory::Memory;
use super::model::Model;
use super::options::Options;
use super::prefix::Prefixes;
use super::proxy_texts;
use super::reply::Reply;
use super::routes::route;
use super::usage::{self, PromptCache};
use super::wires;

/// State that all connections of one provider share.
pub(crate) struct ProviderShared {
    model: Box<dyn Model>,
    options: Options,
    pub(crate) requests: Mutex<Vec<Arc<Received>>>,
    /// Number of requests so far, including those that were dropped.
    received: AtomicUsize,
    pub(crate) complaints: Mutex<Vec<Complaint>>,
    cache: PromptCache,
    prefixes: Prefixes,
    memory: Arc<Memory>,
    lineage: TranscriptLineage,
    pub(crate) aborted: Aborted,
}

/// Locks `mutex`, even if a model panicked while locking it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request.
pub(crate) async fn answer(
    shared: Arc<ProviderShared>,
    incoming: Request<Incoming>,
) -> io::Result<Response<ReplyBody>> {
    let in_flight = shared.aborted.request();
    let (head, body) = incoming.into_parts();
    let raw = body.collect().await.map_err(io::Error::other)?.to_bytes();
    respond(shared, &head, raw, in_flight).await
}

/// Answers a request whose body was read.
pub(crate) async fn respond(
    shared: Arc<ProviderShared>,
    head: &http::request::Parts,
    raw: Bytes,
    in_flight: InFlight,
) -> io::Result<Response<ReplyBody>> {
    let request = shared.record(head, raw).await;
    let refusal = shared.check(&request);
    let dialect = request.dialect;
    if let Some((rule, message)) = refusal {
        return json(
            &request,
            rule.status(),
            &dialect.refusal(rule, &message),
            in_flight,
        );
    }
    let measured = || shared.cache.measure(&dialect.segments(&request), false);
    match request.endpoint {
        Endpoint::Generate => shared.generate(&request, in_flight).await,
        Endpoint::CountTokens => json(&request, 200, &dialect.token_count(&measured()), in_flight),
        Endpoint::Compact | Endpoint::Stored => {
            let (status, body) = dialect.answer(&request, &measured());
            json(&request, status, &body, in_flight)
        }
        Endpoint::Models => json(&request, 200, &dialect.models(), in_flight),
        Endpoint::Echo => echo(&request, in_flight),
        Endpoint::Other => {
            let body = dialect.error(404, &format!("Not found: {}", request.path));
            json(&request, 404, &body, in_flight)
        }
    }
}

impl ProviderShared {
    pub(crate) fn new(model: Box<dyn Model>, options: Options) -> Self {
        ProviderShared {
            model,
            options,
            requests: Mutex::default(),
            received: AtomicUsize::new(0),
            complaints: Mutex::default(),
            cache: PromptCache::default(),
            prefixes: Prefixes::default(),
            memory: Arc::default(),
            lineage: TranscriptLineage::default(),
            aborted: Aborted::default(),
        }
    }

    async fn record(&self, head: &http::request::Parts, raw: Bytes) -> Arc<Received> {
        let decoded = decode(&head.headers, &raw).await;
        let (wire, endpoint) = route(&head.method, head.uri.path(), &head.headers);
        let body: Value = serde_json::from_slice(&decoded).unwrap_or(Value::Null);
        let dialect = wires::dialect_at(wire, head.uri.path());
        let stored_history = dialect.stored_history(&self.memory, &body);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut all = lock(&self.requests);
        let request = Arc::new(Received {
            number: self.received.fetch_add(1, Ordering::Relaxed) + 1,
            wire,
            endpoint,
            method: head.method.clone(),
            path: head
                .uri
                .path_and_query()
                .map_or_else(String::new, ToString::to_string),
            headers: head.headers.clone(),
            body,
            raw,
            stored_history,
            received: now.as_secs(),
            memory: Arc::clone(&self.memory),
            dialect,
        });
        all.push(Arc::clone(&request));
        // Halves the list instead of dropping one entry, so that the cost per request is constant.
        if all.len() > self.options.kept_requests.saturating_mul(2) {
            let kept = all.len() - self.options.kept_requests;
            all.drain(..kept);
        }
        drop(all);
        if endpoint.is_checked()
            && let Some(key) = canonical::repeated_key(&decoded)
        {
            self.complain(
                &request,
                vec![(
                    Rule::RepeatedKey,
                    format!("the key {key:?} stands twice in one object"),
                )],
            );
        }
        request
    }

    /// Checks a request. Returns the first violation that leads to a refusal, if any.
    fn check(&self, request: &Received) -> Option<(Rule, String)> {
        let mut findings = Findings::new(&self.options.ignored);
        if request.endpoint.is_checked() {
            if request.body.is_object() {
                request.dialect.check(request, &mut findings);
                proxy_texts::check(request, &mut findings);
                if self.options.prefixes {
                    self.prefixes.check(request, &mut findings);
                }
                if request.endpoint == Endpoint::Generate {
                    self.lineage.check(request, &mut findings);
                }
            } else {
                findings.add(Rule::Json, "The request body is not valid JSON");
            }
        }
        let mut refusals = findings.list.iter().filter(|(rule, _)| rule.refuses());
        let first = refusals.next().cloned();
        self.complain(request, findings.list);
        let complaints: Vec<Complaint> = lock(&self.complaints)
            .iter()
            .filter(|complaint| complaint.request == request.number)
            .cloned()
            .collect();
        if let Some(watch) = &self.options.watch {
            watch(request, &complaints);
        }
        let recorded = complaints.into_iter().find(|complaint| complaint.rule.refuses());
        first.or_else(|| recorded.map(|complaint| (complaint.rule, complaint.message)))
    }

    fn complain(&self, request: &Received, list: Vec<(Rule, String)>) {
        let allowed = |rule: &Rule| !self.options.ignored.contains(rule);
        let list = list.into_iter().filter(|(rule, _)| allowed(rule));
        lock(&self.complaints).extend(list.map(|(rule, message)| Complaint {
            request: request.number,
            wire: request.wire,
            rule,
            message,
        }));
    }

    async fn generate(&self, request: &Received, in_flight: InFlight) -> io::Result<Response<ReplyBody>> {
        let reply = self.model.reply(request);
        if self.options.prefixes {
            self.prefixes.record(request, &reply);
        }
        if !reply.delivery.head_delay.is_zero() {
            tokio::time::sleep(reply.delivery.head_delay).await;
        }
        let mut response = self.respond(request, &reply, in_flight).await?;
        for (name, value) in &reply.headers {
            let name = HeaderName::try_from(name).map_err(io::Error::other)?;
            let value = HeaderValue::try_from(value).map_err(io::Error::other)?;
            response.headers_mut().append(name, value);
        }
        Ok(response)
    }

    async fn respond(
        &self,
        request: &Received,
        reply: &Reply,
        mut in_flight: InFlight,
    ) -> io::Result<Response<ReplyBody>> {
        let dialect = request.dialect;
        match &reply.fault {
            Some(Fault::Status {
                status,
                retry_after,
                message,
            }) => {
                let mut response = json(request, *status, &dialect.error(*status, message), in_flight)?;
                if let Some(seconds) = retry_after {
                    response
                        .headers_mut()
                        .insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
                }
                Ok(response)
            }
            Some(Fault::Raw {
                status,
                content_type,
                body,
            }) => {
                let code = StatusCode::from_u16(*status).map_err(io::Error::other)?;
                response(request, code, content_type, body.clone(), in_flight)
            }
            Some(Fault::NoAnswer) => {
                in_flight.finish();
                Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    "no answer, by the script",
                ))
            }
            Some(Fault::OutOfScript) => {
                let message = "the script has no reply left for this request";
                self.complain(request, vec![(Rule::Script, message.to_owned())]);
                json(request, 400, &dialect.error(400, message), in_flight)
            }
            _ => self.speak(request, reply, in_flight).await,
        }
    }

    async fn speak(
        &self,
        request: &Received,
        reply: &Reply,
        in_flight: InFlight,
    ) -> io::Result<Response<ReplyBody>> {
        let dialect = request.dialect;
        let mut usage = self.cache.measure(&dialect.segments(request), true);
        usage.output = usage::output(reply);
        if let Some(watch) = &self.options.watch_replies {
            watch(request, reply, &usage);
        }
        let mut rendered: RenderedBody = dialect.render(request, reply, &usage);
        if reply.delivery.gzip {
            rendered.events = gzip(rendered.events).await?;
        }
        let (content_type, sized) = (rendered.content_type, rendered.sized);
        let length: usize = rendered.events.iter().map(Bytes::len).sum();
        // A fault that changes the number of bytes would contradict a content-length. A cut is an exception,
        // because its purpose is the missing bytes.
        let cut = matches!(
            reply.fault,
            Some(Fault::CutAfterBytes(_) | Fault::CutAfterEvents(_))
        );
        let announced = (sized && (reply.fault.is_none() || cut)).then_some(length as u64);
        let steps = plan(rendered, &reply.delivery, reply.fault.as_ref(), request);
        let mut builder = Response::builder();
        if let Some(content_type) = content_type.filter(|_| !reply.delivery.untyped) {
            builder = builder.header(header::CONTENT_TYPE, content_type);
        }
        let builder = builder
            .header(header::CACHE_CONTROL, "no-cache")
            .header(dialect.request_id_header(), derived_id("req_", request, 0));
        let builder = if reply.delivery.gzip {
            builder.header(header::CONTENT_ENCODING, "gzip")
        } else {
            builder
        };
        builder
            .body(ReplyBody::new(steps, announced, in_flight))
            .map_err(io::Error::other)
    }
}

/// Compresses all events as one gzip stream, flushed after each event, so that every event can be read on
/// arrival.
async fn gzip(events: Vec<Bytes>) -> io::Result<Vec<Bytes>> {
    let mut encoder = async_compression::tokio::write::GzipEncoder::new(Vec::new());
    let last = events.len().saturating_sub(1);
    let mut out = Vec::new();
    for (at, event) in events.iter().enumerate() {
        encoder.write_all(event).await?;
        if at == last {
            encoder.shutdown().await?;
        } else {
            encoder.flush().await?;
        }
        out.push(std::mem::take(encoder.get_mut()).into());
    }
    Ok(out)
}

/// A JSON response, written at once.
fn json(
    request: &Received,
    status: u16,
    body: &Value,
    in_flight: InFlight,
) -> io::Result<Response<ReplyBody>> {
    let status = StatusCode::from_u16(status).map_err(io::Error::other)?;
    response(
        request,
        status,
        "application/json",
        body.to_string().into(),
        in_flight,
    )
}

/// A response, written at once.
fn response(
    request: &Received,
    status: StatusCode,
    content_type: &str,
    body: Bytes,
    mut in_flight: InFlight,
) -> io::Result<Response<ReplyBody>> {
    in_flight.finish();
    // The response to a HEAD request has no body.
    let body = if request.method == Method::HEAD {
        Bytes::new()
    } else {
        body
    };
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, content_type)
        .header(
            request.dialect.request_id_header(),
            derived_id("req_", request, 0),
        )
        .body(ReplyBody::whole(body, in_flight))
        .map_err(io::Error::other)
}

/// Returns the request's body unchanged, and each of its headers as `x-echo-NAME`.
fn echo(request: &Received, in_flight: InFlight) -> io::Result<Response<ReplyBody>> {
    let mut response = Response::new(ReplyBody::whole(request.raw.clone(), in_flight));
    for (name, value) in &request.headers {
        let echoed = format!("x-echo-{name}");
        if let Ok(echoed) = HeaderName::try_from(echoed) {
            response.headers_mut().append(echoed, value.clone());
        }
        if matches!(*name, header::CONTENT_TYPE | header::CONTENT_ENCODING) {
            response.headers_mut().append(name.clone(), value.clone());
        }
    }
    Ok(response)
}

/// Decodes the body. Empty if the encoding is unknown or the body is invalid.
async fn decode(headers: &HeaderMap, raw: &Bytes) -> Bytes {
    use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};
    let encoding = headers
        .get(header::CONTENT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let mut out = Vec::new();
    let read = match encoding {
        "" | "identity" => return raw.clone(),
        "gzip" => GzipDecoder::new(&raw[..]).read_to_end(&mut out).await,
        "deflate" => ZlibDecoder::new(&raw[..]).read_to_end(&mut out).await,
        "br" => BrotliDecoder::new(&raw[..]).read_to_end(&mut out).await,
        "zstd" => ZstdDecoder::new(&raw[..]).read_to_end(&mut out).await,
        _ => return Bytes::new(),
    };
    read.map_or_else(|_| Bytes::new(), |_| Bytes::from(out))
}
