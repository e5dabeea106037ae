//! The `baton demo` command: plays a recorded session on loopback, with the real proxy between agent and provider.
//!
//! `script` holds the session and the provider that plays its outputs. `story` is the agent, and measures both
//! sides and their cost. `show` presents them. Nothing leaves the machine and nothing is kept.

mod script;
mod show;
mod story;

#[cfg(test)]
mod tests;

use clap::Args as ClapArgs;

use self::story::DemoRun;
use super::exit::{CliResult, Exit};
use super::output::Out;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Needs no network, no key and no config, and stores nothing.

Examples:
  baton demo
  baton demo --json | jq .totals")]
pub(super) struct DemoArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &DemoArgs, out: &mut Out) -> CliResult {
    let runtime = tokio::runtime::Runtime::new()?;
    let story = runtime.block_on(story::play())?;
    match args.json {
        true => out.json(&story)?,
        false => show::print(&story, out)?,
    }
    judge(&story)
}

/// Fails if the demo did not show every cut, whatever it printed.
fn judge(story: &DemoRun) -> CliResult {
    let (made, wanted) = (story.handoffs.len(), script::SCRIPT.handoffs());
    match made == wanted {
        true => Ok(()),
        false => {
            Err(Exit::SOFTWARE.failure(format!("{made} handoffs were made, and the script has {wanted}")))
        }
    }
}
