//! Words by which texts of a conversation, of results and of errors are judged: `words.toml`, which says what each
//! list is.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::phrases::Phrases;
pub(super) use crate::text::prose::has_word;
use crate::text::table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct DraftWords {
    pub(super) go_on: Vec<&'static str>,
    pub(super) done: Vec<&'static str>,
    pub(super) not_done: Vec<&'static str>,
    pub(super) leaves: Vec<&'static str>,
    pub(super) as_it_is: Vec<&'static str>,
    pub(super) pointing: Vec<&'static str>,
    pub(super) mended: Phrases,
    pub(super) not_mended: Phrases,
    pub(super) errors: Vec<&'static str>,
    pub(super) denies: Vec<&'static str>,
    pub(super) window: Vec<&'static str>,
    pub(super) no_claim: Vec<&'static str>,
    pub(super) effects: Vec<&'static str>,
}

pub(super) static WORDS: LazyLock<DraftWords> = LazyLock::new(|| table::read(include_str!("words.toml")));
