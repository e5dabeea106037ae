//! `baton export`: a conversation as a document to continue with, without baton: the active carry-over prompt, and the work
//! since, from the newest request in the journal.

mod document;
mod markdown;
mod work;

use std::collections::BTreeSet;

use uuid::Uuid;

use self::document::{ConversationExport, ExportHead, ExportedHandoff};
use self::work::ExportedTurn;
use super::exit::{CommandFailure, Exit};
use super::export_args::{ExportArgs, ExportFormat};
use super::log::open;
use super::newest::{JournalRequest, RequestForm, newest};
use super::output::{Out, visible};
use super::stored;
use super::{load_state, runtime};
use crate::state::config::{Config, StoreKind};
use crate::state::journal::{ExchangeFilter, ExchangeRow, JournalReader};
use crate::state::store::{HandoffFilter, SharedStore};
use baton_core::record::Handoff;

/// Requests of the conversation that are examined, newest first: those for titles and counts hold no tools.
const NEWEST: usize = 50;

/// The item to export.
enum Wanted {
    Conversation(String),
    /// A handoff, with the newest work that was done with it.
    Handoff(Box<Handoff>),
}

pub(super) fn run(args: &ExportArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let runtime = runtime()?;
    if args.format == ExportFormat::Har {
        return runtime.block_on(har(args, out));
    }
    let document = runtime.block_on(document(args))?;
    match args.format {
        // Written above, piece by piece.
        ExportFormat::Har => {}
        ExportFormat::Md => out.body(markdown::document(&document).as_bytes())?,
        ExportFormat::Json => out.json(&document)?,
        ExportFormat::Jsonl => {
            out.json_line(&document.head)?;
            for turn in &document.work {
                out.json_line(turn)?;
            }
        }
    }
    Ok(())
}

async fn document(args: &ExportArgs) -> Result<ConversationExport, CommandFailure> {
    let sources = Sources::open(load_state(&args.state)?).await?;
    match sources.wanted(&args.conversation)? {
        wanted if args.whole => sources.whole(wanted.conversation()),
        Wanted::Conversation(key) => sources.conversation(key).await,
        Wanted::Handoff(handoff) => sources.handoff(*handoff).await,
    }
}

/// Writes every exchange of the conversation, oldest first, one at a time: together they may be larger than the memory.
async fn har(args: &ExportArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let sources = Sources::open(load_state(&args.state)?).await?;
    let key = sources.wanted(&args.conversation)?.conversation();
    let rows = sources.rows(Some(&key), 0)?;
    let Some(journal) = sources.journal.as_ref().filter(|_| !rows.is_empty()) else {
        let message = format!("the journal has no exchange of conversation {}", visible(&key));
        return Err(Exit::NO_INPUT.failure(message));
    };
    let version = env!("CARGO_PKG_VERSION");
    let head = format!(
        "{{\"log\":{{\"version\":\"1.2\",\"creator\":{{\"name\":\"baton\",\"version\":\"{version}\"}},\"entries\":["
    );
    out.body(head.as_bytes())?;
    let mut separator = "";
    for row in rows.iter().rev() {
        for entry in journal.har_entries(&row.id)? {
            out.body(format!("{separator}\n{entry}").as_bytes())?;
            separator = ",";
        }
    }
    Ok(out.body(b"\n]}}\n")?)
}

impl Wanted {
    /// The conversation, or the one in which the handoff was made.
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
    /// None if the handoffs exist only in a running proxy's memory.
    store: Option<SharedStore>,
    /// All handoffs, newest first.
    handoffs: Vec<Handoff>,
    journal: Option<JournalReader>,
}

impl Sources {
    async fn open(config: Config) -> Result<Self, CommandFailure> {
        let store = match config.store.kind {
            StoreKind::Memory => None,
            _ => Some(stored::open(&config)?),
        };
        let handoffs = match &store {
            Some(store) => store.handoffs(&HandoffFilter::everything()).await?,
            None => Vec::new(),
        };
        let journal = open(&config.state_dir)?;
        Ok(Self {
            config,
            store,
            handoffs,
            journal,
        })
    }

    /// The conversation or the handoff with this key or id, or the only one that begins so.
    fn wanted(&self, text: &str) -> Result<Wanted, CommandFailure> {
        let text = text.trim();
        let text = text.strip_prefix("[[handoff-resume:").unwrap_or(text);
        let text = text.strip_suffix("]]").unwrap_or(text).to_lowercase();
        let mut keys: BTreeSet<String> = self.handoffs.iter().map(|h| h.conversation.clone()).collect();
        if let Some(journal) = &self.journal {
            let known = journal.conversations(None, 0)?;
            keys.extend(known.into_iter().map(|conversation| conversation.key));
        }
        if let Some(key) = keys.take(&text) {
            return Ok(Wanted::Conversation(key));
        }
        let begins = |whole: &str| !text.is_empty() && whole.starts_with(&text);
        let handoffs = self
            .handoffs
            .iter()
            .filter(|handoff| begins(&handoff.id.to_string()));
        let handoffs = handoffs.map(|handoff| Wanted::Handoff(Box::new(handoff.clone())));
        let keys = keys.iter().filter(|key| begins(key));
        let mut matching = handoffs.chain(keys.map(|key| Wanted::Conversation(key.clone())));
        match (matching.next(), matching.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(Exit::NO_INPUT
                .failure(format!(
                    "there is no conversation and no handoff {}",
                    visible(&text)
                ))
                .help("`baton handoffs list` shows handoffs, and `baton log` the keys of conversations (column KEY)")),
            (Some(_), Some(_)) => Err(Exit::USAGE
                .failure(format!(
                    "more than one conversation or handoff begins with {}",
                    visible(&text)
                ))
                .help("give more of it")),
        }
    }

    async fn conversation(&self, key: String) -> Result<ConversationExport, CommandFailure> {
        let rows = self.rows(Some(&key), NEWEST)?;
        let found = self.newest(rows)?;
        let active = match &found {
            Some(found) => active(&found.row),
            None => self.last_active(&key).await?,
        };
        let handoff = match active {
            Some(id) => self.full_handoff(id).await?,
            None => None,
        };
        self.compose(key, found, active, handoff)
    }

    /// The agent's whole history with the newest request.
    fn whole(&self, key: String) -> Result<ConversationExport, CommandFailure> {
        let rows = self.rows(Some(&key), NEWEST)?;
        let found = match &self.journal {
            Some(journal) => newest(journal, rows, RequestForm::Received)?,
            None => None,
        };
        self.compose(key, found, None, None)
    }

    async fn handoff(&self, handoff: Handoff) -> Result<ConversationExport, CommandFailure> {
        // A resumed handoff is active in other conversations, too.
        let mut rows = self.rows(None, 0)?;
        rows.retain(|row| active(row) == Some(handoff.id));
        let found = self.newest(rows)?;
        let of_row = found.as_ref().and_then(|found| found.row.conversation.clone());
        let key = of_row.unwrap_or_else(|| handoff.conversation.clone());
        let id = handoff.id;
        let whole = self.full_handoff(id).await?;
        self.compose(key, found, Some(id), whole.or(Some(handoff)))
    }

    fn rows(&self, conversation: Option<&str>, limit: usize) -> Result<Vec<ExchangeRow>, CommandFailure> {
        let Some(journal) = &self.journal else {
            return Ok(Vec::new());
        };
        let filter = ExchangeFilter {
            conversation: conversation.map(str::to_owned),
            limit,
            ..ExchangeFilter::default()
        };
        Ok(journal.list(&filter)?)
    }

    fn newest(&self, rows: Vec<ExchangeRow>) -> Result<Option<JournalRequest>, CommandFailure> {
        match &self.journal {
            Some(journal) => newest(journal, rows, RequestForm::Sent),
            None => Ok(None),
        }
    }

    /// The handoff that the store has as the active one of a conversation, or the newest that was made in it.
    async fn last_active(&self, key: &str) -> Result<Option<Uuid>, CommandFailure> {
        let Some(store) = &self.store else { return Ok(None) };
        let conversation = store.conversation(key).await?;
        let active = conversation.and_then(|conversation| conversation.active);
        let made = || self.handoffs.iter().find(|handoff| handoff.conversation == key);
        Ok(active.or_else(|| made().map(|handoff| handoff.id)))
    }

    /// A handoff with all of its prompt.
    async fn full_handoff(&self, id: Uuid) -> Result<Option<Handoff>, CommandFailure> {
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
    ) -> Result<ConversationExport, CommandFailure> {
        let mut head = ExportHead {
            conversation: key,
            ..ExportHead::default()
        };
        let (mut work, mut prompt) = (Vec::new(), None);
        match &found {
            Some(found) => {
                self.describe(&mut head, found)?;
                let taken = self.work(found, active, handoff.as_ref());
                (work, prompt) = (taken.turns, taken.prompt);
                head.notes.extend(taken.notes);
            }
            None => head.notes.push(self.no_work()),
        }
        head.handoff = match (active, handoff) {
            (_, Some(handoff)) => Some(ExportedHandoff::of_store(&handoff)),
            (Some(id), None) => {
                head.notes.push(
                    "The store does not know this handoff; the prompt is the journal's copy.".to_owned(),
                );
                prompt.map(|prompt| ExportedHandoff::of_journal(id, prompt))
            }
            (None, None) => None,
        };
        if head.handoff.is_none() && work.is_empty() {
            let message = format!("nothing is left of conversation {}", visible(&head.conversation));
            return Err(Exit::NO_INPUT.failure(message).help(
                "the journal keeps the newest exchanges only (journal.max_bytes, journal.max_age_days)",
            ));
        }
        Ok(ConversationExport { head, work })
    }

    fn describe(&self, head: &mut ExportHead, found: &JournalRequest) -> Result<(), CommandFailure> {
        if let Some(journal) = &self.journal {
            let found = journal.conversations(Some(&head.conversation), 1)?;
            head.title = found.into_iter().next().map(|conversation| conversation.title);
        }
        head.wire = Some(found.wire.name().to_owned());
        head.model.clone_from(&found.row.model);
        head.exchange = Some(found.row.id.clone());
        head.at_ms = Some(found.row.at_ms);
        Ok(())
    }

    fn no_work(&self) -> String {
        let why = match (self.config.journal.enabled, &self.journal) {
            (false, _) => "the journal is off (journal.enabled)",
            (true, None) => "there is no journal",
            (true, Some(_)) => "the journal has no request of it any more",
        };
        format!("The work since is missing: {why}. What the agent still shows has it.")
    }

    fn work(&self, found: &JournalRequest, active: Option<Uuid>, handoff: Option<&Handoff>) -> Taken {
        let tags = &self.config.handoff.preamble_tags;
        let mut taken = Taken::default();
        let is_cut = found.row.changes.iter().any(|change| {
            Some(change.leg) == found.leg && change.handoff.is_some() && change.handoff == active
        });
        let from = match (active, found.leg) {
            (None, _) => Some(0),
            (Some(_), Some(_)) if is_cut => {
                let at = work::carry_over_turn(&found.view, found.wire, handoff, tags);
                taken.prompt = at.and_then(|at| work::last_text(&found.view, at));
                at.map(|at| at + 1)
            }
            // The handoff was made in this exchange, and no request has been sent with it.
            (Some(_), Some(_)) => return taken,
            (Some(_), None) => {
                taken.notes.push(
                    "The journal has the agent's own request alone: what follows begins with the turn in \
                    which the handoff was made."
                        .to_owned(),
                );
                handoff.and_then(|handoff| work::sentinel_turn(&found.view, handoff))
            }
        };
        taken.turns = work::turns(&found.view, from.unwrap_or(0));
        match &found.answer {
            Some(body) => taken.turns.extend(work::answer(body)),
            None => taken
                .notes
                .push("The journal has no answer to the last request.".to_owned()),
        }
        taken
    }
}

/// The data read from the journal.
#[derive(Default)]
struct Taken {
    turns: Vec<ExportedTurn>,
    prompt: Option<String>,
    notes: Vec<String>,
}

/// The handoff that is active after an exchange.
fn active(row: &ExchangeRow) -> Option<Uuid> {
    let id = row.event.fired.last().or(row.event.pinned.as_ref())?;
    Uuid::parse_str(id).ok()
}
