//! Chat commands: answered by baton on every wire. Neither they nor their answers are ever in the model's
//! view.

mod handover;
mod pins;
mod repeats;
mod resume;
mod reviews;
mod undo;
mod words;

use crate::matrix::fixture::Fixture;
use crate::matrix::talk::Talk;
use crate::matrix::variants::Variant;

const SECOND: &str = "Goal: the second one.";

const WHOLE: [&str; 4] = [
    "u: Mend the importer.",
    "a: Looking.",
    "u: Go on.",
    "a: Done with that.Fresh.",
];

const DOCUMENT: &str = "## Goal\nMend the importer.\n\n## Next steps\n1. reader.rs.";

/// Returns a conversation that the user has only opened.
async fn opened(variant: Variant) -> Talk {
    Talk::opened(Fixture::new(variant, []).await)
}

/// Outline of the last request. If messages are single strings, the text around a sentinel is two paragraphs.
fn sent(talk: &Talk) -> Vec<String> {
    let seen = talk.provider.generations().last().unwrap().clone();
    let mark = memchr::memmem::find(&seen.raw, b"[[handoff-resume:");
    assert!(mark.is_none(), "no mark reaches the model");
    let joined = |line: String| {
        let line = line.replace("\n\nFresh.", "Fresh.");
        line.replace("\n\nSecond.", "Second.")
    };
    talk.sent().into_iter().map(joined).collect()
}
