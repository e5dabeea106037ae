//! Reads in one round trip what a request most likely needs from a shared store.
//!
//! Reads that memory can answer are left out. The others are sent together, before it is known that all are needed.
//! They are the conversation's record, the newest sentinel's handoff, the pairs of later calls, and the origin of the
//! continued response. A wrong guess costs a second round trip.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::{join, join3};

use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::state::session::{CallsAfterCut as Calls, LiveConversation, NewCalls};
use crate::state::store::StoreError;
use baton_core::record::{HandoffId, HiddenPair};
use baton_core::rewrite::{Candidate, RequestReading};
use baton_core::text::Span;
use baton_core::wire::Wire;

/// What was read; empty where nothing was.
#[derive(Default)]
pub(super) struct Ahead {
    /// The calls that were asked for, and the stored pairs next to them.
    beside: Option<(Vec<String>, Vec<HiddenPair>)>,
    /// The stored origin of the response that the request continues.
    pub(super) previous: Option<Option<String>>,
}

/// A conversation, and what its request will need of a shared store.
pub(super) struct OpenedConversation {
    pub(super) live: Result<Arc<LiveConversation>, StoreError>,
    pub(super) ahead: Ahead,
}

impl Ahead {
    /// The stored pairs next to these calls, if all of them were asked for.
    pub(super) fn beside(self, calls: &[String]) -> Option<Vec<HiddenPair>> {
        let (asked, mut found) = self.beside?;
        let wanted: HashSet<&str> = calls.iter().map(String::as_str).collect();
        found.retain(|pair| pair.place.key().is_some_and(|key| wanted.contains(key)));
        let count = asked.iter().filter(|call| wanted.contains(call.as_str())).count();
        (count == wanted.len()).then_some(found)
    }
}

/// Opens the conversation, and reads what its request will ask for. `newest`: the last sentinel of the transcript.
pub(super) async fn read(
    app: &App,
    ctx: &RequestContext,
    wire: &'static dyn Wire,
    reading: &RequestReading,
    key: &str,
    newest: Option<&Candidate>,
) -> OpenedConversation {
    let (sessions, store) = (&app.sessions, app.sessions.store());
    let now = app.clock.now_ms();
    let known = sessions.peek(key, &ctx.principal);
    // A truncated id may mean another handoff.
    let whole = newest.filter(|candidate| candidate.id_range.is_none());
    let cut = whole.map(|candidate| candidate.sentinel.id);
    let from = whole.map_or(0, |candidate| candidate.turn);
    let unknown = unknown_calls(wire, reading, &known, cut, from, now);
    let opened = sessions.open(key, &ctx.principal, now);
    let beside = pairs_beside(app, ctx, unknown.calls());
    let cut_by = async {
        if let Some(id) = cut {
            // Kept in memory, where it is looked for next.
            let _ = sessions.handoff(&ctx.principal, id).await;
        }
    };
    let previous = async {
        let previous = reading.view.facts.previous.as_ref()?;
        store.response_id(&ctx.principal, &previous.id).await.ok()
    };
    // In this order on one connection: what is next to the calls is not older than the record.
    let (live, (found, (), previous)) = join(opened, join3(beside, cut_by, previous)).await;
    if let Ok(live) = &live {
        // Another process may have changed the record. What cannot be read is asked for again.
        let (cut_points, insertions) = (sessions.left_out(live, now), sessions.insertions_of(live, now));
        let (_, _, _) = join3(sessions.pairs_of(live), cut_points, insertions).await;
    }
    let beside = found.ok().map(|found| (unknown.calls().to_vec(), found));
    OpenedConversation {
        live,
        ahead: Ahead { beside, previous },
    }
}

/// The stored pairs next to these calls.
pub(super) async fn pairs_beside(
    app: &App,
    ctx: &RequestContext,
    calls: &[String],
) -> Result<Vec<HiddenPair>, StoreError> {
    match calls.is_empty() {
        true => Ok(Vec::new()),
        false => app.sessions.store().pairs_beside(&ctx.principal, calls).await,
    }
}

/// The calls after turn `from` of which it is unknown what is next to them.
pub(super) fn unknown_calls(
    wire: &dyn Wire,
    reading: &RequestReading,
    live: &LiveConversation,
    cut: Option<HandoffId>,
    from: usize,
    now_ms: u64,
) -> NewCalls {
    let view = &reading.view;
    let begin = view.turns.get(from).map_or(view.list.end, |t| t.span.start);
    let transcript = Calls {
        newest_first: reading.call_names_back(wire, from),
        up_to: &|turn| view.text(Span::new(begin, view.turns[turn].span.end)),
    };
    live.unknown_calls(cut, transcript, now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::store::tests::pair;

    #[test]
    fn a_pair_is_found_by_the_part_of_its_fingerprint_that_stays() {
        let key = "~517c731ae14265a9.32f6252f3ec207eb".to_owned();
        let beside = pair("local", "c", Some(&format!("{key};-.toolu_1")));
        let ahead = || Ahead {
            beside: Some((vec![key.clone()], vec![beside.clone()])),
            previous: None,
        };
        assert_eq!(
            ahead().beside(std::slice::from_ref(&key)).unwrap(),
            std::slice::from_ref(&beside)
        );
        assert_eq!(ahead().beside(&["another".to_owned()]), None);
        assert_eq!(ahead().beside(&[]).unwrap(), []);
    }
}
