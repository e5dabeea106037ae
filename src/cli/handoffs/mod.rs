//! The `baton handoffs` command: handoffs of the store, and handoff files in YAML.
//!
//! `lookup` resolves names, so that every command takes any kind of name.

mod archive;
mod args;
mod at_exit;
mod check;
mod create;
mod draft;
mod files;
mod list;
mod lookup;
mod resume;
mod show;
mod sources;

pub(super) use self::args::HandoffsArgs;
use self::args::HandoffsCommand;
pub(super) use self::at_exit::{at_exit, carried_of_session};
pub(super) use self::show::named;
pub(super) use self::sources::objects;
use super::block_on;
use super::exit::CliResult;
use super::output::Out;

pub(super) fn run(args: &HandoffsArgs, out: &mut Out) -> CliResult {
    match &args.command {
        HandoffsCommand::List(args) => list::run(args, out),
        HandoffsCommand::Show(args) => show::run(args, out),
        HandoffsCommand::Draft(args) => block_on(draft::run(args, out)),
        HandoffsCommand::Create(args) => create::run(args, out),
        HandoffsCommand::Check(args) if args.syntax => check::syntax(args, out),
        HandoffsCommand::Check(args) => check::run(args, out),
        HandoffsCommand::Archive(args) => archive::run(args, out),
        HandoffsCommand::Delete(args) => archive::delete(args, out),
        HandoffsCommand::Resume(args) => resume::run(args, out),
    }
}
