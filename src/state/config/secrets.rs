//! Secrets that are never printed, and their readers, including those for lists and headers.
//!
//! Problems never show a secret.

use std::path::Path;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use super::problem::ProblemKind;
use super::raw::{Environment, LocatedValue, Raw, RawEntry};
use super::value::{ValueResult, collect, complaint, value_error};
use crate::disk;
use baton_core::text::units::unhex;

impl LocatedValue {
    /// Reads a secret of at least `min` characters: a string, `{ env = "NAME" }` or `{ file = "PATH" }`.
    ///
    /// Error messages never show it.
    pub(super) fn secret(&self, env: &Environment, min: usize) -> ValueResult<Secret> {
        let text = match &self.raw {
            Raw::Word(text) | Raw::Text(text) => text.clone(),
            Raw::Table(entries) => match entries.as_slice() {
                [entry] if entry.key == "env" => variable(&entry.value.text()?, env)?,
                [entry] if entry.key == "file" => content(&entry.value.path(env)?)?,
                _ => {
                    return value_error(
                        "a secret's table has the one key `env` or `file`",
                        "write { env = \"NAME\" } or { file = \"/run/secrets/name\" }",
                    );
                }
            },
            _ => {
                let help = "write it as text in quotes, or as { env = \"NAME\" } or { file = \"PATH\" }";
                return self.expected("a secret", help);
            }
        };
        // A secret copied from a file often ends with a line break.
        let text = text.trim();
        if text.is_empty() {
            return value_error("the secret is empty", "give a value, or leave the key out");
        }
        if text.chars().count() < min {
            let help = format!("use at least {min} characters, for example from `openssl rand -hex 32`");
            return value_error("the secret is too short to be safe", help);
        }
        // A control character could not be sent in a header.
        if text.chars().any(char::is_control) {
            let help = "remove line breaks and other control characters";
            return value_error("the secret contains a control character", help);
        }
        Ok(Secret::new(text))
    }

    /// Reads one secret, or a list of at most `most`.
    pub(super) fn secrets(&self, env: &Environment, min: usize, most: usize) -> ValueResult<Vec<Secret>> {
        let given = match &self.raw {
            // A list in an environment variable.
            Raw::Word(text) if text.trim_start().starts_with('[') => self.structured()?,
            _ => self.clone(),
        };
        let Raw::List(items) = &given.raw else {
            return Ok(vec![given.secret(env, min)?]);
        };
        match items.len() {
            0 => value_error("the list is empty", "give a secret, or leave the key out"),
            many if many > most => value_error(
                format!("there are {many} secrets"),
                format!("give at most {most}; leave out those that are no longer needed"),
            ),
            _ => collect(items.iter().map(|item| (&item.origin, item.secret(env, min)))),
        }
    }

    /// Reads a SHA-256 digest in hexadecimal digits.
    pub(super) fn sha256(&self) -> ValueResult<[u8; 32]> {
        let bytes = unhex(self.text()?.trim());
        let Some(digest) = bytes.and_then(|bytes| bytes.try_into().ok()) else {
            let help = "write its 64 hexadecimal digits, for example from `baton client add NAME`";
            return value_error("the value is not a SHA-256 digest", help);
        };
        Ok(digest)
    }

    /// Reads a secret that is a valid header value.
    pub(super) fn header_secret(&self, env: &Environment) -> ValueResult<Secret> {
        header_value(self.secret(env, 1)?)
    }

    /// Reads header names with secret values.
    pub(super) fn headers(&self, env: &Environment) -> ValueResult<Vec<(String, Secret)>> {
        let entries = self.table("headers", "write { \"x-name\" = \"value\" }")?;
        let header = |entry: &RawEntry| Ok((header_name(&entry.key)?, entry.value.header_secret(env)?));
        collect(entries.iter().map(|entry| (&entry.value.origin, header(entry))))
    }
}

fn variable(name: &str, env: &Environment) -> ValueResult<String> {
    env.get(name).map(str::to_owned).ok_or_else(|| {
        let message = format!("it refers to the environment variable {name}, which is not set");
        let help = format!("set {name} before starting, or give the value here");
        complaint(ProblemKind::Unavailable, message, help)
    })
}

fn content(path: &Path) -> ValueResult<String> {
    let path_shown = path.display();
    disk::read_small(path).map_err(|error| {
        let message = format!("it refers to the file {path_shown}, which cannot be read: {error}");
        let help = "write the secret into that file, or fix the path";
        complaint(ProblemKind::Unavailable, message, help)
    })
}

/// Headers that control routing and framing, which the config must not set.
const OWN_HEADERS: [&str; 8] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "transfer-encoding",
    "upgrade",
];

fn header_name(name: &str) -> ValueResult<String> {
    match http::HeaderName::from_str(name) {
        Ok(name) if OWN_HEADERS.contains(&name.as_str()) => value_error(
            format!("the header {name} is set by the proxy itself"),
            "leave it out",
        ),
        Ok(name) => Ok(name.as_str().to_owned()),
        Err(_) => value_error(
            format!("{name:?} is not a header name"),
            "use letters, digits and `-`",
        ),
    }
}

fn header_value(value: Secret) -> ValueResult<Secret> {
    if http::HeaderValue::from_str(value.reveal()).is_ok() {
        return Ok(value);
    }
    value_error(
        "the value is not valid in a header",
        "use visible ASCII characters",
    )
}

/// A secret string. Its `Debug` output is a single `…`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the SHA-256 digest of the secret.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(&self.0).into()
    }

    /// Returns the secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}
