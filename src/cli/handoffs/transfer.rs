//! `baton handoffs transfer`.

use super::common::mail;
use super::files::named;
use super::lookup::HandoffLookup;
use super::lookup::failure;
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::handoff_args::TransferArgs;
use crate::cli::output::{Out, plural, visible};
use crate::state::files::yaml_files::agent_mail::AgentMail;
use crate::state::files::yaml_files::read_file;
use crate::state::files::yaml_files::transfer::{TransferOutcome, transfer};
use baton_core::handoffs::yaml::ReservationTransfer;

pub(super) fn run(args: &TransferArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let names = HandoffLookup::of(&args.folder)?;
    let path = named(
        &args.file,
        &names,
        "handoffs of the store name no reservations: give a handoff file that does (`baton handoffs create --agent NAME`)",
    )?;
    let config = &names.config;
    let found = read_file(&path).map_err(failure)?;
    let mut requested = found.file.reservation_transfer.unwrap_or_default();
    if requested.from_agent.is_empty() {
        requested.from_agent = found.file.agent_id;
    }
    let Some(mail) = mail(config)? else {
        let message = "no server of Agent Mail is set up";
        return Err(CommandFailure::new(Exit::CONFIG, message).help("set handoff.agent_mail_url"));
    };
    let outcome = transfer_reservations(&mail, &requested, &args.to);
    print_outcome(&outcome, args.json, out)?;
    match outcome.success {
        true => Ok(()),
        false => Err(CommandFailure::silent(Exit::UNAVAILABLE)),
    }
}

/// Moves the reservations, until Ctrl-C.
#[tokio::main(flavor = "current_thread")]
async fn transfer_reservations(
    mail: &AgentMail,
    requested: &ReservationTransfer,
    to: &str,
) -> TransferOutcome {
    let cancelled = async {
        // Without a handler there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    transfer(mail, requested, to, cancelled).await
}

fn print_outcome(outcome: &TransferOutcome, json: bool, out: &mut Out) -> Result<(), CommandFailure> {
    if json {
        return Ok(out.json(outcome)?);
    }
    let (from, to) = (visible(&outcome.from_agent), visible(&outcome.to_agent));
    if outcome.success {
        let paths = plural(outcome.granted_paths.len() as u64, "path");
        out.line(format_args!("{paths} went from {from} to {to}"))?;
        return Ok(());
    }
    out.line(format_args!("not transferred: {}", visible(&outcome.error)))?;
    for conflict in &outcome.conflicts {
        let holders = visible(&conflict.holders.join(", "));
        out.line(format_args!("  {} is held by {holders}", visible(&conflict.path)))?;
    }
    let back = match outcome.rolled_back {
        true => format!("{from} holds its files"),
        false => format!("{from} may have lost its files: look at Agent Mail"),
    };
    out.line(format_args!("{back}"))?;
    Ok(())
}
