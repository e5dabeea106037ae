//! The `baton handoffs show` command: prints one handoff of the store, or one YAML file, in the requested
//! format.

use std::path::Path;

use serde_json::{Value, json};

use super::args::{DocumentFormat, ShowArgs};
use super::lookup::{self, HandoffLookup, NamedHandoff, blocking, one, other_version, read_document};
use super::{check, files};
use crate::cli::exit::{CliResult, Exit};
use crate::cli::output::{Out, age, first_line, plural, shown, size, table, visible};
use crate::cli::stored::wanted;
use baton_core::handoffs::carry::{self, Receipt};
use baton_core::handoffs::document::{HandoffDocument, NO_NEXT_ACTION};
use baton_core::handoffs::yaml::HandoffFile;
use baton_core::marker::sentinel;
use baton_core::record::{
    CarriedState, DocumentRecord, Handoff, HandoffId, HandoffStatus, distinctive_line, lineage,
};
use baton_state::clock::now_ms;
use baton_state::files::documents::{self, document_of};
use baton_state::files::yaml_files::read_file;
use baton_state::journal::JournalReader;
use baton_state::looked_up;
use baton_state::store::{DocumentFilter, HandoffFilter, SharedStore};

pub(super) fn run(args: &ShowArgs, out: &mut Out) -> CliResult {
    let lookup = HandoffLookup::new(&args.directory)?;
    if args.line {
        return files::line(args.name.as_deref(), args.follow, &lookup, out);
    }
    if args.purpose.is_some() {
        return check::summary(args, &lookup, out);
    }
    if args.files || args.here {
        return files::newest(args, None, &lookup, out);
    }
    let named = match &args.name {
        Some(name) => lookup.find(name)?,
        None => NamedHandoff::Stored(newest(args, &lookup)?),
    };
    match named {
        NamedHandoff::Stored(id) => stored(args, id, &lookup, out),
        NamedHandoff::Document(path) => {
            let directory = path.parent().unwrap_or(&path).to_owned();
            print_document(args, &directory, &read_document(&path)?, out)
        }
        NamedHandoff::File(path) => files::print_found(args, &read_file(&path)?, out),
        NamedHandoff::Session(session) => files::newest(args, Some(&session), &lookup, out),
    }
}

/// Finds the newest handoff, or the newest active one about a topic.
fn newest(args: &ShowArgs, lookup: &HandoffLookup) -> CliResult<HandoffId> {
    let (newest, count) = blocking(&lookup.config, async |store| {
        let newest = match &args.topic {
            Some(topic) => {
                let filter = DocumentFilter {
                    status: Some(HandoffStatus::Active),
                    topic: Some(topic.clone()),
                    limit: 1,
                    without_documents: true,
                    ..DocumentFilter::default()
                };
                store.documents(&filter).await?.pop().map(|record| record.handoff)
            }
            None => {
                let filter = HandoffFilter {
                    limit: 1,
                    ..HandoffFilter::default()
                };
                store.handoffs(&filter).await?.pop().map(|handoff| handoff.id)
            }
        };
        Ok((newest, lookup::ids(&store).await?.len()))
    })?;
    newest.ok_or_else(|| {
        let message = match args.topic {
            Some(_) => "no active handoff about this",
            None => "no handoffs yet",
        };
        let all = || {
            format!(
                "all {}: baton handoffs list --all",
                plural(count as u64, "handoff")
            )
        };
        let files = lookup.files_hint().map(|hint| format!("{hint}, or show --files"));
        let help: Vec<_> = (count > 0).then(all).into_iter().chain(files).collect();
        Exit::NO_INPUT.with_help(message, help.join("; "))
    })
}

fn stored(args: &ShowArgs, id: HandoffId, lookup: &HandoffLookup, out: &mut Out) -> CliResult {
    blocking(&lookup.config, async |store| {
        let handoff = match wanted(&store, &id.to_string()).await {
            Ok(handoff) => handoff,
            Err(unknown) => {
                // The document may have outlived its handoff.
                let record = one(&store, id).await.map_err(|_| unknown)?;
                return print_stored(args, &record, out);
            }
        };
        if !args.path && args.format.is_none() {
            return print_all(&store, &handoff, args.json, lookup, out).await;
        }
        let found = documents::find(&store, &handoff.principal, handoff.id).await;
        match (found.ok().flatten(), args.format) {
            (Some(record), _) => print_stored(args, &record, out),
            // Without a document, the prompt is printed after a head.
            (None, Some(DocumentFormat::Json)) => out.json(&record(&handoff)),
            (None, Some(DocumentFormat::Md)) => out.body(markdown(&handoff).as_bytes()),
            (None, Some(DocumentFormat::Yaml)) => out.body(yaml(&handoff).as_bytes()),
            (None, None) => {
                let help = "set handoff.documents to write one for each new handoff";
                Err(Exit::NO_INPUT.with_help("this handoff has no directory", help))
            }
        }
    })
}

fn print_stored(args: &ShowArgs, record: &DocumentRecord, out: &mut Out) -> CliResult {
    let document = document_of(record).ok_or_else(|| other_version(record))?;
    print_document(args, Path::new(&record.directory), &document, out)
}

/// Prints a document. In YAML it is printed as a handoff file.
fn print_document(args: &ShowArgs, directory: &Path, document: &HandoffDocument, out: &mut Out) -> CliResult {
    if args.path {
        return out.line(shown(directory));
    }
    match args.format {
        Some(DocumentFormat::Yaml) => out.document(&HandoffFile::of_document(document).to_yaml())?,
        Some(DocumentFormat::Json) => out.document_json(&document.json())?,
        None if args.json => out.document_json(&document.json())?,
        Some(DocumentFormat::Md) | None => out.document(&document.markdown())?,
    }
    Ok(())
}

async fn print_all(
    store: &SharedStore,
    handoff: &Handoff,
    json: bool,
    lookup: &HandoffLookup,
    out: &mut Out,
) -> CliResult {
    let stored = documents::find(store, &handoff.principal, handoff.id).await;
    let stored = stored.ok().flatten();
    let everything = HandoffFilter {
        principal: Some(handoff.principal.clone()),
        ..HandoffFilter::everything()
    };
    let all = store.handoffs(&everything).await?;
    let (chain, children) = lineage::chain(handoff, &all);
    let journal = JournalReader::open(&lookup.config.state_dir)?;
    let calls = journal.map(|journal| journal.called_again(&handoff.conversation, handoff.id));
    let calls = calls.transpose()?.flatten();
    let pairs = looked_up::pairs_since(store, handoff).await?;
    let again = carry::looked_up_again(calls, &pairs, &lookup.config.redactor());
    if json {
        let document = stored.as_ref();
        let mut shown = record(handoff);
        shown["status"] = json!(document.map(|document| document.status.name()));
        shown["folder"] = json!(document.map(|document| &document.directory));
        shown["lineage"] = json!({"chain": chain, "children": children});
        // Files, commands and questions; null if unknown.
        shown["looked_up_again"] = json!(again);
        return out.json(&shown);
    }
    let row = |what: &str, text: &str| vec![what.to_owned(), visible(text)];
    let mut rows = vec![];
    if let Some(record) = &stored {
        rows.push(row("directory", &record.directory));
        rows.push(row("status", record.status.name()));
        // Unreadable if another version of baton wrote it.
        if let Some(document) = document_of(record) {
            let next = document.next_action.as_deref().unwrap_or(NO_NEXT_ACTION);
            rows.push(row("next", &first_line(next, None)));
            let claims = document.claims.iter();
            rows.extend(claims.map(|it| {
                let claim = format!("{}: {} ({})", it.status.name(), it.text, it.why);
                row("claim", &claim)
            }));
        }
    }
    rows.push(row("lineage", &lineage_line(&chain, &children)));
    let receipt = Receipt::new(&handoff.carried).line();
    rows.extend(receipt.map(|receipt| row("carried", &receipt)));
    for item in &handoff.carried {
        let what = match item.state {
            CarriedState::InPrompt => continue,
            CarriedState::LeftOut => "did not fit",
            _ => "added",
        };
        rows.push(row(what, &format!("{}: {}", item.kind.name(), item.text)));
    }
    rows.extend(again.iter().flatten().map(|text| row("again", text)));
    let head = described(handoff, now_ms(), rows);
    out.line(format_args!("{head}\n\n{}", visible(&handoff.prompt)))
}

/// Formats the lineage of a handoff on one line.
fn lineage_line(chain: &[HandoffId], children: &[HandoffId]) -> String {
    let joined = |ids: &[HandoffId], with| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(with);
    let next = match children {
        [] => String::new(),
        [only] => format!(" → {only}"),
        forks => format!(" → {} (a fork)", joined(forks, ", ")),
    };
    format!("{}{next}", joined(chain, " → "))
}

/// Formats a handoff as YAML. JSON strings are valid YAML strings.
fn yaml(handoff: &Handoff) -> String {
    let value = record(handoff);
    let members = value.as_object().into_iter().flatten();
    members
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect()
}

/// Formats a handoff as Markdown: metadata as front matter, then the prompt unchanged.
fn markdown(handoff: &Handoff) -> String {
    let yaml = yaml(handoff);
    let head = yaml.lines().filter(|line| !line.starts_with("prompt: "));
    let head: String = head.map(|line| format!("{line}\n")).collect();
    format!("---\n{head}---\n\n{}\n", handoff.prompt)
}

/// Formats one handoff. Control characters from the model or the agent are made visible.
fn described(handoff: &Handoff, now_ms: u64, more: Vec<Vec<String>>) -> String {
    let text = |text: &str| first_line(text, None);
    let fields = [
        ("id", Some(handoff.id.to_string())),
        ("resume", Some(sentinel::opening(handoff.id))),
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
    let cells = |(name, value): (&str, Option<String>)| Some(vec![name.to_owned(), value?]);
    let rows = fields.into_iter().filter_map(cells);
    table(&rows.chain(more).collect::<Vec<_>>()).join("\n")
}

/// Converts a handoff to JSON, without internal fields. The member names are public API.
pub(super) fn record(handoff: &Handoff) -> Value {
    json!({
        "id": handoff.id,
        "resume": sentinel::opening(handoff.id),
        "principal": handoff.principal,
        "conversation": handoff.conversation,
        "wire": handoff.wire.name(),
        "model": handoff.model,
        "parent": handoff.parent,
        "created_ms": handoff.created_ms,
        "history_bytes": handoff.history_bytes,
        "origin": handoff.origin.name(),
        "prompt_bytes": handoff.prompt.len(),
        "archived": handoff.archived,
        "reason": handoff.reason,
        // The rules, to-dos and claims that the prompt was checked for.
        "carried": handoff.carried,
        "prompt": handoff.prompt,
    })
}

/// Adds the fields of a handoff's document to a list entry, or null without a document.
///
/// The member names are public API.
pub(super) fn with_document(mut shown: Value, record: Option<&DocumentRecord>) -> Value {
    let document = record.and_then(document_of);
    shown["kind"] = json!(document.as_ref().map(|document| document.kind));
    shown["repository"] = json!(record.map(|record| &record.repository));
    shown["branch"] = json!(record.map(|record| &record.branch));
    shown["topic"] = json!(record.map(|record| &record.topic));
    shown["next_action"] = json!(document.and_then(|document| document.next_action));
    shown["folder"] = json!(record.map(|record| &record.directory));
    shown
}

/// Title of a handoff in a list: its reason and the first distinctive line of its prompt.
pub(in crate::cli) fn named(handoff: &Handoff) -> String {
    let line = distinctive_line(&handoff.prompt);
    match &handoff.reason {
        Some(reason) => format!("{}: {line}", reason.trim()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const A: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";
    pub(in super::super) const B: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e12";

    pub(in super::super) fn handoff(id: &str) -> Handoff {
        Handoff {
            id: id.parse().unwrap(),
            principal: "local".into(),
            conversation: "c0ffee".into(),
            prompt: "\n# Task two\n\u{1b}[2JDo it.".into(),
            reason: Some("done\u{7}".into()),
            head: "not shown".into(),
            model: Some("claude".into()),
            history_bytes: 2048,
            ..Handoff::default()
        }
    }

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
            crate::cli::stored::find(&both, wanted)
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
        let value = record(&handoff(A));
        let names: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = "id resume principal conversation wire model parent created_ms history_bytes origin prompt_bytes \
            archived reason carried prompt";
        assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
    }
}
