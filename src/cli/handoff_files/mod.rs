//! `baton packets` for handoff files in YAML.

mod check;
mod common;
mod create;
mod files;
mod session;
mod sources;
mod transfer;

pub(super) use files::{archive, latest, list, show};

use super::exit::{Exit, Failure};
use super::output::Out;
use super::packet_args::PacketsCommand;

/// Runs a command that is about files alone, or that reads a packet as the file that it makes.
pub(super) fn run(command: &PacketsCommand, out: &mut Out) -> Result<(), Failure> {
    match command {
        PacketsCommand::Create(args) => create::run(args, out),
        PacketsCommand::Recover(args) => check::recover(args, out),
        PacketsCommand::Line(args) => files::line(args, out),
        PacketsCommand::Check(args) => check::run(args, out),
        PacketsCommand::Delete(args) => files::delete(args, out),
        PacketsCommand::Clean(args) => files::clean(args, out),
        PacketsCommand::Ledger(args) => files::ledger(args, out),
        PacketsCommand::Transfer(args) => transfer::run(args, out),
        // Those over either kind look up first which one is meant.
        _ => Err(Failure::new(Exit::SOFTWARE, "not a command over handoff files")),
    }
}
