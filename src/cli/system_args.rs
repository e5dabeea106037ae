//! Raw arguments of the commands that look after an installation, as clap reads them.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap_complete::Shell;

use super::state_args::StateArgs;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Sends one HEAD request without credentials to each upstream, and changes nothing. Exits with 0 unless a line is an error,
with 78 if the config is wrong, and with 69 for any other error.

Examples:
  baton doctor
  baton doctor --config team.toml
  baton doctor --json | jq '.findings[] | select(.severity != \"ok\")'")]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Print JSON
    #[arg(long)]
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
