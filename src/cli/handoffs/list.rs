//! The `baton handoffs list` command: newest first, or as a map of chains and forks.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::ListArgs;
use super::files;
use super::lookup::{self, HandoffLookup, blocking};
use super::show::{named, record, with_document};
use crate::cli::exit::CliResult;
use crate::cli::output::{Out, age, first_line, size, table, visible};
use crate::cli::stored::{self, open};
use baton_core::record::lineage::{self, LineageEntry};
use baton_core::record::{DocumentRecord, Handoff, HandoffId, HandoffStatus, LOCAL};
use baton_core::text::units::brief;
use baton_state::clock::now_ms;
use baton_state::files::documents::{self, document_of};
use baton_state::store::copy_and_check;
use baton_state::store::records::RecordKind;
use baton_state::store::{HandoffFilter, SharedStore};

/// Pause between two reads of the store with `--follow`.
const PAUSE: Duration = Duration::from_millis(500);

/// Default length of a list of handoffs.
const LISTED: usize = 20;

/// Minimum width of a prompt's first line on a narrow terminal.
const PROMPT_COLUMNS: usize = 20;

/// Maximum width of a client's name.
const CLIENT_COLUMNS: usize = 20;

/// Maximum depth of forks that is still indented.
const MAX_DEPTH: usize = 12;

pub(super) fn run(args: &ListArgs, out: &mut Out) -> CliResult {
    let lookup = HandoffLookup::new(&args.directory)?;
    // A program gets an empty list.
    if !args.follow && !args.format.is_for_programs() && args.directory.dir.is_none() {
        stored::check_named(&args.directory.state, &lookup.config.state_dir)?;
    }
    if args.files || args.sessions || args.ledger || args.session.is_some() {
        return files::list(args, &lookup, out);
    }
    if args.follow {
        return follow(&lookup, out);
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
) -> CliResult {
    let limit = args.limit.unwrap_or(LISTED);
    let filter = HandoffFilter {
        conversation: args.conversation.clone(),
        archived: args.all || args.status == Some(HandoffStatus::Archived),
        // Limited below, after the filters by status and topic.
        limit: 0,
        ..HandoffFilter::default()
    };
    let mut handoffs = newest_first(store.handoffs(&filter).await?);
    let is_for_programs = args.format.is_for_programs();
    // A table does not show the documents, which may be large.
    let records = documents::by_handoff(store, !is_for_programs).await?;
    handoffs.retain(|handoff| matches(args, handoff, records.get(&handoff.id)));
    handoffs.truncate(if limit == 0 { usize::MAX } else { limit });
    let all = newest_first(store.handoffs(&HandoffFilter::everything()).await?);
    let placed = placed(handoffs, &all, args.map);
    let both = placed
        .iter()
        .map(|(placed, handoff)| (placed, handoff, records.get(&handoff.id)));
    // Hints go to standard error, because scripts read handoffs from standard output.
    let mut hints = Out::stderr();
    tell_damaged(store, &mut hints).await?;
    if is_for_programs {
        let rows = both.map(|(placed, handoff, record)| listed(handoff, placed, record));
        return out.rows(&rows.collect::<Vec<_>>(), args.format);
    }
    let rows = both.map(|(placed, handoff, record)| ListRow {
        handoff,
        status: status(handoff, record, placed),
        depth: if args.map { placed.depth } else { 0 },
    });
    let rows: Vec<_> = rows.collect();
    match all.len() {
        _ if !rows.is_empty() => out.lines(self::rows(&rows, now_ms(), out.width()))?,
        0 => hints.line("no handoffs yet")?,
        all => hints.line(format_args!(
            "none of {all}: baton handoffs list --all lists them"
        ))?,
    }
    match lookup.files_hint() {
        Some(files) if rows.is_empty() || out.width().is_some() => hints.line(files),
        _ => Ok(()),
    }
}

/// Names the records that a list leaves out because they cannot be read.
async fn tell_damaged(store: &SharedStore, hints: &mut Out) -> CliResult {
    for kind in [RecordKind::Handoff, RecordKind::Document] {
        for (id, why) in copy_and_check::unreadable(&**store, kind).await? {
            let (kind, why) = (kind.name(), visible(&why));
            hints.line(format_args!(
                "baton: {id} ({kind}) is damaged and not listed: {why}; {}",
                stored::DAMAGED_HELP
            ))?;
        }
    }
    Ok(())
}

/// Sorts handoffs by their creation. The store has them by their last use.
fn newest_first(mut handoffs: Vec<Handoff>) -> Vec<Handoff> {
    handoffs.sort_by_key(|handoff| Reverse(handoff.created_ms));
    handoffs
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

/// Pairs each handoff with its position among all. As a map, sorts the handoffs by it.
fn placed(handoffs: Vec<Handoff>, all: &[Handoff], as_map: bool) -> Vec<(LineageEntry, Handoff)> {
    let map = lineage::map(all);
    let at: HashMap<HandoffId, usize> = map.iter().enumerate().map(|(at, it)| (it.id, at)).collect();
    let of = |handoff: &Handoff| match at.get(&handoff.id) {
        Some(at) => map[*at],
        // A handoff that was made after `all` was read is its own chain.
        None => lineage::map(std::slice::from_ref(handoff))[0],
    };
    let placed = handoffs.into_iter().map(|handoff| (of(&handoff), handoff));
    let mut placed: Vec<_> = placed.collect();
    if as_map {
        placed.sort_by_key(|(placed, _)| at.get(&placed.id).copied());
    }
    placed
}

/// Describes a handoff's status, and whether it belongs to a fork or is forked itself.
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

/// Status of a handoff; `None` if it has no document and is not archived.
///
/// Either record may have the archive flag.
fn status_of(handoff: &Handoff, record: Option<&DocumentRecord>) -> Option<HandoffStatus> {
    match handoff.archived {
        true => Some(HandoffStatus::Archived),
        false => record.map(|record| record.status),
    }
}

fn status_name(handoff: &Handoff, record: Option<&DocumentRecord>) -> Option<&'static str> {
    status_of(handoff, record).map(HandoffStatus::name)
}

/// A handoff in the output of `list --json`. The member names are public API.
fn listed(handoff: &Handoff, placed: &LineageEntry, record: Option<&DocumentRecord>) -> Value {
    let mut shown = self::record(handoff);
    shown["status"] = json!(status_name(handoff, record));
    let mut shown = with_document(shown, record);
    // Number of forks that lead to the handoff, of handoffs that continue its parent, and of handoffs that
    // continue it.
    shown["depth"] = json!(placed.depth);
    shown["siblings"] = json!(placed.siblings);
    shown["children"] = json!(placed.children);
    shown
}

/// Follows the list (`--follow`). Prints a line of JSON for each handoff that is new or has another status.
fn follow(lookup: &HandoffLookup, out: &mut Out) -> CliResult {
    blocking(&lookup.config, async |mut store| {
        // `None` during the first pass, which only records the present statuses.
        let mut known: Option<HashMap<HandoffId, HandoffStatus>> = None;
        loop {
            let documents = lookup::all(&store, false).await?;
            // The records come newest first, but a follower reads them in the order of their creation.
            for record in documents.iter().rev() {
                let before = known.as_ref().map(|known| known.get(&record.handoff));
                if before.is_some_and(|before| before != Some(&record.status)) {
                    out.json_line(&report(record))?;
                }
            }
            if documents.is_empty() {
                // Opened again: if nothing is stored yet, there is no file to open.
                store = open(&lookup.config)?;
            }
            let statuses = documents.iter().map(|record| (record.handoff, record.status));
            known = Some(statuses.collect());
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// A handoff in the output of `--follow`. The member names are public API.
fn report(record: &DocumentRecord) -> Value {
    let reported = json!({
        "id": record.handoff,
        "status": record.status.name(),
        "created_ms": record.created_ms,
        "parent": document_of(record).and_then(|document| document.parent),
    });
    with_document(reported, Some(record))
}

/// A row of `list`.
struct ListRow<'a> {
    handoff: &'a Handoff,
    status: String,
    depth: usize,
}

/// Formats the rows of `list`, with a heading. A map indents each branch.
fn rows(listed: &[ListRow<'_>], now_ms: u64, width: Option<usize>) -> Vec<String> {
    // Without clients the column would be the same in every row.
    let has_clients = listed.iter().any(|row| row.handoff.principal != LOCAL);
    let line = |id: String, client: &str, rest: &[String]| -> Vec<String> {
        let client = has_clients.then(|| first_line(client, Some(CLIENT_COLUMNS)));
        let cells = std::iter::once(id).chain(client);
        cells.chain(rest.iter().cloned()).collect()
    };
    let heading = ["AGE", "HISTORY", "PROMPT", "STATUS", "MODEL", "BEGINS"].map(str::to_owned);
    let mut rows = vec![line("ID".to_owned(), "CLIENT", &heading)];
    rows.extend(listed.iter().map(|row| {
        let handoff = row.handoff;
        // On a terminal the beginning of an id leaves room for the last column.
        let id = width.map_or_else(|| handoff.id.to_string(), |_| brief(handoff.id));
        let id = format!("{}{id}", "  ".repeat(row.depth.min(MAX_DEPTH)));
        let cells = [
            age(handoff.created_ms, now_ms),
            size(handoff.history_bytes),
            size(handoff.prompt.len() as u64),
            row.status.clone(),
            first_line(handoff.model.as_deref().unwrap_or("-"), Some(30)),
        ];
        line(id, &handoff.principal, &cells)
    }));
    let widest = table(&rows).iter().map(|line| line.chars().count()).max();
    let taken = widest.unwrap_or(0) + 2;
    let room = width.map(|width| width.saturating_sub(taken).max(PROMPT_COLUMNS));
    for (row, listed) in rows.iter_mut().skip(1).zip(listed) {
        row.push(first_line(&named(listed.handoff), room));
    }
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::super::show::tests::{A, B, handoff};
    use super::*;

    const C: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e13";
    const D: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e14";

    #[test]
    fn a_list_shows_where_each_prompt_begins() {
        let handoff = handoff(A);
        let rows = |depth, now_ms, width| {
            let status = "active".to_owned();
            let handoff = &handoff;
            rows(
                &[ListRow {
                    handoff,
                    status,
                    depth,
                }],
                now_ms,
                width,
            )
        };
        let lines = rows(0, 7_200_000, None);
        assert_eq!(
            lines[1],
            format!("{A}  2h   2.0 KiB  22 B    active  claude  done\\u{{7}}: \\u{{1b}}[2JDo it.")
        );
        assert!(lines[0].starts_with("ID    "));
        let narrow = &rows(0, 0, Some(10))[1];
        assert!(
            narrow.starts_with("0199a3c2-7d1e  ") && narrow.ends_with("done\\u{7}: \\u{1b}[2…"),
            "{narrow}"
        );
        assert!(rows(2, 0, None)[1].starts_with(&format!("    {A}  ")));
    }

    #[test]
    fn a_handoff_that_was_used_again_keeps_its_place() {
        let made = |id: &str, created_ms: u64| Handoff {
            created_ms,
            ..handoff(id)
        };
        // The first one was used last.
        let sorted = newest_first(vec![made(A, 1), made(B, 3), made(C, 2)]);
        let ids: Vec<_> = sorted.iter().map(|one| one.id.to_string()).collect();
        assert_eq!(ids, [B, C, A]);
    }

    #[test]
    fn a_list_shows_forks_and_a_map_puts_branches_together() {
        let child = |id: &str, parent: &str| Handoff {
            parent: Some(parent.parse().unwrap()),
            ..handoff(id)
        };
        // Newest first. Two handoffs continue the first one, and another one was begun between them.
        let all = [child(D, A), handoff(C), child(B, A), handoff(A)];
        let listed = placed(all.to_vec(), &all, false);
        let names: Vec<_> = listed.iter().map(|(it, one)| status(one, None, it)).collect();
        assert_eq!(
            names,
            [
                "-, one of 2 branches",
                "-",
                "-, one of 2 branches",
                "-, forks into 2"
            ]
        );
        let mapped = placed(all.to_vec(), &all, true);
        let ids: Vec<_> = mapped.iter().map(|(_, one)| one.id.to_string()).collect();
        assert_eq!(ids, [C, A, B, D]);
        // A partial list keeps the positions from the whole.
        let (it, _) = placed(all[..1].to_vec(), &all, true)[0].clone();
        assert_eq!((it.depth, it.siblings), (1, 2));
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
            directory: String::new(),
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
