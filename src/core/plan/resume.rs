//! A handoff that a user resumes by a command: which one, and what is replied.

use std::sync::Arc;

use super::{MissingRecords, Need, Records};
use crate::handoffs::yaml::Drift;
use crate::marker::pasted;
use crate::record::{Handoff, HandoffStatus};

const UNKNOWN: &str = "this handoff is not known here. `baton handoffs list` shows the handoffs of this store; give the id, \
                       or at least its first 13 characters.";

const AMBIGUOUS: &str = "more than one handoff has an id that begins like this: give more of it.";

/// The handoff whose id begins so, or why there is none, for the user.
///
/// # Errors
/// What is to be read first.
pub fn handoff_to_resume(
    id: &str,
    records: &Records,
) -> Result<Result<Arc<Handoff>, &'static str>, MissingRecords> {
    let Some((first, last)) = pasted::id_range(id) else {
        return Ok(Err(UNKNOWN));
    };
    Ok(match records.ids(Need::HandoffsBetween(first, last))? {
        [] => Err(UNKNOWN),
        [only] => records.handoff(*only)?.cloned().ok_or(UNKNOWN),
        _ => Err(AMBIGUOUS),
    })
}

/// What the user is told. `before`: the status that its document had. `drift`: what has moved in the repository.
pub fn resumed_text(handoff: &Handoff, before: Option<HandoffStatus>, drift: Option<&Drift>) -> String {
    let mut text = format!(
        "from here on the model knows the handoff {}{}.",
        handoff.id,
        handoff.about()
    );
    if let Some(before) = before.filter(|before| *before != HandoffStatus::Active) {
        text += &format!(" The handoff was {}; it is active again.", before.name());
    }
    if let Some(drift) = drift {
        text += &format!("\n\n{}.", drift.line());
    }
    text
}
