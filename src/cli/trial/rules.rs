//! What handoffs of recorded sessions would have carried.

use super::files;
use super::places::SessionFile;
use crate::cli::exit::CliResult;
use crate::cli::handoffs::carried_of_session;
use crate::state::config::Config;
use baton_core::bill::Arm;
use baton_core::handoffs::carry::Carried;
use baton_core::handoffs::yaml::SessionReader;
use baton_core::record::{CarriedKind, CarriedState};
use baton_core::trial::Reckoned;

/// Sessions whose rules are looked for, those that gain most: a draft is made for each.
const SESSIONS: usize = 3;

/// Rules of the user that a draft lacks, so that a cut without the block behind it would have dropped them. Looked for in the
/// last cut of the sessions that gain most.
pub(super) fn dropped(
    tried: &[Reckoned],
    arm: Arm,
    files: &[SessionFile],
    config: &Config,
) -> CliResult<Vec<String>> {
    let saved = |one: &Reckoned| one.arm(arm).map_or(0.0, |result| result.saved);
    let mut best: Vec<&Reckoned> = tried.iter().filter(|one| saved(one) > 0.0).collect();
    best.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
    let mut rules = Vec::new();
    for one in best.into_iter().take(SESSIONS) {
        let cuts = one.arm(arm).map(|result| &result.bill.cuts[..]);
        let Some(cut) = cuts.and_then(<[_]>::last) else {
            continue;
        };
        let carried = carried_at(one, cut.call, files, config)?;
        for item in carried.into_iter().flat_map(|carried| carried.items) {
            let is_lacking = item.kind == CarriedKind::Rule && item.state != CarriedState::InPrompt;
            if is_lacking && !rules.contains(&item.text) {
                rules.push(item.text);
            }
        }
    }
    Ok(rules)
}

/// A handoff in front of a call, by a draft without a model.
pub(super) fn carried_at(
    one: &Reckoned,
    at: usize,
    files: &[SessionFile],
    config: &Config,
) -> CliResult<Option<Carried>> {
    let call = &one.session.calls[at];
    let file = &files[call.source as usize];
    let mut reader = SessionReader::default();
    let mut entries = 0;
    // A file that has changed since is read as far as it goes.
    _ = files::read(&file.path, &mut |entry| {
        let named = entry["sessionId"].as_str();
        if entries < call.entry && named.is_none_or(|named| one.session.id.starts_with(named)) {
            reader.entry(entry);
        }
        entries += 1;
    });
    carried_of_session(config, &reader)
}
