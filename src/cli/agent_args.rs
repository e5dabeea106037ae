//! Raw arguments of the commands that start agents: `run`, `env` and `resume`.

use std::ffi::OsString;

use clap::Args as ClapArgs;

use super::shells::ShellSyntax;
use super::state_args::StateArgs;
use baton_core::record::is_topic;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Agents: claude, codex, opencode, gemini, qwen, pi, goose, cline, aider, or a path to one. Any other program gets the \
variables that the SDKs read. All arguments after the agent's name are the agent's.

Uses the proxy that serves from the state directory, or starts one in the background, which stops when the last agent \
has ended; its log is serve.log in the state directory. None of your files is edited. The exit code is the agent's, or \
128 plus the signal's number if a signal ended the agent. Each session with work since its last handoff leaves one when \
the agent exits; a line names its folder (handoff.at_exit).

Examples:
  baton run claude
  baton run codex exec \"fix the tests\"
  baton run --topic importer claude
  baton run --shadow claude
  baton run -- ./node_modules/.bin/gemini -m gemini-2.5-pro
  baton run --config team.toml my-agent --verbose")]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// The topic of the session's handoffs: letters, digits, `.`, `_` and `-` [handoff.topic]
    #[arg(long, value_name = "NAME", value_parser = topic)]
    pub(super) topic: Option<String>,
    /// Change nothing, and note where a handoff would have come [handoff.inject]
    #[arg(long)]
    pub(super) shadow: bool,
    /// The agent, and its own arguments
    #[arg(value_name = "AGENT", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    pub(super) agent: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Prints the URL of the proxy that serves from the state directory, or the configured one. If an agent needs arguments, a \
shell function with its name adds them; if it needs a file, the file is written to the state directory.

Examples:
  baton env claude
  eval \"$(baton env claude)\" && claude
  baton env codex --shell fish | source
  baton env pi --json | jq .arguments")]
pub(super) struct EnvArgs {
    /// The agent; any other program gets the variables that the SDKs read
    pub(super) agent: String,
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Syntax to print; by default that of $SHELL
    #[arg(long, value_enum)]
    pub(super) shell: Option<ShellSyntax>,
    /// Print JSON
    #[arg(long, conflicts_with = "shell")]
    pub(super) json: bool,
}

fn topic(text: &str) -> Result<String, &'static str> {
    is_topic(text)
        .then(|| text.to_owned())
        .ok_or("a topic has up to 64 letters, digits, dots, `_` and `-`")
}
