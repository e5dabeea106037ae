//! Raw arguments, as clap reads them. Each command turns its own into checked ones.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use super::agent_args::{EnvArgs, RunArgs};
use super::export_args::ExportArgs;
use super::handoff_args::HandoffsArgs;
use super::savings_args::SavingsArgs;
use super::seal_key_args::SealKeyArgs;
use super::state_args::{self, CONFIG_HELP, ListFormat, StateArgs};
use super::system_args::{CompletionsArgs, DoctorArgs, ManArgs, ServiceArgs, UninstallArgs};
use super::trial_args::TryArgs;

/// An HTTP proxy for LLM APIs that lets the model hand its session over to a fresh context.
#[derive(Debug, Parser)]
#[command(name = "baton", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: CliCommand,
}

const EXAMPLES: &str = "\
Examples:
  baton try
  baton demo
  baton run claude
  baton serve
  OPENAI_BASE_URL=http://127.0.0.1:8787/v1 my-agent
  baton handoffs list";

#[derive(Debug, Subcommand)]
pub(super) enum CliCommand {
    /// What handoffs would have saved in the sessions that your agents have kept: reads them, and sends nothing
    Try(TryArgs),
    /// Run an agent through the proxy, starting the proxy if none is running
    Run(RunArgs),
    /// Print what `run` sets for an agent, for a shell or as JSON
    Env(EnvArgs),
    /// Run the proxy
    Serve(ServeArgs),
    /// Report every problem of a config at once
    Check(CheckArgs),
    /// Show what happens, offline: a scripted agent and provider with the real proxy between them
    Demo(DemoArgs),
    /// List the exchanges in the journal (requests and answers, kept 30 days), newest last
    Log(LogArgs),
    /// Show one exchange: removed and added messages, bodies, HAR
    Show(ShowExchangeArgs),
    /// What the exchanges cost, and would have cost without baton, by day, model, conversation, handoff or client
    Savings(SavingsArgs),
    /// Handoffs: list, show, write, check, archive and resume them
    Handoffs(HandoffsArgs),
    /// Print a whole conversation as a document, to continue it without baton
    Export(ExportArgs),
    /// List, rotate and retire the keys that prove handoffs in transcripts
    SealKey(SealKeyArgs),
    /// What runs, what is stored, what is wrong with config, ports, store, upstreams or agents, and what to do about it
    Doctor(DoctorArgs),
    /// Open the inspector over the journal, read only, without a proxy
    Ui(UiArgs),
    /// Copy the store to another one, or check it
    Store(StoreArgs),
    /// Start the proxy at login: a systemd user unit, or a launch agent
    Service(ServiceArgs),
    /// Remove what baton created on this machine
    Uninstall(UninstallArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for each command
    Man(ManArgs),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A mark in front of the sizes shows what happened: >> a handoff fired, > the request was cut at one, ! the transcript \
has lost its sentinel. The column KEY has the beginning of the conversation's key, which `log --conversation`, `export`, \
`savings --conversation` and `handoffs draft` accept.

Terms of FILTER, each of which must hold (! before a term negates it):
  words    error, handoff, command, retried, refused, unpinned, recall,
           cancelled, open
  texts    tool:Bash, model:opus*; also wire, upstream, route, conversation,
           status
  time     since:30m, since:12h, since:7d
  numbers  cost>0.5, input<20k; also output, requests, received, sent, seconds

Examples:
  baton log
  baton log --follow
  baton log error since:1h
  baton log --limit 0 'tool:Bash model:opus* cost>0.5'
  baton log --conversation 3f2a --limit 0 --jsonl | jq -c '[.id, .received_bytes, .sent_bytes]'
  baton log --json | jq 'map(.outcome)'")]
pub(super) struct LogArgs {
    /// Only exchanges that match every term, such as error, tool:Bash, model:opus*, since:1h or cost>0.5 (all: see below)
    #[arg(value_name = "FILTER")]
    pub(super) filter: Vec<String>,
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Keep running, and list each exchange as it ends
    #[arg(long, short)]
    pub(super) follow: bool,
    /// Only this conversation's exchanges: its key, or a unique prefix of it
    #[arg(long, value_name = "KEY")]
    pub(super) conversation: Option<String>,
    /// Maximum number; 0: no limit
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = state_args::number::<usize>)]
    pub(super) limit: usize,
    #[command(flatten)]
    pub(super) format: ListFormat,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without an option: the difference between what the agent sent and what was sent upstream. A leg is one request of an \
exchange to upstream: baton may send several, such as a retry, and the one with the new context after a handoff.

Examples:
  baton show 0199a3c2-7d1e
  baton show 0199a3c2-7d1e --sent --leg 2 | jq .messages
  baton show 0199a3c2-7d1e --har > exchange.har")]
pub(super) struct ShowExchangeArgs {
    /// The exchange's id, as in `x-baton-exchange` and `baton log`, or a unique prefix of it
    pub(super) exchange: String,
    #[command(flatten)]
    pub(super) state: StateArgs,
    #[command(flatten)]
    pub(super) what: ShowWhat,
    /// Which leg, numbered from 1; by default the first
    #[arg(long, value_name = "N", value_parser = state_args::leg)]
    pub(super) leg: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The part of an exchange to show.
#[derive(Debug, ClapArgs)]
#[group(multiple = false)]
pub(super) struct ShowWhat {
    /// Removed and added messages (the default)
    #[arg(long)]
    pub(super) diff: bool,
    /// The agent's request
    #[arg(long)]
    pub(super) received: bool,
    /// The request to upstream: what the model really saw
    #[arg(long)]
    pub(super) sent: bool,
    /// The response to the agent; with --leg that of upstream
    #[arg(long)]
    pub(super) response: bool,
    /// HAR 1.2, for the network tools of a browser
    #[arg(long)]
    pub(super) har: bool,
    /// A curl command that sends the request of a leg again, credentials as variables
    #[arg(long)]
    pub(super) curl: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
If a proxy is running from this state directory, the address of its page is printed instead.

Examples:
  baton ui
  baton ui --no-browser --state-dir ~/copy-of-a-journal")]
pub(super) struct UiArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Only print the page's address
    #[arg(long)]
    pub(super) no_browser: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton serve
  baton serve --listen 127.0.0.1:0 --state-dir /tmp/baton
  BATON_UPSTREAMS__ANTHROPIC__BASE_URL=https://gateway.example baton serve --config team.toml")]
pub(super) struct ServeArgs {
    #[arg(long, value_name = "FILE", help = CONFIG_HELP)]
    pub(super) config: Option<PathBuf>,
    /// Address of the data listener [server.listen]
    #[arg(long, value_name = "ADDR")]
    pub(super) listen: Option<String>,
    /// Address of the admin listener [admin.listen]
    #[arg(long, value_name = "ADDR")]
    pub(super) admin: Option<String>,
    /// Folder of the store and the seal key [state.dir]
    #[arg(long, value_name = "DIR")]
    pub(super) state_dir: Option<String>,
    /// What is logged, such as `debug` or `warn,baton=debug` [log.level]
    #[arg(long, value_name = "FILTER")]
    pub(super) log_level: Option<String>,
    /// How `baton run` starts it: stops with the last agent, and picks a free port if its own is in use
    #[arg(long, hide = true)]
    pub(super) for_agents: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exits with 0 if the config is valid and with 78 if it is not. A Redis server that the config names is asked for its settings.

Examples:
  baton check --config baton.toml
  baton check --defaults > baton.toml
  baton check --json | jq .findings")]
pub(super) struct CheckArgs {
    #[arg(long, value_name = "FILE", help = CONFIG_HELP)]
    pub(super) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print the built-in config, which explains every key, and check nothing
    #[arg(long, conflicts_with_all = ["config", "json"])]
    pub(super) defaults: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Needs no network, no key and no config, and stores nothing.

Examples:
  baton demo
  baton demo --json | jq .totals")]
pub(super) struct DemoArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton store check
  baton store copy --to sqlite:/var/backups/baton
  baton store copy --to redis://127.0.0.1:6379")]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    pub(super) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Copy all records to another store: to move, to back up, to restore
    Copy(StoreCopyArgs),
    /// Check that every record can be read, and that what it refers to exists
    Check(StoreCheckArgs),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Both stores may be in use, and a copy that was interrupted may be begun again: existing records stay, unless \
they are older. What was written meanwhile is copied too. Exits with 65 where the target then lacks a \
record.

To move to another store, stop the proxies before the last copy. Then set `store.kind` and `store.url` in \
the config, or `state.dir` for sqlite:DIR. The seal keys are files of their own (`baton seal-key`).

Examples:
  baton store copy --to redis://127.0.0.1:6379
  baton store copy --to sqlite:/var/backups/baton
  baton store copy --from sqlite:/var/backups/baton --to redis://127.0.0.1:6379")]
pub(super) struct StoreCopyArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// The source: sqlite:DIR, or a server's URL; by default the config's store [env: BATON_COPY_FROM]
    #[arg(long, value_name = "URL")]
    pub(super) from: Option<String>,
    /// The target, in the same form; by default the config's store [env: BATON_COPY_TO]
    #[arg(long, value_name = "URL")]
    pub(super) to: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exits with 65 if a record cannot be read, or refers to one that does not exist.

Examples:
  baton store check
  baton store check sqlite:/var/backups/baton
  baton store check --json | jq .kinds")]
pub(super) struct StoreCheckArgs {
    /// sqlite:DIR, or a server's URL; by default the config's store
    pub(super) url: Option<String>,
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
