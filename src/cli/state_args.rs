//! Raw arguments by which a command finds the state.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// How a list is printed for programs.
#[derive(Debug, Clone, Copy, Default, ClapArgs)]
#[group(multiple = false)]
pub(super) struct ListFormat {
    /// Print JSON: one array
    #[arg(long)]
    pub(super) json: bool,
    /// Print JSON Lines: one object a line
    #[arg(long)]
    pub(super) jsonl: bool,
}

impl ListFormat {
    /// Whether a program reads it.
    pub(super) fn is_for_programs(self) -> bool {
        self.json || self.jsonl
    }
}

/// Options that locate the state: the same config as the proxy's.
#[derive(Debug, ClapArgs)]
pub(super) struct StateArgs {
    /// Config file (TOML) [env: BATON_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Folder of the store [state.dir]
    #[arg(long, value_name = "DIR")]
    pub(super) state_dir: Option<String>,
}
