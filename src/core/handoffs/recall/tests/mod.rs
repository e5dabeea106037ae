//! Secrets are not quoted, and only the cut part is.

mod answers;

use serde_json::{Value, json};

use super::{CutPart, Question, RecallIndex, RecallIndexSettings};
use crate::handoffs::testing::{called, failing, model, ran, user, view};
use crate::redact::Redactor;
use crate::text::testing::{assert_begins, assert_contains, assert_lacks};
use crate::transcript::Transcript;
use crate::wire::View;

fn settings() -> RecallIndexSettings {
    RecallIndexSettings {
        redactor: Redactor::new(&[]),
        ..RecallIndexSettings::default()
    }
}

/// A cut part that spans the whole request.
fn whole(view: &View) -> CutPart<'_> {
    CutPart {
        transcript: Transcript::from_view(view),
        end: view.list.end,
    }
}

fn question(query: &str) -> Question {
    Question {
        query: query.to_owned(),
        limit: 8,
    }
}

fn answer_to(messages: &[Value], query: &str) -> String {
    let view = view(messages);
    RecallIndex::new(&whole(&view), &settings())
        .answer(&question(query))
        .text
}
