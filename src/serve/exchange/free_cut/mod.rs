//! Cuts that cost nothing: where the provider's cache is lost anyway, or the request would cost more from here on.
//!
//! ```text
//! usage of an answer ─► CutLedger ─► a pause begins: a draft is written before the cache goes cold (`ahead`)
//!                           └─────► the next request: is it such a moment? ─► a handoff, of the ready draft where there is one
//! ```

mod ahead;

use super::Exchange;
use super::context::ContextThread;
use super::drafts::open_message;
use crate::serve::exchange::app::App;
use crate::state::jobs::drafts::AcceptedDraft;
use baton_core::bill::{CutLedger, DraftCost, FreeCut};
use baton_core::handoffs::draft::{DraftMethod, completed_since};
use baton_core::mark::note;
use baton_core::record::ReadyDraft;
use baton_core::rewrite::positions;
use uuid::Uuid;

/// A moment at which a cut costs nothing.
pub(super) struct FreeMoment {
    pub(super) cut: FreeCut,
    /// The ready draft for this cut, if any.
    pub(super) ready: Option<AcceptedDraft>,
}

/// Whether a new request of this thread is such a moment.
pub(super) fn moment(exchange: &Exchange, thread: &ContextThread) -> Option<FreeMoment> {
    let Exchange {
        app, ctx, offered, ..
    } = exchange;
    let costs = thread.costs()?;
    let draft = kept_draft(exchange);
    let ledger = thread.ledger(|ledger| {
        if let Some(draft) = draft.as_deref().filter(|_| ledger.history().is_none()) {
            *ledger = CutLedger::resumed(&draft.last);
        }
        ledger.clone()
    })?;
    let decide = |ready| ledger.moment(&costs.next(draft_cost(app, ready)), &costs.rates);
    decide(draft.is_some())?;
    if !offered.agent.is_safe_point(ctx.operation) || !thread.goes_straight_on(offered, draft.as_deref()) {
        return None;
    }
    let ready = draft.and_then(|draft| ready_document(exchange, &draft));
    let cut = decide(ready.is_some())?;
    Some(FreeMoment { cut, ready })
}

/// What a draft costs by the config.
fn draft_cost(app: &App, ready: bool) -> DraftCost {
    let config = &app.config.draft;
    let selection = config.bundle_tokens as u64;
    match (config.method, &config.model) {
        _ if ready => DraftCost::Nothing,
        (DraftMethod::Local, _) => DraftCost::Nothing,
        (DraftMethod::Bundle, _) | (_, Some(_)) => DraftCost::Selection(selection),
        (DraftMethod::Oneshot, None) => DraftCost::Cheapest(selection),
    }
}

/// How the draft of a cut is made; `None`: as the config says.
pub(super) fn method(cut: &FreeCut) -> Option<DraftMethod> {
    matches!(cut.draft, DraftCost::Selection(_)).then_some(DraftMethod::Bundle)
}

/// The draft that is ready for this request's transcript, where there is one.
pub(super) fn ready(exchange: &Exchange) -> Option<AcceptedDraft> {
    let draft = kept_draft(exchange)?;
    ready_document(exchange, &draft)
}

/// The draft that was written ahead of the request's own cut.
fn kept_draft(exchange: &Exchange) -> Option<Box<ReadyDraft>> {
    let draft = exchange.offered.agent.live.as_ref()?.ready_draft()?;
    (draft.cut == exchange.offered.active_id()).then_some(draft)
}

/// The text of a ready draft with the messages since. `None`: the transcript differs, or too much came since.
fn ready_document(exchange: &Exchange, draft: &ReadyDraft) -> Option<AcceptedDraft> {
    let view = exchange.offered.agent.request.view();
    if !positions::is_in(view, &draft.covers) {
        return None;
    }
    let from = view.leading() + draft.covers.turns;
    let document = completed_since(&draft.document, view, from)?;
    Some(AcceptedDraft {
        document: exchange.app.redactor.text(&document).into_owned(),
        method: Some(DraftMethod::Oneshot),
    })
}

/// The question to a person before the cut, where the config wants that; `None`: no person is there to answer.
pub(super) fn offer(exchange: &Exchange, cut: &FreeCut) -> Option<String> {
    let (config, view) = (&exchange.app.config, exchange.offered.agent.request.view());
    if open_message(view, &config.handoff.preamble_tags).is_empty() {
        return None;
    }
    let yes = match config.commands.prefix.as_str() {
        "" => "begin a new session with a handoff".to_owned(),
        prefix => format!("`{prefix}handoff`"),
    };
    let text = format!(
        "{}. A handoff now would save about ${:.2}: {yes}. Any other message goes on with the whole history.",
        cut.reason.text(),
        cut.saved.max(0.01),
    );
    Some(note::answer(&text, Uuid::now_v7()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::serve::proxy::testing;
    use crate::state::store::sqlite::SqliteStore;
    use baton_core::bill::FreeCutReason;
    use baton_core::mark::seal::SealKey;

    fn app(method: DraftMethod, model: Option<&str>) -> App {
        let mut config = testing::config("http://127.0.0.1:1");
        config.draft.method = method;
        config.draft.model = model.map(str::to_owned);
        config.draft.bundle_tokens = 8_000;
        App::new(
            config,
            Arc::new(SqliteStore::in_memory().unwrap()),
            SealKey::new(*b"test"),
        )
        .unwrap()
    }

    #[test]
    fn a_draft_costs_what_its_method_sends() {
        let rows = [
            (DraftMethod::Oneshot, None, DraftCost::Cheapest(8_000)),
            (DraftMethod::Oneshot, Some("small"), DraftCost::Selection(8_000)),
            (DraftMethod::Bundle, None, DraftCost::Selection(8_000)),
            (DraftMethod::Local, None, DraftCost::Nothing),
        ];
        for (method, model, cost) in rows {
            let app = app(method, model);
            assert_eq!(draft_cost(&app, false), cost, "{method:?} {model:?}");
            assert_eq!(
                draft_cost(&app, true),
                DraftCost::Nothing,
                "it is written already"
            );
        }
    }

    #[test]
    fn the_document_of_a_cold_cut_is_made_of_a_selection() {
        let cut = |draft| FreeCut {
            reason: FreeCutReason::ModelChanged,
            tokens: 1,
            draft,
            saved: 1.0,
            least: 1.0,
        };
        assert_eq!(method(&cut(DraftCost::Selection(9))), Some(DraftMethod::Bundle));
        for as_configured in [DraftCost::Nothing, DraftCost::History] {
            assert_eq!(method(&cut(as_configured)), None);
        }
    }
}
