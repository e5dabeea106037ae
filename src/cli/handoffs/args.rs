//! Arguments of `baton handoffs`, as clap reads them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use crate::cli::state_args::{ListFormat, StateArgs, named, number, period_start};
use baton_core::handoffs::draft::Preset;
use baton_core::handoffs::yaml::RecoveryPurpose;
use baton_core::record::HandoffStatus;
use baton_core::text::date::PeriodStart;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A handoff is a record in the store, made by the model, a command or `draft`. A handoff file is YAML that \
`create` writes into the directory of a session. Only handoffs in the store can be resumed.

Examples:
  baton handoffs list
  baton handoffs show 0199a3c2-7d1e
  baton handoffs resume 0199a3c2-7d1e --with codex --run
  baton handoffs create api --goal 'Login works' --now 'Write the logout'
  baton handoffs show api --for fresh     # the newest handoff file of the session `api`")]
pub(in crate::cli) struct HandoffsArgs {
    #[command(subcommand)]
    pub(super) command: HandoffsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum HandoffsCommand {
    /// List handoffs, newest first, or the handoff files of a session
    List(ListArgs),
    /// Show one handoff, by default the newest, with all its data, as its document, or in summary
    Show(ShowArgs),
    /// Make a handoff of a conversation from the journal, without calling a model
    Draft(DraftArgs),
    /// Write a handoff file: from arguments, an agent's output, its session file or a proxied conversation
    Create(Box<CreateArgs>),
    /// Compare a handoff with the repository, or check documents and files for errors
    Check(CheckHandoffArgs),
    /// Archive a handoff (which can still be resumed) or a handoff file, so that only --all lists it
    Archive(ArchiveArgs),
    /// Delete one handoff file, or all that are older than some time
    Delete(DeleteArgs),
    /// Continue a handoff in a new session of any agent, by printing the command or running it
    Resume(ResumeArgs),
}

/// Options that locate the handoff files.
#[derive(Debug, ClapArgs)]
pub(super) struct DirectoryArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Use the handoff files in this directory [handoff.dir]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
}

/// Format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum DocumentFormat {
    /// Markdown, for users and models
    #[value(alias = "markdown")]
    Md,
    /// JSON
    Json,
    /// YAML, the format of handoff files
    Yaml,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton handoffs list
  baton handoffs list --map
  baton handoffs list --status active --topic importer
  baton handoffs list --limit 0 --all --json | jq -r '.[] | [.id, .status, .next_action] | @tsv'
  baton handoffs list api                 # the handoff files of the session `api`
  baton handoffs list --files --all       # of all sessions, with those in archives
  baton handoffs list --follow | jq -r 'select(.status == \"active\") | .folder'")]
pub(super) struct ListArgs {
    /// List the handoff files of this session
    #[arg(conflicts_with_all = ["map", "conversation", "status", "topic"])]
    pub(super) session: Option<String>,
    #[command(flatten)]
    pub(super) directory: DirectoryArgs,
    /// Group handoffs by chain, oldest first, each branch after its fork
    #[arg(long)]
    pub(super) map: bool,
    /// List at most this many (0: no limit) [default: 20, or 10 handoff files]
    #[arg(long, value_name = "N", value_parser = number::<usize>)]
    pub(super) limit: Option<usize>,
    /// Include archived handoffs or files
    #[arg(long)]
    pub(super) all: bool,
    /// List only handoffs of this conversation
    #[arg(long, value_name = "KEY")]
    pub(super) conversation: Option<String>,
    /// List only handoffs with this status
    #[arg(long, value_name = "STATUS", value_parser = named(HandoffStatus::ALL, HandoffStatus::name))]
    pub(super) status: Option<HandoffStatus>,
    /// List only handoffs about this topic
    #[arg(long, value_name = "TOPIC")]
    pub(super) topic: Option<String>,
    /// List the handoff files of all sessions
    #[arg(long, conflicts_with_all = ["map", "conversation", "status", "topic"])]
    pub(super) files: bool,
    /// List the sessions that have handoff files
    #[arg(long, conflicts_with_all = ["session", "files", "map", "all", "conversation", "status", "topic"])]
    pub(super) sessions: bool,
    /// Print the ledger of a session (`general` by default), with one entry for each file that was written
    #[arg(long, conflicts_with_all = ["files", "sessions", "json", "jsonl"])]
    pub(super) ledger: bool,
    /// Keep running, and print a line of JSON for each new handoff and each changed status
    #[arg(long, conflicts_with_all = ["session", "files", "sessions", "ledger", "json"])]
    pub(super) follow: bool,
    #[command(flatten)]
    pub(super) format: ListFormat,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without a name, shows the newest handoff. --json prints all data of a handoff, --format only its document.

With --for, prints a summary of at most 500 tokens: first step, goal, next steps, decisions, blockers. A further \
line tells whether it is still true.

Examples:
  baton handoffs show
  baton handoffs show 0199a3c2-7d1e --json | jq -r .prompt
  baton handoffs show 0199a3c2-7d1e --format md > handoff.md
  baton handoffs show api --for clear     # the newest handoff file of the session `api`
  baton handoffs show --here --for fresh  # in a hook at the start of a session
  baton handoffs show --files --line --follow")]
pub(super) struct ShowArgs {
    /// Handoff to show, by its id, a unique prefix of it, a directory, a handoff file, or a session with
    /// handoff files
    pub(super) name: Option<String>,
    #[command(flatten)]
    pub(super) directory: DirectoryArgs,
    /// Show the newest handoff file of all sessions
    #[arg(long, conflicts_with_all = ["name", "topic"])]
    pub(super) files: bool,
    /// Show the newest file of the session that hooks name after the working directory
    #[arg(long, conflicts_with_all = ["name", "topic", "files"])]
    pub(super) here: bool,
    /// Show the newest active handoff about this topic
    #[arg(long, value_name = "TOPIC", conflicts_with = "name")]
    pub(super) topic: Option<String>,
    /// Print the document in this format
    #[arg(long, value_enum, group = "form")]
    pub(super) format: Option<DocumentFormat>,
    /// Print the directory with the handoff's files, or the file's path
    #[arg(long, group = "form")]
    pub(super) path: bool,
    /// Print a summary: fresh (for a new session), clear (after its context was cleared), compact (one line)
    #[arg(long = "for", value_name = "PURPOSE", group = "form", value_parser = named(RecoveryPurpose::ALL, RecoveryPurpose::name))]
    pub(super) purpose: Option<RecoveryPurpose>,
    /// Print goal and next step of a handoff file on one line, for a prompt (nothing if there is none)
    #[arg(long, group = "form")]
    pub(super) line: bool,
    /// Print the line again whenever it changes (with --line)
    #[arg(long, requires = "line")]
    pub(super) follow: bool,
    /// Compare with this repository (with --for) [handoff.git_dir] [default: the working directory]
    #[arg(long, value_name = "DIR", requires = "purpose")]
    pub(super) git_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["format", "path", "line"])]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Reads the conversation's newest request and its response from the journal. No model is called and \
nothing is sent anywhere.

Stores the handoff, and prints its line. Send that line as the first message of a new session to use it.

Examples:
  baton handoffs draft 3f9c
  baton handoffs draft 3f9c --preset debug --focus 'the failing importer test'
  baton handoffs draft 3f9c --bundle > ask.md     # paste into any model, save its answer
  baton handoffs draft 3f9c --from answer.md")]
pub(super) struct DraftArgs {
    /// Conversation to draft from, by its key or a unique prefix of it
    pub(super) key: String,
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Put this goal of the next session at the top of the document, and keep the content that its words
    /// select
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) focus: String,
    /// Select content for this purpose of the next session
    #[arg(long, value_name = "PRESET", default_value = "implement", value_parser = named(Preset::ALL, Preset::name))]
    pub(super) preset: Preset,
    /// Limit the document to about this many tokens [draft.facts_tokens, with --bundle draft.bundle_tokens]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(super) tokens: Option<u32>,
    /// Describe the state of this repository; by default of the session's directory, else of draft.git_dir
    #[arg(long, value_name = "DIR")]
    pub(super) git_dir: Option<PathBuf>,
    /// Leave out the state of the repository
    #[arg(long, conflicts_with = "git_dir")]
    pub(super) no_git: bool,
    /// Leave out commands
    #[arg(long)]
    pub(super) no_commands: bool,
    /// Leave out the reasons why files were changed
    #[arg(long)]
    pub(super) no_why: bool,
    /// Print the request for a model, and store nothing
    #[arg(long, conflicts_with_all = ["json", "from"])]
    pub(super) bundle: bool,
    /// Use this document, and append missing items (- is standard input)
    #[arg(long, value_name = "FILE")]
    pub(super) from: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Arguments take precedence; the rest comes from the source. Without a source and a goal, prompts for the fields.

Examples:
  baton handoffs create api --goal 'Login works' --now 'Write the logout'
  baton handoffs create api --output answer.txt
  baton handoffs create api --session-file ~/.claude/projects/-src-api/3f2a.jsonl
  baton handoffs create --auto --hook < hook-input.json      # in a pre-compact hook
  baton handoffs create api --goal G --now N -o - --format md")]
pub(super) struct CreateArgs {
    /// Session of the file: letters, digits, `_` and `-` [default: general]
    #[arg(default_value = "", hide_default_value = true)]
    pub(super) session: String,
    #[command(flatten)]
    pub(super) directory: DirectoryArgs,
    /// Record what was accomplished
    #[arg(long, value_name = "TEXT")]
    pub(super) goal: Option<String>,
    /// Record what the next session should do first
    #[arg(long, value_name = "TEXT")]
    pub(super) now: Option<String>,
    /// Record the command that verifies the work
    #[arg(long, value_name = "COMMAND")]
    pub(super) test: Option<String>,
    /// Record a blocker (may be repeated)
    #[arg(long, value_name = "TEXT")]
    pub(super) blocker: Vec<String>,
    /// Record a next step (may be repeated)
    #[arg(long, value_name = "TEXT")]
    pub(super) next: Vec<String>,
    /// Record an open question (may be repeated)
    #[arg(long, value_name = "TEXT")]
    pub(super) question: Vec<String>,
    /// Record a decision with its reason (may be repeated)
    #[arg(long, value_name = "WHAT=WHY")]
    pub(super) decision: Vec<String>,
    /// Set the status to complete, partial or blocked [default: derived from the rest]
    #[arg(long, value_name = "STATUS")]
    pub(super) status: Option<String>,
    /// Set the outcome to SUCCEEDED, PARTIAL_PLUS, PARTIAL_MINUS or FAILED
    #[arg(long, value_name = "OUTCOME")]
    pub(super) outcome: Option<String>,
    /// Read an agent's output (- is standard input)
    #[arg(long, value_name = "FILE", group = "source")]
    pub(super) output: Option<PathBuf>,
    /// Read a session file of Claude Code, Codex, gemini-cli, qwen-code or pi
    #[arg(long, value_name = "FILE", group = "source")]
    pub(super) session_file: Option<PathBuf>,
    /// Read a proxied conversation, by its key or a unique prefix of it
    #[arg(long, value_name = "KEY", group = "source")]
    pub(super) conversation: Option<String>,
    /// Read a YAML or JSON file (- is standard input)
    #[arg(long, value_name = "FILE", group = "source")]
    pub(super) from_file: Option<PathBuf>,
    /// Read an agent's hook input (JSON with `transcript_path` and `cwd`) from standard input
    #[arg(long, group = "source")]
    pub(super) hook: bool,
    /// Run as a hook: ask no questions, put seconds into the file's name, and end within 30 seconds
    #[arg(long)]
    pub(super) auto: bool,
    /// End within this time, for hooks that may take less
    #[arg(long, value_name = "SECS", requires = "auto", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=600))]
    pub(super) within: u16,
    /// Use this description in the file's name [default: the goal's first words]
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    /// Set the agent's name in beads
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// Set the agent's type: cc, cod or gmi
    #[arg(long, value_name = "TYPE")]
    pub(super) agent_type: Option<String>,
    /// Set the agent's terminal pane
    #[arg(long, value_name = "ID")]
    pub(super) pane: Option<String>,
    /// Record how many tokens of the agent's context are in use
    #[arg(long, value_name = "N", requires = "tokens_max")]
    pub(super) tokens_used: Option<i64>,
    /// Record the size of the agent's context in tokens
    #[arg(long, value_name = "N")]
    pub(super) tokens_max: Option<i64>,
    /// Record the state of this repository [handoff.git_dir] [default: the working directory]
    #[arg(long, value_name = "DIR")]
    pub(super) git_dir: Option<PathBuf>,
    /// Query neither git nor beads
    #[arg(long)]
    pub(super) alone: bool,
    /// Set the project in Agent Mail (with the next two) [default: the repository]
    #[arg(long, value_name = "KEY")]
    pub(super) project: Option<String>,
    /// Reserve the agent's files again for this time in a transfer
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(i64).range(1..=31_536_000))]
    pub(super) transfer_ttl: Option<i64>,
    /// Wait this time in a transfer before the second attempt
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(i64).range(1..=3600))]
    pub(super) transfer_grace: Option<i64>,
    /// Write to this file instead of the session's directory (- is standard output)
    #[arg(long = "out", short = 'o', value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Write this format (with -o)
    #[arg(long, value_enum, default_value_t = DocumentFormat::Yaml, requires = "out")]
    pub(super) format: DocumentFormat,
    /// Print JSON, and ask no questions
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A handoff has drifted if a file that it names was changed or is gone, or if another branch is checked out (exit \
code 1). Outside a Git repository nothing can be compared (exit code 66).

With --syntax, checks documents and files for errors, or all of them without a name (exit code 65).

Examples:
  baton handoffs check
  baton handoffs check api --git-dir ~/src/api --json
  baton handoffs check --syntax
  baton handoffs check --syntax .ntm/handoffs/api/*.yaml --json | jq '.[].errors'")]
pub(super) struct CheckHandoffArgs {
    /// Handoffs to check, by ids, directories, handoff files or sessions [default: the newest handoff file]
    pub(super) names: Vec<String>,
    #[command(flatten)]
    pub(super) directory: DirectoryArgs,
    /// Report where a document's Markdown differs from its JSON, and errors in handoff files
    #[arg(long)]
    pub(super) syntax: bool,
    /// Compare with this repository [handoff.git_dir] [default: the working directory]
    #[arg(long, value_name = "DIR", conflicts_with = "syntax")]
    pub(super) git_dir: Option<PathBuf>,
    /// Print JSON, with the quality of a file
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton handoffs archive 0199a3c2-7d1e
  baton handoffs archive 0199a3c2-7d1e --undo
  baton handoffs archive api/2026-11-22_18-05_login-works.yaml
  baton handoffs archive api/2026-11-22_18-05_login-works.yaml --undo")]
pub(super) struct ArchiveArgs {
    /// Handoff to archive, by its id, a unique prefix of it, its directory, or as a handoff file (path or
    /// SESSION/NAME.yaml)
    pub(super) name: String,
    #[command(flatten)]
    pub(super) directory: DirectoryArgs,
    /// Take it out of the archive
    #[arg(long)]
    pub(super) undo: bool,
    /// Make it the active handoff of its work, superseding the present one (with --undo)
    #[arg(long, requires = "undo")]
    pub(super) activate: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Handoffs in the store cannot be deleted, only archived.

Examples:
  baton handoffs delete api/2026-11-22_18-05_login-works.yaml
  baton handoffs delete --archived --older-than 30d
  baton handoffs delete --older-than 12h --dry-run")]
pub(super) struct DeleteArgs {
    /// File to delete: a path, or SESSION/NAME.yaml in the directory of handoff files
    #[arg(conflicts_with = "older_than")]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) directory: DirectoryArgs,
    /// Delete all files that are older than this age (12h, 30d) or date by their names, except each session's
    /// newest
    #[arg(long, value_name = "AGE", value_parser = period_start)]
    pub(super) older_than: Option<PeriodStart>,
    /// Delete only archived files
    #[arg(long, requires = "older_than", conflicts_with = "file")]
    pub(super) archived: bool,
    /// List what would be deleted, and delete nothing
    #[arg(long, requires = "older_than", conflicts_with = "file")]
    pub(super) dry_run: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without --run, prints the command and changes nothing. The new session starts with the handoff's \
resume line: its model sees the carry-over prompt, then --prompt.

Examples:
  baton handoffs resume 0199a3c2-7d1e --with codex
  baton handoffs resume 0199a3c2-7d1e --with claude --run
  baton handoffs resume 0199a3c2-7d1e --with pi --headless --prompt \"Do the tests first.\" --run -- --mode json")]
pub(super) struct ResumeArgs {
    /// Handoff to resume, by its id or a unique prefix of it
    pub(super) id: String,
    /// Resume with this agent, named as for `baton run`
    #[arg(long, value_name = "AGENT")]
    pub(super) with: String,
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Add this text after the carry-over prompt
    #[arg(long, value_name = "TEXT")]
    pub(super) prompt: Option<String>,
    /// Get a single response, without the agent's screen
    #[arg(long)]
    pub(super) headless: bool,
    /// Start the agent through baton
    #[arg(long)]
    pub(super) run: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "run")]
    pub(super) json: bool,
    /// Further arguments for the agent
    #[arg(last = true, value_name = "ARGS")]
    pub(super) arguments: Vec<OsString>,
}
