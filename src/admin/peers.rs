//! Other replicas: asks their admin listeners what this one's inspector shows as well. Each is given a bounded time, and one
//! that does not answer is named.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;

use crate::config::{self, Secret};

/// How long a replica may take to answer: longer than a search may.
pub(super) const TIME: Duration = Duration::from_secs(3);

/// Maximum length of an answer: bodies are shown in full.
const ANSWER_BYTES: usize = 128 << 20;

/// The other replicas.
pub struct Peers {
    /// What this replica is called.
    name: String,
    all: Vec<Peer>,
}

/// One other replica.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) name: String,
    url: String,
    token: Option<Secret>,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

/// A replica's answer.
#[derive(Debug, Clone)]
pub(super) struct PeerAnswer {
    pub(super) replica: String,
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// A replica that did not answer, or not as one. The names are API.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Away {
    pub(super) replica: String,
    pub(super) why: String,
}

/// Whose answer a request is for.
pub(super) enum Scope<'a> {
    /// This replica's own.
    Here,
    /// That of all replicas.
    All,
    /// That of one other.
    Peer(&'a Peer),
    /// Nobody's.
    Unknown,
}

impl Peers {
    /// No other replica.
    pub fn none() -> Self {
        Self {
            name: String::new(),
            all: Vec::new(),
        }
    }

    /// The config's. Opens no connection.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(admin: &config::Admin) -> io::Result<Self> {
        let name = admin.name.clone().unwrap_or_else(|| admin.listen.to_string());
        if admin.peers.is_empty() {
            return Ok(Self { name, ..Self::none() });
        }
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())
            .map_err(io::Error::other)?
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        // All replicas may have the same list.
        let others = admin.peers.iter().filter(|peer| peer.name != name);
        let all = others.map(|peer| Peer {
            name: peer.name.clone(),
            url: peer.url.clone(),
            token: peer.token.clone(),
            client: client.clone(),
        });
        let all = all.collect();
        Ok(Self { name, all })
    }

    /// What this replica is called.
    pub(super) fn own_name(&self) -> &str {
        &self.name
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.all.iter()
    }

    /// Whom a request asks that names this replica, or none.
    pub(super) fn scope(&self, named: Option<&str>) -> Scope<'_> {
        match named {
            None if self.all.is_empty() => Scope::Here,
            None => Scope::All,
            Some(HERE) => Scope::Here,
            Some(name) if name == self.name => Scope::Here,
            Some(name) => {
                let peer = self.all.iter().find(|peer| peer.name == name);
                peer.map_or(Scope::Unknown, Scope::Peer)
            }
        }
    }

    /// What every other replica says to `/api/{path}?{query}`, in the order of the config, and which are away.
    pub(super) async fn ask(&self, path: &str, query: &str) -> (Vec<PeerAnswer>, Vec<Away>) {
        let (mut told, mut away) = (Vec::new(), Vec::new());
        for (peer, answer) in self
            .all
            .iter()
            .zip(join_all(self.all.iter().map(|peer| peer.ask(path, query))).await)
        {
            match answer {
                Ok(answer) => told.push(answer),
                Err(why) => away.push(Away {
                    replica: peer.name.clone(),
                    why,
                }),
            }
        }
        (told, away)
    }
}

/// The replica that is asked, whatever it is called.
const HERE: &str = "here";

impl Peer {
    /// Its own answer to `/api/{path}?{query}`.
    ///
    /// # Errors
    /// Why it does not answer, for people.
    pub(super) async fn ask(&self, path: &str, query: &str) -> Result<PeerAnswer, String> {
        let asked = async {
            let response = self.open(path, query, "application/json").await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
            let body = body.map_err(|_| "its answer broke off".to_owned())?.to_bytes();
            Ok(PeerAnswer {
                replica: self.name.clone(),
                status,
                body,
            })
        };
        match tokio::time::timeout(TIME, asked).await {
            Ok(Ok(told)) if told.status.is_server_error() => {
                Err(format!("it answered {}", told.status.as_u16()))
            }
            Ok(told) => told,
            Err(_) => Err(format!("no answer within {} s", TIME.as_secs())),
        }
    }

    /// The head of its own answer.
    pub(super) async fn open(
        &self,
        path: &str,
        query: &str,
        kind: &'static str,
    ) -> Result<Response<Incoming>, String> {
        let separator = if query.is_empty() { "" } else { "&" };
        let uri = format!("{}/api/{path}?{query}{separator}replica={HERE}", self.url);
        let mut request = Request::get(uri).header(ACCEPT, HeaderValue::from_static(kind));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.reveal()));
        }
        let request = request.body(Empty::new()).map_err(|error| error.to_string())?;
        // The error's own text may hold addresses; they are the config's.
        let response = self.client.request(request).await;
        let response = response.map_err(|error| match error.is_connect() {
            true => "it cannot be reached".to_owned(),
            false => "the connection broke off".to_owned(),
        })?;
        match response.status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err("it refuses the token (admin.peers)".to_owned())
            }
            _ => Ok(response),
        }
    }
}
