//! The address of a store server: `store.url`, checked.

use std::fmt;

use percent_encoding::percent_decode_str;
use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};

/// Default port of a Sentinel.
const SENTINEL_PORT: &str = ":26379";

/// Error for anything that the `redis` crate cannot parse. The crate's error may quote the URL, which may
/// hold a password.
const UNREADABLE: AddressError = "the URL has no readable login, host, port or database";

/// How the primary server is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// The server at the address is the primary.
    Single,
    /// The Sentinels at these addresses name the primary of a group.
    Sentinel {
        /// Name of the group, as configured in the Sentinels.
        group: String,
    },
    /// The addresses are nodes of a cluster. All records of a store share one slot.
    Cluster,
}

/// The servers and the login. Never printed with its password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreAddress {
    /// How the primary server is found.
    pub topology: Topology,
    /// Host and port of each server. Never empty.
    pub servers: Vec<(String, u16)>,
    /// Whether connections use TLS.
    pub tls: bool,
    /// ACL user. `None` means the default user.
    pub user: Option<String>,
    /// Password. `None` means no login.
    pub password: Option<String>,
    /// Database number.
    pub db: i64,
}

/// Error of a URL. Static, so it cannot quote the URL.
pub(crate) type AddressError = &'static str;

/// Schemes, each with its topology and whether it uses TLS.
const SCHEMES: &[(&str, Scheme, bool)] = &[
    ("redis", Scheme::Single, false),
    ("rediss", Scheme::Single, true),
    ("valkey", Scheme::Single, false),
    ("valkeys", Scheme::Single, true),
    ("redis-sentinel", Scheme::Sentinel, false),
    ("rediss-sentinel", Scheme::Sentinel, true),
    ("redis-cluster", Scheme::Cluster, false),
    ("rediss-cluster", Scheme::Cluster, true),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Single,
    Sentinel,
    Cluster,
}

impl StoreAddress {
    /// Parses `SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/PATH]`.
    ///
    /// The path is the database number, or the group name for Sentinels. In user and password, every
    /// character other than letters, digits and `-._~` is percent-encoded.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid. The error never quotes the URL.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let parts = url.split_once("://");
        let (scheme, rest) = parts.ok_or("a URL begins with a scheme, such as redis://")?;
        let known = SCHEMES.iter().find(|(name, ..)| *name == scheme);
        let (_, scheme, tls) = known.ok_or(
            "the scheme is not one of redis, rediss, redis-sentinel, rediss-sentinel, redis-cluster, rediss-cluster",
        )?;
        // The crate accepts options in a query, which could contradict the config.
        if rest.contains(['?', '#']) {
            return Err("nothing follows the path");
        }
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        // The last `@` ends the login. A host cannot contain one, while a password might.
        let (login, hosts) = place.split_at(place.rfind('@').map_or(0, |at| at + 1));
        let db = match scheme {
            Scheme::Single => path,
            // Their path is not a database number.
            Scheme::Sentinel | Scheme::Cluster => "",
        };
        let mut servers = Vec::new();
        let mut settings = RedisConnectionInfo::default();
        for host in hosts.split(',') {
            let port = match scheme {
                // No colon follows the bracket of an IPv6 address, so there is no port.
                Scheme::Sentinel if host.rfind(':') <= host.rfind(']') => SENTINEL_PORT,
                _ => "",
            };
            let read = format!("redis://{login}{host}{port}/{db}").into_connection_info();
            let server = read.map_err(|_| UNREADABLE)?;
            match server.addr() {
                ConnectionAddr::Tcp(host, port) if *port != 0 => servers.push((host.clone(), *port)),
                _ => return Err(UNREADABLE),
            }
            settings = server.redis_settings().clone();
        }
        let user = settings.username().map(str::to_owned);
        let password = settings.password().map(str::to_owned);
        if user.is_some() && password.is_none() {
            return Err("the user has no password: USER:PASSWORD@");
        }
        if *scheme == Scheme::Single && servers.len() > 1 {
            return Err("several servers are Sentinels (redis-sentinel://) or a cluster (redis-cluster://)");
        }
        let topology = match scheme {
            Scheme::Single => Topology::Single,
            Scheme::Cluster if path.is_empty() => Topology::Cluster,
            Scheme::Cluster => return Err("a cluster has no numbered databases: nothing follows the hosts"),
            Scheme::Sentinel if path.is_empty() => {
                return Err("the group's name is missing: redis-sentinel://HOST:26379/NAME");
            }
            Scheme::Sentinel => {
                let group = percent_decode_str(path).decode_utf8();
                let group = group.map_err(|_| UNREADABLE)?.into_owned();
                Topology::Sentinel { group }
            }
        };
        Ok(Self {
            topology,
            servers,
            tls: *tls,
            user,
            password,
            db: settings.db(),
        })
    }
}

/// Formats the address without user and password.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secure = if self.tls { "s" } else { "" };
        let kind = match self.topology {
            Topology::Single => "",
            Topology::Sentinel { .. } => "-sentinel",
            Topology::Cluster => "-cluster",
        };
        write!(f, "redis{secure}{kind}://")?;
        for (n, (host, port)) in self.servers.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            match host.contains(':') {
                true => write!(f, "{comma}[{host}]:{port}")?,
                false => write!(f, "{comma}{host}:{port}")?,
            }
        }
        match &self.topology {
            Topology::Sentinel { group } => write!(f, "/{group}"),
            _ if self.db != 0 => write!(f, "/{}", self.db),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_shown_without_their_secrets() {
        for (url, shown) in [
            ("redis://localhost", "redis://localhost:6379"),
            (
                "rediss://:p%40ss@cache.example:7000/3",
                "rediss://cache.example:7000/3",
            ),
            ("valkey://baton:secret@[::1]:6380", "redis://[::1]:6380"),
            (
                "redis-sentinel://a,b:26380/main",
                "redis-sentinel://a:26379,b:26380/main",
            ),
            ("rediss-cluster://u:p@a:1,b:2", "rediss-cluster://a:1,b:2"),
        ] {
            let address = StoreAddress::parse(url).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), shown);
        }
        let address = StoreAddress::parse("rediss://baton:p%40s%3As@h/1").unwrap();
        assert_eq!(
            (address.user.as_deref(), address.password.as_deref()),
            (Some("baton"), Some("p@s:s"))
        );
        assert_eq!((address.tls, address.db), (true, 1));
    }

    #[test]
    fn what_is_no_url_is_reported_without_its_contents() {
        for url in [
            "localhost:6379",
            "http://localhost",
            "redis://",
            "redis://h:0",
            "redis://h:p",
            "redis://h/x",
            "redis://h?secret=1",
            "redis://secret@h",
            "redis://a,b",
            "redis-sentinel://a",
            "redis-cluster://a/1",
            "redis://:secret@",
            "redis://[::1",
            "redis-sentinel://,a/main",
            "redis://:secret%ff@h",
        ] {
            let wrong = StoreAddress::parse(url).unwrap_err();
            assert!(!wrong.contains("secret"), "{url}");
        }
    }
}
