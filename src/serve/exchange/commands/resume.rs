//! Goes on behind another handoff.

use std::sync::Arc;

use super::said::Said;
use crate::serve::exchange::Exchange;
use crate::serve::exchange::active_handoff::meant;
use crate::state::store::StoreError;
use baton_core::mark::pasted;
use baton_core::record::{Handoff, HandoffId, distinctive_line};
use baton_core::text::{Span, json};

/// Characters of a handoff's telling line that are shown.
const SHOWN: usize = 80;

impl Exchange {
    /// Goes on behind another handoff.
    pub(super) async fn resume(&self, id: &str) -> Result<Said, StoreError> {
        let found = match id_range(id) {
            Some(ids) => meant(&self.app, &self.ctx, ids).await?,
            None => Vec::new(),
        };
        let handoff = match found[..] {
            [only] => self.app.sessions.handoff(&self.ctx.principal, only).await?,
            [] => None,
            _ => {
                return Ok(Said::new(
                    "more than one handoff has an id that begins like this: give more of it.",
                ));
            }
        };
        Ok(match handoff {
            Some(handoff) => Said {
                sentinel: Some((handoff.id, self.sentinel(&handoff))),
                ..Said::new(format!(
                    "from here on the model knows the handoff {}{}.{}",
                    handoff.id,
                    shown(&handoff),
                    self.resumed_by_command(handoff.id).await
                ))
            },
            None => Said::new(
                "this handoff is not known here. `baton handoffs list` shows the handoffs of this store; give the id, or at \
                 least its first 13 characters.",
            ),
        })
    }
}

/// What a handoff is about, in a few words.
pub(super) fn shown(handoff: &Arc<Handoff>) -> String {
    let line: String = distinctive_line(&handoff.prompt).chars().take(SHOWN).collect();
    match line.is_empty() {
        true => String::new(),
        false => format!(" ({})", line.replace("[[", "[ [")),
    }
}

/// The first and the last id that a person's words may mean.
fn id_range(given: &str) -> Option<(HandoffId, HandoffId)> {
    let id = given.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let id = id.strip_prefix("handoff-resume:").unwrap_or(id);
    let line = json::quote(&format!("[[handoff-resume:{id}]]"));
    pasted::read(line.as_bytes(), Span::new(1, line.len() - 1)).map(|pasted| pasted.ids)
}
