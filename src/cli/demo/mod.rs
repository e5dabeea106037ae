//! `baton demo`: a scripted agent and a scripted provider on loopback, with the real proxy between them.
//!
//! `script` holds what is said and read, `agent` says it in the `wardrobe`'s way of a wire, `story` plays it all and measures, `show` and
//! `picture` draw what was measured. Nothing leaves the machine and nothing is kept.

mod agent;
mod picture;
mod script;
mod show;
mod story;
mod wardrobe;

#[cfg(test)]
mod tests;

use std::path::Path;

use self::story::Story;
use self::wardrobe::{Dress, WARDROBE};
use super::args::DemoArgs;
use super::exit::{Exit, Failure};
use super::output::Out;
use crate::record::WireId;

pub(super) fn run(args: &DemoArgs, out: &mut Out) -> Result<(), Failure> {
    let script = script::Script {
        tasks: args.tasks.into(),
        turns: args.turns.into(),
    };
    let dress = dress(&args.wire)?;
    let runtime = tokio::runtime::Runtime::new();
    let runtime = runtime.map_err(|error| Failure::new(Exit::SOFTWARE, error.to_string()))?;
    let story = runtime.block_on(story::play(dress, script))?;
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

/// The way the agent speaks the wire of that name.
fn dress(name: &str) -> Result<&'static Dress, Failure> {
    let wanted = WireId::named(name);
    WARDROBE
        .iter()
        .find(|dress| Some(dress.wire) == wanted)
        .ok_or_else(|| {
            let names: Vec<_> = WARDROBE.iter().map(|dress| dress.wire.name()).collect();
            Failure::new(Exit::USAGE, format!("there is no demo of the wire {name:?}"))
                .help(format!("--wire takes: {}", names.join(", ")))
        })
}

fn draw(story: &Story, file: &Path) -> Result<(), Failure> {
    std::fs::write(file, picture::svg(story)).map_err(|error| {
        Failure::new(
            Exit::CANNOT_CREATE,
            format!("cannot write {}: {error}", file.display()),
        )
    })
}

/// A demo that did not show what it is there to show has failed, whatever it printed.
fn judge(story: &Story) -> Result<(), Failure> {
    if let Some(complaint) = story.complaints.first() {
        return Err(Failure::new(
            Exit::SOFTWARE,
            format!("the provider complained: {complaint}"),
        ));
    }
    let (made, wanted) = (story.handoffs.len(), story.tasks - 1);
    if made != wanted {
        let message = format!("{made} handoffs were made where the script has {wanted}");
        return Err(Failure::new(Exit::SOFTWARE, message));
    }
    Ok(())
}
