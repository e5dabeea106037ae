//! The proxy's own clients: who may ask, and under which name.

use http::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};

use super::headers::CREDENTIALS;
use crate::config::Client;

/// Everybody's name where no clients are configured.
const LOCAL: &str = "local";

/// The clients' keys, as digests: comparing those, all of them and to their end, tells nothing about a key.
pub(super) struct Keyring(Vec<([u8; 32], String)>);

/// A client that may ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The principal.
    pub(super) name: String,
    /// Where its key was; it must not go upstream.
    pub(super) key_header: Option<HeaderName>,
}

impl Keyring {
    /// None configured: everybody is let in.
    pub(super) fn new(clients: &[Client]) -> Self {
        let digest = |c: &Client| (Sha256::digest(c.key.reveal()).into(), c.name.clone());
        Self(clients.iter().map(digest).collect())
    }

    /// The client whose key one of the credential headers holds.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Option<Known> {
        if self.0.is_empty() {
            return Some(Known {
                name: LOCAL.to_owned(),
                key_header: None,
            });
        }
        let mut given = CREDENTIALS
            .iter()
            .flat_map(|name| headers.get_all(*name).iter().map(move |value| (*name, value)));
        given.find_map(|(header, value)| {
            let name = self.holder(bare(value.as_bytes()))?;
            Some(Known {
                name: name.to_owned(),
                key_header: Some(HeaderName::from_static(header)),
            })
        })
    }

    fn holder(&self, key: &[u8]) -> Option<&str> {
        let given = Sha256::digest(key);
        self.0
            .iter()
            .fold(None, |found, (known, name)| match same(&given, known) {
                true => Some(name.as_str()),
                false => found,
            })
    }
}

fn same(a: &[u8], b: &[u8]) -> bool {
    a.iter().zip(b).fold(0, |differing, (x, y)| differing | (x ^ y)) == 0
}

/// Without `Bearer `.
fn bare(value: &[u8]) -> &[u8] {
    match value.split_at_checked(7) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => key.trim_ascii(),
        _ => value,
    }
}
