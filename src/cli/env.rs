//! The `baton env` command: prints the settings that `run` makes for an agent, for a shell or as JSON.

use std::collections::BTreeMap;

use clap::Args as ClapArgs;
use serde_json::json;

use super::agents::{self, AgentSetup, ConfigContent};
use super::exit::{CliResult, Exit};
use super::output::{Out, visible};
use super::running::{self, RunState};
use super::shells::ShellSyntax;
use super::state_args::StateArgs;
use super::{declared, load_state};
use baton_state::config::Config;

/// Directory of the config files that `env` writes.
const FOLDER: &str = "agents";

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Prints the URL of the proxy that serves from the state directory, or the configured one. If an agent needs arguments, a \
shell function with its name adds them. If it needs a file, baton writes it to the state directory, \
or prints to standard error what to put into yours.

Examples:
  baton env claude
  eval \"$(baton env claude)\" && claude
  baton env codex --shell fish | source
  baton env pi --json | jq .arguments")]
pub(super) struct EnvArgs {
    /// Agent to configure (any other program gets the variables that the SDKs read)
    agent: String,
    #[command(flatten)]
    state: StateArgs,
    /// Print this syntax [default: that of $SHELL]
    #[arg(long, value_enum)]
    shell: Option<ShellSyntax>,
    /// Print JSON
    #[arg(long, conflicts_with = "shell")]
    json: bool,
}

pub(super) fn run(args: &EnvArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state, &[])?;
    let agent = agents::find_or_generic(&args.agent);
    let (url, running) = address(&config)?;
    let mut notes = agent.notes.clone();
    if agent.is_known() {
        notes.push(format!("sign-in: {}", agent.sign_ins));
    }
    if !agent.is_known() {
        notes.push(format!(
            "{} is not a known agent: these are the variables that the SDKs read",
            args.agent
        ));
    }
    if !running {
        notes.push(format!(
            "no proxy is running; start it with `baton serve{}`",
            args.state.options()
        ));
    }
    let mut file = None;
    match agent.file.as_ref().map(|file| (file, &file.content)) {
        Some((own, ConfigContent::Text { .. })) => {
            let directory = std::path::absolute(&config.state_dir)?.join(FOLDER);
            file = Some(own.write(&directory, &url)?);
        }
        // The user's file may hold credentials, so `env` leaves no copy of it.
        Some((own, ConfigContent::Copy { copy_of, set, .. })) => {
            let set = set
                .iter()
                .map(|(path, value)| (path.join("."), value.replace("{base}", &url)));
            let set: Vec<_> = set.map(|(path, value)| format!("{path} = {value:?}")).collect();
            let (name, set) = (&own.name, set.join(", "));
            notes.push(format!(
"`baton run` gives the agent a temporary copy of ~/{copy_of}. For a shell, make your own copy as {name}, put \
its path in place of FILE, and set in it {set}"
));
        }
        None => {}
    }
    let setup = agent.setup(
        &url,
        &declared::base(agent, &url),
        // The note about the file tells the user to replace this placeholder.
        file.as_deref().unwrap_or("FILE"),
    );
    if args.json {
        // These member names are public API.
        let variables: BTreeMap<_, _> = setup.variables.iter().cloned().collect();
        return out.json(&json!({
            "agent": if agent.is_known() { &agent.name } else { &args.agent },
            "known": agent.is_known(),
            "program": agent.program(&args.agent),
            "url": url,
            "running": running,
            "variables": variables,
            "arguments": setup.arguments,
            "file": file,
            "notes": notes,
        }));
    }
    out.lines(lines(
        agent,
        &setup,
        args.shell.unwrap_or_else(ShellSyntax::of_user),
    ))?;
    // On standard error, so that users see the notes even when a shell evaluates the lines.
    Out::stderr().lines(notes.iter().map(|note| format!("baton: {}", visible(note))))
}

/// Formats the settings as commands for a shell.
fn lines(agent: &AgentSetup, setup: &agents::Setup, shell: ShellSyntax) -> Vec<String> {
    let variables = setup.variables.iter();
    let mut lines: Vec<_> = variables.map(|(name, value)| shell.export(name, value)).collect();
    if !setup.arguments.is_empty() {
        lines.push(shell.function(&agent.name, &setup.arguments));
    }
    lines
}

/// Returns the URL of the proxy that serves from the state directory, else the configured one.
///
/// The flag tells whether a proxy is running.
fn address(config: &Config) -> CliResult<(String, bool)> {
    if let RunState::Running(Some(process)) = running::find(&config.state_dir) {
        return Ok((process.data, true));
    }
    let listen = config.server.at.listen;
    // The system picks the port when the proxy starts, so the URL is unknown until then.
    if listen.port() == 0 {
        let message = "no proxy is running, and `server.listen` has port 0";
        return Err(Exit::UNAVAILABLE.with_help(message, "start `baton serve` first, or use `baton run`"));
    }
    Ok((running::url(config, running::reachable(listen)), false))
}
