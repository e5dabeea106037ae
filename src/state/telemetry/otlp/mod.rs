//! Traces: a span for each exchange with a child for each of its legs, sent to an OpenTelemetry collector.
//!
//! A background task creates the spans from the events of ended exchanges. The queue is bounded. Exchanges
//! that do not fit, or that the collector rejects, are dropped and counted. `spans` is pure; `client` is the
//! exporter's HTTP client.

mod spans;

pub use spans::ParentSpan;

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::{ExchangeEvent, Metrics};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use std::future::Future;
use std::io;
use std::pin::Pin;

/// Capacity of the queue in exchanges: a few minutes of a busy team, a few MiB.
const QUEUE: usize = 4096;
/// Maximum number of exchanges in one batch.
const BATCH: usize = 256;
/// How long a batch is collected.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Timeout for sending a batch, including retries.
const SEND_TIME: Duration = Duration::from_secs(10);

/// The queue of ended exchanges to export as spans.
#[derive(Debug, Clone)]
pub struct Traces(Option<Queue>);

#[derive(Debug, Clone)]
struct Queue {
    work: mpsc::Sender<Work>,
    dropped: Counter,
}

#[derive(Debug)]
enum Work {
    Exchange(Box<ExchangeEvent>),
    /// Send everything queued so far, then acknowledge.
    Flush(oneshot::Sender<()>),
}

impl Traces {
    /// Creates a queue that discards everything.
    pub fn off() -> Self {
        Self(None)
    }

    /// Starts the exporter task for the collector at this base URL on the current runtime.
    ///
    /// # Errors
    /// Returns an error if the URL, or a setting in the environment (`OTEL_EXPORTER_OTLP_…`), is invalid.
    pub fn start(endpoint: &str, instance: String, metrics: &Metrics) -> Result<Self, String> {
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Hyper::new(SEND_TIME).map_err(|error| error.to_string())?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{endpoint}/v1/traces"))
            .with_timeout(SEND_TIME)
            .build()
            .map_err(|error| error.to_string())?;
        exporter.set_resource(&resource(instance));
        let (work, queue) = mpsc::channel(QUEUE);
        let dropped = metrics.traces_dropped();
        let sender = Sender {
            exporter,
            dropped: dropped.clone(),
            failing: false,
        };
        tokio::spawn(run(queue, sender));
        Ok(Self(Some(Queue { work, dropped })))
    }

    /// Queues an ended exchange. Never blocks.
    pub fn record(&self, event: &ExchangeEvent) {
        let Some(queue) = &self.0 else {
            return;
        };
        let work = Work::Exchange(Box::new(event.clone()));
        // Dropped if the queue is full: tracing must not slow requests down.
        if queue.work.try_send(work).is_err() {
            queue.dropped.inc();
        }
    }

    /// Waits until everything recorded so far has been sent, at most for `limit`.
    pub async fn flush(&self, limit: Duration) {
        let Some(queue) = &self.0 else {
            return;
        };
        let flushed = timeout(limit, async {
            let (done, sent) = oneshot::channel();
            // Both fail only if the task has ended, and then there is nothing left to send.
            let _ = queue.work.send(Work::Flush(done)).await;
            let _ = sent.await;
        });
        if flushed.await.is_err() {
            tracing::warn!("failed to send the last spans in time; they may be lost");
        }
    }
}

fn resource(instance: String) -> Resource {
    // Later detectors override earlier attributes, so an instance in `OTEL_RESOURCE_ATTRIBUTES` wins.
    Resource::builder_empty()
        .with_attribute(KeyValue::new("service.instance.id", instance))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()))
        .with_service_name("baton")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Collects and sends batches until every handle is dropped.
async fn run(mut queue: mpsc::Receiver<Work>, mut sender: Sender) {
    while let Some(first) = queue.recv().await {
        let due = Instant::now() + BATCH_TIME;
        let (mut spans, mut exchanges, mut flushed) = (Vec::new(), 0, None);
        let mut next = Some(first);
        while let Some(work) = next {
            match work {
                Work::Exchange(event) => {
                    spans.extend(spans::of(&event));
                    exchanges += 1;
                }
                // Ends the batch, so that the caller does not wait for the rest of its time.
                Work::Flush(done) => {
                    flushed = Some(done);
                    break;
                }
            }
            if exchanges == BATCH {
                break;
            }
            // `None` when the batch's time is over, or when every handle was dropped.
            next = timeout_at(due, queue.recv()).await.ok().flatten();
        }
        if exchanges > 0 {
            sender.send(spans, exchanges as u64).await;
        }
        if let Some(done) = flushed {
            let _ = done.send(());
        }
    }
}

struct Sender {
    exporter: SpanExporter,
    dropped: Counter,
    /// Whether the last batch was lost. A series of failures is logged once.
    failing: bool,
}

impl Sender {
    async fn send(&mut self, spans: Vec<SpanData>, exchanges: u64) {
        let sent = self.exporter.export(spans).await;
        if let Err(error) = &sent {
            self.dropped.inc_by(exchanges);
            if !self.failing {
                tracing::warn!(%error, "failed to send spans; dropping them until the collector accepts some");
            }
        }
        self.failing = sent.is_err();
    }
}

/// Maximum bytes of a collector's response, which normally has only a few.
const ANSWER_BYTES: usize = 64 << 10;

/// A hyper client with Mozilla's root certificates.
#[derive(Debug)]
pub(super) struct Hyper {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    limit: Duration,
}

impl Hyper {
    pub(super) fn new(limit: Duration) -> io::Result<Self> {
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())
            .map_err(io::Error::other)?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            limit,
        })
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.client.request(request.map(Full::new)).await?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES).collect().await?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    }
}

impl HttpClient for Hyper {
    // The signature that the trait's `async_trait` macro generates.
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async move { tokio::time::timeout(self.limit, self.exchange(request)).await? })
    }
}
