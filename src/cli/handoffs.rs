//! `baton handoffs`: lists, shows and exports handoffs. Reads the store directly.

use serde::Serialize;

use super::args::{ArchiveArgs, ExportArgs, ExportFormat, HandoffsCommand, LatestArgs, ListArgs, ShowArgs};
use super::draft;
use super::exit::{Exit, Failure};
use super::load_state;
use super::output::{Out, age, first_line, size, table, visible};
use super::stored::{now_ms, resume_line, unanswered};
use crate::config::{Config, StoreKind};
use crate::record::{Handoff, telling_line};
use crate::store::{self, HandoffFilter, SharedStore};

pub(super) fn run(command: &HandoffsCommand, out: &mut Out) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::SOFTWARE, error.to_string()))?;
    match command {
        HandoffsCommand::List(args) => runtime.block_on(list(args, out)),
        HandoffsCommand::Show(args) => runtime.block_on(show(args, out)),
        HandoffsCommand::Latest(args) => runtime.block_on(latest(args, out)),
        HandoffsCommand::Export(args) => runtime.block_on(export(args, out)),
        HandoffsCommand::Archive(args) => runtime.block_on(archive(args, out)),
        HandoffsCommand::Draft(args) => runtime.block_on(draft::run(args, out)),
    }
}

async fn list(args: &ListArgs, out: &mut Out) -> Result<(), Failure> {
    let store = open(&load_state(&args.state)?)?;
    let filter = HandoffFilter {
        conversation: args.conversation.clone(),
        archived: args.all,
        limit: args.limit,
        ..HandoffFilter::default()
    };
    let handoffs = store.handoffs(&filter).await.map_err(unanswered)?;
    if args.json {
        let records: Vec<_> = handoffs.iter().map(Record::of).collect();
        out.json(&records)?;
        return Ok(());
    }
    if handoffs.is_empty() {
        // To standard error: scripts read handoffs from standard output.
        Out::stderr().line(format_args!("no handoffs yet"))?;
        return Ok(());
    }
    for line in rows(&handoffs, now_ms(), out.width()) {
        out.line(format_args!("{line}"))?;
    }
    Ok(())
}

async fn show(args: &ShowArgs, out: &mut Out) -> Result<(), Failure> {
    let store = open(&load_state(&args.state)?)?;
    print(&wanted(&store, &args.id).await?, args.json, out)
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
    print(&whole.map_err(unanswered)?.unwrap_or(newest), args.json, out)
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
    let what = if args.undo { "taken out again" } else { "archived" };
    out.line(format_args!("{what}: {}", handoff.id))?;
    Ok(())
}

/// The handoff with this id or unique id prefix, with its full prompt.
pub(super) async fn wanted(store: &SharedStore, id: &str) -> Result<Handoff, Failure> {
    let everything = HandoffFilter {
        archived: true,
        ..HandoffFilter::default()
    };
    let handoffs = store.handoffs(&everything).await.map_err(unanswered)?;
    let found = find(&handoffs, id)?;
    let whole = store.handoff(&found.principal, found.id).await;
    Ok(whole.map_err(unanswered)?.unwrap_or_else(|| found.clone()))
}

fn print(handoff: &Handoff, json: bool, out: &mut Out) -> Result<(), Failure> {
    if json {
        out.json(&Record::of(handoff))?;
    } else {
        out.line(format_args!("{}", described(handoff, now_ms())))?;
    }
    Ok(())
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

/// The store, for reading. What lives in a running proxy's memory alone cannot be had.
pub(super) fn open(config: &Config) -> Result<SharedStore, Failure> {
    if config.store.kind == StoreKind::Memory {
        let message = "store.kind is \"memory\": its handoffs live inside the running proxy alone";
        return Err(
            Failure::new(Exit::UNAVAILABLE, message).help("use \"sqlite\" to look at them from outside")
        );
    }
    store::open_for_reading(&config.store, &config.state_dir).map_err(unanswered)
}

/// The handoff with this id or unique id prefix.
fn find<'a>(handoffs: &'a [Handoff], wanted: &str) -> Result<&'a Handoff, Failure> {
    // Also accepts the whole resume line, as people copy it.
    let wanted = wanted
        .trim()
        .trim_start_matches("[[handoff-resume:")
        .trim_end_matches("]]");
    let wanted = wanted.to_lowercase();
    let usable = !wanted.is_empty() && wanted.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !usable {
        let message = format!("{:?} is not an id", visible(&wanted));
        return Err(Failure::new(Exit::USAGE, message).help("`baton handoffs list` shows the ids"));
    }
    let mut matching = handoffs.iter().filter(|handoff| {
        let id = handoff.id.to_string();
        id.starts_with(&wanted) || id.replace('-', "") == wanted
    });
    match (matching.next(), matching.next()) {
        (Some(handoff), None) => Ok(handoff),
        (None, _) => Err(
            Failure::new(Exit::NO_INPUT, format!("there is no handoff {wanted}"))
                .help("`baton handoffs list --all` shows all"),
        ),
        (Some(_), Some(_)) => Err(Failure::new(
            Exit::USAGE,
            format!("more than one handoff begins with {wanted}"),
        )
        .help("give more of the id")),
    }
}

/// A handoff as JSON, without internal fields. The names are API.
#[derive(Serialize)]
struct Record<'a> {
    id: String,
    resume: String,
    principal: &'a str,
    conversation: &'a str,
    wire: &'static str,
    model: Option<&'a str>,
    parent: Option<String>,
    created_ms: u64,
    history_bytes: u64,
    origin: &'static str,
    prompt_bytes: usize,
    archived: bool,
    reason: Option<&'a str>,
    prompt: &'a str,
}

impl<'a> Record<'a> {
    fn of(handoff: &'a Handoff) -> Self {
        Self {
            id: handoff.id.to_string(),
            resume: resume_line(handoff),
            principal: &handoff.principal,
            conversation: &handoff.conversation,
            wire: handoff.wire.name(),
            model: handoff.model.as_deref(),
            parent: handoff.parent.map(|id| id.to_string()),
            created_ms: handoff.created_ms,
            history_bytes: handoff.history_bytes,
            origin: handoff.origin.name(),
            prompt_bytes: handoff.prompt.len(),
            archived: handoff.archived,
            reason: handoff.reason.as_deref(),
            prompt: &handoff.prompt,
        }
    }
}

/// Minimum width of a prompt's first line on a narrow terminal.
const PROMPT_COLUMNS: usize = 20;

/// The rows of `list`, heading first.
fn rows(handoffs: &[Handoff], now_ms: u64, width: Option<usize>) -> Vec<String> {
    let heading = ["ID", "AGE", "HISTORY", "PROMPT", "MODEL", "BEGINS"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for handoff in handoffs {
        let mark = if handoff.archived { " (archived)" } else { "" };
        rows.push(vec![
            handoff.id.to_string(),
            age(handoff.created_ms, now_ms),
            size(handoff.history_bytes),
            size(handoff.prompt.len() as u64),
            first_line(handoff.model.as_deref().unwrap_or("-"), Some(30)) + mark,
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

/// The title of a handoff in a list: the first telling line of its prompt, and its reason.
pub(super) fn named(handoff: &Handoff) -> String {
    let line = telling_line(&handoff.prompt);
    match &handoff.reason {
        Some(reason) => format!("{}: {line}", reason.trim()),
        None => line.to_owned(),
    }
}

/// Prints one handoff. Control characters in texts of the model or the agent are made visible.
fn described(handoff: &Handoff, now_ms: u64) -> String {
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
    let rows: Vec<_> = fields
        .into_iter()
        .filter_map(|(name, value)| Some(vec![name.to_owned(), value?]))
        .collect();
    format!("{}\n\n{}", table(&rows).join("\n"), visible(&handoff.prompt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Origin;
    use crate::record::WireId;

    fn handoff(id: &str) -> Handoff {
        Handoff {
            id: id.parse().unwrap(),
            principal: "local".into(),
            conversation: "c0ffee".into(),
            wire: WireId::Anthropic,
            prompt: "\n# Task two\n\u{1b}[2JDo it.".into(),
            reason: Some("done\u{7}".into()),
            head: "not shown".into(),
            parent: None,
            model: Some("claude".into()),
            created_ms: 0,
            history_bytes: 2048,
            origin: Origin::Model,
            archived: false,
            spelled_out: None,
        }
    }

    const A: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";
    const B: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e12";

    #[test]
    fn a_list_shows_where_each_prompt_begins() {
        let lines = rows(&[handoff(A)], 7_200_000, None);
        assert_eq!(
            lines[1],
            format!("{A}  2h   2.0 KiB  22 B    claude  done\\u{{7}}: \\u{{1b}}[2JDo it.")
        );
        assert!(lines[0].starts_with("ID    "));
        assert!(rows(&[handoff(A)], 0, Some(10))[1].ends_with("done\\u{7}: \\u{1b}[2…"));
    }

    #[test]
    fn everything_of_one_is_shown_and_nothing_acts() {
        let shown = described(&handoff(A), 0);
        assert!(shown.contains(&format!("resume        [[handoff-resume:{A}]]\n")));
        assert!(shown.contains("reason        done\\u{7}\n"));
        assert!(shown.ends_with("\n# Task two\n\\u{1b}[2JDo it."));
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'));
    }

    #[test]
    fn an_id_is_found_by_its_beginning() {
        let both = [handoff(A), handoff(B)];
        let found = |wanted: &str| find(&both, wanted).map(|h| h.id.to_string()).map_err(|f| f.exit);
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
