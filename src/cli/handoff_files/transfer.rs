//! `baton packets transfer`.

use super::common::{failure, folder, mail};
use crate::cli::exit::{Exit, Failure};
use crate::cli::handoff_file_args::TransferArgs;
use crate::cli::output::{Out, plural, visible};
use crate::handoff_files::read_file;
use crate::handoff_files::transfer::{Outcome, transfer};

#[tokio::main(flavor = "current_thread")]
pub(super) async fn run(args: &TransferArgs, out: &mut Out) -> Result<(), Failure> {
    let (folder, config) = folder(&args.folder)?;
    let found = read_file(&folder.named(&args.file)).map_err(failure)?;
    let mut asked = found.file.reservation_transfer.unwrap_or_default();
    if asked.from_agent.is_empty() {
        asked.from_agent = found.file.agent_id;
    }
    let Some(mail) = mail(&config)? else {
        let message = "no server of Agent Mail is set up";
        return Err(Failure::new(Exit::CONFIG, message).help("set packets.agent_mail_url"));
    };
    let cancelled = async {
        // Without a handler there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let outcome = transfer(&mail, &asked, &args.to, cancelled).await;
    told(&outcome, args.json, out)?;
    match outcome.success {
        true => Ok(()),
        false => Err(Failure::silent(Exit::UNAVAILABLE)),
    }
}

fn told(outcome: &Outcome, json: bool, out: &mut Out) -> Result<(), Failure> {
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
