//! One session, turn by turn.

use super::places::SessionFile;
use super::rules;
use super::screen::counted;
use super::tried::Tried;
use crate::cli::exit::CommandFailure;
use crate::cli::output::{first_line, short, table, visible};
use crate::cli::savings::{dollars, signed_dollars};
use crate::state::config::Config;
use baton_core::text::date::rfc3339;
use baton_core::trial::ARMS;

/// Cuts of which a draft is made.
const DRAFTS: usize = 3;

pub(super) fn lines(
    one: &Tried,
    files: &[SessionFile],
    config: &Config,
) -> Result<Vec<String>, CommandFailure> {
    let Tried { session, reckoned } = one;
    let folder = session.folder.as_deref().unwrap_or_default();
    let mut lines = vec![
        format!(
            "{} {}: {}",
            reckoned.agent,
            visible(&reckoned.id),
            first_line(&reckoned.title, None)
        ),
        format!(
            "{}, {}, {}",
            counted(reckoned.calls, "call"),
            visible(&reckoned.model),
            visible(folder)
        ),
        String::new(),
    ];
    lines.extend(arms(one));
    lines.push(String::new());
    lines.extend(calls(one));
    let cuts = ARMS[1..]
        .iter()
        .filter_map(|arm| reckoned.arm(*arm))
        .flat_map(|arm| &arm.bill.cuts);
    let mut places: Vec<usize> = cuts.map(|cut| cut.call).collect();
    places.sort_unstable();
    places.dedup();
    for place in places.iter().take(DRAFTS) {
        let carried = rules::carried_at(session, &session.calls[*place], files, config)?;
        let Some(carried) = carried else { continue };
        lines.push(String::new());
        lines.push(format!(
            "what a handoff before call {} would have carried:",
            place + 1
        ));
        lines.extend(carried.prompt.lines().map(|line| format!("  {}", visible(line))));
    }
    if places.len() > DRAFTS {
        lines.push(format!("… and {} more", counted(places.len() - DRAFTS, "place")));
    }
    Ok(lines)
}

fn arms(one: &Tried) -> Vec<String> {
    let mut rows = vec![
        ["", "cost", "saved", "±", "cuts", "compactions"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for arm in &one.reckoned.arms {
        rows.push(vec![
            format!("  {}", arm.arm),
            dollars(arm.bill.cost),
            signed_dollars(arm.saved),
            dollars(arm.error),
            arm.bill.cuts.len().to_string(),
            arm.bill.compactions.to_string(),
        ]);
    }
    let mut lines = table(&rows);
    match one.reckoned.paid {
        Some(paid) => lines.push(format!("  recorded: {}", dollars(paid))),
        None => lines.push("  recorded: nothing that has a price".to_owned()),
    }
    lines
}

/// The calls at which something happened, each with what it was.
fn calls(one: &Tried) -> Vec<String> {
    let Tried { session, reckoned } = one;
    let mut events: Vec<Vec<String>> = vec![Vec::new(); session.calls.len()];
    for arm in &reckoned.arms {
        for cut in &arm.bill.cuts {
            events[cut.call].push(format!("{}: {}, at {}", arm.arm, cut.reason, short(cut.tokens)));
        }
    }
    let cost = |at: usize| {
        reckoned
            .arms
            .first()
            .and_then(|none| none.bill.after.get(at))
            .copied()
    };
    let mut rows = vec![
        ["call", "sent", "history", "cost so far", ""]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (at, (call, mut events)) in session.calls.iter().zip(events).enumerate() {
        let seen = [
            (call.compacted, "compacted"),
            (call.plan, "a plan was accepted"),
            (call.person, "a request"),
        ];
        events.extend(
            seen.iter()
                .filter(|(is, _)| *is)
                .map(|(_, text)| (*text).to_owned()),
        );
        if !events.is_empty() {
            rows.push(vec![
                (at + 1).to_string(),
                rfc3339(call.at_ms / 1000),
                short(call.counts.whole_input()),
                cost(at).map_or(String::new(), dollars),
                events.join("; "),
            ]);
        }
    }
    table(&rows)
}
