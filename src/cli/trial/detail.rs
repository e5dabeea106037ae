//! One session, turn by turn.

use std::collections::BTreeSet;
use std::iter;

use super::places::SessionFile;
use super::rules;
use super::screen::counted;
use crate::cli::exit::CliResult;
use crate::cli::output::{first_line, short, table, visible};
use crate::cli::savings::{dollars, signed_dollars};
use crate::state::config::Config;
use baton_core::text::date::rfc3339;
use baton_core::trial::{ArmResult, Reckoned};

/// Cuts of which a draft is made.
const DRAFTS: usize = 3;

pub(super) fn lines(one: &Reckoned, files: &[SessionFile], config: &Config) -> CliResult<Vec<String>> {
    let session = &one.session;
    let (id, title) = (visible(&session.id), first_line(&session.title, None));
    let (model, directory) = (&one.model, session.directory.as_deref().unwrap_or_default());
    let mut lines = vec![
        format!("{} {id}: {title}", session.agent()),
        visible(&format!("{}, {model}, {directory}", counted(one.calls, "call"))),
        String::new(),
    ];
    lines.extend(arms(one));
    lines.push(String::new());
    lines.extend(calls(one));
    let cuts = one.arms.iter().flat_map(|arm| &arm.bill.cuts);
    let places: BTreeSet<usize> = cuts.map(|cut| cut.call).collect();
    for place in places.iter().take(DRAFTS) {
        let carried = rules::carried_at(one, *place, files, config)?;
        let Some(carried) = carried else { continue };
        let head = format!("what a handoff before call {} would have carried:", place + 1);
        lines.extend([String::new(), head]);
        lines.extend(carried.prompt.lines().map(|line| format!("  {}", visible(line))));
    }
    Ok(lines)
}

fn arms(one: &Reckoned) -> Vec<String> {
    let head = ["", "cost", "saved", "±", "cuts", "compactions"].map(str::to_owned);
    let row = |arm: &ArmResult| {
        let [cost, error] = [arm.bill.cost, arm.error].map(dollars);
        let saved = signed_dollars(arm.saved);
        let (cuts, compactions) = (arm.bill.cuts.len().to_string(), arm.bill.compactions.to_string());
        vec![format!("  {}", arm.arm), cost, saved, error, cuts, compactions]
    };
    let rows = one.arms.iter().map(row);
    let rows: Vec<_> = iter::once(head.to_vec()).chain(rows).collect();
    let paid = one.paid.map_or("nothing that has a price".to_owned(), dollars);
    let recorded = iter::once(format!("  recorded: {paid}"));
    table(&rows).into_iter().chain(recorded).collect()
}

/// The calls at which something happened, each with what it was.
fn calls(one: &Reckoned) -> Vec<String> {
    let mut rows = vec![["call", "sent", "history", ""].map(str::to_owned).to_vec()];
    for (at, call) in one.session.calls.iter().enumerate() {
        let mut events = Vec::new();
        for arm in &one.arms {
            let cuts = arm.bill.cuts.iter().filter(|cut| cut.call == at);
            events.extend(cuts.map(|cut| format!("{}: {}, at {}", arm.arm, cut.reason, short(cut.tokens))));
        }
        let seen = [
            (call.compacted, "compacted"),
            (call.plan, "a plan was accepted"),
            (call.user, "a request"),
        ];
        events.extend(
            seen.iter()
                .filter(|(is, _)| *is)
                .map(|(_, text)| (*text).to_owned()),
        );
        if !events.is_empty() {
            let (sent, history) = (rfc3339(call.at_ms / 1000), short(call.counts.whole_input()));
            rows.push(vec![(at + 1).to_string(), sent, history, events.join("; ")]);
        }
    }
    table(&rows)
}
