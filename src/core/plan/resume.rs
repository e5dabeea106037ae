//! Resumes a handoff by a chat command: finds it, and composes the reply.

use std::sync::Arc;

use super::{MissingRecords, Need, Records};
use crate::handoffs::yaml::Drift;
use crate::marker::pasted;
use crate::record::{Handoff, HandoffStatus};
use crate::text::units::brief;

const UNKNOWN: &str = "this handoff is not known here. Give the whole id, as the handoff's line has it. (Its first 13 characters \
                       are enough in its own session, and on a proxy that only you reach. If others reach the proxy, a \
                       truncated id needs 23, and ten unknown ones are refused for a minute.)";

const AMBIGUOUS: &str = "more than one handoff has an id that begins like this: give more of it.";

/// Finds the handoff whose id begins like this, or explains to the user why there is none.
///
/// # Errors
/// Returns the records to read first.
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

/// Composes the reply to the user.
///
/// `before` is the previous status of the handoff's document. `drift` describes changes in the repository.
pub fn resumed_text(handoff: &Handoff, before: Option<HandoffStatus>, drift: Option<&Drift>) -> String {
    let mut text = format!(
        "from here on the model continues from the handoff {}{}.",
        brief(handoff.id),
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
