//! Functions that the commands that read the store directly share.

use super::exit::{CommandFailure, Exit};
use super::output::visible;
use crate::state::config::{Config, StoreKind};
use crate::state::store::{self, HandoffFilter, SharedStore};
use baton_core::record::{Handoff, HandoffId};

/// The line that a session which continues a handoff begins with.
pub(super) fn resume_line(handoff: &Handoff) -> String {
    format!("[[handoff-resume:{}]]", handoff.id)
}

/// The store, for reading. Records in a running proxy's memory are not accessible.
pub(super) fn open(config: &Config) -> Result<SharedStore, CommandFailure> {
    if config.store.kind == StoreKind::Memory {
        let message = "store.kind is \"memory\": its handoffs exist only inside the running proxy";
        return Err(Exit::UNAVAILABLE
            .failure(message)
            .help("use \"sqlite\" to read them from outside"));
    }
    Ok(store::open_for_reading(&config.store, &config.state_dir)?)
}

/// An id without the resume line around it, as people copy it.
fn bare_id(given: &str) -> String {
    let bare = given
        .trim()
        .trim_start_matches("[[handoff-resume:")
        .trim_end_matches("]]");
    bare.to_lowercase()
}

/// Whether a text may be an id or a prefix of one.
pub(super) fn is_id(given: &str) -> bool {
    let bare = bare_id(given);
    !bare.is_empty() && bare.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// The one of these ids that equals or begins with the wanted text.
pub(super) fn find_id(
    ids: impl Iterator<Item = HandoffId>,
    wanted: &str,
) -> Result<HandoffId, CommandFailure> {
    let wanted = bare_id(wanted);
    if !is_id(&wanted) {
        let message = format!("{:?} is not an id", visible(&wanted));
        return Err(Exit::USAGE
            .failure(message)
            .help("`baton handoffs list` shows the ids"));
    }
    let mut matching = ids.filter(|id| {
        let id = id.to_string();
        id.starts_with(&wanted) || id.replace('-', "") == wanted
    });
    match (matching.next(), matching.next()) {
        (Some(id), None) => Ok(id),
        (None, _) => Err(Exit::NO_INPUT
            .failure(format!("there is no handoff {wanted}"))
            .help("`baton handoffs list --all` shows all")),
        (Some(_), Some(_)) => Err(Exit::USAGE
            .failure(format!("more than one handoff begins with {wanted}"))
            .help("give more of the id")),
    }
}

/// The handoff with this id or unique id prefix, with its full prompt.
pub(super) async fn wanted(store: &SharedStore, id: &str) -> Result<Handoff, CommandFailure> {
    let handoffs = store.handoffs(&HandoffFilter::everything()).await;
    let handoffs = handoffs?;
    let found = find(&handoffs, id)?;
    let whole = store.handoff(&found.principal, found.id).await;
    Ok(whole?.unwrap_or_else(|| found.clone()))
}

/// The handoff with this id or unique id prefix.
pub(super) fn find<'a>(handoffs: &'a [Handoff], wanted: &str) -> Result<&'a Handoff, CommandFailure> {
    let id = find_id(handoffs.iter().map(|handoff| handoff.id), wanted)?;
    let mut matching = handoffs.iter().filter(|handoff| handoff.id == id);
    matching
        .next()
        .ok_or_else(|| Exit::NO_INPUT.failure("it is no longer there"))
}
