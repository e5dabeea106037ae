//! The `baton handoffs draft` command: makes a handoff from the journal, without a provider.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use super::args::DraftArgs;
use crate::cli::exit::{CliResult, CommandFailure, Exit};
use crate::cli::journal::{self, JournalRequest, RequestForm, full_key, open_existing};
use crate::cli::output::{Out, size, visible};
use crate::cli::{STORE_SECRETS, load_state};
use baton_core::handoffs::carry::{self, Carried, EarlierWords, RuleSources, UserMessages};
use baton_core::handoffs::document::{HandoffDocument, HandoffSize};
use baton_core::handoffs::draft::{self, BudgetTooSmall, DraftSpec, Prompts};
use baton_core::marker::sentinel;
use baton_core::record::{Handoff, HandoffOrigin, LOCAL};
use baton_core::rewrite::preamble::{self, Preamble};
use baton_core::transcript::{AnswerContent, Transcript};
use baton_core::work::DraftIndex;
use baton_state::clock::now_ms;
use baton_state::config::{Config, PreambleMode as Keep, StoreKind};
use baton_state::disk;
use baton_state::files::documents::{self, DocumentSettings, StoredHandoff};
use baton_state::files::repository;
use baton_state::journal::JournalReader;
use baton_state::store::{self, SharedStore};

pub(super) async fn run(args: &DraftArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state, STORE_SECRETS)?;
    let query = open_existing(&config.state_dir)?;
    let key = full_key(&query, &args.key)?;
    let store = for_writing(&config)?;
    let work = SessionWork::of(&query, &store, &key).await?;
    let index = indexed(&config, &work);
    if !draft::enough(index.spoken()) {
        return Err(Exit::NO_INPUT.failure("nothing to hand off yet"));
    }
    let repository = match &args.git_dir {
        _ if args.no_git => String::new(),
        Some(dir) => repository::state(dir),
        None => repository_state(&config, &work, &index),
    };
    let tokens = match args.bundle {
        true => config.draft.bundle_tokens,
        false => config.draft.facts_tokens,
    };
    let request = DraftSpec {
        focus: &args.focus,
        preset: args.preset,
        tokens: args.tokens.map_or(tokens, |tokens| tokens as usize),
        repository: &repository,
        git: !args.no_git,
        commands: !args.no_commands,
        why: !args.no_why,
    };
    let prompts = Prompts::default();
    if args.bundle {
        let text = index.with_bundle(&request, &prompts).map_err(too_small)?;
        return out.body(text.as_bytes());
    }
    let (document, origin) = match &args.from {
        Some(file) => (index.completed(&given(file)?, &request), HandoffOrigin::User),
        None => (index.local(&request).map_err(too_small)?, HandoffOrigin::Local),
    };
    let carried = carried(&config, &index, &work, &document);
    let handoff = handoff(&config, &work, key, carried, origin);
    let directory = leave(&config, &store, &handoff, &work).await?;
    print_draft(&handoff, &document, directory, args.json, out)
}

/// The work of a conversation since its last handoff.
pub(super) struct SessionWork {
    pub(super) principal: String,
    /// Newest request of the conversation.
    pub(super) newest: JournalRequest,
    /// Handoff that the request begins with.
    pub(super) earlier: Option<Handoff>,
    /// Carried rules that the user has dropped.
    pub(super) dropped: Vec<String>,
}

impl SessionWork {
    /// Creates the work of a session that no store has.
    pub(super) fn alone(newest: JournalRequest) -> Self {
        Self {
            principal: LOCAL.to_owned(),
            newest,
            earlier: None,
            dropped: Vec::new(),
        }
    }

    pub(super) async fn of(query: &JournalReader, store: &SharedStore, key: &str) -> CliResult<Self> {
        let newest = newest(query, key)?;
        let conversation = store.conversation(key).await?;
        let (principal, dropped) = conversation.map_or_else(
            || (LOCAL.to_owned(), Vec::new()),
            |conversation| (conversation.principal, conversation.dropped_rules),
        );
        let event = &newest.row.event;
        // A later leg begins with the handoff that took effect before it.
        let fired = event
            .fired
            .last()
            .filter(|_| newest.leg.is_some_and(|leg| leg > 0));
        let id = fired.or(event.pinned.as_ref());
        let earlier = match id.and_then(|id| Uuid::parse_str(id).ok()) {
            Some(id) => store.handoff(&principal, id).await?,
            None => None,
        };
        Ok(Self {
            principal,
            newest,
            earlier,
            dropped,
        })
    }
}

/// Returns the state of the repository that a session worked in.
pub(super) fn repository_state(config: &Config, work: &SessionWork, index: &DraftIndex) -> String {
    let run = work.newest.row.event.run.as_deref();
    repository::draft_state(config, &work.principal, run, &index.whereabouts())
}

/// Turns the document into a carry-over prompt, and appends missing items.
fn carried(config: &Config, index: &DraftIndex, work: &SessionWork, document: &str) -> Carried {
    let transcript = Transcript::from_view(&work.newest.view);
    let earlier = work.earlier.as_ref();
    let carry_over = earlier.map(|handoff| handoff.prompt.as_str());
    let words = carry::users_words(&RuleSources {
        earlier: &earlier.map(EarlierWords::of_handoff).unwrap_or_default(),
        said: &UserMessages::from_transcript(&transcript, &config.handoff.preamble_tags, carry_over),
        since: None,
        without: &work.dropped,
        markers: &config.draft.markers,
        redactor: &config.redactor(),
    });
    let seen = index.seen();
    // The document may quote a transcript that contains baton's markers.
    let prompt = sentinel::normalised(&draft::carried(document));
    carry::carry(&prompt, &words, Some(&seen), config.carry_policy())
}

/// Composes the document of this work's handoff, as it is written to disk.
pub(super) fn document_of(
    settings: &DocumentSettings,
    handoff: &Handoff,
    work: &SessionWork,
) -> HandoffDocument {
    documents::compose(settings, stored_of(handoff, work))
}

fn stored_of(handoff: &Handoff, work: &SessionWork) -> StoredHandoff {
    let body = work.newest.view.body.clone();
    let row = &work.newest.row;
    StoredHandoff {
        handoff: handoff.clone(),
        carry_over: work.earlier.as_ref().map(|handoff| handoff.prompt.clone()),
        context_tokens: row.event.context_tokens(),
        // Work that was read from a session file has no exchange.
        exchange: Some(row.id.clone()).filter(|id| !id.is_empty()),
        run: row.event.run.clone(),
        topic: row.event.topic.clone(),
        bytes: HandoffSize {
            before: body.len() as u64,
            after: handoff.head.len() as u64,
        },
        transcript: Box::new(move || Some(body)),
    }
}

/// Stores a handoff, which waits until it is resumed, and writes its document.
///
/// A failure to write the document is only reported.
pub(super) async fn leave(
    config: &Config,
    store: &SharedStore,
    handoff: &Handoff,
    work: &SessionWork,
) -> CliResult<Option<PathBuf>> {
    store.put_draft(handoff).await?;
    let Some(settings) = DocumentSettings::from_config(config) else {
        return Ok(None);
    };
    match documents::write(&Arc::new(settings), store, stored_of(handoff, work)).await {
        Ok(directory) => Ok(Some(directory)),
        Err(error) => {
            Out::stderr().line(format_args!(
                "baton: no document: {}",
                visible(&error.to_string())
            ))?;
            Ok(None)
        }
    }
}

fn print_draft(
    handoff: &Handoff,
    document: &str,
    directory: Option<PathBuf>,
    json: bool,
    out: &mut Out,
) -> CliResult {
    let directory = directory.map(|directory| directory.display().to_string());
    let tokens = draft::tokens(document);
    if json {
        // These member names are public API. The tokens are the document's estimated size.
        return out.json(&json!({
            "handoff": handoff.id,
            "resume": sentinel::opening(handoff.id),
            "origin": handoff.origin.name(),
            "document": document,
            "tokens": tokens,
            "folder": directory,
        }));
    }
    out.line(format_args!(
        "drafted {} from {} of history: {}, ≈ {tokens} tokens",
        handoff.id,
        size(handoff.history_bytes),
        size(handoff.prompt.len() as u64)
    ))?;
    if handoff.prompt.len() as u64 > handoff.history_bytes {
        out.line(
            "the draft is larger than the history, so continuing the same session with it saves nothing",
        )?;
    }
    if let Some(directory) = directory {
        out.line(format_args!("document: {}", visible(&directory)))?;
    }
    out.line("begin a new session's first message with:")?;
    out.line(sentinel::opening(handoff.id))
}

/// Reads the newest request of a conversation.
pub(super) fn newest(query: &JournalReader, key: &str) -> CliResult<JournalRequest> {
    let rows = journal::newest_rows(query, key)?;
    // A chat command may have set another topic since the request.
    let topic = rows.first().and_then(|row| row.event.topic.clone());
    let newest = journal::newest(query, rows, RequestForm::Sent)?;
    let mut newest = newest.ok_or_else(|| {
        let key = visible(key);
        let message = format!("the journal has no request of conversation {key} that can be read");
        let help = "it keeps the newest exchanges only (journal.max_bytes, journal.max_age_days)";
        Exit::NO_INPUT.with_help(message, help)
    })?;
    newest.row.event.topic = topic;
    Ok(newest)
}

fn indexed(config: &Config, work: &SessionWork) -> DraftIndex {
    let newest = &work.newest;
    let carry_over = work.earlier.as_ref().map(|handoff| handoff.prompt.clone());
    let settings = config.draft_settings(carry_over, config.redactor());
    let mut index = DraftIndex::from_transcript(settings, &Transcript::from_view(&newest.view));
    // No request contains the newest response yet, so it is added here.
    if let Some(answer) = &newest.answer {
        index.answered(&AnswerContent::from_body(answer));
    }
    index
}

/// Drafts a carry-over prompt of all the work without a model, with the state of this repository.
///
/// `None` if there is too little work.
pub(super) fn locally(
    config: &Config,
    work: &SessionWork,
    repository: impl FnOnce(&DraftIndex) -> String,
) -> CliResult<Option<Carried>> {
    let index = indexed(config, work);
    if !draft::enough(index.spoken()) {
        return Ok(None);
    }
    let spec = DraftSpec {
        tokens: config.draft.facts_tokens,
        repository: &repository(&index),
        ..DraftSpec::default()
    };
    let document = index.local(&spec).map_err(too_small)?;
    Ok(Some(carried(config, &index, work, &document)))
}

fn too_small(error: BudgetTooSmall) -> CommandFailure {
    Exit::USAGE.with_help(error.to_string(), format!("give more: --tokens {}", error.needed))
}

/// Reads a document that the user, or a model prompted by the user, has written.
fn given(file: &Path) -> CliResult<String> {
    let text = text_of(file)?;
    match text.trim().is_empty() {
        true => Err(Exit::NO_INPUT.failure(format!("{} is empty", file.display()))),
        false => Ok(text),
    }
}

/// Maximum bytes of a document or an agent's output. Devices never end.
const MAX_TEXT_BYTES: u64 = 64 << 20;

/// Reads a file, or standard input for `-`.
pub(super) fn text_of(path: &Path) -> CliResult<String> {
    let mut bytes = Vec::new();
    let opened: io::Result<Box<dyn Read>> = match path.as_os_str() == "-" {
        true => Ok(Box::new(io::stdin())),
        false => disk::open_named(path).map(|file| Box::new(file) as _),
    };
    let read = opened.and_then(|source| source.take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes));
    let read = read.and_then(|length| match length as u64 > MAX_TEXT_BYTES {
        true => Err(io::Error::other("larger than 64 MiB")),
        false => Ok(()),
    });
    read.map_err(|error| Exit::NO_INPUT.failure(format!("failed to read {}: {error}", path.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Opens the store, and creates it if it is missing, because the handoff must outlive this process.
pub(super) fn for_writing(config: &Config) -> CliResult<SharedStore> {
    if config.store.kind == StoreKind::Memory {
        let message = "store.kind is \"memory\": a handoff made here would be lost at once";
        return Err(Exit::UNAVAILABLE.with_help(message, "use \"sqlite\""));
    }
    Ok(store::open(&config.store, &config.state_dir)?)
}

pub(super) fn handoff(
    config: &Config,
    work: &SessionWork,
    conversation: String,
    Carried { prompt, items }: Carried,
    origin: HandoffOrigin,
) -> Handoff {
    let newest = &work.newest;
    let before = match config.handoff.preamble {
        Keep::Keep => preamble::of(&newest.view, None, &config.handoff.preamble_tags),
        Keep::Drop => Preamble::default(),
    };
    Handoff {
        id: Uuid::now_v7(),
        principal: work.principal.clone(),
        conversation,
        wire: newest.wire,
        head: preamble::head(newest.view.wire(), &before, &prompt),
        prompt,
        parent: work.earlier.as_ref().map(|handoff| handoff.id),
        model: newest.row.model.clone(),
        created_ms: now_ms(),
        history_bytes: newest.row.event.received_bytes,
        origin,
        carried: items,
        ..Handoff::default()
    }
}
