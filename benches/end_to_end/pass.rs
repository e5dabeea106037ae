//! The baseline: a proxy of plain hyper that forwards requests, either streaming or collecting them.
//!
//! This proxy runs as a separate process, with the same runtime as baton.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

type Body = UnsyncBoxBody<Bytes, hyper::Error>;
type Up = Client<HttpConnector, Body>;

/// Serves until it is killed. Prints the same line as baton.
pub(crate) fn run(collects: bool, upstream: SocketAddr) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client: Up = Client::builder(TokioExecutor::new()).build(connector);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("listening on http://{}", listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let client = client.clone();
            let service = service_fn(move |request| pass(request, client.clone(), collects, upstream));
            tokio::spawn(async move {
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}

async fn pass(
    request: Request<Incoming>,
    client: Up,
    collects: bool,
    upstream: SocketAddr,
) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |p| p.as_str());
    parts.uri = Uri::try_from(format!("http://{upstream}{path}")).unwrap();
    parts.headers.remove("host");
    let body: Body = if collects {
        let whole = body.collect().await.unwrap().to_bytes();
        Full::new(whole).map_err(|never| match never {}).boxed_unsync()
    } else {
        body.boxed_unsync()
    };
    client.request(Request::from_parts(parts, body)).await
}
