//! The sources of a handoff as a YAML file.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Deserialize;

use super::draft;
use super::session;
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::handoff_args::CreateArgs;
use crate::cli::log::{full_key, open_existing, unread};
use crate::cli::output::visible;
use crate::state::config::Config;
use baton_core::handoffs::yaml::{HandoffFile, MAX_BYTES, SessionReader, SessionUsage, analyze, names, read};
use baton_core::redact::{Redactor, unnamed};
use baton_core::text::cut::ceil;
use baton_core::transcript::{AnswerContent, Transcript};

/// Bytes of an agent's output that are examined: its end.
const OUTPUT_BYTES: usize = 4 << 20;

/// Bytes of a hook's input.
const HOOK_BYTES: u64 = 16 << 20;

/// The input that an agent gives its hooks: Claude Code's before a compaction and at the end of a session, Codex's
/// notification, and what our plugin for OpenCode writes.
#[derive(Debug, Default, Deserialize)]
struct Hook {
    transcript_path: Option<PathBuf>,
    /// The id of Codex's session.
    #[serde(alias = "thread-id")]
    thread_id: Option<String>,
    cwd: Option<PathBuf>,
    /// What the last answer took of the model's context, and the model: OpenCode has no session file.
    tokens_used: Option<u64>,
    model: Option<String>,
    #[serde(alias = "last-assistant-message")]
    last_assistant_message: Option<String>,
    #[serde(alias = "input-messages", default)]
    input_messages: Vec<String>,
}

/// Fills a file from the source that is named; returns the folder that the session worked in, where that is known.
pub(super) fn fill(
    args: &CreateArgs,
    config: &Config,
    until: Instant,
    file: &mut HandoffFile,
) -> Result<Option<PathBuf>, CommandFailure> {
    let redactor = config.redactor();
    if let Some(path) = &args.output {
        let text = end_of(&text_of(path)?).to_owned();
        fill_from_text(&text, &redactor, file);
        return Ok(None);
    }
    if let Some(path) = &args.session_file {
        return of_session(path, config, until, file);
    }
    if let Some(key) = &args.conversation {
        return conversation(key, config, &redactor, file);
    }
    if let Some(path) = &args.from_file {
        from_file(path, file)?;
        return Ok(None);
    }
    if args.hook {
        return hook(config, until, file);
    }
    Ok(None)
}

fn fill_from_text(text: &str, redactor: &Redactor, file: &mut HandoffFile) {
    let known = redactor.text(text);
    file.fill(analyze(&unnamed::redacted(&known)));
}

fn of_session(
    path: &Path,
    config: &Config,
    until: Instant,
    file: &mut HandoffFile,
) -> Result<Option<PathBuf>, CommandFailure> {
    let redactor = config.redactor();
    let mut reader = SessionReader::new(&redactor);
    session::read(path, &mut reader, until)?;
    let folder = reader.folder.clone().map(PathBuf::from);
    finish(reader, config, file);
    Ok(folder)
}

/// Fills a file from what was read; the model's window is looked up where the session does not record it.
fn finish(mut reader: SessionReader<'_>, config: &Config, file: &mut HandoffFile) {
    let usage = &mut reader.usage;
    if let (None, Some(model)) = (usage.window, &usage.model) {
        usage.window = config.handoff.windows.holding(model, usage.tokens);
    }
    reader.finish(file);
}

fn hook(config: &Config, until: Instant, file: &mut HandoffFile) -> Result<Option<PathBuf>, CommandFailure> {
    let mut text = String::new();
    let read = std::io::stdin().take(HOOK_BYTES).read_to_string(&mut text);
    read.map_err(|error| Exit::NO_INPUT.failure(format!("standard input: {error}")))?;
    let hook: Hook = serde_json::from_str(&text)
        .map_err(|error| Exit::DATA.failure(format!("standard input is not the input of a hook: {error}")))?;
    let redactor = config.redactor();
    let mut folder = hook.cwd;
    let session_file = hook
        .transcript_path
        .or_else(|| session::of_codex(&hook.thread_id?));
    if let Some(path) = &session_file {
        folder = of_session(path, config, until, file)?.or(folder);
    }
    if let Some(text) = &hook.last_assistant_message {
        fill_from_text(text, &redactor, file);
    }
    if file.goal.is_empty()
        && let Some(input) = hook.input_messages.last()
    {
        let input = redactor.text(input);
        file.fall_back_to(&unnamed::redacted(&input));
    }
    if let (0, Some(tokens)) = (file.tokens_used, hook.tokens_used) {
        let window = hook
            .model
            .and_then(|model| config.handoff.windows.holding(&model, tokens));
        file.set_context(tokens, window);
    }
    if file.session.is_empty() {
        let name = folder.as_deref().and_then(Path::file_name);
        file.session = name.map_or(String::new(), |name| names::session_of(&name.to_string_lossy()));
    }
    Ok(folder)
}

/// A file that somebody wrote: YAML, or JSON, which is YAML too. Values that are already set stay.
fn from_file(path: &Path, file: &mut HandoffFile) -> Result<(), CommandFailure> {
    let text = text_of(path)?;
    let named = || visible(&path.display().to_string());
    let read = read(&text).map_err(|error| Exit::DATA.failure(format!("{}: {error}", named())))?;
    if let Some(error) = read.mistyped.first() {
        return Err(Exit::DATA.failure(format!("{}: {}", named(), visible(&error.to_string()))));
    }
    let given = std::mem::replace(file, read.file);
    file.take(given);
    Ok(())
}

fn conversation(
    key: &str,
    config: &Config,
    redactor: &Redactor,
    file: &mut HandoffFile,
) -> Result<Option<PathBuf>, CommandFailure> {
    let query = open_existing(&config.state_dir)?;
    let key = full_key(&query, key)?;
    let newest = draft::newest(&query, &key)?;
    let answer = newest.answer.as_deref().map(AnswerContent::of);
    let mut reader = SessionReader::new(redactor);
    reader.conversation(&Transcript::of(&newest.view), answer.as_ref());
    if let Some((tokens, model)) = query.context_tokens(&key).map_err(unread)? {
        reader.usage = SessionUsage {
            tokens,
            model,
            window: None,
        };
    }
    finish(reader, config, file);
    Ok(None)
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
