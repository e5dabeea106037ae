//! `baton handoffs transfer`, now an example: for one version its arguments are accepted, and the example is named.

use super::files::named;
use super::lookup::HandoffLookup;
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::handoff_args::TransferArgs;

pub(super) fn run(args: &TransferArgs) -> Result<(), CommandFailure> {
    let names = HandoffLookup::of(&args.folder)?;
    let not_of_store =
        "handoffs of the store name no reservations: give examples/agent-mail a handoff file that does";
    named(&args.file, &names, not_of_store)?;
    let message = "reservations are transferred by examples/agent-mail/agent_mail.py now";
    Err(Exit::CONFIG
        .failure(message)
        .help("set AGENT_MAIL_URL in place of handoff.agent_mail_url, and give it the same arguments"))
}
