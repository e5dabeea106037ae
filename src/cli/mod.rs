//! The command line: one file per command, with its arguments.
//!
//! All output goes through `output`. Untrusted strings pass through `output::text` first, so that they cannot
//! control the terminal.

mod agents;
mod client;
mod declared;
mod demo;
mod doctor;
mod env;
mod exit;
mod export;
mod foreground;
mod forget;
mod handoffs;
mod journal;
mod log;
mod output;
mod proxy_watch;
mod reload;
mod run;
mod running;
mod savings;
mod seal_key;
mod serve;
mod service;
mod sharing;
mod shell_files;
mod shells;
mod show;
mod state_args;
mod store;
mod stored;
mod trial;
mod ui;
mod uninstall;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use tokio::runtime::Runtime;

use baton_state::config::{Config, Environment, Flags, Problem, ProblemKind};
use baton_state::prices::{self as price_tables, Prices};

use self::exit::{CliResult, CommandFailure, Exit};
use self::output::Out;
use self::state_args::StateArgs;

/// An HTTP proxy for LLM APIs that lets the model hand its session over to a fresh context.
#[derive(Debug, Parser)]
#[command(name = "baton", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    command: CliCommand,
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
enum CliCommand {
    /// Estimate what handoffs would have saved in your agents' past sessions (offline, read-only)
    Try(trial::TryArgs),
    /// Run an agent through the proxy, starting the proxy if none is running
    Run(run::RunArgs),
    /// Print what `run` sets for an agent, for a shell or as JSON
    Env(env::EnvArgs),
    /// Run the proxy
    Serve(serve::ServeArgs),
    /// Report every problem of a config at once
    Check(doctor::CheckArgs),
    /// Run a scripted agent and provider through the real proxy, offline
    Demo(demo::DemoArgs),
    /// List the exchanges in the journal (requests and responses, kept 30 days), newest last
    Log(log::LogArgs),
    /// Show one exchange: removed and added messages, bodies, HAR
    Show(show::ShowExchangeArgs),
    /// Compare actual cost with the estimated cost without baton, by day, model, conversation, handoff or
    /// client
    Savings(savings::SavingsArgs),
    /// List, show, write, check, archive and resume handoffs
    Handoffs(handoffs::HandoffsArgs),
    /// Print a whole conversation as a document, to continue it without baton
    Export(export::ExportArgs),
    /// List, rotate and retire the keys that prove handoffs in transcripts
    SealKey(seal_key::SealKeyArgs),
    /// Add, list and remove the clients of a shared proxy
    Client(client::ClientArgs),
    /// Diagnose config, ports, store, upstreams and agents, and suggest fixes
    Doctor(doctor::DoctorArgs),
    /// Open the inspector over the journal, read-only, without a proxy
    Ui(ui::UiArgs),
    /// Copy the store to another one, check it, or forget a client
    Store(store::StoreArgs),
    /// Start the proxy at login, as a systemd user unit or a launch agent
    Service(service::ServiceArgs),
    /// Remove what baton created on this machine
    Uninstall(uninstall::UninstallArgs),
    /// Print the completion script of a shell
    Completions(shell_files::CompletionsArgs),
    /// Print the manual page, or write one for each command
    Man(shell_files::ManArgs),
}

/// Runs the program with the given arguments, the program's name first.
pub(super) fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => return help_or_usage(error),
    };
    let mut out = Out::stdout();
    let done = match args.command {
        CliCommand::Run(args) => run::run(&args, handoffs::at_exit),
        CliCommand::Env(args) => env::run(&args, &mut out),
        CliCommand::Serve(args) => serve::run(&args, &mut out),
        CliCommand::Check(args) => doctor::check(&args, &mut out),
        CliCommand::Try(args) => trial::run(&args, &mut out),
        CliCommand::Demo(args) => demo::run(&args, &mut out),
        CliCommand::Log(args) => log::run(&args, &mut out),
        CliCommand::Savings(args) => savings::run(&args, &mut out),
        CliCommand::Show(args) => show::run(&args, &mut out),
        CliCommand::Handoffs(args) => handoffs::run(&args, &mut out),
        CliCommand::Export(args) => export::run(&args, &mut out),
        CliCommand::SealKey(args) => seal_key::run(&args, &mut out),
        CliCommand::Client(args) => client::run(&args, &mut out),
        CliCommand::Ui(args) => ui::run(&args, &mut out),
        CliCommand::Store(args) => store::run(&args, &mut out),
        CliCommand::Doctor(args) => doctor::run(&args, &mut out),
        CliCommand::Service(args) => service::run(&args, &mut out),
        CliCommand::Uninstall(args) => uninstall::run(&args, &mut out),
        CliCommand::Completions(args) => shell_files::completions(&args, &mut out),
        CliCommand::Man(args) => shell_files::man(&args, &mut out),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output::report(&failure),
    }
}

/// Prints clap's errors, which include `--help` and `--version`, and returns the exit code.
fn help_or_usage(mut error: clap::Error) -> ExitCode {
    drop_escape_tip(&mut error);
    // Ignored: a reader that closes the pipe (`baton --help | head -1`) has seen enough.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => Exit::USAGE.into(),
    }
}

/// Removes clap's tip to pass an unknown option as a value.
///
/// No command takes a value that begins with a dash, so the tip would mislead.
fn drop_escape_tip(error: &mut clap::Error) {
    let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) else {
        return;
    };
    tips.retain(|tip| !tip.to_string().contains("as a value, use"));
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
}

/// Returns the config file: the one that the user names, else the default one if it exists.
fn config_file(given: Option<&PathBuf>) -> Option<PathBuf> {
    named_config(given).or_else(default_config)
}

/// The config file that the user names: the given one, else the one in `BATON_CONFIG`.
///
/// The variable is read here because clap's usage errors name every argument with a value as a required one.
fn named_config(given: Option<&PathBuf>) -> Option<PathBuf> {
    let variable = || std::env::var_os("BATON_CONFIG").map(PathBuf::from);
    let named = given.cloned().or_else(variable);
    // Some service managers set an empty `BATON_CONFIG` for "no file".
    named.filter(|path| !path.as_os_str().is_empty())
}

/// The config file in the platform's config directory, if it exists.
fn default_config() -> Option<PathBuf> {
    let directories = directories::ProjectDirs::from("", "", "baton")?;
    let file = directories.config_dir().join("baton.toml");
    file.is_file().then_some(file)
}

/// Reads the config as far as it can be read, with its problems.
fn read(file: Option<&PathBuf>, flags: &Flags) -> (Config, Vec<Problem>) {
    Config::read(config_file(file).as_deref(), &Environment::of_process(), flags)
}

fn load(file: Option<&PathBuf>, flags: &Flags) -> Result<Config, Vec<Problem>> {
    Config::load(config_file(file).as_deref(), &Environment::of_process(), flags)
}

/// Loads the config, or fails with all of its problems.
fn load_or_fail(file: Option<&PathBuf>, flags: &Flags) -> CliResult<Config> {
    load(file, flags).map_err(|problems| invalid(&problems))
}

/// Failure of a command that needs a valid config.
fn invalid(problems: &[Problem]) -> CommandFailure {
    // sysexits.h distinguishes a file that cannot be read from one with invalid content.
    let exit = match problems.iter().any(|p| p.kind == ProblemKind::Unreadable) {
        true => Exit::NO_INPUT,
        false => Exit::CONFIG,
    };
    let lines: Vec<_> = problems.iter().map(|p| output::visible(&p.to_string())).collect();
    exit.failure(format!("the config is invalid\n{}", lines.join("\n")))
}

/// Returns the price table of a file, or the embedded one.
fn prices(file: Option<&Path>) -> CliResult<Prices> {
    price_tables::table(file).map_err(|error| Exit::CONFIG.failure(error))
}

/// Creates the runtime for a command that reads a store or sends requests.
fn runtime() -> CliResult<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Exit::SOFTWARE.failure(error.to_string()))
}

/// Runs a command's future to completion.
///
/// The future is boxed, so that tokio's runtime is compiled for one type of future and not for each
/// command's.
fn block_on<T>(future: impl Future<Output = CliResult<T>>) -> CliResult<T> {
    let future: Pin<Box<dyn Future<Output = _>>> = Box::pin(future);
    runtime()?.block_on(future)
}

/// Secrets of a command that reads or writes the store.
const STORE_SECRETS: &[&str] = &["store.url", "handoff.seal_key"];

/// Loads the config for a command that works on the state.
///
/// Only the `needed` secrets must be available: an administrator's shell lacks the variables of the service.
fn load_state(args: &StateArgs, needed: &'static [&'static str]) -> CliResult<Config> {
    load_or_fail(args.config.as_ref(), &state_flags(args, needed))
}

fn state_flags(args: &StateArgs, needed: &'static [&'static str]) -> Flags {
    Flags {
        state_dir: args.state_dir.clone(),
        needed_secrets: Some(needed),
        ..Flags::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use baton_serve::proxy::fault::Code;
    use baton_state::journal::RowFilter;

    #[test]
    fn the_page_of_errors_has_every_code_as_it_is() {
        let page = include_str!("../../docs/troubleshooting.md");
        for code in Code::ALL {
            let status = format!("\n* {}: ", code.status);
            let item = page.split_once(&status).map(|(_, rest)| rest);
            let item = item.and_then(|rest| rest.split("\n* ").next());
            let named = format!("`{}`", code.name);
            let after = item.and_then(|item| Some(item.split_once(&named)?.1));
            let after = after.unwrap_or_else(|| panic!("{} {named}", code.status));
            assert_eq!(after.starts_with('*'), code.retryable, "{named}");
        }
    }

    #[test]
    fn the_command_line_is_consistent_and_every_command_shows_examples() {
        Args::command().debug_assert();
        let args = Args::command();
        let leaves = visible_leaves(&args);
        for command in leaves {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(command.get_about().is_some(), "{}", command.get_name());
            assert!(help.contains("Examples:\n  baton "), "{}", command.get_name());
        }
    }

    #[test]
    fn the_help_of_log_lists_every_term() {
        let args = Args::command();
        let log = args.find_subcommand("log").unwrap();
        let help = log.get_after_help().unwrap().to_string();
        let words: Vec<_> = help.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        // The error of an unknown term lists all terms before its examples.
        let error = RowFilter::parse("x").unwrap_err().message;
        let error = error.split_once("there are ").unwrap().1;
        let error = error
            .replace(" such as model:opus*", "")
            .replace(" such as cost>0.5", "");
        let known = error.split(|c: char| !c.is_alphanumeric() && c != '_');
        for name in known.filter(|word| !["", "fields", "and", "numbers"].contains(word)) {
            assert!(words.contains(&name), "{name}: {help}");
        }
    }

    /// Each paragraph is one line, which clap breaks at the width of the terminal. Examples and tables begin
    /// with blanks.
    #[test]
    fn paragraphs_of_the_help_are_not_broken_by_hand() {
        let args = Args::command();
        for command in args.get_subcommands().flat_map(visible_leaves) {
            let help = command.get_after_help().unwrap().to_string();
            let mut lines = help
                .lines()
                .map(|line| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':'));
            let mut before = false;
            let broken = lines.any(|text| std::mem::replace(&mut before, text) && text);
            assert!(!broken, "{}: {help}", command.get_name());
        }
    }

    #[test]
    fn groups_of_commands_show_examples() {
        let args = Args::command();
        for name in ["handoffs", "store", "seal-key", "service", "client"] {
            let help = args.find_subcommand(name).unwrap().get_after_help();
            assert!(
                help.unwrap().to_string().contains("Examples:\n  baton "),
                "{name}"
            );
        }
    }

    /// The commands that users run, without those that the help hides.
    fn visible_leaves(command: &clap::Command) -> Vec<&clap::Command> {
        let visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        let inner: Vec<_> = visible.collect();
        match inner.is_empty() {
            true => vec![command],
            false => inner.into_iter().flat_map(visible_leaves).collect(),
        }
    }
}
