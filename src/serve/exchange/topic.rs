//! The topic of a conversation's handoffs, as a person or its requests name it.

use crate::serve::proxy::{RequestContext, headers};
use crate::state::session::LiveConversation;
use baton_core::record::is_topic;

/// The topic that a request declares.
pub(super) fn declared_topic(ctx: &RequestContext) -> Option<&str> {
    headers::text(&ctx.headers, headers::DECLARED_TOPIC).filter(|name| is_topic(name))
}

/// Records the topic of a request's conversation.
pub(super) fn note_topic(ctx: &RequestContext, live: &LiveConversation) {
    let topic = live.topic(declared_topic(ctx));
    ctx.recorder.note(|e| e.topic = topic);
}
