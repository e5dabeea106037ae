//! Words that classify speech, results and errors: `words.toml`, which explains each list.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::phrases::{Phrases, Wordings};
pub(crate) use crate::text::prose::has_word;
use crate::text::table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(crate) struct DraftWords {
    pub(crate) done: Wordings,
    pub(crate) did: Phrases,
    pub(crate) wrote: Phrases,
    pub(crate) in_part: Phrases,
    pub(crate) not_done: Wordings,
    pub(crate) assumptions: Vec<&'static str>,
    pub(crate) failed_first: Vec<&'static str>,
    pub(crate) reasons: Phrases,
    pub(crate) undecided: Phrases,
    pub(crate) leaves: Vec<&'static str>,
    pub(crate) as_it_is: Vec<&'static str>,
    pub(crate) pointing: Vec<&'static str>,
    pub(crate) mended: Phrases,
    pub(crate) not_mended: Phrases,
    pub(crate) errors: Wordings,
    pub(crate) no_errors: Wordings,
    pub(crate) denies: Wordings,
    pub(crate) window: Wordings,
    pub(crate) refuses: Wordings,
    pub(crate) no_claim: Vec<&'static str>,
    pub(crate) no_claim_after: Vec<&'static str>,
    pub(crate) no_claim_within: Vec<&'static str>,
    pub(crate) everything: Vec<&'static str>,
    pub(crate) effects: Vec<&'static str>,
}

pub(crate) static WORDS: LazyLock<DraftWords> = LazyLock::new(|| table::read(include_str!("words.toml")));
