//! Raw arguments by which a command finds the state.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Where the state is: found by the same config as the proxy's.
#[derive(Debug, ClapArgs)]
pub(super) struct StateArgs {
    /// Config file (TOML)
    #[arg(long, value_name = "FILE", env = "BATON_CONFIG")]
    pub(super) config: Option<PathBuf>,
    /// Folder of the store [state.dir]
    #[arg(long, value_name = "DIR")]
    pub(super) state_dir: Option<String>,
}
