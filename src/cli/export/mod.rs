//! The `baton export` command: a conversation as a document to continue with, without baton.
//!
//! The document has the active carry-over prompt, and the work since, from the newest request in the journal.

mod markdown;
mod work;

use std::collections::BTreeSet;

use clap::Args as ClapArgs;
use uuid::Uuid;

use self::work::{ConversationExport, ExportHead, ExportedHandoff, ExportedTurn};
use super::exit::{CliResult, Exit};
use super::journal::{JournalRequest, RequestForm, newest, newest_rows};
use super::output::{Out, visible};
use super::state_args::StateArgs;
use super::stored::{self, bare_id, only};
use super::{STORE_SECRETS, block_on, load_state};
use baton_core::marker::sentinel;
use baton_core::record::Handoff;
use baton_state::config::{Config, StoreKind};
use baton_state::journal::{ExchangeFilter, ExchangeRow, JournalReader};
use baton_state::store::{HandoffFilter, SharedStore};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The work comes from the newest request in the journal, redacted as the journal has it; without a journal there is \
only the prompt. Begin a new session of any agent with the document.

`baton log` (column KEY) and `baton savings --by conversation` list the keys of conversations, `baton handoffs list` the \
ids of handoffs.

Examples:
  baton export 3f9c > session.md
  baton export 0199a3c2-7d1e --format json | jq -r .handoff.prompt
  baton export 3f9c --format jsonl | tail -n +2 | jq -c .parts
  baton export 3f9c --whole > conversation.md
  baton export 3f9c --format har > conversation.har")]
pub(super) struct ExportArgs {
    /// Conversation to export, by its key, a handoff's id, or a unique prefix of either
    conversation: String,
    #[command(flatten)]
    state: StateArgs,
    /// Write this format
    #[arg(long, value_enum, default_value_t = ExportFormat::Md)]
    format: ExportFormat,
    /// Export the agent's whole history instead of the active carry-over prompt and the work since
    #[arg(long)]
    whole: bool,
}

/// Output format of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// Markdown
    Md,
    /// JSON
    Json,
    /// JSON Lines: the head without the work, then one line per turn
    Jsonl,
    /// HAR 1.2: every exchange of the conversation, with its upstream requests
    Har,
}

/// The item to export.
enum ExportTarget {
    Conversation(String),
    /// A handoff, with the newest work that was done after it.
    Handoff(Box<Handoff>),
}

pub(super) fn run(args: &ExportArgs, out: &mut Out) -> CliResult {
    block_on(async {
        let sources = Sources::open(load_state(&args.state, STORE_SECRETS)?).await?;
        let wanted = sources.wanted(&args.conversation)?;
        if args.format == ExportFormat::Har {
            return sources.har(&wanted.conversation(), out);
        }
        let export = match wanted {
            wanted if args.whole => sources.whole(wanted.conversation())?,
            ExportTarget::Conversation(key) => sources.conversation(key).await?,
            ExportTarget::Handoff(handoff) => sources.handoff(*handoff).await?,
        };
        match args.format {
            ExportFormat::Jsonl => {
                out.json_line(&export.head)?;
                export.work.iter().try_for_each(|turn| out.json_line(turn))?;
            }
            ExportFormat::Json => out.json(&export)?,
            _ => out.body(markdown::document(&export).as_bytes())?,
        }
        Ok(())
    })
}

impl ExportTarget {
    /// Key of the conversation; for a handoff, of the conversation that made it.
    fn conversation(self) -> String {
        match self {
            Self::Conversation(key) => key,
            Self::Handoff(handoff) => handoff.conversation,
        }
    }
}

/// The sources of an export.
struct Sources {
    config: Config,
    /// `None` if the handoffs exist only in a running proxy's memory.
    store: Option<SharedStore>,
    /// All handoffs, newest first.
    handoffs: Vec<Handoff>,
    journal: Option<JournalReader>,
}

impl Sources {
    async fn open(config: Config) -> CliResult<Self> {
        let (mut store, mut handoffs) = (None, Vec::new());
        if config.store.kind != StoreKind::Memory {
            let opened = stored::open(&config)?;
            handoffs = opened.handoffs(&HandoffFilter::everything()).await?;
            store = Some(opened);
        }
        let journal = JournalReader::open(&config.state_dir)?;
        Ok(Self {
            config,
            store,
            handoffs,
            journal,
        })
    }

    /// Finds the conversation or handoff with this key or id, or with this unique prefix.
    fn wanted(&self, text: &str) -> CliResult<ExportTarget> {
        let text = bare_id(text);
        let mut keys: BTreeSet<String> = self.handoffs.iter().map(|h| h.conversation.clone()).collect();
        if let Some(journal) = &self.journal {
            keys.extend(journal.conversations(None, 0)?.into_iter().map(|known| known.key));
        }
        // An exact key takes precedence over ids that begin like it.
        if let Some(key) = keys.take(&text) {
            return Ok(ExportTarget::Conversation(key));
        }
        let begins = |whole: &str| !text.is_empty() && whole.starts_with(&text);
        let handoffs = self.handoffs.iter().filter(|one| begins(&one.id.to_string()));
        let handoffs = handoffs.map(|handoff| ExportTarget::Handoff(Box::new(handoff.clone())));
        let keys = keys.iter().filter(|key| begins(key)).cloned();
        let matching = handoffs.chain(keys.map(ExportTarget::Conversation));
        only(matching, ["conversation or handoff", "it"], &text, || {
            let message = format!("there is no conversation and no handoff {}", visible(&text));
            Exit::NO_INPUT.with_help(message, "`baton handoffs list` shows handoffs, and `baton log` the keys of conversations (column KEY)")
        })
    }

    /// Writes every exchange of a conversation, oldest first.
    ///
    /// Each is read on its own, because together they may be larger than the memory.
    fn har(&self, key: &str, out: &mut Out) -> CliResult {
        let rows = self.rows(ExchangeFilter::newest(Some(key), 0))?;
        let Some(journal) = self.journal.as_ref().filter(|_| !rows.is_empty()) else {
            let message = format!("the journal has no exchange of conversation {}", visible(key));
            return Err(Exit::NO_INPUT.failure(message));
        };
        let version = env!("CARGO_PKG_VERSION");
        let head = format!(
            "{{\"log\":{{\"version\":\"1.2\",\"creator\":{{\"name\":\"baton\",\"version\":\"{version}\"}},\"entries\":["
        );
        out.body(head.as_bytes())?;
        let mut separator = "";
        // The journal lists the newest first.
        for row in rows.iter().rev() {
            for entry in journal.har_entries(&row.id)? {
                out.body(format!("{separator}\n{entry}").as_bytes())?;
                separator = ",";
            }
        }
        out.body(b"\n]}}\n")
    }

    fn rows(&self, filter: ExchangeFilter) -> CliResult<Vec<ExchangeRow>> {
        let journal = self.journal.as_ref();
        Ok(journal.map_or(Ok(Vec::new()), |journal| journal.list(&filter))?)
    }

    async fn conversation(&self, key: String) -> CliResult<ConversationExport> {
        // As the model saw it, which begins with the carry-over prompt.
        let found = self.newest(&key, RequestForm::Sent)?;
        let active = match &found {
            Some(found) => self.fired_after(&key, &found.row)?.or_else(|| active(&found.row)),
            None => self.last_active(&key).await?,
        };
        let handoff = match active {
            Some(id) => self.full_handoff(id).await?,
            None => None,
        };
        self.compose(key, found, active, handoff)
    }

    /// Exports the agent's whole history, from the newest request.
    fn whole(&self, key: String) -> CliResult<ConversationExport> {
        // The agent sends its whole history, which a sent request lacks after a cut.
        let found = self.newest(&key, RequestForm::Received)?;
        self.compose(key, found, None, None)
    }

    async fn handoff(&self, handoff: Handoff) -> CliResult<ConversationExport> {
        // Not filtered by conversation, because a resumed handoff is active in other conversations as well.
        let mut rows = self.rows(ExchangeFilter::default())?;
        rows.retain(|row| active(row) == Some(handoff.id));
        let journal = self.journal.as_ref();
        let mut found = journal.map_or(Ok(None), |journal| newest(journal, rows, RequestForm::Sent))?;
        if let (None, Some(journal)) = (&found, journal) {
            // No request was sent after it, so the one before describes the conversation.
            let mut rows = newest_rows(journal, &handoff.conversation)?;
            rows.retain(|row| row.at_ms <= handoff.created_ms);
            found = newest(journal, rows, RequestForm::Sent)?;
        }
        let of_row = found.as_ref().and_then(|found| found.row.conversation.clone());
        let key = of_row.unwrap_or_else(|| handoff.conversation.clone());
        let id = handoff.id;
        let whole = self.full_handoff(id).await?;
        self.compose(key, found, Some(id), whole.or(Some(handoff)))
    }

    /// Returns the handoff that a chat command has made after the request of this row, unless it was undone since.
    fn fired_after(&self, key: &str, row: &ExchangeRow) -> CliResult<Option<Uuid>> {
        let Some(journal) = &self.journal else {
            return Ok(None);
        };
        let rows = newest_rows(journal, key)?;
        let mut later = rows.iter().take_while(|later| later.id != row.id);
        let last = later.find(|later| later.event.undo.is_some() || !later.event.fired.is_empty());
        Ok(last.filter(|last| last.event.undo.is_none()).and_then(active))
    }

    fn newest(&self, key: &str, form: RequestForm) -> CliResult<Option<JournalRequest>> {
        match &self.journal {
            Some(journal) => newest(journal, newest_rows(journal, key)?, form),
            None => Ok(None),
        }
    }

    /// Returns the active handoff of a conversation in the store, else the newest that was made in it.
    async fn last_active(&self, key: &str) -> CliResult<Option<Uuid>> {
        let Some(store) = &self.store else { return Ok(None) };
        let conversation = store.conversation(key).await?;
        let active = conversation.and_then(|conversation| conversation.active);
        // The newest comes first.
        let mut made = self.handoffs.iter().filter(|handoff| handoff.conversation == key);
        Ok(active.or_else(|| made.next().map(|handoff| handoff.id)))
    }

    /// Reads a handoff with its full prompt.
    async fn full_handoff(&self, id: Uuid) -> CliResult<Option<Handoff>> {
        let known = self.handoffs.iter().find(|handoff| handoff.id == id);
        match (&self.store, known) {
            (Some(store), Some(known)) => Ok(store.handoff(&known.principal, id).await?),
            _ => Ok(None),
        }
    }

    fn compose(
        &self,
        key: String,
        found: Option<JournalRequest>,
        active: Option<Uuid>,
        handoff: Option<Handoff>,
    ) -> CliResult<ConversationExport> {
        let mut head = ExportHead {
            conversation: key,
            ..ExportHead::default()
        };
        let (mut work, mut prompt) = (Vec::new(), None);
        match (&self.journal, found) {
            (Some(journal), Some(found)) => {
                let known = journal.conversations(Some(&head.conversation), 1)?.into_iter();
                head.title = known.map(|conversation| conversation.title).next();
                (work, prompt) = self.work(&found, active, handoff.as_ref(), &mut head.notes);
                head.wire = Some(found.wire.name().to_owned());
                head.model = found.row.model;
                head.exchange = Some(found.row.id);
                head.at_ms = Some(found.row.at_ms);
            }
            _ => head.notes.push(self.no_work()),
        }
        let stored = handoff.map(|handoff| ExportedHandoff {
            id: handoff.id,
            resume: sentinel::opening(handoff.id),
            reason: handoff.reason,
            created_ms: Some(handoff.created_ms),
            prompt: handoff.prompt,
        });
        if let (None, Some(_)) = (&stored, active) {
            let note = "The store does not have this handoff; the prompt is the journal's copy.";
            head.notes.push(note.to_owned());
        }
        let journaled = active.zip(prompt).map(|(id, prompt)| ExportedHandoff {
            id,
            resume: sentinel::opening(id),
            reason: None,
            created_ms: None,
            prompt,
        });
        // The store's record is complete, while the journal only has the prompt.
        head.handoff = stored.or(journaled);
        if head.handoff.is_none() && work.is_empty() {
            let message = format!("nothing is left of conversation {}", visible(&head.conversation));
            let help =
                "the journal keeps the newest exchanges only (journal.max_bytes, journal.max_age_days)";
            return Err(Exit::NO_INPUT.with_help(message, help));
        }
        Ok(ConversationExport { head, work })
    }

    fn no_work(&self) -> String {
        let why = match (self.config.journal.enabled, &self.journal) {
            (false, _) => "the journal is off (journal.enabled)",
            (true, None) => "there is no journal",
            (true, Some(_)) => "the journal no longer has a request of it",
        };
        format!("The work since is missing: {why}. The agent's own display still has it.")
    }

    /// Extracts the work from a request and its response, and the carry-over prompt at the request's
    /// beginning.
    fn work(
        &self,
        found: &JournalRequest,
        active: Option<Uuid>,
        handoff: Option<&Handoff>,
        notes: &mut Vec<String>,
    ) -> (Vec<ExportedTurn>, Option<String>) {
        let mut prompt = None;
        let is_cut = found.row.changes.iter().any(|of_leg| {
            Some(of_leg.leg) == found.leg && active.is_some() && of_leg.change.handoff == active
        });
        let from = match (active, found.leg) {
            (None, _) => Some(0),
            (Some(_), Some(_)) if is_cut => {
                let tags = &self.config.handoff.preamble_tags;
                let at = work::carry_over_turn(&found.view, handoff, tags);
                prompt = at.and_then(|at| work::last_text(&found.view, at));
                // The carry-over prompt is exported as the handoff's, so the work begins after it.
                at.map(|at| at + 1)
            }
            // The handoff was made in this exchange, and no request has been sent with it.
            (Some(_), Some(_)) => return (Vec::new(), None),
            (Some(_), None) => {
                let note = "The journal has only the agent's own request, so the work begins with the turn that made the handoff.";
                notes.push(note.to_owned());
                handoff.and_then(|handoff| work::sentinel_turn(&found.view, handoff))
            }
        };
        let mut turns = work::turns(&found.view, from.unwrap_or(0));
        match &found.answer {
            Some(body) => turns.extend(work::answer(body)),
            None => notes.push("The journal has no answer to the last request.".to_owned()),
        }
        (turns, prompt)
    }
}

/// Handoff that is active after an exchange.
fn active(row: &ExchangeRow) -> Option<Uuid> {
    // A handoff that fired replaces the one that the request was cut at.
    let id = row.event.fired.last().or(row.event.pinned.as_ref())?;
    Uuid::parse_str(id).ok()
}
