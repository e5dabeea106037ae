//! Handoffs that a threshold starts: when the context is that full, a draft is written, and the conversation continues
//! after it in the same answer.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use super::ready;
use crate::serve::exchange::Exchange;
use crate::serve::exchange::context::note_nudge;
use crate::state::disk::private_file;
use crate::state::jobs::drafts::DraftJob;
use baton_core::handoffs::draft::DraftRequest;
use baton_core::nudge::NudgeOutcome;
use baton_core::plan::DueHandoff;
use baton_core::record::{Handoff, HandoffOrigin};
use baton_core::text::date::rfc3339;

/// Maximum files of one second: more are an error.
const MOST_ALIKE: u32 = 100;

/// Begins the draft of such a handoff. `None`: another draft is open.
pub(in crate::serve::exchange) fn automatic_job(exchange: &Exchange, due: DueHandoff) -> Option<DraftJob> {
    let live = exchange.offered.agent.live.as_ref()?;
    let request = DraftRequest {
        origin: HandoffOrigin::Auto,
        reason: Some(due.reason),
        method: due.method,
        ..DraftRequest::default()
    };
    let ready = due.ready.map(|document| ready::accepted(exchange, &document));
    let drafting = &exchange.app.drafting;
    let begun = drafting
        .begin(live.key(), live.principal(), request.into(), ready)
        .ok()?;
    if let (Some(cut), Some(thread)) = (due.cut, &exchange.thread) {
        tracing::info!(
            exchange = exchange.ctx.id,
            why = cut.reason.name(),
            tokens = cut.tokens,
            dollars = cut.saved,
            ready = begun.accepted().is_some(),
            "a handoff costs nothing here"
        );
        thread.ledger(|ledger| ledger.cut(&cut));
    }
    Some(begun)
}

/// Notes that a draft failed: a threshold begins none again until the context has grown further.
pub(super) fn note_no_draft(exchange: &Exchange, origin: HandoffOrigin) {
    if let Some(thread) = &exchange.thread {
        thread.draft_failed();
    }
    if origin == HandoffOrigin::Auto {
        note_nudge(&exchange.ctx, NudgeOutcome::AutoFailed);
    }
}

/// Keeps the prompt of an automatic handoff as a file, where the config names a folder. Nobody waits for it, and a file that
/// cannot be written is only logged.
pub(super) fn save(exchange: &Exchange, draft: Uuid, handoff: &Handoff) {
    let app = &exchange.app;
    let folder = &app.config.handoff.save_dir;
    let Some(folder) = folder.clone().filter(|_| handoff.origin == HandoffOrigin::Auto) else {
        return;
    };
    let text = format!("{}\n", app.redactor.text(&handoff.prompt).trim_end());
    let (name, exchange) = (stem(handoff.created_ms), exchange.ctx.id.clone());
    let drafting = Arc::clone(&app.drafting);
    tokio::task::spawn_blocking(move || match write_new(&folder, &name, &text) {
        Ok(path) => {
            tracing::info!(exchange, path = %path.display(), "automatic handoff saved");
            drafting.saved(draft, path);
        }
        Err(error) => {
            tracing::warn!(exchange, folder = %folder.display(), %error, "automatic handoff not saved");
        }
    });
}

/// `handoff-2026-11-22T19-30-00`
fn stem(at_ms: u64) -> String {
    let date = rfc3339(at_ms / 1000);
    format!("handoff-{}", date.trim_end_matches('Z').replace(':', "-"))
}

/// Writes a file of that name, or of the next free one, readable by its owner only.
fn write_new(folder: &Path, stem: &str, text: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    for n in 1..=MOST_ALIKE {
        let name = match n {
            1 => format!("{stem}.md"),
            n => format!("{stem}-{n}.md"),
        };
        let path = folder.join(name);
        match private_file().create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{MOST_ALIKE} files of that name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_their_second_and_none_is_overwritten() {
        let name = stem(1_732_272_000_999);
        assert_eq!(name, "handoff-2024-11-22T10-40-00");
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        for n in 1..=3 {
            let path = write_new(&inner, &name, &format!("{n}\n")).unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), format!("{n}\n"));
        }
        let mut names: Vec<_> = fs::read_dir(&inner)
            .unwrap()
            .map(|f| f.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "handoff-2024-11-22T10-40-00-2.md",
                "handoff-2024-11-22T10-40-00-3.md",
                "handoff-2024-11-22T10-40-00.md"
            ]
        );
        let file = inner.join("handoff-2024-11-22T10-40-00.md");
        assert!(write_new(&file, &name, "x").is_err(), "its folder is a file");
    }
}
