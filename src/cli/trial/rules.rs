//! Drafts of handoffs in recorded sessions.

use super::files;
use super::places::SessionFile;
use crate::cli::exit::CliResult;
use crate::cli::handoffs::carried_of_session;
use baton_core::handoffs::carry::Carried;
use baton_core::handoffs::yaml::SessionReader;
use baton_core::record::{CarriedKind, CarriedState};
use baton_core::trial::{MissedReader, Reckoned};
use baton_state::config::Config;

/// Number of sessions searched for rules, those with the highest savings. Each needs a draft, which takes time.
const SESSIONS: usize = 3;

/// Collects the user's rules that a draft lacks. Without the appended block, a cut would have dropped them.
///
/// Examines the last cut of the sessions with the highest savings.
pub(super) fn dropped(
    tried: &[Reckoned],
    arm: &str,
    files: &[SessionFile],
    config: &Config,
) -> CliResult<Vec<String>> {
    let saved = |one: &Reckoned| one.arm(arm).map_or(0.0, |result| result.saved);
    let mut best: Vec<&Reckoned> = tried
        .iter()
        .filter(|one| one.is_judged() && saved(one) > 0.0)
        .collect();
    best.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
    let mut rules = Vec::new();
    for one in best.into_iter().take(SESSIONS) {
        let cuts = one.arm(arm).map(|result| &result.bill.cuts[..]);
        let Some(cut) = cuts.and_then(<[_]>::last) else {
            continue;
        };
        let carried = carried_at(one, cut.call, files, config)?;
        for item in carried.into_iter().flat_map(|over| over.carried.items) {
            let is_lacking = item.kind == CarriedKind::Rule && item.state != CarriedState::InPrompt;
            if is_lacking && !rules.contains(&item.text) {
                rules.push(item.text);
            }
        }
    }
    Ok(rules)
}

/// A handoff before a call, drafted without a model, with the facts that a reader of the draft would have missed.
pub(super) struct CarriedOver {
    pub(super) carried: Carried,
    /// Files read again and commands run again within the next requests, and not named in the prompt.
    pub(super) again: Vec<String>,
}

pub(super) fn carried_at(
    one: &Reckoned,
    at: usize,
    files: &[SessionFile],
    config: &Config,
) -> CliResult<Option<CarriedOver>> {
    let Some(call) = one.session.calls.get(at) else {
        return Ok(None);
    };
    let file = &files[call.source as usize];
    let (mut reader, mut missed) = (SessionReader::default(), MissedReader::default());
    let (session, agent) = match one.session.id.split_once('/') {
        Some((session, agent)) => (session, Some(agent)),
        None => (one.session.id.as_str(), None),
    };
    let mut entries = 0;
    // A file that has changed since is read as far as possible.
    _ = files::read(&file.path, &mut |entry| {
        let is_before = entries < call.entry;
        entries += 1;
        // A file may hold several sessions. Entries without an id belong to its only one.
        let is_named = entry["sessionId"].as_str().is_none_or(|named| named == session);
        let is_own = entry["isSidechain"] == true && entry["agentId"].as_str() == agent;
        if !is_named || (entry["isSidechain"] == true && !is_own) {
            return;
        }
        missed.entry(entry, is_before);
        match is_before {
            true if is_own => {
                // The reader skips the turns of subagents, so the mark is removed.
                let mut entry = entry.clone();
                entry["isSidechain"] = false.into();
                reader.entry(&entry);
            }
            true => reader.entry(entry),
            false => {}
        }
    });
    let carried = carried_of_session(config, &reader)?;
    Ok(carried.map(|carried| CarriedOver {
        again: missed.beyond(&carried.prompt),
        carried,
    }))
}
