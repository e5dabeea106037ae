//! One session, turn by turn.

use super::places::SessionFile;
use super::rules;
use super::screen::counted;
use crate::cli::exit::CommandFailure;
use crate::cli::output::{first_line, short, table, visible};
use crate::cli::savings::{dollars, signed_dollars};
use crate::state::config::Config;
use baton_core::text::date::rfc3339;
use baton_core::trial::{ARMS, Reckoned};

/// Cuts of which a draft is made.
const DRAFTS: usize = 3;

pub(super) fn lines(
    one: &Reckoned,
    files: &[SessionFile],
    config: &Config,
) -> Result<Vec<String>, CommandFailure> {
    let session = &one.session;
    let (id, title) = (visible(&session.id), first_line(&session.title, None));
    let (model, folder) = (&one.model, session.folder.as_deref().unwrap_or_default());
    let mut lines = vec![
        format!("{} {id}: {title}", session.agent()),
        visible(&format!("{}, {model}, {folder}", counted(one.calls, "call"))),
        String::new(),
    ];
    lines.extend(arms(one));
    lines.push(String::new());
    lines.extend(calls(one));
    let cuts = ARMS[1..]
        .iter()
        .filter_map(|arm| one.arm(*arm))
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

fn arms(one: &Reckoned) -> Vec<String> {
    let mut rows = vec![
        ["", "cost", "saved", "±", "cuts", "compactions"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for arm in &one.arms {
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
    match one.paid {
        Some(paid) => lines.push(format!("  recorded: {}", dollars(paid))),
        None => lines.push("  recorded: nothing that has a price".to_owned()),
    }
    lines
}

/// The calls at which something happened, each with what it was.
fn calls(one: &Reckoned) -> Vec<String> {
    let session = &one.session;
    let mut events: Vec<Vec<String>> = vec![Vec::new(); session.calls.len()];
    for arm in &one.arms {
        for cut in &arm.bill.cuts {
            events[cut.call].push(format!("{}: {}, at {}", arm.arm, cut.reason, short(cut.tokens)));
        }
    }
    let after = one
        .arms
        .first()
        .map(|none| &none.bill.after[..])
        .unwrap_or_default();
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
                after.get(at).map_or(String::new(), |cost| dollars(*cost)),
                events.join("; "),
            ]);
        }
    }
    table(&rows)
}
