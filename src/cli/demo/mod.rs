//! `baton demo`: a scripted agent and a scripted provider on loopback, with the real proxy between them.
//!
//! `script` holds the texts. `provider` answers with them, and keeps what it received. `story` is the agent, and measures both
//! sides; `cost` and `show` present them. Nothing leaves the machine and nothing is kept.

mod cost;
mod provider;
mod script;
mod show;
mod story;

#[cfg(test)]
mod tests;

use self::story::DemoRun;
use super::args::DemoArgs;
use super::exit::{CommandFailure, Exit};
use super::output::Out;

pub(super) fn run(args: &DemoArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let runtime = tokio::runtime::Runtime::new()?;
    let story = runtime.block_on(story::play())?;
    match args.json {
        true => out.json(&story)?,
        false => show::print(&story, out)?,
    }
    judge(&story)
}

/// Fails where the demo did not show every cut, whatever it printed.
fn judge(story: &DemoRun) -> Result<(), CommandFailure> {
    let (made, wanted) = (story.handoffs.len(), script::SCRIPT.tasks.len() - 1);
    match made == wanted {
        true => Ok(()),
        false => {
            Err(Exit::SOFTWARE.failure(format!("{made} handoffs were made, and the script has {wanted}")))
        }
    }
}
