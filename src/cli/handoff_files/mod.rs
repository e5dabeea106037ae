//! `baton packets` for handoff files in YAML.

mod check;
mod common;
mod create;
mod files;
mod session;
mod sources;
mod transfer;

use super::exit::Failure;
use super::output::Out;
use super::packet_args::PacketsCommand;
use crate::packet::ntm::names;

/// Runs a command that is about files; `None` if it is about packets in the store. Some are about either: a name that ends
/// in `.yaml` is a file's, and sessions have files alone.
pub(super) fn run(command: &PacketsCommand, out: &mut Out) -> Option<Result<(), Failure>> {
    Some(match command {
        PacketsCommand::Create(args) => create::run(args, out),
        PacketsCommand::Recover(args) => check::recover(args, out),
        PacketsCommand::Line(args) => files::line(args, out),
        PacketsCommand::Check(args) => check::run(args, out),
        PacketsCommand::Delete(args) => files::delete(args, out),
        PacketsCommand::Clean(args) => files::clean(args, out),
        PacketsCommand::Ledger(args) => files::ledger(args, out),
        PacketsCommand::Transfer(args) => transfer::run(args, out),
        PacketsCommand::List(args) if args.files || args.sessions || args.session.is_some() => {
            files::list(args, out)
        }
        PacketsCommand::Show(args) if is_file(&args.id) => files::show(args, out),
        PacketsCommand::Latest(args) if args.files || args.session.is_some() => files::latest(args, out),
        PacketsCommand::Validate(args) if args.what.iter().any(|what| is_file(what)) => {
            files::validate(args, out)
        }
        PacketsCommand::Archive(args) if is_file(&args.id) => files::archive(args, out),
        PacketsCommand::List(_)
        | PacketsCommand::Show(_)
        | PacketsCommand::Latest(_)
        | PacketsCommand::Validate(_)
        | PacketsCommand::Archive(_)
        | PacketsCommand::Watch(_) => return None,
    })
}

fn is_file(what: &str) -> bool {
    what.ends_with(names::SUFFIX)
}
