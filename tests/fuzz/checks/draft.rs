//! Whatever a conversation of any wire holds: its drafts, what was seen of its work, and what recall quotes of it are made,
//! without a known secret.

use baton_core::handoffs::draft::DraftSpec;
use baton_core::handoffs::recall::{CutPart, Question, RecallIndex, RecallIndexSettings};
use baton_core::transcript::Transcript;
use baton_core::wire::{Operation, View};
use baton_core::work::{DraftIndex, DraftIndexSettings};
use bytes::Bytes;

use super::redaction::{REDACTOR, holds_secret};
use super::wire_of;

/// The drafts with at most this many tokens, and what was seen.
fn drafted(view: &View, tokens: usize) -> String {
    let settings = DraftIndexSettings {
        redactor: REDACTOR.clone(),
        ..DraftIndexSettings::default()
    };
    let index = DraftIndex::from_transcript(settings, &Transcript::from_view(view));
    let spec = DraftSpec {
        tokens,
        ..DraftSpec::default()
    };
    let drafts = [index.local(&spec), index.bundle(&spec)].map(Result::unwrap_or_default);
    let completed = index.completed(&drafts[0], &spec);
    let seen = index.seen();
    format!("{drafts:?}{completed}{seen:?}{:?}", seen.claims(&completed))
}

/// What recall answers to a question.
fn recalled(view: &View, query: String) -> Option<String> {
    let settings = RecallIndexSettings {
        redactor: REDACTOR.clone(),
        ..RecallIndexSettings::default()
    };
    let question = Question::read(&serde_json::json!({"query": query}).to_string())?;
    let cut = CutPart {
        transcript: Transcript::from_view(view),
        end: view.list.end,
    };
    let index = RecallIndex::new(&cut, &settings);
    Some(index.answer(&question).text)
}

pub fn check(input: &[u8]) {
    let [wire, tokens, queried, text @ ..] = input else {
        return;
    };
    let body = Bytes::copy_from_slice(text);
    let Ok(view) = wire_of(*wire).read(&body, Operation::Generate) else {
        return;
    };
    let query = &text[text.len().saturating_sub(usize::from(*queried))..];
    let made = [
        Some(drafted(&view, 16 * usize::from(*tokens))),
        recalled(&view, String::from_utf8_lossy(query).into_owned()),
    ];
    for text in made.iter().flatten() {
        assert!(!holds_secret(text.as_bytes()), "{text}");
    }
}
