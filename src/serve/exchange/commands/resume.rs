//! Continues after another handoff.

use std::sync::Arc;

use super::reply::{CommandReply, ReplySentinel};
use crate::serve::exchange::reader::between;
use crate::serve::exchange::{Exchange, resumed};
use crate::state::store::StoreError;
use baton_core::mark::pasted;
use baton_core::record::{Handoff, HandoffId, distinctive_line};
use baton_core::text::{Span, json};

/// Characters of a handoff's distinctive line that are shown.
const SHOWN: usize = 80;

/// Continues after another handoff.
pub(super) async fn resume(exchange: &Exchange, id: &str) -> Result<CommandReply, StoreError> {
    let Exchange { app, ctx, .. } = exchange;
    let found = match id_range(id) {
        Some(ids) => between(app, ctx, ids).await?,
        None => Vec::new(),
    };
    let handoff = match found[..] {
        [only] => app.sessions.handoff(&ctx.principal, only).await?,
        [] => None,
        _ => {
            return Ok(CommandReply::new(
                "more than one handoff has an id that begins like this: give more of it.",
            ));
        }
    };
    Ok(match handoff {
        Some(handoff) => CommandReply {
            sentinel: Some(ReplySentinel {
                handoff: handoff.id,
                text: exchange.sentinel(&handoff),
            }),
            ..CommandReply::new(format!(
                "from here on the model knows the handoff {}{}.{}",
                handoff.id,
                shown(&handoff),
                resumed::resume(exchange, handoff.id).await
            ))
        },
        None => CommandReply::new(
            "this handoff is not known here. `baton handoffs list` shows the handoffs of this store; give the id, or at \
             least its first 13 characters.",
        ),
    })
}

/// What a handoff is about, in a few words.
pub(super) fn shown(handoff: &Arc<Handoff>) -> String {
    let line: String = distinctive_line(&handoff.prompt).chars().take(SHOWN).collect();
    match line.is_empty() {
        true => String::new(),
        false => format!(" ({})", line.replace("[[", "[ [")),
    }
}

/// The first and the last id that a person's text may mean.
fn id_range(given: &str) -> Option<(HandoffId, HandoffId)> {
    let id = given.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let id = id.strip_prefix("handoff-resume:").unwrap_or(id);
    let line = json::quote(&format!("[[handoff-resume:{id}]]"));
    pasted::read(line.as_bytes(), Span::new(1, line.len() - 1)).map(|pasted| pasted.ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_whole_by_its_beginning_and_with_what_was_copied_around_it() {
        let id = "01932f5e-4c00-7aaa-8bbb-123456789abc";
        let whole = id_range(id).unwrap();
        assert_eq!((whole.0, whole.1), (whole.1, id.parse().unwrap()));
        for copied in [
            format!("`{id}`"),
            format!("[[handoff-resume:{id}]]"),
            format!(" \"{id}\"."),
        ] {
            assert_eq!(id_range(&copied), Some(whole), "{copied}");
        }
        let beginning = id_range(&id[..13]).unwrap();
        assert!(beginning.0 < whole.0 && whole.0 < beginning.1);
        for unreadable in ["", "the last one", "\"\\", "]]"] {
            assert_eq!(id_range(unreadable), None, "{unreadable:?}");
        }
    }
}
