//! The proxy's own clients: who may ask, and under which name.

use http::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};

use super::headers::CREDENTIALS;
use crate::config::Client;

/// Everybody's name where no clients are configured.
const LOCAL: &str = "local";

/// A client that may ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The principal.
    pub(super) name: String,
    /// Where its key was; it must not go upstream.
    pub(super) key_header: Option<HeaderName>,
}

/// The client whose key one of the credential headers holds.
pub(super) fn authenticate(clients: &[Client], headers: &HeaderMap) -> Option<Known> {
    if clients.is_empty() {
        return Some(Known {
            name: LOCAL.to_owned(),
            key_header: None,
        });
    }
    let mut known = None;
    for &name in CREDENTIALS {
        for value in headers.get_all(name) {
            let given = Sha256::digest(bare(value.as_bytes()));
            for client in clients {
                // Digests are compared, all of them and to their end: the time tells nothing about a key.
                if same(&given, &Sha256::digest(client.key.reveal())) {
                    known = Some(Known {
                        name: client.name.clone(),
                        key_header: Some(HeaderName::from_static(name)),
                    });
                }
            }
        }
    }
    known
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
