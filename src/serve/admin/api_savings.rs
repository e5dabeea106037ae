//! The bill in the inspector's JSON API: the same as `baton savings --json`.

use std::sync::Arc;

use super::Inspector;
use super::query::{ApiResult, QueryParams, Unanswered, read, shown};
use crate::state::clock::now_ms;
use crate::state::journal::{BillFilter, BillGroup, Promise, SavingsReport, age_ms};

/// `/api/savings?by=&since=&conversation=`.
pub(super) async fn report(inspector: &Inspector, params: &QueryParams) -> ApiResult {
    let by = params.text("by").unwrap_or_else(|| "day".to_owned());
    let group = BillGroup::named(&by).ok_or_else(|| {
        Unanswered::Bad(format!(
            "by: {by:?} is not one of day, model, conversation, handoff, client"
        ))
    })?;
    let age = |text: String| {
        let why = format!("since: {text:?} is not a duration such as 30m, 12h or 7d");
        age_ms(&text).ok_or(Unanswered::Bad(why))
    };
    let since = params.text("since").map(age).transpose()?;
    let filter = BillFilter {
        conversation: params.text("conversation"),
        since_ms: since.map_or(0, |age| now_ms().saturating_sub(age)),
    };
    let prices = Arc::clone(&inspector.prices);
    let report = read(inspector, move |q| {
        Ok(SavingsReport::of(&q.bill(&filter, &prices)?, group, &prices))
    });
    let report = report.await?;
    let report = report.unwrap_or_else(|| SavingsReport::of(&[], group, &inspector.prices));
    let promised = Promise::kept(&inspector.dir);
    shown(&SavingsReport { promised, ..report })
}

/// `/api/conversations/KEY/carried`: what it cost to send results again.
pub(super) async fn carried(inspector: &Inspector, key: &str) -> ApiResult {
    let (wanted, prices) = (key.to_owned(), Arc::clone(&inspector.prices));
    let found = read(inspector, move |q| {
        match q.conversations(Some(&wanted), 1)?.is_empty() {
            true => Ok(None),
            false => q.carried(&wanted, &prices).map(Some),
        }
    });
    let found = found.await?.flatten();
    shown(&found.ok_or(Unanswered::NotFound(
        "there is no such conversation in the journal",
    ))?)
}
