//! Words that classify names and values, from the table `words.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct SecretWords {
    pub(super) qualifiers: Vec<&'static str>,
    pub(super) secret_keys: Vec<&'static str>,
    pub(super) harmless_keys: Vec<&'static str>,
    pub(super) credential_headers: Vec<&'static str>,
    pub(super) header_parts: Vec<&'static str>,
    pub(super) header_beginnings: Vec<&'static str>,
    pub(super) header_ends: Vec<&'static str>,
    pub(super) harmless_headers: Vec<&'static str>,
    pub(super) plain_headers: Vec<&'static str>,
    pub(super) placeholders: Vec<&'static str>,
    pub(super) standins: Vec<&'static str>,
    pub(super) token_ends: Vec<&'static str>,
    pub(super) id_beginnings: Vec<&'static str>,
    pub(super) names: Vec<&'static str>,
    pub(super) encoded: Vec<&'static str>,
    pub(super) schemes: Vec<&'static str>,
    pub(super) passwords: Vec<&'static str>,
    pub(super) keys: Vec<&'static str>,
    pub(super) states: Vec<&'static str>,
    pub(super) weak_states: Vec<&'static str>,
    pub(super) links: Vec<&'static str>,
    pub(super) asked_names: Vec<&'static str>,
    pub(super) asks: Vec<&'static str>,
    pub(super) after_asked: Vec<&'static str>,
    pub(super) secret_codes: Vec<&'static str>,
}

pub(super) static WORDS: LazyLock<SecretWords> = LazyLock::new(|| table::read(include_str!("words.toml")));
