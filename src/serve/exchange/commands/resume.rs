//! Continues after another handoff.

use crate::serve::exchange::{resumed, value::Exchange};
use crate::state::store::StoreError;
use baton_core::commands::{CommandReply, ReplySentinel};
use baton_core::mark::pasted;

/// Continues after another handoff.
pub(super) async fn resume(exchange: &Exchange, id: &str) -> Result<CommandReply, StoreError> {
    let Exchange { app, ctx, .. } = exchange;
    let found = match pasted::id_range(id) {
        Some(ids) => app.sessions.between(&ctx.principal, ids).await?,
        None => Vec::new(),
    };
    let handoff = match found[..] {
        [only] => app.sessions.handoff(&ctx.principal, only).await?,
        [] => None,
        _ => {
            return Ok(CommandReply::new(
                "more than one handoff has an id that begins like this: give more of it.",
            ));
        }
    };
    Ok(match handoff {
        Some(handoff) => CommandReply {
            sentinel: Some(ReplySentinel {
                handoff: handoff.id,
                text: exchange.sentinel(&handoff),
            }),
            ..CommandReply::new(format!(
                "from here on the model knows the handoff {}{}.{}",
                handoff.id,
                handoff.about(),
                resumed::resume(exchange, handoff.id).await
            ))
        },
        None => CommandReply::new(
            "this handoff is not known here. `baton handoffs list` shows the handoffs of this store; give the id, or at \
             least its first 13 characters.",
        ),
    })
}
