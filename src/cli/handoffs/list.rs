//! `baton handoffs list`: newest first, or as a map of chains and forks.

use std::collections::HashMap;

use serde::Serialize;

use super::record::{Filed, Record, named};
use crate::cli::args::ListArgs;
use crate::cli::exit::Failure;
use crate::cli::output::{Out, age, first_line, size, table};
use crate::cli::stored::{now_ms, open, unanswered};
use crate::cli::{load_state, packets};
use crate::state::store::HandoffFilter;
use baton_core::record::lineage::{self, LineageEntry};
use baton_core::record::{Handoff, HandoffId, PacketRecord};

/// Minimum width of a prompt's first line on a narrow terminal.
const PROMPT_COLUMNS: usize = 20;

/// Forks behind each other that are indented further.
const MOST_DEPTH: usize = 12;

pub(super) async fn list(args: &ListArgs, out: &mut Out) -> Result<(), Failure> {
    let store = open(&load_state(&args.state)?)?;
    let filter = HandoffFilter {
        conversation: args.conversation.clone(),
        archived: args.all,
        limit: args.limit,
        ..HandoffFilter::default()
    };
    let handoffs = store.handoffs(&filter).await.map_err(unanswered)?;
    let packets = packets::of_all(&store).await?;
    let everything = HandoffFilter {
        archived: true,
        ..HandoffFilter::default()
    };
    let all = store.handoffs(&everything).await.map_err(unanswered)?;
    let (handoffs, placed) = placed(handoffs, &all, args.map);
    if args.format.is_for_programs() {
        let both = handoffs.iter().zip(&placed);
        let records: Vec<_> = both
            .map(|(handoff, placed)| listed(handoff, placed, &packets))
            .collect();
        return Ok(out.rows(&records, args.format)?);
    }
    if handoffs.is_empty() {
        // To standard error: scripts read handoffs from standard output.
        Out::stderr().line(format_args!("no handoffs yet"))?;
        return Ok(());
    }
    let statuses: Vec<_> = handoffs
        .iter()
        .zip(&placed)
        .map(|(handoff, placed)| status(handoff, packets.get(&handoff.id), placed))
        .collect();
    let depths: Vec<_> = placed
        .iter()
        .map(|it| if args.map { it.depth } else { 0 })
        .collect();
    for line in rows(&handoffs, (&statuses, &depths), now_ms(), out.width()) {
        out.line(format_args!("{line}"))?;
    }
    Ok(())
}

/// Where each handoff stands among all; as a map, the handoffs are sorted by that.
fn placed(handoffs: Vec<Handoff>, all: &[Handoff], as_map: bool) -> (Vec<Handoff>, Vec<LineageEntry>) {
    let map = lineage::map(all);
    let at: HashMap<HandoffId, usize> = map.iter().enumerate().map(|(at, it)| (it.id, at)).collect();
    // One that was made meanwhile stands for itself.
    let of = |handoff: &Handoff| {
        let known = at.get(&handoff.id).map(|at| map[*at]);
        known.unwrap_or(LineageEntry {
            id: handoff.id,
            depth: 0,
            siblings: 1,
            children: 0,
        })
    };
    let mut both: Vec<_> = handoffs
        .into_iter()
        .map(|handoff| (of(&handoff), handoff))
        .collect();
    if as_map {
        both.sort_by_key(|(placed, _)| at.get(&placed.id).copied());
    }
    let (placed, handoffs) = both.into_iter().unzip();
    (handoffs, placed)
}

/// The packet's status, and whether the handoff is a branch of a fork or forks itself.
fn status(handoff: &Handoff, packet: Option<&PacketRecord>, placed: &LineageEntry) -> String {
    let status = match packet {
        _ if handoff.archived => "archived",
        Some(packet) => packet.status.name(),
        None => "-",
    };
    let mut told = status.to_owned();
    if placed.siblings > 1 {
        told.push_str(&format!(", one of {} branches", placed.siblings));
    }
    if placed.children > 1 {
        told.push_str(&format!(", forks into {}", placed.children));
    }
    told
}

/// What `list --json` prints of each. The names are API.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    packet: Option<Filed<'a>>,
    /// How many forks lead to it.
    depth: usize,
    /// How many go on from its parent, and from it.
    siblings: usize,
    children: usize,
}

fn listed<'a>(
    handoff: &'a Handoff,
    placed: &LineageEntry,
    packets: &'a HashMap<HandoffId, PacketRecord>,
) -> Listed<'a> {
    Listed {
        record: Record::of(handoff),
        packet: packets.get(&handoff.id).map(Filed::of),
        depth: placed.depth,
        siblings: placed.siblings,
        children: placed.children,
    }
}

/// The rows of `list`, heading first. In a map each branch is indented.
fn rows(
    handoffs: &[Handoff],
    (statuses, depths): (&[String], &[usize]),
    now_ms: u64,
    width: Option<usize>,
) -> Vec<String> {
    let heading = ["ID", "AGE", "HISTORY", "PROMPT", "STATUS", "MODEL", "BEGINS"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for ((handoff, status), depth) in handoffs.iter().zip(statuses).zip(depths) {
        rows.push(vec![
            format!("{}{}", "  ".repeat(*depth.min(&MOST_DEPTH)), handoff.id),
            age(handoff.created_ms, now_ms),
            size(handoff.history_bytes),
            size(handoff.prompt.len() as u64),
            status.clone(),
            first_line(handoff.model.as_deref().unwrap_or("-"), Some(30)),
        ]);
    }
    let taken = table(&rows)
        .iter()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0)
        + 2;
    let room = width.map(|width| width.saturating_sub(taken).max(PROMPT_COLUMNS));
    for (row, handoff) in rows.iter_mut().skip(1).zip(handoffs) {
        row.push(first_line(&named(handoff), room));
    }
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{A, B, handoff};
    use super::*;

    const C: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e13";
    const D: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e14";

    #[test]
    fn a_list_shows_where_each_prompt_begins() {
        let active = (&["active".to_owned()][..], &[0][..]);
        let lines = rows(&[handoff(A)], active, 7_200_000, None);
        assert_eq!(
            lines[1],
            format!("{A}  2h   2.0 KiB  22 B    active  claude  done\\u{{7}}: \\u{{1b}}[2JDo it.")
        );
        assert!(lines[0].starts_with("ID    "));
        assert!(rows(&[handoff(A)], active, 0, Some(10))[1].ends_with("done\\u{7}: \\u{1b}[2…"));
        let branch = (&["active".to_owned()][..], &[2][..]);
        assert!(rows(&[handoff(A)], branch, 0, None)[1].starts_with(&format!("    {A}  ")));
    }

    #[test]
    fn a_list_shows_forks_and_a_map_puts_branches_together() {
        let child = |id: &str, parent: &str| Handoff {
            parent: Some(parent.parse().unwrap()),
            ..handoff(id)
        };
        // Newest first: two go on from the first, and another one has begun between them.
        let all = [child(D, A), handoff(C), child(B, A), handoff(A)];
        let (listed, where_it_is) = placed(all.to_vec(), &all, false);
        let told: Vec<_> = listed
            .iter()
            .zip(&where_it_is)
            .map(|(one, it)| status(one, None, it))
            .collect();
        assert_eq!(
            told,
            [
                "-, one of 2 branches",
                "-",
                "-, one of 2 branches",
                "-, forks into 2"
            ]
        );
        let (listed, _) = placed(all.to_vec(), &all, true);
        let ids: Vec<_> = listed.iter().map(|one| one.id.to_string()).collect();
        assert_eq!(ids, [C, A, B, D]);
        // Of a part of them each knows where it stands among all.
        let (_, where_it_is) = placed(all[..1].to_vec(), &all, true);
        assert_eq!((where_it_is[0].depth, where_it_is[0].siblings), (1, 2));
    }
}
