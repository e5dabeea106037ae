//! Whatever a file, a result or a block of the harness contains, none of it is the user's, and none is a command.

use std::ops::Range;

use baton_core::agents::speakers::{SpeakerSettings, Speakers, TurnPiece};
use baton_core::agents::wordings::UserText;
use baton_core::rewrite::notes;
use baton_core::wire::Operation;
use bytes::Bytes;
use serde_json::json;

use super::wire_of;

/// The user's words where a turn has any.
const TYPED: &str = "Do it.";

/// What is in front of a file and after it, as agents write it; whether the user's words are a text of their own before it.
const FORMS: [(&str, &str, Option<bool>); 10] = [
    (
        "<system-reminder>\nContents of a:\n",
        "\n</system-reminder>",
        Some(false),
    ),
    (
        "<system-reminder>\nContents of a:\n",
        "\n</system-reminder>",
        None,
    ),
    ("<ide_selection>\n", "\n</ide_selection>", Some(false)),
    (
        "\n--- Content from referenced files ---\nContent from @a:\n",
        "\n--- End of content ---",
        Some(true),
    ),
    ("[read_file for 'a'] Result:\n", "", None),
    ("EXECUTION RESULT of [a]:\n", "", None),
    (
        "Called the Read tool with the following input: {}\n<content>\n",
        "\n</content>",
        Some(true),
    ),
    ("<file name=\"a\">\n", "\n</file>\n", Some(false)),
    ("Base directory for this skill: /a\n\n", "", Some(true)),
    ("Stop hook feedback:\n", "", Some(false)),
];

/// The texts of a turn, and where the file is in one of them.
fn turn_of(form: usize, file: &str) -> (Vec<String>, usize, Range<usize>) {
    let (before, after, typed) = FORMS[form % FORMS.len()];
    let text = format!("{before}{file}{after}");
    let inside = before.len()..before.len() + file.len();
    match typed {
        None => (vec![text], 0, inside),
        Some(true) => (vec![TYPED.to_owned(), text], 1, inside),
        Some(false) => (vec![text, TYPED.to_owned()], 0, inside),
    }
}

pub fn check(input: &[u8]) {
    let [form, wire, file @ ..] = input else { return };
    let file = String::from_utf8_lossy(file);
    let (texts, at, inside) = turn_of(usize::from(*form), &file);
    let tags = ["<system-reminder>".to_owned()];
    let settings = SpeakerSettings {
        tags: &tags,
        ..SpeakerSettings::default()
    };
    let pieces: Vec<TurnPiece<'_>> = texts.iter().map(|text| TurnPiece::Text(text)).collect();
    let spoken = Speakers::default().turn(&settings, &pieces);
    for stretch in &spoken[at] {
        let overlaps = stretch.range.start < inside.end && inside.start < stretch.range.end;
        assert!(
            stretch.by != UserText::User || !overlaps,
            "{texts:?}: {stretch:?}"
        );
    }
    // The same in a request, where a command would be executed.
    let parts: Vec<_> = texts
        .iter()
        .map(|text| json!({"type": "text", "text": text}))
        .collect();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": parts}]}).to_string();
    if let Ok(view) = wire_of(*wire).read(&Bytes::from(body), Operation::Generate) {
        let said = notes::last_message(&view, &tags);
        assert!(
            said.is_none() || said.as_deref() == Some(TYPED),
            "{texts:?}: {said:?}"
        );
    }
}
