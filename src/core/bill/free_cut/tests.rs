//! Cases by hand, and bounds that hold for every session.

use proptest::prelude::*;

use super::super::{CacheMissReason, PriceQuery, PriceTable};
use super::time;
use super::*;

const MINUTE: u64 = 60_000;

/// Opus 5.5, and a model that costs twice as much above 272,000 tokens.
fn rates(model: &str) -> Rates {
    let table: PriceTable = serde_json::from_value(serde_json::json!({
        "source": "test", "date": "2026-11-23",
        "provider": [{"id": "p", "model": [
            {"id": "claude-opus-5-5", "names": ["claude-opus-5-5"], "price": [
                {"input": 4.0, "cache_read": 0.2, "cache_write": 5.0, "cache_write_long": 8.0, "output": 20.0}]},
            {"id": "gpt-6-sol", "names": ["gpt-6-sol"], "price": [
                {"input": 2.0, "cache_read": 0.2, "cache_write": 2.5, "output": 10.0,
                 "above": [{"tokens": 272_000, "input": 4.0, "cache_read": 0.4, "cache_write": 5.0, "output": 15.0}]}]},
        ]}]
    }))
    .unwrap();
    let query = PriceQuery {
        model,
        ..PriceQuery::default()
    };
    table.rates(&query).unwrap()
}

const OPUS: &str = "claude-opus-5-5";
const GPT: &str = "gpt-6-sol";

fn costs(at_ms: u64, model: &str) -> RequestCosts {
    RequestCosts {
        rates: rates(model),
        model: model.to_owned(),
        effort: String::new(),
        at_ms,
        fixed_bytes: 84_000,
        limit: None,
        lifetime_ms: None,
    }
}

/// Adds the response to a request with this many cached and this many new tokens.
fn answer(ledger: &mut CutLedger, costs: &RequestCosts, read: u64, new: u64) {
    answer_missed(ledger, costs, [read, new], None);
}

fn answer_missed(
    ledger: &mut CutLedger,
    costs: &RequestCosts,
    [read, new]: [u64; 2],
    cache_miss: Option<CacheMiss>,
) {
    let counts = TokenCounts {
        cache_read: read,
        cache_write: new,
        output: 500,
        ..TokenCounts::default()
    };
    ledger.answered(costs, counts, cache_miss, 4 * (read + new));
}

/// A session with one call a minute that adds 1,500 tokens each, up to this many.
fn session(model: &str, tokens: u64) -> CutLedger {
    let mut ledger = CutLedger::default();
    let mut costs = costs(0, model);
    answer(&mut ledger, &costs, 0, 21_000);
    for call in 1.. {
        let read = 20_000 + call * 1_500;
        if read + 1_500 > tokens {
            break;
        }
        costs.at_ms = call * MINUTE;
        answer(&mut ledger, &costs, read, 1_000);
    }
    ledger
}

/// The next request, after this pause.
fn next(ledger: &CutLedger, model: &str, pause_ms: u64) -> RequestCosts {
    costs(ledger.last.as_ref().unwrap().at_ms + pause_ms, model)
}

#[test]
fn a_cold_cache_is_a_moment_and_a_warm_one_is_none() {
    let ledger = session(OPUS, 150_000);
    assert_eq!(ledger.step(), 1_500);
    let at = |pause| {
        let next = next(&ledger, OPUS, pause);
        ledger.moment(&next, DraftCost::Nothing)
    };
    assert_eq!(at(5 * MINUTE), None);
    let cut = at(6 * MINUTE).unwrap();
    assert_eq!(
        cut.reason.text(),
        "the cache had gone cold: 6 minutes without a request"
    );
    // Without: the history of 149,000 is written, at $5. With: 22,500 of prompt and prefix, and four calls
    // that read 20,000 again: $0.1125 + 20,000 at $5 + (22,500 + 27,500 + 32,500 + 37,500) at $0.20 + 600 at
    // $20 = $0.2485.
    assert_eq!(cut.tokens, 149_000);
    assert!((cut.least - (0.745 - 0.2485)).abs() < 0.002, "{cut:?}");
    assert!(cut.saved > cut.least);
}

/// The expected calls are half of those between two losses of the cache.
#[test]
fn a_loss_that_the_provider_states_counts_before_any_pause() {
    let expected = |cache_miss| {
        let mut ledger = session(OPUS, 100_000);
        let costs = next(&ledger, OPUS, MINUTE);
        answer_missed(&mut ledger, &costs, [3_000, 97_000], cache_miss);
        ledger.expected_calls()
    };
    let miss = |reason| {
        Some(CacheMiss {
            reason,
            tokens: 90_000,
        })
    };
    let before = expected(None);
    assert_eq!(expected(miss(CacheMissReason::SystemChanged)), before / 2);
    assert_eq!(expected(miss(CacheMissReason::Unavailable)), before);
}

#[test]
fn where_nothing_is_ever_cached_no_pause_is_a_moment() {
    let mut ledger = CutLedger::default();
    for call in 0..3 {
        answer(&mut ledger, &costs(call * MINUTE, OPUS), 0, 150_000);
    }
    let cold = next(&ledger, OPUS, 60 * MINUTE);
    assert_eq!(ledger.moment(&cold, DraftCost::Nothing), None);
}

#[test]
fn a_short_history_is_not_worth_it() {
    let ledger = session(OPUS, 45_000);
    let cold = next(&ledger, OPUS, 60 * MINUTE);
    assert_eq!(ledger.moment(&cold, DraftCost::Nothing), None);
    assert_eq!(CutLedger::default().moment(&cold, DraftCost::Nothing), None);
}

#[test]
fn a_draft_on_a_cold_cache_is_of_a_selection() {
    let ledger = session(OPUS, 150_000);
    let cold = next(&ledger, OPUS, 60 * MINUTE);
    let cut = ledger.moment(&cold, DraftCost::Cheapest(8_000)).unwrap();
    assert_eq!(cut.draft, DraftCost::Selection(8_000));
    let ready = ledger.moment(&cold, DraftCost::Nothing).unwrap();
    // 8,000 at $4, 1,500 at $20.
    assert!((ready.least - cut.least - 0.062).abs() < 1e-9);
}

#[test]
fn another_model_or_effort_has_nothing_cached() {
    let ledger = session(OPUS, 150_000);
    let same = next(&ledger, OPUS, MINUTE);
    let changed = RequestCosts {
        model: "claude-sonnet-5-5".to_owned(),
        ..same.clone()
    };
    let reason = |next| ledger.moment(&next, DraftCost::Nothing).map(|cut| cut.reason);
    assert_eq!(reason(changed), Some(FreeCutReason::ModelChanged));
    let effort = RequestCosts {
        effort: "high".to_owned(),
        ..same
    };
    assert_eq!(reason(effort), Some(FreeCutReason::EffortChanged));
}

#[test]
fn a_price_step_and_the_limit_are_moments_while_the_cache_is_warm() {
    let reason = |ledger: &CutLedger, limit| {
        let next = RequestCosts {
            limit,
            ..next(ledger, GPT, MINUTE)
        };
        let cut = ledger.moment(&next, DraftCost::Cheapest(8_000))?;
        assert_eq!(cut.draft, DraftCost::History);
        Some(cut.reason)
    };
    assert_eq!(reason(&session(GPT, 268_000), None), None);
    let step = FreeCutReason::PriceStep { tokens: 272_000 };
    assert_eq!(reason(&session(GPT, 272_000), None), Some(step));
    let limit = FreeCutReason::Limit { tokens: 200_000 };
    assert_eq!(reason(&session(GPT, 190_000), Some(200_000)), None);
    assert_eq!(reason(&session(GPT, 198_500), Some(200_000)), Some(limit));
}

#[test]
fn a_warm_cut_pays_after_as_many_calls_as_the_tables_say() {
    assert_eq!(session(OPUS, 40_000).pays_within(&rates(OPUS)), None);
    let calls = |tokens| session(OPUS, tokens).pays_within(&rates(OPUS)).unwrap();
    assert!((14..=18).contains(&calls(100_000)), "{}", calls(100_000));
    assert!((7..=11).contains(&calls(150_000)), "{}", calls(150_000));
    assert!(calls(300_000) < calls(200_000));
}

#[test]
fn a_warm_cut_is_worth_it_where_it_pays_before_the_history_is_as_long_again() {
    let rates = rates(OPUS);
    let ledger = session(OPUS, 150_000);
    let calls = ledger.pays_within(&rates).unwrap();
    assert_eq!(ledger.pays(&rates, 100), Some(calls));
    assert_eq!(ledger.pays(&rates, calls - 1), None, "the work ends before");
    let early = session(OPUS, 60_000);
    assert!(early.pays_within(&rates).unwrap() < 100);
    assert_eq!(
        early.pays(&rates, 100),
        None,
        "it would be cut again before it has paid"
    );
}

#[test]
fn nothing_is_free_before_the_first_response_after_a_cut() {
    let mut ledger = session(OPUS, 150_000);
    let cold = next(&ledger, OPUS, 6 * MINUTE);
    ledger.handed_over();
    assert_eq!(ledger.moment(&cold, DraftCost::Nothing), None);
}

#[test]
fn times_are_named_by_their_unit() {
    let rows = [
        (1_000, "1 second"),
        (90_000, "90 seconds"),
        (720_000, "12 minutes"),
        (3 * 3_600_000, "3 hours"),
    ];
    for (ms, text) in rows {
        assert_eq!(time(ms), text);
    }
}

proptest! {
    /// With one more call, no cut loses more than the bets allow, and each cut is expected to win.
    #[test]
    fn no_cut_loses_more_than_its_bets(
        calls in prop::collection::vec((0_u64..40, 100_u64..20_000), 1..60),
        pause in 0_u64..400,
        selection in 0_u64..20_000,
    ) {
        let mut ledger = CutLedger::default();
        let (mut costs, mut tokens) = (costs(0, OPUS), 21_000);
        for (minutes, new) in calls {
            costs.at_ms += minutes * MINUTE;
            let cached = if minutes > 5 { 0 } else { tokens };
            answer(&mut ledger, &costs, cached, tokens - cached + new);
            tokens += new + 500;
        }
        for how in [DraftCost::Nothing, DraftCost::Cheapest(selection), DraftCost::History] {
            let next = next(&ledger, OPUS, pause * MINUTE);
            if let Some(cut) = ledger.moment(&next, how) {
                prop_assert!(cut.saved > 0.0 && cut.least >= -0.01 * ledger.spent);
                let before = ledger.allowance();
                let mut after = ledger.clone();
                after.cut(&cut);
                prop_assert!(after.allowance() >= before - 0.01 * ledger.spent - 1e-9);
            }
        }
    }
}
