//! The exporter's HTTP client.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};

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
