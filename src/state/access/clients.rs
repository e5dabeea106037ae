//! Authenticates the proxy's clients by their keys. Without clients, tells senders apart by their own API keys.

use std::borrow::Cow;
use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue};
use memchr::memmem;
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};

use baton_core::record::LOCAL;
use baton_core::text::units::hex;
use baton_core::wire::error::CREDENTIAL_HEADERS;

/// SHA-256 digests of the client keys, each with the client's name; `None` admits everybody.
///
/// Lookups compare every digest in constant time, so timing reveals nothing about a key.
#[derive(Clone)]
pub struct Keyring {
    clients: Option<Vec<([u8; 32], String)>>,
    /// Whether each API key is a separate principal if no clients are configured.
    by_credential: bool,
}

/// An authenticated client.
#[derive(Debug, PartialEq, Eq)]
pub struct AuthenticatedClient {
    /// Name of the client: the principal of its requests.
    pub name: String,
    /// Client keys found in the request. They must not be sent upstream.
    keys: Vec<Vec<u8>>,
}

impl Keyring {
    /// Creates a keyring of clients, each as digest and name; `None` admits everybody.
    ///
    /// `by_credential` then separates the senders by their API keys.
    pub fn new(clients: Option<Vec<([u8; 32], String)>>, by_credential: bool) -> Self {
        Self {
            clients,
            by_credential,
        }
    }

    /// Removes the clients that are not `present`, and returns their names. The keyring stays closed even if it is empty.
    pub fn retain(&mut self, present: &HashSet<([u8; 32], String)>) -> Vec<String> {
        let clients = self.clients.iter_mut();
        let removed = clients.flat_map(|clients| clients.extract_if(.., |client| !present.contains(client)));
        removed.map(|(_, name)| name).collect()
    }

    /// Authenticates a request by its credential headers.
    ///
    /// `query` cannot authenticate a request. It is only searched for further client keys, which must not
    /// reach upstream.
    pub fn admit(&self, headers: &HeaderMap, query: Option<&str>) -> Option<AuthenticatedClient> {
        let given = CREDENTIAL_HEADERS.iter().flat_map(|name| headers.get_all(*name));
        let Some(clients) = &self.clients else {
            let mut keys = given.map(|value| bare(value.as_bytes()));
            let key = keys.find(|key| self.by_credential && is_lasting(key));
            return Some(AuthenticatedClient {
                name: key.map_or_else(|| LOCAL.to_owned(), key_owner),
                keys: Vec::new(),
            });
        };
        let known = |key: &[u8]| holder(clients, key).map(|name| (name, key.to_vec()));
        // The first valid key authenticates. The others are collected as well: an agent may send its key in
        // several headers.
        let mut presented = given.filter_map(|value| known(bare(value.as_bytes())));
        let (name, key) = presented.next()?;
        let presented = presented.map(|(_, key)| key);
        let mut keys: Vec<_> = std::iter::once(key).chain(presented).collect();
        let values = query.into_iter().flat_map(|query| query.split('&')).map(value);
        keys.extend(values.filter_map(|value| Some(known(&value)?.1)));
        Some(AuthenticatedClient {
            name: name.to_owned(),
            keys,
        })
    }
}

fn holder<'a>(clients: &'a [([u8; 32], String)], key: &[u8]) -> Option<&'a str> {
    let given = Sha256::digest(key);
    clients
        .iter()
        // A fold instead of `find`: stopping at the first match would reveal the position of the key by
        // timing.
        .fold(None, |found, (known, name)| match same(&given, known) {
            true => Some(name.as_str()),
            false => found,
        })
}

impl AuthenticatedClient {
    /// Removes every header that contains a client key, whatever its name and scheme.
    pub fn headers_without(&self, headers: HeaderMap) -> HeaderMap {
        if !headers.values().any(|value| self.is_in_header(value.as_bytes())) {
            return headers;
        }
        let kept = |value: &HeaderValue| !self.is_in_header(value.as_bytes());
        let kept = headers.iter().filter(|(_, value)| kept(value));
        let mut out = HeaderMap::with_capacity(headers.len());
        for (name, value) in kept {
            out.append(name.clone(), value.clone());
        }
        out
    }

    /// Removes query parameters that contain a client key. Returns `None` if the path contains one.
    pub fn target_without(&self, target: String) -> Option<String> {
        let is_in = |part: &str| self.is_in(&Cow::from(percent_decode_str(part)));
        // A path cannot lose a segment and keep its meaning, so the request is not forwarded.
        let is_in_path = target.split('?').next().is_some_and(is_in);
        (!is_in_path).then(|| without_parameters(target, is_in))
    }

    /// Whether a header value contains a client key, even inside `Basic` credentials.
    pub fn is_in_header(&self, value: &[u8]) -> bool {
        self.is_in(value) || (!self.keys.is_empty() && basic(value).is_some_and(|pair| self.is_in(&pair)))
    }

    fn is_in(&self, text: &[u8]) -> bool {
        self.keys.iter().any(|key| memmem::find(text, key).is_some())
    }
}

/// Prefixes of credentials that expire within hours (sign-in tokens) or change with each request (signatures).
const PASSING: &[&str] = &[
    "sk-ant-oat",
    "sess-",
    "eyJ",
    "ya29.",
    "gho_",
    "ghu_",
    "AWS4-",
    "bedrock-api-key-",
];

/// Whether a credential is an API key, which lasts longer than a session.
///
/// A principal must not change with a renewed token, because its handoffs would then be unknown.
fn is_lasting(key: &[u8]) -> bool {
    !key.is_empty() && !PASSING.iter().any(|prefix| key.starts_with(prefix.as_bytes()))
}

/// Prefix of the names of principals that stand for API keys.
pub const KEY_OWNER: &str = "key-";

/// Number of bytes of a key's digest in its principal's name: 96 bits, so that no two keys share a name by chance.
const OWNER_BYTES: usize = 12;

/// Returns the principal that stands for an API key.
fn key_owner(key: &[u8]) -> String {
    // The fixed prefix makes this digest differ from the plain SHA-256 digest of the same key.
    let digest = Sha256::new().chain_update(b"baton principal\0").chain_update(key);
    let digest = digest.finalize();
    format!("{KEY_OWNER}{}", hex(&digest[..OWNER_BYTES]))
}

/// Removes the query parameters that are `unwanted`.
pub fn without_parameters(target: String, unwanted: impl Fn(&str) -> bool) -> String {
    let Some((path, query)) = target.split_once('?') else {
        return target;
    };
    let parameters = query.split('&');
    let kept: Vec<_> = parameters.clone().filter(|part| !unwanted(part)).collect();
    if kept.len() == parameters.count() {
        return target;
    }
    match kept.is_empty() {
        true => path.to_owned(),
        false => [path, "?", &kept.join("&")].concat(),
    }
}

/// Returns the decoded value of a `name=value` parameter; a parameter without `=` is all value.
fn value(parameter: &str) -> Vec<u8> {
    let (_, value) = parameter.split_once('=').unwrap_or(("", parameter));
    percent_decode_str(value).collect()
}

/// Decodes `Basic` credentials to `user:password`.
fn basic(value: &[u8]) -> Option<Vec<u8>> {
    // Six bytes: the length of `Basic `.
    let (scheme, pair) = value.split_at_checked(6)?;
    let pair = scheme
        .eq_ignore_ascii_case(b"basic ")
        .then(|| pair.trim_ascii())?;
    STANDARD.decode(pair).ok()
}

fn same(a: &[u8], b: &[u8]) -> bool {
    a.iter().zip(b).fold(0, |differing, (x, y)| differing | (x ^ y)) == 0
}

/// Strips a leading `Bearer `.
fn bare(value: &[u8]) -> &[u8] {
    match value.split_at_checked(7) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => key.trim_ascii(),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(clients: &[(&str, &str)], by_credential: bool) -> Keyring {
        let digest = |(name, key): &(&str, &str)| (Sha256::digest(key).into(), (*name).to_owned());
        let clients: Vec<_> = clients.iter().map(digest).collect();
        Keyring::new((!clients.is_empty()).then_some(clients), by_credential)
    }

    fn headers(rows: &[(&'static str, &str)]) -> HeaderMap {
        let mut out = HeaderMap::new();
        for (name, value) in rows {
            out.append(*name, value.parse().unwrap());
        }
        out
    }

    #[test]
    fn a_key_is_taken_out_wherever_it_is() {
        let ring = ring(&[("ada", "key-of-ada/1"), ("bob", "key-of-bob-2")], false);
        let basic = format!("Basic {}", STANDARD.encode("me:key-of-ada/1"));
        let given = headers(&[
            ("x-api-key", "key-of-ada/1"),
            ("authorization", "Bearer key-of-ada/1"),
            ("authorization", &basic),
            ("x-goog-api-key", "key-of-bob-2"),
            ("api-key", "providers"),
            ("cookie", "session=key-of-ada/1; a=b"),
            ("x-custom", "key-of-ada/1"),
            ("x-other", "key-of-ada"),
        ]);
        let target = "/v1/x?alt=sse&key=key-of-ada%2F1&a=%6bey-of-bob-2&key=mine&key-of-ada/1";
        let query = target.split_once('?').map(|(_, query)| query);
        let known = ring.admit(&given, query).unwrap();
        assert_eq!(known.name, "ada");
        let left = headers(&[("api-key", "providers"), ("x-other", "key-of-ada")]);
        assert_eq!(known.headers_without(given), left);
        for (target, left) in [
            (target, Some("/v1/x?alt=sse&key=mine")),
            ("/v1/x?key=key-of-ada/1", Some("/v1/x")),
            ("/v1/key-of-ada%2f1/x", None),
        ] {
            let found = known.target_without(target.to_owned());
            assert_eq!(found.as_deref(), left, "{target}");
        }
    }

    #[test]
    fn a_client_that_is_not_present_is_refused() {
        let mut ring = ring(&[("ada", "key-of-ada"), ("bob", "key-of-bob")], false);
        let present = |name: &str, key: &str| (Sha256::digest(key).into(), name.to_owned());
        let is_in = |ring: &Keyring, key: &str| ring.admit(&headers(&[("x-api-key", key)]), None).is_some();
        let both = [present("ada", "key-of-ada"), present("eve", "key-of-eve")];
        assert_eq!(ring.retain(&both.into()), ["bob"]);
        assert!(is_in(&ring, "key-of-ada") && !is_in(&ring, "key-of-bob") && !is_in(&ring, "key-of-eve"));
        assert_eq!(ring.retain(&[present("ada", "a new key")].into()), ["ada"]);
        assert!(
            !is_in(&ring, "key-of-ada") && !is_in(&ring, "a new key"),
            "closed without clients"
        );
    }

    #[test]
    fn without_clients_nothing_is_taken_out() {
        let given = headers(&[("x-api-key", "k"), ("authorization", "Bearer k")]);
        let known = ring(&[], false).admit(&given, Some("key=k")).unwrap();
        assert_eq!(known.name, LOCAL);
        assert_eq!(known.headers_without(given.clone()), given);
        let target = known.target_without("/k?key=k".to_owned());
        assert_eq!(target.as_deref(), Some("/k?key=k"));
    }

    #[test]
    fn without_clients_each_api_key_is_a_principal() {
        let ring = ring(&[], true);
        let name = |rows: &[(&'static str, &str)]| ring.admit(&headers(rows), None).unwrap().name;
        let ada = name(&[("x-api-key", "sk-ant-api03-ada")]);
        assert_eq!(ada, name(&[("authorization", "Bearer sk-ant-api03-ada")]));
        assert_ne!(ada, name(&[("x-api-key", "sk-ant-api03-bob")]));
        assert!(ada.starts_with("key-") && !ada.contains("ada"), "{ada}");
        assert_eq!(name(&[]), LOCAL);
        // A renewed token must not hide the handoffs of its owner.
        for token in [
            "Bearer sk-ant-oat01-a",
            "Bearer eyJhbGciOi.x.y",
            "AWS4-HMAC-SHA256 Credential=A",
        ] {
            assert_eq!(name(&[("authorization", token)]), LOCAL, "{token}");
        }
        let both = [
            ("authorization", "Bearer sk-ant-oat01-a"),
            ("x-api-key", "sk-ant-api03-ada"),
        ];
        assert_eq!(name(&both), ada);
    }
}
