//! `baton handoffs`: lists, shows and exports handoffs. Reads the store directly.

mod list;
mod record;

use std::collections::HashMap;

use serde::Serialize;

pub(super) use self::record::named;
use self::record::{Filed, Record};
use super::args::{ArchiveArgs, ExportArgs, ExportFormat, HandoffsCommand, LatestArgs, ShowArgs};
use super::draft;
use super::exit::{Exit, Failure};
use super::load_state;
use super::output::{Out, age, first_line, size, table, visible};
use super::packets;
use super::stored::{now_ms, open, resume_line, unanswered, wanted};
use super::undo;
use crate::state::store::{HandoffFilter, SharedStore};
use baton_core::handoffs::document::fields::NO_NEXT_ACTION;
use baton_core::record::{Handoff, HandoffId};

pub(super) fn run(command: &HandoffsCommand, out: &mut Out) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::SOFTWARE, error.to_string()))?;
    match command {
        HandoffsCommand::List(args) => runtime.block_on(list::list(args, out)),
        HandoffsCommand::Show(args) => runtime.block_on(show(args, out)),
        HandoffsCommand::Latest(args) => runtime.block_on(latest(args, out)),
        HandoffsCommand::Export(args) => runtime.block_on(export(args, out)),
        HandoffsCommand::Archive(args) => runtime.block_on(archive(args, out)),
        HandoffsCommand::Draft(args) => runtime.block_on(draft::run(args, out)),
        HandoffsCommand::Undo(args) => runtime.block_on(undo::run(args, out)),
    }
}

async fn show(args: &ShowArgs, out: &mut Out) -> Result<(), Failure> {
    let store = open(&load_state(&args.state)?)?;
    let handoff = wanted(&store, &args.id).await?;
    print(&store, &handoff, args.json, out).await
}

async fn latest(args: &LatestArgs, out: &mut Out) -> Result<(), Failure> {
    let store = open(&load_state(&args.state)?)?;
    let newest = HandoffFilter {
        limit: 1,
        ..HandoffFilter::default()
    };
    let newest = store.handoffs(&newest).await.map_err(unanswered)?.pop();
    let Some(newest) = newest else {
        return Err(Failure::new(Exit::NO_INPUT, "no handoffs yet"));
    };
    let whole = store.handoff(&newest.principal, newest.id).await;
    print(
        &store,
        &whole.map_err(unanswered)?.unwrap_or(newest),
        args.json,
        out,
    )
    .await
}

async fn export(args: &ExportArgs, out: &mut Out) -> Result<(), Failure> {
    let store = open(&load_state(&args.state)?)?;
    let handoff = wanted(&store, &args.id).await?;
    match args.format {
        ExportFormat::Json => out.json(&Record::of(&handoff))?,
        ExportFormat::Md => out.body(markdown(&handoff).as_bytes())?,
        ExportFormat::Yaml => out.body(yaml(&handoff).as_bytes())?,
    }
    Ok(())
}

async fn archive(args: &ArchiveArgs, out: &mut Out) -> Result<(), Failure> {
    let store = open(&load_state(&args.state)?)?;
    let handoff = wanted(&store, &args.id).await?;
    let done = store.archive(&handoff.principal, handoff.id, !args.undo).await;
    if !done.map_err(unanswered)? {
        return Err(Failure::new(Exit::NO_INPUT, "it is no longer there"));
    }
    packets::follow_archiving(&store, &handoff, args.undo).await?;
    let what = if args.undo { "taken out again" } else { "archived" };
    out.line(format_args!("{what}: {}", handoff.id))?;
    Ok(())
}

async fn print(store: &SharedStore, handoff: &Handoff, json: bool, out: &mut Out) -> Result<(), Failure> {
    let packet = packets::of_handoff(store, &handoff.principal, handoff.id).await;
    let everything = HandoffFilter {
        principal: Some(handoff.principal.clone()),
        archived: true,
        ..HandoffFilter::default()
    };
    let all = store.handoffs(&everything).await.map_err(unanswered)?;
    let lineage = Lineage::of(handoff, &all);
    if json {
        let record = Record::of(handoff);
        let packet = packet.as_ref().map(|(record, _)| Filed::of(record));
        return Ok(out.json(&Shown {
            record,
            packet,
            lineage,
        })?);
    }
    let mut rows = vec![];
    if let Some((record, packet)) = &packet {
        rows.push(vec!["packet".to_owned(), visible(&record.folder)]);
        rows.push(vec!["status".to_owned(), record.status.name().to_owned()]);
        let next = packet
            .as_ref()
            .map(|packet| packet.next_action.as_deref().unwrap_or(NO_NEXT_ACTION));
        rows.extend(next.map(|next| vec!["next".to_owned(), first_line(next, None)]));
        for claim in packet.iter().flat_map(|packet| &packet.claims) {
            let told = format!("{}: {} ({})", claim.verdict, claim.claim, claim.why);
            rows.push(vec!["claim".to_owned(), visible(&told)]);
        }
    }
    rows.push(vec!["lineage".to_owned(), lineage.line()]);
    out.line(format_args!(
        "{}\n\n{}",
        described(handoff, now_ms(), rows),
        visible(&handoff.prompt)
    ))?;
    Ok(())
}

/// What `show --json` prints. The names are API.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    packet: Option<Filed<'a>>,
    lineage: Lineage,
}

/// The chain that a handoff ends, and what goes on from it. The names are API.
#[derive(Serialize)]
struct Lineage {
    /// Oldest first, this one last.
    chain: Vec<String>,
    /// Those made next from here, oldest first; more than one is a fork.
    children: Vec<String>,
}

impl Lineage {
    fn of(handoff: &Handoff, all: &[Handoff]) -> Self {
        let by_id: HashMap<HandoffId, &Handoff> = all.iter().map(|one| (one.id, one)).collect();
        let mut chain = vec![handoff.id];
        let mut parent = handoff.parent;
        while let Some(id) = parent.filter(|id| !chain.contains(id)) {
            chain.push(id);
            parent = by_id.get(&id).and_then(|known| known.parent);
        }
        let children = all.iter().rev().filter(|one| one.parent == Some(handoff.id));
        Self {
            children: children.map(|one| one.id.to_string()).collect(),
            chain: chain.iter().rev().map(ToString::to_string).collect(),
        }
    }

    fn line(&self) -> String {
        let next = match &self.children[..] {
            [] => String::new(),
            [only] => format!(" → {only}"),
            forks => format!(" → {} (a fork)", forks.join(", ")),
        };
        format!("{}{next}", self.chain.join(" → "))
    }
}

/// A handoff as YAML. JSON strings are valid YAML strings.
fn yaml(handoff: &Handoff) -> String {
    let value = serde_json::to_value(Record::of(handoff)).unwrap_or_default();
    let members = value.as_object().into_iter().flatten();
    members
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect()
}

/// A handoff as Markdown: metadata as front matter, then the prompt unchanged.
fn markdown(handoff: &Handoff) -> String {
    let head: String = yaml(handoff)
        .lines()
        .filter(|line| !line.starts_with("prompt: "))
        .map(|line| format!("{line}\n"))
        .collect();
    format!("---\n{head}---\n\n{}\n", handoff.prompt)
}

/// Prints one handoff. Control characters in texts of the model or the agent are made visible.
fn described(handoff: &Handoff, now_ms: u64, more: Vec<Vec<String>>) -> String {
    let text = |text: &str| first_line(text, None);
    let fields = [
        ("id", Some(handoff.id.to_string())),
        ("resume", Some(resume_line(handoff))),
        ("age", Some(age(handoff.created_ms, now_ms))),
        ("wire", Some(handoff.wire.name().to_owned())),
        ("model", handoff.model.as_deref().map(text)),
        ("principal", Some(text(&handoff.principal))),
        ("conversation", Some(text(&handoff.conversation))),
        ("parent", handoff.parent.map(|id| id.to_string())),
        ("origin", Some(handoff.origin.name().to_owned())),
        ("history", Some(size(handoff.history_bytes))),
        ("prompt", Some(size(handoff.prompt.len() as u64))),
        ("archived", handoff.archived.then(|| "yes".to_owned())),
        ("reason", handoff.reason.as_deref().map(visible)),
    ];
    let mut rows: Vec<_> = fields
        .into_iter()
        .filter_map(|(name, value)| Some(vec![name.to_owned(), value?]))
        .collect();
    rows.extend(more);
    table(&rows).join("\n")
}

#[cfg(test)]
mod tests {
    use super::record::tests::{A, B, handoff};
    use super::*;

    #[test]
    fn everything_of_one_is_shown_and_nothing_acts() {
        let shown = described(&handoff(A), 0, vec![vec!["status".into(), "active".into()]]);
        assert!(shown.contains(&format!("resume        [[handoff-resume:{A}]]\n")));
        assert!(shown.contains("reason        done\\u{7}\n"));
        assert!(shown.ends_with("\nstatus        active"));
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'));
    }

    #[test]
    fn an_id_is_found_by_its_beginning() {
        let both = [handoff(A), handoff(B)];
        let found = |wanted: &str| {
            super::super::stored::find(&both, wanted)
                .map(|h| h.id.to_string())
                .map_err(|f| f.exit)
        };
        assert_eq!(found(A), Ok(A.to_owned()));
        assert_eq!(found(&format!("[[handoff-resume:{B}]]")), Ok(B.to_owned()));
        assert_eq!(found(&A.replace('-', "").to_uppercase()), Ok(A.to_owned()));
        assert_eq!(found("0199a3c2"), Err(Exit::USAGE));
        assert_eq!(found("02"), Err(Exit::NO_INPUT));
        assert_eq!(found("x\u{1b}"), Err(Exit::USAGE));
        assert_eq!(found(""), Err(Exit::USAGE));
    }

    #[test]
    fn a_document_has_a_head_and_the_prompt_as_it_is() {
        let text = markdown(&handoff(A));
        assert!(text.starts_with(&format!("---\nid: \"{A}\"\n")));
        assert!(text.contains("\nreason: \"done\\u0007\"\n"));
        assert!(text.ends_with("\n---\n\n\n# Task two\n\u{1b}[2JDo it.\n"));
        assert!(yaml(&handoff(A)).contains("\nprompt: \"\\n# Task two\\n"));
    }

    #[test]
    fn the_names_of_the_record_are_api() {
        let value = serde_json::to_value(Record::of(&handoff(A))).unwrap();
        let names: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = "id resume principal conversation wire model parent created_ms history_bytes origin prompt_bytes \
            archived reason prompt";
        assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
    }
}
