//! `baton handoffs`: handoffs of the store and YAML files. `lookup` resolves names, so that every command takes any
//! kind of name.

mod archive;
mod at_exit;
mod check;
mod common;
mod create;
mod documents;
mod draft;
mod files;
mod follow;
mod hooked;
mod list;
mod lookup;
mod of_session;
mod record;
mod resume;
mod session;
mod show;
mod sources;
mod validate;

pub(super) use self::at_exit::at_exit;
pub(super) use self::of_session::carried as carried_of_session;
pub(super) use self::record::named;
pub(super) use self::session::{LineRead, next as next_line};
use super::exit::CommandFailure;
use super::handoff_args::HandoffsCommand;
use super::output::Out;
use super::runtime;

pub(super) fn run(command: &HandoffsCommand, out: &mut Out) -> Result<(), CommandFailure> {
    match command {
        HandoffsCommand::List(args) => list::run(args, out),
        HandoffsCommand::Show(args) => show::run(args, out),
        HandoffsCommand::Draft(args) => runtime()?.block_on(draft::run(args, out)),
        HandoffsCommand::Create(args) => create::run(args, out),
        HandoffsCommand::Check(args) if args.syntax => validate::run(args, out),
        HandoffsCommand::Check(args) => check::run(args, out),
        HandoffsCommand::Archive(args) => archive::run(args, out),
        HandoffsCommand::Delete(args) => archive::delete(args, out),
        HandoffsCommand::Resume(args) => resume::run(args, out),
    }
}
