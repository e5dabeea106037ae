//! Readers of `admin.name` and `admin.peers`.

use super::PeerConfig;
use super::raw::{Environment, LocatedValue, Raw};
use super::value::{ValueResult, collect, value_error};

impl LocatedValue {
    /// A name for one of several processes: it is in a header and in a query.
    pub(super) fn replica_name(&self) -> ValueResult<String> {
        let text = self.text()?;
        let usable = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
        match text != "here" && text.chars().all(usable) {
            true => Ok(text),
            false => value_error(
                format!("{text:?} cannot be a name here"),
                "use letters, digits, `-`, `_` and `.`, and not the name `here`",
            ),
        }
    }

    /// Other processes: tables with `url`, and `token` and `name` where they have one; at most `most`.
    pub(super) fn peers(&self, env: &Environment, min: usize, most: usize) -> ValueResult<Vec<PeerConfig>> {
        let help = "write [{ url = \"http://HOST:PORT\", token = { env = \"NAME\" } }]";
        let items = self.list("tables", help)?;
        if items.len() > most {
            return value_error(
                format!("there are {} peers", items.len()),
                format!("give at most {most}"),
            );
        }
        let peers = collect(items.iter().map(|item| (&item.origin, item.peer(env, min, help))))?;
        let double = peers
            .iter()
            .enumerate()
            .find(|(at, peer)| peers[..*at].iter().any(|earlier| earlier.name == peer.name));
        match double {
            Some((_, peer)) => value_error(
                format!("there are two peers {:?}", peer.name),
                "give each a `name` of its own",
            ),
            None => Ok(peers),
        }
    }

    fn peer(&self, env: &Environment, min: usize, help: &str) -> ValueResult<PeerConfig> {
        let Raw::Table(entries) = &self.raw else {
            return value_error(format!("expected a table, found {}", self.raw.kind()), help);
        };
        let known = ["url", "token", "name"];
        if let Some(entry) = entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
            return value_error(format!("a peer has no key `{}`", entry.key), help);
        }
        let of = |key: &str| {
            entries
                .iter()
                .find(|entry| entry.key == key)
                .map(|entry| &entry.value)
        };
        let Some(url) = of("url") else {
            return value_error("the peer has no `url`", help);
        };
        let url = url.base_url()?;
        let authority = url.split_once("://").map_or("", |(_, rest)| rest);
        let name = match of("name") {
            Some(name) => name.replica_name()?,
            None => authority.split('/').next().unwrap_or_default().to_owned(),
        };
        let token = of("token").map(|token| token.secret(env, min)).transpose()?;
        Ok(PeerConfig { name, url, token })
    }
}
