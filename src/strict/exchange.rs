//! One request and its answer.

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::body::{ReplyBody, plan};
use super::canonical;
use super::complaint::{Complaint, Findings, Rule};
use super::dialect::{Endpoint, Rendered, Wire};
use super::faults::Fault;
use super::model::Seen;
use super::reply::Reply;
use super::routes::route;
use super::server::{InFlight, Shared, lock};
use super::usage;

/// Answers one request.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> io::Result<Response<ReplyBody>> {
    let in_flight = shared.begin();
    let (head, body) = request.into_parts();
    let raw = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let seen = shared.record(&head, raw).await;
    let refusal = shared.check(&seen);
    let dialect = seen.wire.dialect();
    if let Some((rule, message)) = refusal {
        return json(&seen, rule.status(), &dialect.refusal(rule, &message), in_flight);
    }
    let measured = || shared.cache.measure(&dialect.segments(&seen), false);
    match seen.endpoint {
        Endpoint::Generate => shared.generate(&seen, in_flight).await,
        Endpoint::CountTokens => json(&seen, 200, &dialect.counted(&measured()), in_flight),
        Endpoint::Compact | Endpoint::Stored => {
            let (status, body) = dialect.answer(&seen, &measured());
            json(&seen, status, &body, in_flight)
        }
        Endpoint::Models => json(&seen, 200, &dialect.models(), in_flight),
        Endpoint::Echo => echo(&seen, in_flight),
        Endpoint::Other => {
            let body = dialect.error(404, &format!("Not found: {}", seen.path));
            json(&seen, 404, &body, in_flight)
        }
    }
}

/// An id that no other request's reply has: made of the request's number and bytes, so that it is the
/// same in every run of a test, and differs between runs of an agent.
pub(crate) fn made_up_id(prefix: &str, seen: &Seen, slot: usize) -> String {
    let mut hasher = Sha256::new_with_prefix(format!("{} {slot} ", seen.number));
    hasher.update(&seen.raw);
    let hex: String = hasher
        .finalize()
        .iter()
        .take(10)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{prefix}{hex}")
}

impl Shared {
    async fn record(&self, head: &http::request::Parts, raw: Bytes) -> Arc<Seen> {
        let decoded = decode(&head.headers, &raw).await;
        let (wire, endpoint) = route(&head.method, head.uri.path(), &head.headers);
        let body: Value = serde_json::from_slice(&decoded).unwrap_or(Value::Null);
        let recalled = match wire {
            Wire::OpenAiResponses => self.memory.recall(&body),
            _ => Vec::new(),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut all = lock(&self.seen);
        let seen = Arc::new(Seen {
            number: all.len() + 1,
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
            recalled,
            received: now.as_secs(),
            memory: Arc::clone(&self.memory),
        });
        all.push(Arc::clone(&seen));
        drop(all);
        if endpoint.is_checked()
            && let Some(key) = canonical::repeated_key(&decoded)
        {
            self.complain(
                &seen,
                vec![(
                    Rule::RepeatedKey,
                    format!("the key {key:?} stands twice in one object"),
                )],
            );
        }
        seen
    }

    /// Checks a request; the first violation that refuses it, if there is any.
    fn check(&self, seen: &Seen) -> Option<(Rule, String)> {
        let mut findings = Findings::new(&self.options.ignored);
        if seen.endpoint.is_checked() {
            if seen.body.is_object() {
                seen.wire.dialect().check(seen, &mut findings);
            } else {
                findings.add(Rule::Json, "The request body is not valid JSON");
            }
        }
        let mut refusals = findings.list.iter().filter(|(rule, _)| rule.refuses());
        let first = refusals.next().cloned();
        self.complain(seen, findings.list);
        let complaints: Vec<Complaint> = lock(&self.complaints)
            .iter()
            .filter(|complaint| complaint.request == seen.number)
            .cloned()
            .collect();
        if let Some(watch) = &self.options.watch {
            watch(seen, &complaints);
        }
        let noted = complaints.into_iter().find(|complaint| complaint.rule.refuses());
        first.or_else(|| noted.map(|complaint| (complaint.rule, complaint.message)))
    }

    fn complain(&self, seen: &Seen, list: Vec<(Rule, String)>) {
        let allowed = |rule: &Rule| !self.options.ignored.contains(rule);
        let list = list.into_iter().filter(|(rule, _)| allowed(rule));
        lock(&self.complaints).extend(list.map(|(rule, message)| Complaint {
            request: seen.number,
            wire: seen.wire,
            rule,
            message,
        }));
    }

    async fn generate(&self, seen: &Seen, in_flight: InFlight) -> io::Result<Response<ReplyBody>> {
        let reply = self.model.reply(seen);
        tokio::time::sleep(reply.delivery.head_delay).await;
        let mut response = self.respond(seen, &reply, in_flight).await?;
        for (name, value) in &reply.headers {
            let name = HeaderName::try_from(name).map_err(io::Error::other)?;
            let value = HeaderValue::try_from(value).map_err(io::Error::other)?;
            response.headers_mut().append(name, value);
        }
        Ok(response)
    }

    async fn respond(
        &self,
        seen: &Seen,
        reply: &Reply,
        mut in_flight: InFlight,
    ) -> io::Result<Response<ReplyBody>> {
        let dialect = seen.wire.dialect();
        match &reply.fault {
            Some(Fault::Status {
                status,
                retry_after,
                message,
            }) => {
                let mut response = json(seen, *status, &dialect.error(*status, message), in_flight)?;
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
                response(seen, code, content_type, body.clone(), in_flight)
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
                self.complain(seen, vec![(Rule::Script, message.to_owned())]);
                json(seen, 400, &dialect.error(400, message), in_flight)
            }
            _ => self.speak(seen, reply, in_flight).await,
        }
    }

    async fn speak(
        &self,
        seen: &Seen,
        reply: &Reply,
        in_flight: InFlight,
    ) -> io::Result<Response<ReplyBody>> {
        let dialect = seen.wire.dialect();
        let mut usage = self.cache.measure(&dialect.segments(seen), true);
        usage.output = usage::output(reply);
        let mut rendered: Rendered = dialect.render(seen, reply, &usage);
        if reply.delivery.gzip {
            rendered.events = gzip(rendered.events).await?;
        }
        let (content_type, sized) = (rendered.content_type, rendered.sized);
        let length: usize = rendered.events.iter().map(Bytes::len).sum();
        // A fault that changes how much is written would belie an announced length, except a cut: there
        // the missing bytes are the point.
        let cut = matches!(
            reply.fault,
            Some(Fault::CutAfterBytes(_) | Fault::CutAfterEvents(_))
        );
        let announced = (sized && (reply.fault.is_none() || cut)).then_some(length as u64);
        let steps = plan(rendered, &reply.delivery, reply.fault.as_ref(), seen);
        let builder = Response::builder()
            .header(header::CONTENT_TYPE, content_type)
            .header(header::CACHE_CONTROL, "no-cache")
            .header(dialect.request_id_header(), made_up_id("req_", seen, 0));
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

/// One gzip stream over all events, flushed after each, so that every event can be read as it comes.
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

/// A JSON response that is written at once.
fn json(seen: &Seen, status: u16, body: &Value, in_flight: InFlight) -> io::Result<Response<ReplyBody>> {
    let status = StatusCode::from_u16(status).map_err(io::Error::other)?;
    response(
        seen,
        status,
        "application/json",
        body.to_string().into(),
        in_flight,
    )
}

/// A response that is written at once.
fn response(
    seen: &Seen,
    status: StatusCode,
    content_type: &str,
    body: Bytes,
    mut in_flight: InFlight,
) -> io::Result<Response<ReplyBody>> {
    in_flight.finish();
    // A HEAD request gets the head alone.
    let body = if seen.method == Method::HEAD {
        Bytes::new()
    } else {
        body
    };
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, content_type)
        .header(
            seen.wire.dialect().request_id_header(),
            made_up_id("req_", seen, 0),
        )
        .body(ReplyBody::whole(body, in_flight))
        .map_err(io::Error::other)
}

/// The request's body as it came; each of its headers as `x-echo-NAME`.
fn echo(seen: &Seen, in_flight: InFlight) -> io::Result<Response<ReplyBody>> {
    let mut response = Response::new(ReplyBody::whole(seen.raw.clone(), in_flight));
    for (name, value) in &seen.headers {
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

/// The body without its content-encoding; empty where that is unknown or does not fit.
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
