//! What handoffs of recorded sessions would have carried.

use super::files;
use super::places::SessionFile;
use super::tried::Tried;
use crate::cli::exit::CommandFailure;
use crate::cli::handoffs::carried_of_session;
use crate::state::config::Config;
use baton_core::bill::Arm;
use baton_core::handoffs::carry::Carried;
use baton_core::handoffs::yaml::SessionReader;
use baton_core::record::{CarriedKind, CarriedState};
use baton_core::trial::{RecordedCall, RecordedSession};

/// Sessions whose rules are looked for, those that gain most: a draft is made for each.
const SESSIONS: usize = 3;

/// Rules of the person that a draft lacks, so that a cut without the block behind it would have dropped them. Looked for in the
/// last cut of the sessions that gain most.
pub(super) fn dropped(
    tried: &[Tried],
    arm: Arm,
    files: &[SessionFile],
    config: &Config,
) -> Result<Vec<String>, CommandFailure> {
    let saved = |one: &Tried| one.reckoned.arm(arm).map_or(0.0, |result| result.saved);
    let mut best: Vec<&Tried> = tried.iter().filter(|one| saved(one) > 0.0).collect();
    best.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
    let mut rules = Vec::new();
    for one in best.into_iter().take(SESSIONS) {
        let cut = one.reckoned.arm(arm).and_then(|result| result.bill.cuts.last());
        let call = cut.and_then(|cut| one.session.calls.get(cut.call));
        let Some(call) = call else { continue };
        let Some(carried) = carried_at(&one.session, call, files, config)? else {
            continue;
        };
        rules.extend(
            behind(&carried)
                .filter(|rule| !rules.contains(rule))
                .collect::<Vec<_>>(),
        );
    }
    Ok(rules)
}

/// The rules that a prompt lacked.
pub(super) fn behind(carried: &Carried) -> impl Iterator<Item = String> + '_ {
    let rules = carried.items.iter().filter(|item| item.kind == CarriedKind::Rule);
    rules
        .filter(|item| item.state != CarriedState::InPrompt)
        .map(|item| item.text.clone())
}

/// A handoff in front of a call, by a draft without a model.
pub(super) fn carried_at(
    session: &RecordedSession,
    call: &RecordedCall,
    files: &[SessionFile],
    config: &Config,
) -> Result<Option<Carried>, CommandFailure> {
    let Some(file) = files.get(call.source as usize) else {
        return Ok(None);
    };
    let mut reader = SessionReader::default();
    let mut at = 0;
    // A file that has changed since is read as far as it goes.
    let read = files::read(&file.path, &mut |entry| {
        let named = entry["sessionId"].as_str();
        if at < call.entry && named.is_none_or(|named| session.id.starts_with(named)) {
            reader.entry(entry);
        }
        at += 1;
    });
    match read {
        Ok(_) => carried_of_session(config, &reader),
        Err(_) => Ok(None),
    }
}
