//! Opens connections to the primary: TCP, TLS, login, Sentinels, and a cluster's redirections.

use std::path::Path;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, FromRedisValue, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisResult, TlsCertificates,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::answers::{greeting, read, redirection};
use super::scripts::RedisScript;
use super::settings::{ServerState, WriteWait};
use crate::config::{ServerDurability, StoreAddress, Topology};

/// Maximum redirections for one connection. A cluster needs one, and another one while a slot moves.
const REDIRECTIONS: usize = 4;

/// Maximum commands waiting to be written to a connection.
const BACKLOG: usize = 1024;

/// Opens connections with the configured settings.
pub(super) struct Dialer {
    pub(super) address: StoreAddress,
    pub(super) durability: ServerDurability,
    /// Key of the schema version. Its slot determines the node of a cluster.
    pub(super) slot: String,
    tls: Option<TlsCertificates>,
}

/// An open connection to the primary.
pub(super) struct PrimaryConnection {
    pub(super) connection: MultiplexedConnection,
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
        })
    }

    /// Finds the primary and connects to it.
    pub(super) async fn connect(&self) -> Result<PrimaryConnection, String> {
        let (host, port) = match &self.address.topology {
            Topology::Sentinel { group } => self.ask_sentinels(group).await?,
            Topology::Single | Topology::Cluster => return self.connect_to_any().await,
        };
        self.line(&host, port).await
    }

    async fn connect_to_any(&self) -> Result<PrimaryConnection, String> {
        let mut last = String::new();
        // The first server that responds: any node of a cluster redirects to the right one.
        for (host, port) in &self.address.servers {
            match self.line(host, *port).await {
                Ok(line) => return Ok(line),
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
                Err(error) => match redirection(&error) {
                    Some((other, at)) => {
                        // An empty host means the same host.
                        host = Some(other).filter(|other| !other.is_empty()).unwrap_or(host);
                        port = at;
                        continue;
                    }
                    None => return Err(describe(error)),
                },
            }
            return self.greet(connection).await.map_err(describe);
        }
        Err(format!("{}: redirected too often", self.address))
    }

    /// Loads the scripts and queries the server's state.
    async fn greet(&self, mut connection: MultiplexedConnection) -> Result<PrimaryConnection, String> {
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
            digests,
            wait: server.wait(self.durability),
            server,
        })
    }

    /// Returns the primary's address from the first Sentinel that knows it.
    async fn ask_sentinels(&self, group: &str) -> Result<(String, u16), String> {
        let mut last = String::new();
        for (host, port) in &self.address.servers {
            match self.ask_sentinel(host, *port, group).await {
                Ok(found) => return Ok(found),
                Err(error) => last = format!("Sentinel {host}:{port}: {error}"),
            }
        }
        Err(last)
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
