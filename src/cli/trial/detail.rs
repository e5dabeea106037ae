//! Prints one session: the effect of each policy call by call, and the context after each cut.

use std::collections::BTreeMap;

use super::files;
use super::layout::{money, percent, saving, table, wrapped};
use super::places::SessionFile;
use super::screen::{counted, short_id};
use crate::cli::exit::CliResult;
use crate::cli::handoffs::carried_of_session;
use crate::cli::output::{first_line, short, visible};
use baton_core::handoffs::carry::Carried;
use baton_core::handoffs::yaml::SessionReader;
use baton_core::record::{CarriedItem, CarriedKind, CarriedState};
use baton_core::text::date::rfc3339;
use baton_core::trial::{ArmResult, MissedReader, POLICIES, Reckoned, lost_cache};
use baton_state::config::Config;

/// Maximum number of cuts with a draft.
const DRAFTS: usize = 8;

/// Columns before the events of a call.
const EVENTS_AT: usize = 40;

pub(super) fn lines(
    one: &Reckoned,
    tried: &[Reckoned],
    files: &[SessionFile],
    config: &Config,
    columns: usize,
) -> CliResult<Vec<String>> {
    let session = &one.session;
    let (id, title) = (visible(&session.id), first_line(&session.title, None));
    let mut lines = wrapped(&format!("{} {id}: {title}", session.agent()), columns, 2);
    let models = one.models.iter().filter(|used| used.calls > 0);
    let models = models.map(|used| format!("{} of {}", counted(used.calls, "call"), used.model));
    let models = models.collect::<Vec<_>>().join(", ");
    let [from, to] = [one.started_ms, one.ended_ms].map(|ms| rfc3339(ms / 1000)[..16].replace('T', " "));
    let directory = session.directory.as_deref().unwrap_or_default();
    let about = visible(&format!("  {models}; {from} to {to} (UTC); {directory}"));
    lines.extend(wrapped(&about, columns, 0));
    lines.extend(subagents(one, tried, columns));
    let shown = shown(one);
    lines.push(String::new());
    lines.extend(arms(one, &shown, columns));
    lines.push(String::new());
    lines.extend(calls(one, &shown, columns));
    let mut cuts: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    // Masking hands nothing over.
    for arm in shown.iter().filter(|arm| arm.arm != "masked") {
        let own = arm.bill.cuts.iter();
        own.for_each(|cut| cuts.entry(cut.call).or_default().push(arm.title));
    }
    for (call, titles) in cuts.iter().take(DRAFTS) {
        // Each draft reads the session's file once more, so policies that cut before the same call share one.
        let over = carried_at(one, *call, files, config)?;
        let Some(over) = over else { continue };
        lines.extend([
            String::new(),
            format!("Cut before call {}, by {}", call + 1, titles.join(", ")),
        ]);
        lines.extend(carried(&over, columns));
    }
    let more = cuts.len().saturating_sub(DRAFTS);
    lines.extend((more > 0).then(|| format!("… and {} without a draft here", counted(more, "cut"))));
    Ok(lines)
}

/// Selects the policies to show: the defaults, the comparisons, the best setting for this session, and the
/// upper bound.
fn shown(one: &Reckoned) -> Vec<&ArmResult> {
    let is_setting = |result: &&ArmResult| {
        POLICIES
            .iter()
            .any(|policy| policy.name == result.arm && !policy.setting.is_empty())
    };
    let settings = one.arms.iter().filter(is_setting);
    let best = settings.max_by(|a, b| a.saved.total_cmp(&b.saved));
    let best = best.map(|best| best.arm);
    let is_shown = |result: &&ArmResult| {
        ["default", "masked", "only_cold"].contains(&result.arm)
            || result.hindsight
            || Some(result.arm) == best
    };
    one.arms.iter().filter(is_shown).collect()
}

fn subagents(one: &Reckoned, tried: &[Reckoned], columns: usize) -> Vec<String> {
    let beginning = format!("{}/", one.session.id);
    let own = tried
        .iter()
        .filter(|other| other.session.id.starts_with(&beginning));
    let own: Vec<String> = own
        .map(|other| format!("{} ({})", short_id(other), counted(other.calls, "call")))
        .collect();
    match own.is_empty() {
        true => Vec::new(),
        false => wrapped(&format!("  subagents: {}", own.join(", ")), columns, 2),
    }
}

fn arms(one: &Reckoned, shown: &[&ArmResult], columns: usize) -> Vec<String> {
    let has_dollars = one.has_dollars();
    let row = |arm: &&ArmResult| {
        let mut row = vec![format!("  {}", arm.title)];
        if has_dollars {
            let error = if arm.hindsight {
                String::new()
            } else {
                money(arm.error)
            };
            row.extend([money(arm.cost), saving(arm.saved), error]);
        }
        row.extend([percent(arm.saved, one.cost()), arm.bill.cuts.len().to_string()]);
        row
    };
    let head: &[&str] = match has_dollars {
        true => &["  would have", "cost", "saved", "±", "share", "cuts"],
        false => &["  would have", "saved", "cuts"],
    };
    let head: Vec<String> = head.iter().map(|text| (*text).to_owned()).collect();
    let rows: Vec<_> = std::iter::once(head).chain(shown.iter().map(row)).collect();
    let mut lines = table(&rows, columns);
    let paid = one.paid.filter(|_| has_dollars);
    lines.extend(paid.map(|paid| format!("  recorded: {}", money(paid))));
    lines
}

/// Lists the calls with events.
fn calls(one: &Reckoned, shown: &[&ArmResult], columns: usize) -> Vec<String> {
    let mut lines = vec!["  call  sent (UTC)           history".to_owned()];
    for (at, call) in one.session.calls.iter().enumerate() {
        let mut events = Vec::new();
        for arm in shown {
            let cuts = arm.bill.cuts.iter().filter(|cut| cut.call == at);
            events.extend(
                cuts.map(|cut| format!("cut by {}: {}, at {}", arm.title, cut.reason, short(cut.tokens))),
            );
        }
        events.extend(call.compacted.then(|| "compacted".to_owned()));
        events.extend(call.plan.then(|| "a plan was accepted".to_owned()));
        events.extend(call.user.then(|| "a request".to_owned()));
        let lost = lost_cache(&one.session, at);
        events
            .extend(lost.map(|(cause, tokens)| format!("{} stored again ({})", short(tokens), cause.name())));
        if events.is_empty() {
            continue;
        }
        let sent = rfc3339(call.at_ms / 1000)[..19].replace('T', " ");
        let history = short(call.counts.whole_input());
        let line = format!("  {:>4}  {sent}  {history:>9}", at + 1);
        let events = wrapped(&events.join("; "), columns.saturating_sub(EVENTS_AT), 0);
        for (n, event) in events.iter().enumerate() {
            let begin = if n == 0 { line.as_str() } else { "" };
            lines.push(format!("{begin:EVENTS_AT$}{event}").trim_end().to_owned());
        }
    }
    lines
}

/// Prints the context after a cut, and the facts that a reader of it would have missed.
fn carried(over: &CarriedOver, columns: usize) -> Vec<String> {
    let mut lines = vec!["  what would have been carried:".to_owned()];
    let prompt = over.carried.prompt.lines();
    lines.extend(prompt.flat_map(|line| wrapped(&format!("    {}", visible(line)), columns, 2)));
    let items = over.carried.items.iter();
    let left = items.filter(|item| item.state == CarriedState::LeftOut);
    let left = left.map(|item: &CarriedItem| format!("{}: {}", item.kind.name(), item.text));
    let again = over.again.iter();
    let again = again.map(|text| format!("looked up again, and not named: {text}"));
    let missed: Vec<String> = left.chain(again).collect();
    let head = match missed.is_empty() {
        true => "  what a reader would have missed: nothing that was seen",
        false => "  what a reader would have missed:",
    };
    lines.push(head.to_owned());
    let missed = missed
        .iter()
        .map(|text| format!("    - {}", first_line(text, Some(columns - 6))));
    lines.extend(missed);
    lines
}

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
    let best = tried.iter().filter(|one| one.is_judged() && saved(one) > 0.0);
    let mut best: Vec<&Reckoned> = best.collect();
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
