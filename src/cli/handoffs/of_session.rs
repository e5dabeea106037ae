//! What a handoff of a recorded session would have carried.

use super::draft::{self as drafting, Work};
use crate::cli::exit::CommandFailure;
use crate::cli::newest::JournalRequest;
use crate::state::config::Config;
use baton_core::handoffs::carry::Carried;
use baton_core::handoffs::draft::{self, DraftSpec};
use baton_core::handoffs::yaml::SessionReader;
use baton_core::record::LOCAL;

/// A draft without a model of all that a session's reader has seen, with what it lacked behind it; `None` where there is too
/// little of it.
pub(in crate::cli) fn carried(
    config: &Config,
    reader: &SessionReader,
) -> Result<Option<Carried>, CommandFailure> {
    let Some(newest) = JournalRequest::of_session(reader) else {
        return Ok(None);
    };
    let work = Work {
        principal: LOCAL.to_owned(),
        newest,
        earlier: None,
        dropped: Vec::new(),
    };
    let index = drafting::indexed(config, &work);
    if !draft::enough(index.spoken()) {
        return Ok(None);
    }
    let spec = DraftSpec {
        tokens: config.draft.facts_tokens,
        ..DraftSpec::default()
    };
    let document = index.local(&spec).map_err(drafting::too_small)?;
    Ok(Some(drafting::carried(config, &index, &work, &document)))
}
