//! Sources that fill a handoff file.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Deserialize;
use serde_json::Value as Json;

use super::args::CreateArgs;
use super::at_exit;
use super::draft::{self, SessionWork, text_of};
use crate::cli::exit::{CliResult, Exit};
use crate::cli::journal::{JournalRequest, full_key, open_existing};
use crate::cli::output::{shown, visible};
use baton_core::handoffs::yaml::{
    HandoffFile, LastWords, MAX_BYTES, SessionReader, SessionUsage, analyze, names, read,
};
use baton_core::record::{Handoff, LOCAL, WireId};
use baton_core::redact::Redactor;
use baton_core::text::cut::ceil;
use baton_core::text::prose::one_line;
use baton_core::transcript::{AnswerContent, Transcript};
use baton_state::config::Config;
use baton_state::disk;
use baton_state::files::documents::DocumentSettings;
use baton_state::session::conversation_key;

/// Maximum bytes of an agent's output that are examined, from its end.
const OUTPUT_BYTES: usize = 4 << 20;

/// Maximum bytes of a session file that are read, from its end, because the agent's last words matter.
const SESSION_BYTES: u64 = 64 << 20;

/// Maximum bytes of an error that ended a session.
const ERROR_BYTES: usize = 200;

/// Maximum bytes of a hook's input.
const HOOK_BYTES: u64 = 16 << 20;

/// Input that an agent gives its hooks.
///
/// Claude Code sends it before a compaction and at the end of a session. Codex sends a notification, and
/// baton's plugin for OpenCode writes the same members.
#[derive(Debug, Default, Deserialize)]
struct Hook {
    session_id: Option<String>,
    transcript_path: Option<PathBuf>,
    /// The messages themselves, because OpenCode has no session file.
    #[serde(default)]
    messages: Vec<Json>,
    /// Id of Codex's session.
    #[serde(alias = "thread-id")]
    thread_id: Option<String>,
    cwd: Option<PathBuf>,
    /// Context tokens of the last response. The next member is its model.
    tokens_used: Option<u64>,
    model: Option<String>,
    #[serde(alias = "last-assistant-message")]
    last_assistant_message: Option<String>,
    #[serde(alias = "input-messages", default)]
    input_messages: Vec<String>,
}

/// Results of a source that are not fields of the file.
#[derive(Default)]
pub(super) struct Sourced {
    /// Directory that the session worked in, if known.
    pub(super) directory: Option<PathBuf>,
    /// Handoff of the session's work, not yet stored.
    pub(super) handoff: Option<(Handoff, SessionWork)>,
}

/// Fills a file from the source that the arguments name.
pub(super) fn fill(
    args: &CreateArgs,
    config: &Config,
    until: Instant,
    file: &mut HandoffFile,
) -> CliResult<Sourced> {
    if let Some(path) = &args.output {
        let text = end_of(&text_of(path)?).to_owned();
        fill_from_text(&text, &config.redactor(), file);
    }
    if let Some(path) = &args.session_file {
        let mut reader = SessionReader::default();
        read_session(path, &mut reader, until)?;
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
) -> CliResult<Sourced> {
    let errors = reader.error.iter();
    file.blockers
        .extend(errors.map(|error| one_line(&config.redactor().cleaned(error), ERROR_BYTES)));
    let mut handoff = None;
    if let Some(newest) = JournalRequest::of_session(reader) {
        let work = SessionWork::alone(newest);
        handoff = of_work(work, config, key, file)?;
    }
    set_context(&reader.usage, config, file);
    Ok(Sourced {
        directory: reader.directory.as_ref().map(PathBuf::from),
        handoff,
    })
}

/// Sets the context's size. If the session does not record the model's window, it is looked up.
fn set_context(usage: &SessionUsage, config: &Config, file: &mut HandoffFile) {
    if usage.tokens > 0 {
        let known = |model: &String| config.handoff.windows.holding(model, usage.tokens);
        let window = usage.window.or_else(|| usage.model.as_ref().and_then(known));
        file.set_context(usage.tokens, window);
    }
}

/// Fills a file from a session's work. Also returns the handoff of that work.
fn of_work(
    work: SessionWork,
    config: &Config,
    key: &str,
    file: &mut HandoffFile,
) -> CliResult<Option<(Handoff, SessionWork)>> {
    let redactor = config.redactor();
    let answer = work.newest.answer.as_deref().map(AnswerContent::from_body);
    let mut words = LastWords::from_transcript(&Transcript::from_view(&work.newest.view), answer.as_ref());
    for words in [&mut words.model, &mut words.user] {
        *words = redactor.cleaned(words);
    }
    let handoff = at_exit::handoff_of(config, &work, key)?;
    let settings = DocumentSettings::even_if_off(config);
    let document = |handoff| draft::document_of(&settings, handoff, &work);
    file.fill_from_session(&words, handoff.as_ref().map(document).as_ref());
    Ok(handoff.map(|handoff| (handoff, work)))
}

fn hook(config: &Config, until: Instant, file: &mut HandoffFile) -> CliResult<Sourced> {
    let mut text = String::new();
    let read = io::stdin().take(HOOK_BYTES).read_to_string(&mut text);
    read.map_err(|error| Exit::NO_INPUT.failure(format!("failed to read standard input: {error}")))?;
    let hook: Hook = serde_json::from_str(&text)
        .map_err(|error| Exit::DATA.failure(format!("standard input is not the input of a hook: {error}")))?;
    if let Some(text) = &hook.last_assistant_message {
        fill_from_text(text, &config.redactor(), file);
    }
    let mut reader = SessionReader::default();
    hook.messages.iter().for_each(|message| reader.entry(message));
    // Codex may pass only the id of its session, which is part of the file's name.
    let kept = hook.transcript_path.clone();
    if let Some(path) = kept.or_else(|| of_codex(hook.thread_id.as_ref()?)) {
        read_session(&path, &mut reader, until)?;
    }
    // The session's own record of its usage takes precedence.
    if let (0, Some(tokens)) = (reader.usage.tokens, hook.tokens_used) {
        reader.usage = SessionUsage {
            tokens,
            model: hook.model.clone(),
            ..SessionUsage::default()
        };
    }
    let directory = hook.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
    reader.directory = reader.directory.or(directory);
    let sourced = of_session(&reader, config, &hook.key(), file)?;
    if let Some(input) = hook.input_messages.last() {
        file.fall_back_to(&config.redactor().cleaned(input));
    }
    // Hooks pass no session name. `show --here` finds the file by the same name and directory.
    if file.session.is_empty() {
        let directory = sourced.directory.as_deref();
        let stated =
            directory.map(|directory| (names::DIRECTORY.to_owned(), directory.display().to_string()));
        file.findings.extend(stated);
        let name = directory.and_then(Path::file_name);
        file.session = name.map_or(String::new(), |name| names::session_of(&name.to_string_lossy()));
    }
    Ok(sourced)
}

impl Hook {
    /// Returns the key that the conversation has if the session goes through baton.
    fn key(&self) -> String {
        // Only Codex states a thread, and its sessions use this API.
        let wire = match self.thread_id {
            Some(_) => WireId::OpenaiResponses,
            None => WireId::Anthropic,
        };
        let named = |name: &str| match name {
            "x-claude-code-session-id" => self.session_id.clone(),
            "session-id" | "thread-id" => self.thread_id.clone(),
            _ => None,
        };
        conversation_key(LOCAL, wire, named, None, &|| format!("{:?}", self.cwd)).key
    }
}

/// Fills a file from a YAML file that somebody wrote. JSON works as well, because it is valid YAML.
///
/// Values that are already set stay.
fn from_file(path: &Path, file: &mut HandoffFile) -> CliResult {
    let text = text_of(path)?;
    let read = read(&text).map_err(|error| Exit::DATA.failure(format!("{}: {error}", shown(path))))?;
    if let Some(error) = read.mistyped.first() {
        return Err(Exit::DATA.failure(format!("{}: {}", shown(path), visible(&error.to_string()))));
    }
    let given = std::mem::replace(file, read.file);
    file.take(given);
    Ok(())
}

fn conversation(key: &str, config: &Config, file: &mut HandoffFile) -> CliResult {
    let query = open_existing(&config.state_dir)?;
    let key = full_key(&query, key)?;
    let work = SessionWork::alone(draft::newest(&query, &key)?);
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

fn end_of(text: &str) -> &str {
    &text[ceil(text, text.len().saturating_sub(OUTPUT_BYTES))..]
}

// A user's file has the same size limit as any other, so reading its end reads all of it.
const _: () = assert!(MAX_BYTES <= OUTPUT_BYTES);

/// Path of Codex's file for the session with this id.
///
/// The path is `sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl` in Codex's directory.
fn of_codex(id: &str) -> Option<PathBuf> {
    let home = std::env::var_os("CODEX_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".codex")))?;
    in_codex(&home.join("sessions"), id)
}

fn in_codex(sessions: &Path, id: &str) -> Option<PathBuf> {
    /// Number of newest days that are searched.
    const DAYS: usize = 60;
    let newest_first = |dir: &Path| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        // Codex names these directories and files by their date, so the order of names is that of time.
        paths.sort_unstable_by(|a, b| b.cmp(a));
        paths
    };
    let ends = format!("-{id}.jsonl");
    let years = newest_first(sessions).into_iter();
    let days = years
        .flat_map(|year| newest_first(&year))
        .flat_map(|month| newest_first(&month));
    let mut files = days.take(DAYS).flat_map(|day| newest_first(&day));
    files.find(|file| file.to_string_lossy().ends_with(&ends))
}

/// Passes every object of a session file to the reader, until the time is over.
fn read_session(path: &Path, reader: &mut SessionReader, until: Instant) -> CliResult {
    let mut read = || {
        let mut lines = BufReader::with_capacity(1 << 16, disk::open_named(path)?);
        let length = lines.get_ref().metadata()?.len();
        if length > SESSION_BYTES {
            lines.seek(SeekFrom::Start(length - SESSION_BYTES))?;
            // Reading starts inside a line, whose rest is not an object.
            lines.skip_until(b'\n')?;
        }
        objects(lines, Some(until), |entry| reader.entry(entry))
    };
    let read = read().map(drop);
    read.map_err(|error| Exit::NO_INPUT.failure(format!("failed to read {}: {error}", path.display())))
}

/// Maximum length of a line in bytes. Longer lines are skipped.
const MAX_LINE_BYTES: usize = 10 << 20;

/// Passes every line that is a JSON object to `take`, until the time is over.
///
/// Returns the number of lines that were something else, or too long.
pub(in crate::cli) fn objects(
    mut lines: impl BufRead,
    until: Option<Instant>,
    mut take: impl FnMut(&Json),
) -> io::Result<u64> {
    let (mut others, mut line) = (0, Vec::new());
    while until.is_none_or(|until| Instant::now() < until) {
        line.clear();
        // Reads one byte more, to tell a line of the maximum length from a longer one.
        let most = MAX_LINE_BYTES as u64 + 1;
        if lines.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() > MAX_LINE_BYTES && !line.ends_with(b"\n") {
            lines.skip_until(b'\n')?;
            others += 1;
            continue;
        }
        let text = line.trim_ascii();
        match serde_json::from_slice::<Json>(text) {
            _ if text.is_empty() => {}
            Ok(entry) if entry.is_object() => take(&entry),
            _ => others += 1,
        }
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn codexs_session_file_is_found_by_its_id() {
        let dir = tempfile::tempdir().unwrap();
        for (day, name) in [
            ("2026/11/25", "rollout-2026-11-25T06-11-48-01a2167b.jsonl"),
            ("2026/11/26", "rollout-2026-11-26T06-11-48-01a21999.jsonl"),
        ] {
            let day = dir.path().join(day);
            std::fs::create_dir_all(&day).unwrap();
            std::fs::write(day.join(name), "").unwrap();
        }
        let found = in_codex(dir.path(), "01a2167b").unwrap();
        assert!(found.ends_with("2026/11/25/rollout-2026-11-25T06-11-48-01a2167b.jsonl"));
        assert_eq!(in_codex(dir.path(), "01a2"), None);
        assert_eq!(in_codex(&dir.path().join("none"), "01a2167b"), None);
    }

    #[test]
    fn long_and_malformed_lines_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let long = format!(
            "{{\"role\":\"assistant\",\"content\":\"{}\"}}",
            "x".repeat(MAX_LINE_BYTES)
        );
        let text = format!(
            "{{\"role\":\"assistant\",\"content\":\"Done: the parser\"}}\n\nnot JSON\n[1]\n{long}\n{{\"role\":\"user\",\"content\":\"thanks\"}}"
        );
        std::fs::write(&path, text).unwrap();
        let mut reader = SessionReader::default();
        read_session(&path, &mut reader, Instant::now() + Duration::from_secs(60)).unwrap();
        let (_, request) = reader.request();
        assert!(String::from_utf8_lossy(&request).contains("Done: the parser"));
        let others =
            |until| objects(BufReader::new(disk::open_named(&path).unwrap()), until, |_| {}).unwrap();
        assert_eq!(others(None), 3);
        assert_eq!(others(Some(Instant::now())), 0);
    }
}
