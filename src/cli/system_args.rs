//! Raw arguments of the commands that look after an installation, as clap reads them.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::state_args::StateArgs;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Sends one HEAD request without credentials to each upstream, and changes nothing. Exits with 0 unless a line is an error, \
with 78 if the config is wrong, and with 69 for any other error.

An upstream that cannot be reached is an error if the config sets it or the journal has requests to it, else a warning. \
Keys and sign-ins are not tried at the provider; a refused one is in `baton log error`.

`--ready` exits with 69 if no proxy serves requests.

Examples:
  baton doctor
  baton doctor --line
  baton doctor --ready
  baton doctor --offline --json | jq .journal.bytes
  baton doctor --json | jq '.findings[] | select(.severity != \"ok\")'")]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Ask no upstream
    #[arg(long)]
    pub(super) offline: bool,
    /// One line on what runs and what is stored, for a prompt or a status bar
    #[arg(long, group = "short")]
    pub(super) line: bool,
    /// Only whether the proxy serves requests: the health check of a container
    #[arg(long, group = "short")]
    pub(super) ready: bool,
    /// Print JSON
    #[arg(long, group = "short")]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton completions bash > ~/.local/share/bash-completion/completions/baton
  baton completions zsh > ~/.zfunc/_baton
  baton completions fish > ~/.config/fish/completions/baton.fish")]
pub(super) struct CompletionsArgs {
    /// The shell
    pub(super) shell: Shell,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without a folder the page of `baton` itself is printed.

Examples:
  baton man | man -l -
  baton man ~/.local/share/man/man1")]
pub(super) struct ManArgs {
    /// Write a page for each command into this folder
    #[arg(value_name = "DIR")]
    pub(super) folder: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton service install
  baton service uninstall")]
pub(super) struct ServiceArgs {
    #[command(subcommand)]
    pub(super) command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ServiceCommand {
    /// Start the proxy now and at each login
    Install(ServiceInstallArgs),
    /// Stop the proxy, and do not start it at login any more
    Uninstall(ServiceUninstallArgs),
}

/// A service manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ManagerKind {
    /// A user unit
    Systemd,
    /// A launch agent
    Launchd,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Writes a systemd user unit or a launch agent with this binary's path, this config and this state directory, and starts \
it.

Examples:
  baton service install
  baton service install --config ~/team.toml
  baton service install --print --manager launchd")]
pub(super) struct ServiceInstallArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// The service manager; by default the platform's own
    #[arg(long)]
    pub(super) manager: Option<ManagerKind>,
    /// Only print the file
    #[arg(long)]
    pub(super) print: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Handoffs, keys and journal stay.

Examples:
  baton service uninstall
  baton service uninstall --print")]
pub(super) struct ServiceUninstallArgs {
    /// The service manager; by default the platform's own
    #[arg(long)]
    pub(super) manager: Option<ManagerKind>,
    /// Only print the commands that are run and the files that are removed
    #[arg(long)]
    pub(super) print: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Lists what it removes and what stays, and asks first. Stops and removes the service; a proxy that runs without it must be \
stopped first. Handoffs, keys, journal and config stay without --purge. The program itself is removed the way it was \
installed.

Examples:
  baton uninstall
  baton uninstall --purge
  baton uninstall --purge --yes")]
pub(super) struct UninstallArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Also remove handoffs, keys, journal and the default config
    #[arg(long)]
    pub(super) purge: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(super) yes: bool,
}
