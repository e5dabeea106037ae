//! `baton demo`: a scripted agent and a scripted provider on loopback, with the real proxy between them.
//!
//! `script` holds the texts, `agent` sends them through the wire's adapter (`adapters`), `story` runs everything and
//! measures, `show` and `picture` draw the result. Nothing leaves the machine and nothing is kept.

mod adapters;
mod agent;
mod cost;
mod picture;
mod script;
mod show;
mod story;

#[cfg(test)]
mod tests;

use std::path::Path;

use self::adapters::{ADAPTERS, Adapter};
use self::story::DemoRun;
use super::args::DemoArgs;
use super::exit::{CommandFailure, Exit};
use super::output::Out;
use baton_core::record::WireId;

pub(super) fn run(args: &DemoArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let script = script::DemoLength {
        tasks: args.tasks.into(),
        turns: args.turns.into(),
    };
    let adapter = adapter_named(&args.wire)?;
    let runtime = tokio::runtime::Runtime::new();
    let runtime = runtime.map_err(|error| Exit::SOFTWARE.failure(error.to_string()))?;
    let story = runtime.block_on(story::play(adapter, script))?;
    if let Some(file) = &args.svg {
        draw(&story, file)?;
    }
    if args.json {
        out.json(&story)?;
    } else {
        show::print(&story, out)?;
    }
    judge(&story)
}

/// The adapter of the wire with this name.
fn adapter_named(name: &str) -> Result<&'static Adapter, CommandFailure> {
    let wanted = WireId::named(name);
    ADAPTERS
        .iter()
        .find(|adapter| Some(adapter.wire) == wanted)
        .ok_or_else(|| Exit::USAGE.failure(format!("there is no demo of the API format {name:?}")))
}

fn draw(story: &DemoRun, file: &Path) -> Result<(), CommandFailure> {
    std::fs::write(file, picture::svg(story))
        .map_err(|error| Exit::CANNOT_CREATE.failure(format!("cannot write {}: {error}", file.display())))
}

/// Fails where the demo did not show a cut, whatever it printed.
fn judge(story: &DemoRun) -> Result<(), CommandFailure> {
    if let Some(complaint) = story.complaints.first() {
        return Err(Exit::SOFTWARE.failure(format!("the provider complained: {complaint}")));
    }
    let (made, wanted) = (story.handoffs.len(), story.tasks - 1);
    if made != wanted {
        let message = format!("{made} handoffs were made where the script has {wanted}");
        return Err(Exit::SOFTWARE.failure(message));
    }
    Ok(())
}
