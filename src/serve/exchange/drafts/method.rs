//! Chooses the method of a draft, and the next one after a failure. No IO.

use crate::state::config::DraftPolicy;
use baton_core::handoffs::draft::{DraftEnd, DraftMethod, DraftRequest};

/// The first method of a request. A history is bound to the model that it was made with, so another model gets a selection.
pub(super) fn first_method(request: &DraftRequest, config: &DraftPolicy) -> DraftMethod {
    let method = request.method.unwrap_or(config.method);
    let names_model = request.model.as_ref().or(config.model.as_ref()).is_some();
    match method {
        DraftMethod::Oneshot if names_model => DraftMethod::Bundle,
        method => method,
    }
}

/// The next method after an attempt that ended like this. What was too large for one method falls back even where the
/// request names its method.
pub(super) fn after_failure(method: DraftMethod, end: &DraftEnd, falls_back: bool) -> Option<DraftMethod> {
    match end {
        DraftEnd::Complete(_) | DraftEnd::Cancelled | DraftEnd::Review => None,
        DraftEnd::Failed(why) if why.is_size() => method.fallback(),
        DraftEnd::Empty | DraftEnd::Failed(_) => method.fallback().filter(|_| falls_back),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::proxy::testing;
    use baton_core::handoffs::draft::DraftFailure;

    #[test]
    fn another_model_gets_a_selection_in_place_of_the_history() {
        let model = || Some("small".to_owned());
        let (oneshot, bundle, local) = (DraftMethod::Oneshot, DraftMethod::Bundle, DraftMethod::Local);
        let rows = [
            (None, None, None, oneshot, oneshot),
            (None, model(), None, oneshot, bundle),
            (None, None, model(), oneshot, bundle),
            (Some(oneshot), model(), None, local, bundle),
            (Some(local), model(), None, oneshot, local),
            (None, model(), None, local, local),
            (Some(bundle), None, None, oneshot, bundle),
        ];
        for (named, request_model, config_model, by_config, method) in rows {
            let request = DraftRequest {
                method: named,
                model: request_model,
                ..DraftRequest::default()
            };
            let config = DraftPolicy {
                method: by_config,
                model: config_model,
                ..testing::config("http://127.0.0.1:1").draft
            };
            assert_eq!(first_method(&request, &config), method, "{request:?}");
        }
    }

    #[test]
    fn a_failure_falls_back_where_it_may_and_a_size_always() {
        let unreached = || DraftEnd::Failed(DraftFailure::Unreached("refused".to_owned()));
        let (oneshot, bundle, local) = (DraftMethod::Oneshot, DraftMethod::Bundle, DraftMethod::Local);
        let rows = [
            (oneshot, unreached(), true, oneshot.fallback()),
            (oneshot, unreached(), false, None),
            (bundle, DraftEnd::Empty, true, bundle.fallback()),
            (bundle, DraftEnd::Empty, false, None),
            (oneshot, DraftEnd::Cancelled, true, None),
            (oneshot, DraftEnd::Review, true, None),
            (local, unreached(), true, None),
        ];
        for (method, end, falls_back, next) in rows {
            assert_eq!(
                after_failure(method, &end, falls_back),
                next,
                "{end:?} {falls_back}"
            );
        }
        let too_large = DraftEnd::Failed(DraftFailure::Window);
        let DraftEnd::Failed(why) = &too_large else {
            unreachable!()
        };
        assert!(why.is_size());
        assert_eq!(after_failure(oneshot, &too_large, false), oneshot.fallback());
    }
}
