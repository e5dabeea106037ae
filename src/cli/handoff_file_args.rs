//! Raw arguments of those commands of `baton packets` that are about handoff files.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::state_args::StateArgs;

/// Where the files are.
#[derive(Debug, ClapArgs)]
pub(super) struct FolderArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Folder of the handoff files [packets.dir]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
}

/// How a file is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// As it is on disk
    Yaml,
    /// JSON with the same members
    Json,
    /// For people
    Markdown,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
What is given wins; the rest is read from the source. Without a source and without a goal you are asked.

Examples:
  baton packets create api --goal 'Login works' --now 'Write the logout'
  baton packets create api --output answer.txt
  baton packets create api --session-file ~/.claude/projects/-src-api/3f2a.jsonl
  baton packets create --auto --hook < hook-input.json      # in a pre-compact hook
  baton packets create api --goal G --now N -o - --format markdown")]
pub(super) struct CreateArgs {
    /// The session: letters, digits, `_` and `-`; without one `general`
    #[arg(default_value = "")]
    pub(super) session: String,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    /// What was accomplished
    #[arg(long, value_name = "TEXT")]
    pub(super) goal: Option<String>,
    /// What comes first
    #[arg(long, value_name = "TEXT")]
    pub(super) now: Option<String>,
    /// The command that verifies the work
    #[arg(long, value_name = "COMMAND")]
    pub(super) test: Option<String>,
    /// What stands in the way; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub(super) blocker: Vec<String>,
    /// What comes next; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub(super) next: Vec<String>,
    /// What is open; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub(super) question: Vec<String>,
    /// A decision with its reason; may be repeated
    #[arg(long, value_name = "WHAT=WHY")]
    pub(super) decision: Vec<String>,
    /// complete, partial or blocked; by default what the rest says
    #[arg(long, value_name = "STATUS")]
    pub(super) status: Option<String>,
    /// SUCCEEDED, PARTIAL_PLUS, PARTIAL_MINUS or FAILED
    #[arg(long, value_name = "OUTCOME")]
    pub(super) outcome: Option<String>,
    /// Read what an agent said; - is standard input
    #[arg(long, value_name = "FILE", group = "source")]
    pub(super) output: Option<PathBuf>,
    /// Read a session file of Claude Code, Codex or pi
    #[arg(long, value_name = "FILE", group = "source")]
    pub(super) session_file: Option<PathBuf>,
    /// Read a proxied conversation: its key, or a unique prefix of it
    #[arg(long, value_name = "KEY", group = "source")]
    pub(super) conversation: Option<String>,
    /// Take what a YAML or JSON file says; - is standard input
    #[arg(long, value_name = "FILE", group = "source")]
    pub(super) from_file: Option<PathBuf>,
    /// Read an agent's hook input (JSON with `transcript_path` and `cwd`) from standard input
    #[arg(long, group = "source")]
    pub(super) hook: bool,
    /// Name the file by the second and ask nobody: for hooks; done within 30 seconds
    #[arg(long)]
    pub(super) auto: bool,
    /// What the file's name says; by default the goal's first words
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    /// The agent's name, by which Agent Mail and beads know it
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// cc, cod or gmi
    #[arg(long, value_name = "TYPE")]
    pub(super) agent_type: Option<String>,
    /// Its terminal pane
    #[arg(long, value_name = "ID")]
    pub(super) pane: Option<String>,
    /// Tokens of its context in use
    #[arg(long, value_name = "N", requires = "tokens_max")]
    pub(super) tokens_used: Option<i64>,
    /// Tokens that its context holds
    #[arg(long, value_name = "N")]
    pub(super) tokens_max: Option<i64>,
    /// The repository whose state is told [packets.git_dir]
    #[arg(long, value_name = "DIR")]
    pub(super) git_dir: Option<PathBuf>,
    /// Ask neither git, nor beads, nor Agent Mail
    #[arg(long)]
    pub(super) alone: bool,
    /// The project, as Agent Mail knows it; by default the repository
    #[arg(long, value_name = "KEY")]
    pub(super) project: Option<String>,
    /// Write there and not into the session's folder; - is standard output
    #[arg(long = "out", short = 'o', value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// How it is written, with -o
    #[arg(long, value_enum, default_value_t = Format::Yaml, requires = "out")]
    pub(super) format: Format,
    /// Print JSON; asks nobody
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
At most 500 tokens: what to do first, the goal, next steps, decisions, findings, blockers. One more line says whether
that is still true.

Examples:
  baton packets recover
  baton packets recover api --for clear
  baton packets recover --here      # in a hook at the start of a session")]
pub(super) struct RecoverArgs {
    /// The session, a handoff file or a packet; without one the newest file of all
    pub(super) session: Option<String>,
    /// The session that hooks name after the working directory
    #[arg(long, conflicts_with = "session")]
    pub(super) here: bool,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    /// What for: fresh (a new session), clear (its context was cleared), compact (one line)
    #[arg(long = "for", value_name = "PURPOSE", default_value = "fresh", value_parser = ["fresh", "clear", "compact"])]
    pub(super) purpose: String,
    /// The repository that it is compared with [packets.git_dir]; by default the working directory
    #[arg(long, value_name = "DIR")]
    pub(super) git_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Prints nothing where there is no handoff file.

Examples:
  baton packets line
  baton packets line api
  baton packets line --follow")]
pub(super) struct LineArgs {
    /// The session; without one the newest file of all
    pub(super) session: Option<String>,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    /// Go on, and print the line again whenever it changes
    #[arg(long)]
    pub(super) follow: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Drift is: a file that it names was changed or is gone, or another branch is checked out.

Examples:
  baton packets check
  baton packets check api --git-dir ~/src/api --json")]
pub(super) struct CheckArgs {
    /// A session, a handoff file or a packet; without one the newest file of all
    pub(super) what: Option<String>,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    /// The repository [packets.git_dir]; by default the working directory
    #[arg(long, value_name = "DIR")]
    pub(super) git_dir: Option<PathBuf>,
    /// Print JSON, with the quality of the file
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets delete api/2026-11-22_18-05_login-works.yaml")]
pub(super) struct FileArgs {
    /// A path, or SESSION/NAME.yaml in the folder of handoff files
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets clean --older-than 30d
  baton packets clean --older-than 12h --dry-run")]
pub(super) struct CleanArgs {
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    /// Age by the time in the name: 90s, 15m, 12h, 30d, 8w
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(super) older_than: u64,
    /// Delete nothing, and list what would be
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets ledger
  baton packets ledger api | tail -20")]
pub(super) struct LedgerArgs {
    /// The session; without one `general`
    #[arg(default_value = "")]
    pub(super) session: String,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Either the new agent holds all of them in the end, or the old one does.

Examples:
  baton packets transfer api/2026-11-22_18-05_login-works.yaml --to BlueLake
  baton packets transfer handoff.yaml --to BlueLake --json | jq .conflicts")]
pub(super) struct TransferArgs {
    /// A path, or SESSION/NAME.yaml in the folder of handoff files
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    /// The agent that gets them
    #[arg(long, value_name = "AGENT")]
    pub(super) to: String,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Seconds of `90s`, `15m`, `12h`, `30d`, `8w`.
fn age(text: &str) -> Result<u64, String> {
    const UNITS: [(char, u64); 5] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];
    let unit = UNITS
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, seconds)));
    unit.and_then(|(number, seconds)| number.parse::<u64>().ok()?.checked_mul(*seconds))
        .ok_or_else(|| "write a number with a unit: 90s, 15m, 12h, 30d, 8w".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_units() {
        assert_eq!(age("30d"), Ok(2_592_000));
        assert_eq!(age("8w"), Ok(4_838_400));
        for bad in [
            "30",
            "d",
            "-1d",
            "1y",
            "",
            "99999999999999999999w",
            "18446744073709551615w",
        ] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}
