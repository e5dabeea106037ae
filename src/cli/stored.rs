//! Functions shared by the commands that read the store directly.

use std::path::Path;

use super::exit::{CliResult, CommandFailure, Exit};
use super::output::{shown, visible};
use super::state_args::StateArgs;
use baton_core::record::{Handoff, HandoffId};
use baton_state::config::{Config, StoreKind};
use baton_state::store::{self, HandoffFilter, SharedStore};

/// Remedy for a damaged record.
pub(super) const DAMAGED_HELP: &str = "restore a backup, or copy the other records: `baton store copy --to sqlite:DIR` (a prompt in a transcript stays valid by its seal)";

/// Fails if the user names a state directory that does not exist. The default one may not exist yet.
pub(super) fn check_named(state: &StateArgs, dir: &Path) -> CliResult {
    if state.state_dir.is_none() || dir.exists() {
        return Ok(());
    }
    let message = format!("there is no directory {}", shown(dir));
    let help = "name the state directory of your proxy, or leave out --state-dir";
    Err(Exit::NO_INPUT.with_help(message, help))
}

/// Opens the store for reading.
///
/// Fails for a store in memory, because only the running proxy can access its records.
pub(super) fn open(config: &Config) -> CliResult<SharedStore> {
    if config.store.kind == StoreKind::Memory {
        let message = "store.kind is \"memory\": its handoffs exist only inside the running proxy";
        return Err(Exit::UNAVAILABLE.with_help(message, "use \"sqlite\" to read them from outside"));
    }
    Ok(store::open_for_reading(&config.store, &config.state_dir)?)
}

/// Strips the resume line around an id, because users copy the whole line.
pub(super) fn bare_id(given: &str) -> String {
    let bare = given
        .trim()
        .trim_start_matches("[[handoff-resume:")
        .trim_end_matches("]]");
    // Ids are in lower case, but users may retype them.
    bare.to_lowercase()
}

/// Whether a string may be an id or a prefix of one.
pub(super) fn is_id(given: &str) -> bool {
    let bare = bare_id(given);
    !bare.is_empty() && bare.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// Finds the only id that begins with the wanted string. Dashes may be left out of a complete id.
pub(super) fn find_id(ids: impl Iterator<Item = HandoffId>, wanted: &str) -> CliResult<HandoffId> {
    let wanted = bare_id(wanted);
    if !is_id(&wanted) {
        let message = format!("{:?} is not an id", visible(&wanted));
        return Err(Exit::USAGE.with_help(message, "`baton handoffs list` shows the ids"));
    }
    let matching = ids.filter(|id| {
        let id = id.to_string();
        id.starts_with(&wanted) || id.replace('-', "") == wanted
    });
    only(matching, ["handoff", "the id"], &wanted, || {
        let message = format!("there is no handoff {wanted}");
        Exit::NO_INPUT.with_help(message, "`baton handoffs list --all` shows all")
    })
}

/// Returns the only match of a prefix.
///
/// `what` names the kind of item and `key` its identifier, for messages.
pub(super) fn only<T>(
    mut matching: impl Iterator<Item = T>,
    [what, key]: [&str; 2],
    wanted: &str,
    none: impl FnOnce() -> CommandFailure,
) -> CliResult<T> {
    match (matching.next(), matching.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(none()),
        (Some(_), Some(_)) => {
            let message = format!("more than one {what} begins with {}", visible(wanted));
            Err(Exit::USAGE.with_help(message, format!("give more of {key}")))
        }
    }
}

/// Reads the handoff with this id or unique id prefix, with its full prompt.
pub(super) async fn wanted(store: &SharedStore, id: &str) -> CliResult<Handoff> {
    let handoffs = store.handoffs(&HandoffFilter::everything()).await?;
    let found = find(&handoffs, id)?;
    let whole = store.handoff(&found.principal, found.id).await?;
    // Removed since the list was read, so the listed record is all that is left.
    Ok(whole.unwrap_or_else(|| found.clone()))
}

/// Finds the handoff with this id or unique id prefix.
pub(super) fn find<'a>(handoffs: &'a [Handoff], wanted: &str) -> CliResult<&'a Handoff> {
    let id = find_id(handoffs.iter().map(|handoff| handoff.id), wanted)?;
    let found = handoffs.iter().find(|handoff| handoff.id == id);
    found.ok_or_else(|| Exit::NO_INPUT.failure("the handoff no longer exists"))
}
