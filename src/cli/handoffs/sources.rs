//! The sources of a handoff as a YAML file.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Deserialize;

use super::draft::{self, Work};
use super::{at_exit, session};
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::handoff_args::CreateArgs;
use crate::cli::log::{full_key, open_existing};
use crate::cli::newest::JournalRequest;
use crate::cli::output::{shown, visible};
use crate::state::config::Config;
use crate::state::files::documents::DocumentSettings;
use crate::state::session::conversation_key;
use baton_core::handoffs::draft::one_line;
use baton_core::handoffs::yaml::{
    HandoffFile, LastWords, MAX_BYTES, SessionReader, SessionUsage, analyze, names, read,
};
use baton_core::record::{Handoff, LOCAL, WireId};
use baton_core::redact::Redactor;
use baton_core::text::cut::ceil;
use baton_core::transcript::{AnswerContent, Transcript};

/// Bytes of an agent's output that are examined: its end.
const OUTPUT_BYTES: usize = 4 << 20;

/// Bytes of an error that ended a session.
const ERROR_BYTES: usize = 200;

/// Bytes of a hook's input.
const HOOK_BYTES: u64 = 16 << 20;

/// The input that an agent gives its hooks: Claude Code's before a compaction and at the end of a session, Codex's
/// notification, and what our plugin for OpenCode writes.
#[derive(Debug, Default, Deserialize)]
struct Hook {
    session_id: Option<String>,
    transcript_path: Option<PathBuf>,
    /// The messages themselves, as a session file has them: OpenCode has none.
    #[serde(default)]
    messages: Vec<serde_json::Value>,
    /// The id of Codex's session.
    #[serde(alias = "thread-id")]
    thread_id: Option<String>,
    cwd: Option<PathBuf>,
    /// What the last answer took of the model's context, and the model.
    tokens_used: Option<u64>,
    model: Option<String>,
    #[serde(alias = "last-assistant-message")]
    last_assistant_message: Option<String>,
    #[serde(alias = "input-messages", default)]
    input_messages: Vec<String>,
}

/// What a source says besides the fields of the file.
#[derive(Default)]
pub(super) struct Sourced {
    /// The folder that the session worked in, where that is known.
    pub(super) folder: Option<PathBuf>,
    /// The handoff of the session's work, not yet stored.
    pub(super) handoff: Option<(Handoff, Work)>,
}

/// Fills a file from the source that is named.
pub(super) fn fill(
    args: &CreateArgs,
    config: &Config,
    until: Instant,
    file: &mut HandoffFile,
) -> Result<Sourced, CommandFailure> {
    if let Some(path) = &args.output {
        let text = end_of(&text_of(path)?).to_owned();
        fill_from_text(&text, &config.redactor(), file);
    }
    if let Some(path) = &args.session_file {
        let mut reader = SessionReader::default();
        session::read(path, &mut reader, until)?;
        return of_session(&reader, config, "", file);
    }
    if let Some(key) = &args.conversation {
        conversation(key, config, file)?;
    }
    if let Some(path) = &args.from_file {
        from_file(path, file)?;
    }
    if args.hook {
        return hook(config, until, file);
    }
    Ok(Sourced::default())
}

fn fill_from_text(text: &str, redactor: &Redactor, file: &mut HandoffFile) {
    file.fill(analyze(&redactor.cleaned(text)));
}

/// Fills a file from an agent's own record of the session with this key.
fn of_session(
    reader: &SessionReader,
    config: &Config,
    key: &str,
    file: &mut HandoffFile,
) -> Result<Sourced, CommandFailure> {
    let errors = reader.error.iter();
    file.blockers
        .extend(errors.map(|error| one_line(&config.redactor().cleaned(error), ERROR_BYTES)));
    let mut handoff = None;
    if let Some(newest) = JournalRequest::of_session(reader) {
        let work = Work {
            principal: LOCAL.to_owned(),
            newest,
            earlier: None,
            dropped: Vec::new(),
        };
        handoff = of_work(work, config, key, file)?;
    }
    set_context(&reader.usage, config, file);
    Ok(Sourced {
        folder: reader.folder.as_ref().map(PathBuf::from),
        handoff,
    })
}

/// The model's window is looked up where the session does not record it.
fn set_context(usage: &SessionUsage, config: &Config, file: &mut HandoffFile) {
    if usage.tokens > 0 {
        let known = |model: &String| config.handoff.windows.holding(model, usage.tokens);
        let window = usage.window.or_else(|| usage.model.as_ref().and_then(known));
        file.set_context(usage.tokens, window);
    }
}

/// Fills a file from a session's work.
fn of_work(
    work: Work,
    config: &Config,
    key: &str,
    file: &mut HandoffFile,
) -> Result<Option<(Handoff, Work)>, CommandFailure> {
    let redactor = config.redactor();
    let answer = work.newest.answer.as_deref().map(AnswerContent::of);
    let mut words = LastWords::of(&Transcript::of(&work.newest.view), answer.as_ref());
    for words in [&mut words.model, &mut words.person] {
        *words = redactor.cleaned(words);
    }
    let handoff = at_exit::handoff_of(config, &work, key)?;
    let settings = DocumentSettings::even_if_off(config);
    let document = handoff
        .as_ref()
        .map(|handoff| draft::document_of(&settings, handoff, &work));
    file.fill_from_session(&words, document.as_ref());
    Ok(handoff.map(|handoff| (handoff, work)))
}

fn hook(config: &Config, until: Instant, file: &mut HandoffFile) -> Result<Sourced, CommandFailure> {
    let mut text = String::new();
    let read = std::io::stdin().take(HOOK_BYTES).read_to_string(&mut text);
    read.map_err(|error| Exit::NO_INPUT.failure(format!("standard input: {error}")))?;
    let hook: Hook = serde_json::from_str(&text)
        .map_err(|error| Exit::DATA.failure(format!("standard input is not the input of a hook: {error}")))?;
    if let Some(text) = &hook.last_assistant_message {
        fill_from_text(text, &config.redactor(), file);
    }
    let mut reader = SessionReader::default();
    hook.messages.iter().for_each(|message| reader.entry(message));
    let kept = hook.transcript_path.clone();
    if let Some(path) = kept.or_else(|| session::of_codex(hook.thread_id.as_ref()?)) {
        session::read(&path, &mut reader, until)?;
    }
    if let (0, Some(tokens)) = (reader.usage.tokens, hook.tokens_used) {
        reader.usage = SessionUsage {
            tokens,
            model: hook.model.clone(),
            ..SessionUsage::default()
        };
    }
    let folder = hook.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
    reader.folder = reader.folder.or(folder);
    let sourced = of_session(&reader, config, &hook.key(), file)?;
    if let Some(input) = hook.input_messages.last() {
        file.fall_back_to(&config.redactor().cleaned(input));
    }
    if file.session.is_empty() {
        let name = sourced.folder.as_deref().and_then(Path::file_name);
        file.session = name.map_or(String::new(), |name| names::session_of(&name.to_string_lossy()));
    }
    Ok(sourced)
}

impl Hook {
    /// The key that the session has where it goes through baton.
    fn key(&self) -> String {
        let wire = match self.thread_id {
            Some(_) => WireId::OpenaiResponses,
            None => WireId::Anthropic,
        };
        let named = |name: &str| match name {
            "x-claude-code-session-id" => self.session_id.clone(),
            "session-id" | "thread-id" => self.thread_id.clone(),
            _ => None,
        };
        conversation_key(LOCAL, wire, named, None, &|| format!("{:?}", self.cwd))
    }
}

/// A file that somebody wrote: YAML, or JSON, which is YAML too. Values that are already set stay.
fn from_file(path: &Path, file: &mut HandoffFile) -> Result<(), CommandFailure> {
    let text = text_of(path)?;
    let read = read(&text).map_err(|error| Exit::DATA.failure(format!("{}: {error}", shown(path))))?;
    if let Some(error) = read.mistyped.first() {
        return Err(Exit::DATA.failure(format!("{}: {}", shown(path), visible(&error.to_string()))));
    }
    let given = std::mem::replace(file, read.file);
    file.take(given);
    Ok(())
}

fn conversation(key: &str, config: &Config, file: &mut HandoffFile) -> Result<(), CommandFailure> {
    let query = open_existing(&config.state_dir)?;
    let key = full_key(&query, key)?;
    let work = Work {
        principal: LOCAL.to_owned(),
        newest: draft::newest(&query, &key)?,
        earlier: None,
        dropped: Vec::new(),
    };
    of_work(work, config, &key, file)?;
    if let Some((tokens, model)) = query.context_tokens(&key)? {
        let usage = SessionUsage {
            tokens,
            model,
            ..SessionUsage::default()
        };
        set_context(&usage, config, file);
    }
    Ok(())
}

/// The text of a file, or of standard input.
fn text_of(path: &Path) -> Result<String, CommandFailure> {
    let mut bytes = Vec::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().read_to_end(&mut bytes).map(|_| ()),
        false => std::fs::read(path).map(|read| bytes = read),
    };
    read.map_err(|error| Exit::NO_INPUT.failure(format!("{}: {error}", path.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn end_of(text: &str) -> &str {
    &text[ceil(text, text.len().saturating_sub(OUTPUT_BYTES))..]
}

// A person's file has the same size limit as any other.
const _: () = assert!(MAX_BYTES <= OUTPUT_BYTES);
