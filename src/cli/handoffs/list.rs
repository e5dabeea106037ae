//! `baton handoffs list`: newest first, or as a map of chains and forks.

use std::collections::HashMap;

use serde::Serialize;

use super::lookup::{HandoffLookup, blocking};
use super::record::{HandoffOutput, named};
use super::{documents, files, follow};
use crate::cli::exit::CommandFailure;
use crate::cli::handoff_args::ListArgs;
use crate::cli::output::{Out, age, first_line, size, table};
use crate::state::clock::now_ms;
use crate::state::files::documents::document_of;
use crate::state::store::{HandoffFilter, SharedStore};
use baton_core::handoffs::document::fields::HandoffKind;
use baton_core::record::lineage::{self, LineageEntry};
use baton_core::record::{DocumentRecord, Handoff, HandoffId, HandoffStatus};

/// Handoffs of a list, unless --limit is given.
const LISTED: usize = 20;

/// Minimum width of a prompt's first line on a narrow terminal.
const PROMPT_COLUMNS: usize = 20;

/// Maximum depth of forks that is indented.
const MOST_DEPTH: usize = 12;

pub(super) fn run(args: &ListArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let lookup = HandoffLookup::of(&args.folder)?;
    if args.files || args.sessions || args.ledger || args.session.is_some() {
        return files::list(args, &lookup, out);
    }
    if args.follow {
        return follow::run(&lookup, out);
    }
    blocking(&lookup.config, async |store| {
        list_stored(args, &store, &lookup, out).await
    })
}

async fn list_stored(
    args: &ListArgs,
    store: &SharedStore,
    lookup: &HandoffLookup,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let limit = args.limit.unwrap_or(LISTED);
    let filter = HandoffFilter {
        conversation: args.conversation.clone(),
        archived: args.all || args.status == Some(HandoffStatus::Archived),
        limit: 0,
        ..HandoffFilter::default()
    };
    let mut handoffs = store.handoffs(&filter).await?;
    let is_for_programs = args.format.is_for_programs();
    let records = documents::of_all(store, !is_for_programs).await?;
    handoffs.retain(|handoff| matches(args, handoff, records.get(&handoff.id)));
    handoffs.truncate(if limit == 0 { usize::MAX } else { limit });
    let all = store.handoffs(&HandoffFilter::everything()).await?;
    let (handoffs, placed) = placed(handoffs, &all, args.map);
    if is_for_programs {
        let both = handoffs.iter().zip(&placed);
        let listed_rows: Vec<_> = both
            .map(|(handoff, placed)| listed(handoff, placed, &records))
            .collect();
        return Ok(out.rows(&listed_rows, args.format)?);
    }
    if handoffs.is_empty() {
        return nothing(all.len(), lookup);
    }
    let statuses: Vec<_> = handoffs
        .iter()
        .zip(&placed)
        .map(|(handoff, placed)| status(handoff, records.get(&handoff.id), placed))
        .collect();
    let depths: Vec<_> = placed
        .iter()
        .map(|it| if args.map { it.depth } else { 0 })
        .collect();
    let rows = rows(&handoffs, (&statuses, &depths), now_ms(), out.width());
    out.lines(rows)?;
    if let Some(files) = lookup.files_hint() {
        Out::stderr().line(files)?;
    }
    Ok(())
}

/// Prints to standard error what exists instead, since scripts read handoffs from standard output.
fn nothing(all: usize, lookup: &HandoffLookup) -> Result<(), CommandFailure> {
    let mut hints = Out::stderr();
    if all == 0 {
        hints.line("no handoffs yet")?;
    } else {
        hints.line(format_args!(
            "none of {all}: baton handoffs list --all lists them"
        ))?;
    }
    if let Some(files) = lookup.files_hint() {
        hints.line(files)?;
    }
    Ok(())
}

fn matches(args: &ListArgs, handoff: &Handoff, record: Option<&DocumentRecord>) -> bool {
    let of_topic = |topic: &String| record.is_some_and(|record| record.topic == *topic);
    let status = status_of(handoff, record);
    let is_wanted = match args.status {
        Some(_) => status == args.status,
        None => args.all || status != Some(HandoffStatus::Archived),
    };
    is_wanted && args.topic.as_ref().is_none_or(of_topic)
}

/// The position of each handoff among all; as a map, the handoffs are sorted by that.
fn placed(handoffs: Vec<Handoff>, all: &[Handoff], as_map: bool) -> (Vec<Handoff>, Vec<LineageEntry>) {
    let map = lineage::map(all);
    let at: HashMap<HandoffId, usize> = map.iter().enumerate().map(|(at, it)| (it.id, at)).collect();
    // A handoff that was made meanwhile is its own chain.
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

/// The handoff's status, and whether it is a branch of a fork or forks itself.
fn status(handoff: &Handoff, record: Option<&DocumentRecord>, placed: &LineageEntry) -> String {
    let mut text = status_name(handoff, record).unwrap_or("-").to_owned();
    if placed.siblings > 1 {
        text.push_str(&format!(", one of {} branches", placed.siblings));
    }
    if placed.children > 1 {
        text.push_str(&format!(", forks into {}", placed.children));
    }
    text
}

/// The handoff's status; `None` where it has no document and is not archived. Either record may have the archive mark.
fn status_of(handoff: &Handoff, record: Option<&DocumentRecord>) -> Option<HandoffStatus> {
    match handoff.archived {
        true => Some(HandoffStatus::Archived),
        false => record.map(|record| record.status),
    }
}

fn status_name(handoff: &Handoff, record: Option<&DocumentRecord>) -> Option<&'static str> {
    status_of(handoff, record).map(HandoffStatus::name)
}

/// A handoff in the output of `list --json`. The names are API.
#[derive(Serialize)]
struct ListedHandoff<'a> {
    #[serde(flatten)]
    record: HandoffOutput<'a>,
    status: Option<&'static str>,
    kind: Option<HandoffKind>,
    repository: Option<&'a str>,
    branch: Option<&'a str>,
    topic: Option<&'a str>,
    next_action: Option<String>,
    folder: Option<&'a str>,
    /// How many forks lead to it.
    depth: usize,
    /// How many handoffs continue its parent, and how many continue it.
    siblings: usize,
    children: usize,
}

fn listed<'a>(
    handoff: &'a Handoff,
    placed: &LineageEntry,
    records: &'a HashMap<HandoffId, DocumentRecord>,
) -> ListedHandoff<'a> {
    let record = records.get(&handoff.id);
    let document = record.and_then(document_of);
    ListedHandoff {
        record: HandoffOutput::of(handoff),
        status: status_name(handoff, record),
        kind: document.as_ref().map(|document| document.kind),
        repository: record.map(|record| record.repository.as_str()),
        branch: record.map(|record| record.branch.as_str()),
        topic: record.map(|record| record.topic.as_str()),
        next_action: document.and_then(|document| document.next_action),
        folder: record.map(|record| record.folder.as_str()),
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
        // Newest first: two continue the first, and another one has begun between them.
        let all = [child(D, A), handoff(C), child(B, A), handoff(A)];
        let (listed, where_it_is) = placed(all.to_vec(), &all, false);
        let names: Vec<_> = listed
            .iter()
            .zip(&where_it_is)
            .map(|(one, it)| status(one, None, it))
            .collect();
        assert_eq!(
            names,
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
        // A partial list keeps the positions in the whole.
        let (_, where_it_is) = placed(all[..1].to_vec(), &all, true);
        assert_eq!((where_it_is[0].depth, where_it_is[0].siblings), (1, 2));
    }

    #[test]
    fn a_handoff_is_archived_where_its_own_record_or_its_documents_says_so() {
        #[derive(clap::Parser)]
        struct Parsed {
            #[command(flatten)]
            args: ListArgs,
        }
        let record = |status| DocumentRecord {
            handoff: A.parse().unwrap(),
            principal: "local".into(),
            repository: String::new(),
            branch: String::new(),
            topic: "t".to_owned(),
            status,
            created_ms: 0,
            folder: String::new(),
            document: String::new(),
        };
        let [active, archived_document] = [HandoffStatus::Active, HandoffStatus::Archived].map(record);
        let archived = Handoff {
            archived: true,
            ..handoff(A)
        };
        let is_listed = |options: &[&str], handoff: &Handoff, document: &DocumentRecord| {
            let words = ["list"].iter().chain(options);
            let parsed = <Parsed as clap::Parser>::try_parse_from(words).unwrap();
            matches(&parsed.args, handoff, Some(document))
        };
        for (options, expected) in [
            (&[][..], [true, false, false]),
            (&["--all"], [true, true, true]),
            (&["--status", "active"], [true, false, false]),
            (&["--status", "superseded"], [false, false, false]),
            (&["--status", "archived"], [false, true, true]),
            (&["--all", "--topic", "u"], [false, false, false]),
        ] {
            let listed = [
                (&handoff(A), &active),
                (&handoff(A), &archived_document),
                (&archived, &active),
            ];
            let listed = listed.map(|(handoff, document)| is_listed(options, handoff, document));
            assert_eq!(listed, expected, "{options:?}");
        }
    }
}
