//! Opens connections to the primary: TCP, TLS, login, Sentinels, and a cluster's redirections.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, FromRedisValue, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisResult, TlsCertificates,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::answers::{greeting, read, redirection, shortened};
use super::scripts::RedisScript;
use super::settings::{ServerState, WriteWait};
use crate::config::{ServerDurability, StoreAddress, Topology};

/// Maximum redirections for one connection. A cluster needs one, and another one while a slot moves.
const REDIRECTIONS: usize = 4;

/// Timeout of an attempt to connect to one server, and of a question to one Sentinel.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Default of [`Dialer::ask_again`].
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Maximum commands waiting to be written to a connection.
const BACKLOG: usize = 1024;

/// Opens connections with the configured settings.
pub(super) struct Dialer {
    pub(super) address: StoreAddress,
    pub(super) durability: ServerDurability,
    /// Key of the schema version. Its slot determines the node of a cluster.
    pub(super) slot: String,
    tls: Option<TlsCertificates>,
    /// Interval between two questions to the Sentinels while a connection is open.
    pub(super) ask_again: Duration,
    /// Index of the server that led to the last connection.
    last_used: AtomicUsize,
}

/// An open connection to the primary.
pub(super) struct PrimaryConnection {
    pub(super) connection: MultiplexedConnection,
    /// Host and port of the server.
    pub(super) address: (String, u16),
    /// Digests of the scripts, in the order of [`RedisScript::ALL`].
    pub(super) digests: Vec<String>,
    /// Role, version and settings of the server.
    pub(super) server: ServerState,
    /// How a write becomes durable on this server, or the reason why it cannot.
    pub(super) wait: Result<WriteWait, String>,
}

impl Dialer {
    /// Creates a dialer. `ca` contains the CA certificates for the server; `None` means Mozilla's roots.
    pub(super) fn new(
        address: StoreAddress,
        durability: ServerDurability,
        slot: String,
        ca: Option<&Path>,
    ) -> Result<Self, String> {
        let tls = address.tls.then(|| certificates(ca)).transpose()?;
        Ok(Self {
            address,
            durability,
            slot,
            tls,
            ask_again: ASK_AGAIN,
            last_used: AtomicUsize::new(0),
        })
    }

    /// Finds the primary and connects to it.
    pub(super) async fn connect(&self) -> Result<PrimaryConnection, String> {
        let (servers, first) = match &self.address.topology {
            Topology::Sentinel { group } => {
                let named = self.ask_sentinels(group).await?.into_iter();
                // A Sentinel may name a server that is no longer the primary.
                (named.map(|(primary, _)| primary).collect(), 0)
            }
            // A node of a cluster redirects to the right one.
            Topology::Single | Topology::Cluster => (
                self.address.servers.clone(),
                self.last_used.load(Ordering::Relaxed),
            ),
        };
        let mut last = String::new();
        for at in (first..servers.len()).chain(0..first) {
            let (host, port) = &servers[at];
            match in_time(self.line(host, *port)).await {
                Ok(line) => {
                    self.last_used.store(at, Ordering::Relaxed);
                    return Ok(line);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Connects to a server, or to the one that it redirects to.
    async fn line(&self, host: &str, port: u16) -> Result<PrimaryConnection, String> {
        let (mut host, mut port) = (host.to_owned(), port);
        for _ in 0..REDIRECTIONS {
            let place = format!("{host}:{port}");
            let describe = |error: String| format!("{place}: {error}");
            let mut connection = self.open(&host, port, true).await.map_err(describe)?;
            let mut command = Cmd::new();
            // Reads the schema version. In a cluster, the reply redirects to the node of the store's slot.
            command.arg("GET").arg(&self.slot);
            match one(&mut connection, &command).await {
                Ok(schema) => known_schema(schema).map_err(describe)?,
                // Another host gets the password only if the config trusts the servers to name one.
                Err(error) => {
                    match redirection(&error).filter(|_| self.address.topology == Topology::Cluster) {
                        Some((other, at)) => {
                            // An empty host means the same host.
                            host = Some(other).filter(|other| !other.is_empty()).unwrap_or(host);
                            port = at;
                            continue;
                        }
                        None => return Err(describe(error)),
                    }
                }
            }
            return self.greet(connection, (host, port)).await.map_err(describe);
        }
        Err(format!("{}: redirected too often", self.address))
    }

    /// Loads the scripts and queries the server's state.
    async fn greet(
        &self,
        mut connection: MultiplexedConnection,
        address: (String, u16),
    ) -> Result<PrimaryConnection, String> {
        let mut pipe = Pipeline::new();
        for script in RedisScript::ALL {
            pipe.cmd("SCRIPT").arg("LOAD").arg(script.source());
        }
        pipe.cmd("INFO");
        pipe.cmd("CONFIG").arg("GET").arg("appendfsync");
        let answers = connection.send_packed_commands(&pipe, 0, pipe.len()).await;
        let answers = answers.map_err(|error| error.to_string())?;
        let (digests, server) = greeting(RedisScript::ALL.len(), answers)?;
        // A replica accepts no writes. The address, or the Sentinel's information, is out of date.
        if server.role != "master" {
            return Err(format!("it is a {}, and cannot be written to", server.role));
        }
        Ok(PrimaryConnection {
            connection,
            address,
            digests,
            wait: server.wait(self.durability),
            server,
        })
    }

    /// Asks all Sentinels at once, and returns the servers that they name as the primary with their votes, most first.
    ///
    /// Does not wait for the others if more than half agree: those may hang, or have old information.
    async fn ask_sentinels(&self, group: &str) -> Result<Vec<((String, u16), usize)>, String> {
        let sentinels = &self.address.servers;
        let ask = async |(host, port): &(String, u16)| {
            let asked = in_time(self.ask_sentinel(host, *port, group)).await;
            asked.map_err(|error| format!("Sentinel {host}:{port}: {error}"))
        };
        let mut answers: FuturesUnordered<_> = sentinels.iter().map(ask).collect();
        let (mut named, mut last) = (BTreeMap::new(), String::new());
        while let Some(answer) = answers.next().await {
            match answer {
                Err(error) => last = error,
                Ok(primary) => {
                    let votes = named.entry(primary).or_insert(0);
                    *votes += 1;
                    if *votes * 2 > sentinels.len() {
                        break;
                    }
                }
            }
        }
        let mut named: Vec<_> = named.into_iter().collect();
        named.sort_by_key(|(_, votes)| Reverse(*votes));
        match named.is_empty() {
            true => Err(last),
            false => Ok(named),
        }
    }

    /// Returns when more than half of the Sentinels name another primary than this one; never without Sentinels.
    ///
    /// After a failover the former primary may still be reachable, and accept writes that will be lost.
    pub(super) async fn is_replaced(&self, primary: &(String, u16)) {
        let Topology::Sentinel { group } = &self.address.topology else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(self.ask_again).await;
            let named = self.ask_sentinels(group).await.unwrap_or_default();
            let is_other = |(other, votes): &((String, u16), usize)| {
                other != primary && votes * 2 > self.address.servers.len()
            };
            if named.first().is_some_and(is_other) {
                return;
            }
        }
    }

    async fn ask_sentinel(&self, host: &str, port: u16, group: &str) -> Result<(String, u16), String> {
        // Sentinels have their own logins, usually none, and must not receive the server's password.
        let mut connection = self.open(host, port, false).await?;
        let mut command = Cmd::new();
        command.arg("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(group);
        let found: Option<(String, u16)> = one(&mut connection, &command).await?;
        found.ok_or_else(|| format!("it knows no group {group}"))
    }

    /// Opens a connection. Its background task ends with the last clone.
    async fn open(&self, host: &str, port: u16, login: bool) -> Result<MultiplexedConnection, String> {
        let mut settings = RedisConnectionInfo::default().set_lib_name("baton", env!("CARGO_PKG_VERSION"));
        if login {
            settings = settings.set_db(self.address.db);
            if let Some(user) = &self.address.user {
                settings = settings.set_username(user);
            }
            if let Some(password) = &self.address.password {
                settings = settings.set_password(password);
            }
        }
        // Each call has its own time limit, which includes the wait for a connection.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(BACKLOG);
        let client = self.client(host.to_owned(), port, settings);
        let client = client.map_err(|error| error.to_string())?;
        let opened = client.get_multiplexed_async_connection_with_config(&config).await;
        opened.map_err(|error| error.to_string())
    }

    fn client(&self, host: String, port: u16, settings: RedisConnectionInfo) -> RedisResult<Client> {
        let address = match self.tls {
            None => ConnectionAddr::Tcp(host, port),
            Some(_) => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
        };
        let info = address
            .into_connection_info()?
            // A call is a small packet, which must not wait for more to send.
            .set_tcp_settings(TcpSettings::default().set_nodelay(true))
            .set_redis_settings(settings);
        match &self.tls {
            None => Client::open(info),
            Some(tls) => Client::build_with_tls(info, tls.clone()),
        }
    }
}

/// Checks the schema version. The present version stores none, so any stored one is later.
fn known_schema(stored: Option<String>) -> Result<(), String> {
    stored.map_or(Ok(()), |found| {
        Err(format!(
            "the store has schema version {found}, and this program knows version 1: use the version of baton that wrote \
             it, or another store.prefix"
        ))
    })
}

/// Limits an attempt at one server. The text of an error is the server's, and as long as it likes.
async fn in_time<T>(attempt: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let ended = tokio::time::timeout(CONNECT_TIMEOUT, attempt).await;
    ended
        .unwrap_or_else(|_| Err("it takes too long to connect".to_owned()))
        .map_err(shortened)
}

/// Sends one command. An error reply is an error.
async fn one<T: FromRedisValue>(connection: &mut MultiplexedConnection, command: &Cmd) -> Result<T, String> {
    let answer = connection.send_packed_command(command).await;
    read(answer.map_err(|error| error.to_string())?)
}

/// Reads the CA certificates of a file. Without a file the client uses Mozilla's roots.
fn certificates(ca: Option<&Path>) -> Result<TlsCertificates, String> {
    let read = |file: &Path| {
        let describe = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let pem = std::fs::read(file).map_err(|error| describe(&error))?;
        match CertificateDer::pem_slice_iter(&pem).next() {
            Some(Ok(_)) => Ok(pem),
            Some(Err(error)) => Err(describe(&error)),
            None => Err(describe(&"it has no certificate")),
        }
    };
    Ok(TlsCertificates {
        client_tls: None,
        root_cert: ca.map(read).transpose()?,
    })
}
