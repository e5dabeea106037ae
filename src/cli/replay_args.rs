//! Raw arguments of `baton replay`.

use std::path::PathBuf;

use baton_core::bill::Arm;
use clap::Args as ClapArgs;

use super::state_args::{self, StateArgs};

/// Options of the second form of the command.
const SIMULATION: &str = "Simulation of a conversation";

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The request is the journal's copy, so credentials in its texts are missing. The key is that of the upstream in the \
config, else of ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY. It costs what the request costs; --dry-run prints it \
as curl.

With --arms a whole conversation is simulated instead, once for each arm, and nothing is sent. An arm is a rule for when \
the context is cut:
  none             never; at its limit the agent compacts
  model            where the model handed over, else at the default notice
  free             where a cut costs nothing (handoff.free = \"on\")
  nudge=pays       where a handoff pays soon (handoff.nudge_at = \"pays\")
  free+nudge=pays  both

Examples:
  baton replay 0199a3c2-7d1e
  baton replay 0199a3c2-7d1e --received          # what the agent sent, without any cut
  baton replay 0199a3c2-7d1e --leg 2 --to local
  baton replay 0199a3c2-7d1e --dry-run
  baton replay d0f31c --arms none,model,free,nudge=pays --plot arms.svg   # a conversation, simulated: nothing is sent
  baton replay d0f31c --arms none,free --provider anthropic                # its next turns in both arms, and what they still know")]
pub(super) struct ReplayArgs {
    /// The exchange's id, as in `x-baton-exchange` and `baton log`, or a unique prefix of it; with --arms, a conversation's key
    /// (column KEY of `baton log`)
    pub(super) exchange: String,
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Which leg (request of the exchange to upstream), numbered from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = state_args::leg)]
    pub(super) leg: u32,
    /// Send the request as received from the agent, not as it was rewritten
    #[arg(long, conflicts_with = "leg")]
    pub(super) received: bool,
    /// Send it to this upstream of the config, which must have the same wire
    #[arg(long, value_name = "NAME")]
    pub(super) to: Option<String>,
    /// Use this model
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// Send nothing: print the request as curl, credentials as variables
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Simulate the conversation, once for each of these arms (listed below)
    #[arg(
        long,
        help_heading = SIMULATION,
        value_name = "ARM,…",
        value_delimiter = ',',
        value_parser = arm,
        conflicts_with_all = ["leg", "received", "to", "model", "dry_run"]
    )]
    pub(super) arms: Vec<Arm>,
    /// `simulated` (the default), or an upstream of the config: the turns after the first cut are sent to it again, which costs money
    #[arg(long, value_name = "NAME", requires = "arms", help_heading = SIMULATION)]
    pub(super) provider: Option<String>,
    /// How many turns are sent again to an upstream in each arm [default: 5]
    #[arg(
        long,
        value_name = "N",
        requires = "provider",
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = SIMULATION
    )]
    pub(super) turns: Option<u32>,
    /// Write the cost of each arm over the calls to this file, as SVG
    #[arg(long, value_name = "FILE", requires = "arms", help_heading = SIMULATION)]
    pub(super) plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

fn arm(name: &str) -> Result<Arm, String> {
    Arm::named(name).ok_or_else(|| {
        let names: Vec<_> = Arm::ALL.iter().map(|arm| arm.name()).collect();
        format!("one of {}", names.join(", "))
    })
}
