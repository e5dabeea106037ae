//! Other replicas: queries their admin listeners for the data that this one's inspector shows. Each query has a
//! timeout, and a replica that does not answer is named.

use std::future::Future;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
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

use crate::state::config::{self, Secret};
use crate::state::store::SharedStore;
use crate::state::store::replicas::Replica;

/// How long a replica may take to answer: longer than a search may.
pub(super) const TIME: Duration = Duration::from_secs(3);

/// Maximum length of an answer: bodies are shown in full.
const ANSWER_BYTES: usize = 128 << 20;

/// How often a replica reports in the store that it is alive, and looks for others.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long a replica that ends may take to take itself out of the register.
const LEAVE: Duration = Duration::from_secs(1);

/// The other replicas: those of the config, and those that registered themselves in the store.
pub struct Peers {
    /// What this replica is called.
    name: String,
    /// The config's.
    given: Vec<Peer>,
    /// All that are known now, the config's first.
    all: RwLock<Arc<[Peer]>>,
    /// Identifies this replica in its queries to others.
    own: Option<Own>,
}

/// The token with which a replica queries others that it found in the store.
struct Own {
    client: HttpClient,
    token: Option<Secret>,
    /// Its entry in the register.
    entry: Option<Replica>,
}

type HttpClient = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// One other replica.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) name: String,
    url: String,
    token: Option<Secret>,
    client: HttpClient,
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
pub(super) struct OfflineReplica {
    pub(super) replica: String,
    pub(super) why: String,
}

/// Whose answer a request is for.
pub(super) enum Scope {
    /// This replica's own.
    Here,
    /// That of all replicas.
    All,
    /// The client for one other replica.
    Peer(Box<Peer>),
    /// Nobody's.
    Unknown,
}

impl Peers {
    /// No other replica.
    pub fn none() -> Self {
        Self::with(String::new(), Vec::new(), None)
    }

    fn with(name: String, given: Vec<Peer>, own: Option<Own>) -> Self {
        Self {
            name,
            all: RwLock::new(given.clone().into()),
            given,
            own,
        }
    }

    /// The config's. Opens no connection.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(admin: &config::Admin) -> io::Result<Self> {
        let place = admin.url.as_deref().and_then(|url| url.split_once("://"));
        let place = place.map(|(_, rest)| rest.split('/').next().unwrap_or_default().to_owned());
        let name = admin.name.clone().or(place);
        let name = name.unwrap_or_else(|| admin.listen.to_string());
        if admin.peers.is_empty() && admin.url.is_none() {
            return Ok(Self::with(name, Vec::new(), None));
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
        let given = others.map(|peer| Peer {
            name: peer.name.clone(),
            url: peer.url.clone(),
            token: peer.token.clone(),
            client: client.clone(),
        });
        let given = given.collect();
        let entry = admin.url.as_ref().map(|url| Replica {
            name: name.clone(),
            url: url.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        });
        let token = admin.token.clone();
        Ok(Self::with(name, given, Some(Own { client, token, entry })))
    }

    /// What this replica is called.
    pub(super) fn own_name(&self) -> &str {
        &self.name
    }

    /// All that are known now.
    pub(super) fn all(&self) -> Arc<[Peer]> {
        Arc::clone(&self.all.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether there are others, or may be soon.
    pub(super) fn are_possible(&self) -> bool {
        self.own.is_some()
    }

    /// Registers this replica in the store, and finds the others there, until `ended`; then it leaves. Without `admin.url`,
    /// or in a store of its own, it does nothing.
    pub async fn register(&self, store: &SharedStore, ended: impl Future<Output = ()>) {
        let Some(entry) = self.own.as_ref().and_then(|own| own.entry.as_ref()) else {
            return;
        };
        if !store.shared() {
            return;
        }
        let heartbeat = async {
            let mut reported = false;
            loop {
                match store.announce(entry).await {
                    Ok(registered) => {
                        reported = false;
                        self.found(&registered);
                    }
                    // Those that are known stay.
                    Err(error) if !reported => {
                        reported = true;
                        tracing::warn!(target: "baton", %error, "cannot look for other replicas in the store");
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(HEARTBEAT).await;
            }
        };
        tokio::select! {
            () = heartbeat => {}
            () = ended => {}
        }
        // One that cannot leave is named as offline for a while.
        let _ = tokio::time::timeout(LEAVE, store.leave(&entry.name)).await;
    }

    /// Takes over what the register says. What the config says of a replica counts.
    fn found(&self, registered: &[Replica]) {
        let Some(own) = &self.own else { return };
        let is_new = |replica: &&Replica| {
            replica.name != self.name && self.given.iter().all(|peer| peer.name != replica.name)
        };
        let found = registered.iter().filter(is_new).map(|replica| Peer {
            name: replica.name.clone(),
            url: replica.url.clone(),
            token: own.token.clone(),
            client: own.client.clone(),
        });
        let all: Arc<[Peer]> = self.given.iter().cloned().chain(found).collect();
        let names = |all: &[Peer]| all.iter().map(|peer| peer.name.clone()).collect::<Vec<_>>();
        let mut known = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if names(&known) != names(&all) {
            tracing::info!(target: "baton", replicas = ?names(&all), "the other replicas are these");
        }
        *known = all;
    }

    /// The replicas that a request with this name, or without one, is for.
    pub(super) fn scope(&self, named: Option<&str>) -> Scope {
        let all = self.all();
        match named {
            None if all.is_empty() => Scope::Here,
            None => Scope::All,
            Some(HERE) => Scope::Here,
            Some(name) if name == self.name => Scope::Here,
            Some(name) => {
                let peer = all.iter().find(|peer| peer.name == name);
                peer.map_or(Scope::Unknown, |peer| Scope::Peer(Box::new(peer.clone())))
            }
        }
    }

    /// The answers of the other replicas to `/api/{path}?{query}`, in the order of the config, and which are offline.
    pub(super) async fn ask(&self, path: &str, query: &str) -> (Vec<PeerAnswer>, Vec<OfflineReplica>) {
        let all = self.all();
        let (mut replies, mut offline) = (Vec::new(), Vec::new());
        let answers = join_all(all.iter().map(|peer| peer.ask(path, query))).await;
        for (peer, answer) in all.iter().zip(answers) {
            match answer {
                Ok(answer) => replies.push(answer),
                Err(why) => offline.push(OfflineReplica {
                    replica: peer.name.clone(),
                    why,
                }),
            }
        }
        (replies, offline)
    }
}

/// The name by which every replica knows itself.
const HERE: &str = "here";

impl Peer {
    /// Its own answer to `/api/{path}?{query}`.
    ///
    /// # Errors
    /// Why it does not answer, for people.
    pub(super) async fn ask(&self, path: &str, query: &str) -> Result<PeerAnswer, String> {
        let requested = async {
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
        match tokio::time::timeout(TIME, requested).await {
            Ok(Ok(reply)) if reply.status.is_server_error() => {
                Err(format!("it answered {}", reply.status.as_u16()))
            }
            Ok(reply) => reply,
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
                Err("it refuses the token (admin.token, or admin.peers)".to_owned())
            }
            _ => Ok(response),
        }
    }
}
