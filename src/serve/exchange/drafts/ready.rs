//! The draft that was written ahead of a request, and what another one costs.

use crate::serve::exchange::app::App;
use crate::serve::exchange::value::Exchange;
use baton_core::bill::DraftCost;
use baton_core::handoffs::draft::{AcceptedDraft, DraftMethod};
use baton_core::record::ReadyDraft;

/// What a draft costs by the config.
pub(in crate::serve::exchange) fn draft_cost(app: &App) -> DraftCost {
    let config = &app.config.draft;
    let selection = config.bundle_tokens as u64;
    match (config.method, &config.model) {
        (DraftMethod::Local, _) => DraftCost::Nothing,
        (DraftMethod::Bundle, _) | (_, Some(_)) => DraftCost::Selection(selection),
        (DraftMethod::Oneshot, None) => DraftCost::Cheapest(selection),
    }
}

/// The draft that is ready for this request's transcript, where there is one.
pub(in crate::serve::exchange) fn ready(exchange: &Exchange) -> Option<AcceptedDraft> {
    let draft = kept_draft(exchange)?;
    let document = exchange.plan().ready_document(&draft)?;
    Some(accepted(exchange, &document))
}

/// A document that was written ahead, as a draft that needs no approval.
pub(in crate::serve::exchange) fn accepted(exchange: &Exchange, document: &str) -> AcceptedDraft {
    AcceptedDraft {
        document: exchange.app.redactor.text(document).into_owned(),
        method: Some(DraftMethod::Oneshot),
    }
}

/// The draft that was written ahead of the request's own cut.
pub(in crate::serve::exchange) fn kept_draft(exchange: &Exchange) -> Option<Box<ReadyDraft>> {
    let draft = exchange.offered.agent.live.as_ref()?.ready_draft()?;
    (draft.cut == exchange.offered.active_id()).then_some(draft)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::serve::proxy::testing;
    use crate::state::store::sqlite::SqliteStore;
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
            assert_eq!(draft_cost(&app), cost, "{method:?} {model:?}");
        }
    }
}
