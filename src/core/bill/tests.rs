use super::*;

/// Two models in the form of the price file, here as JSON.
fn table() -> PriceTable {
    let table: PriceTable = serde_json::from_value(serde_json::json!({
        "source": "test", "date": "2026-11-23",
        "provider": [
            {"id": "anthropic", "hosts": ["api.anthropic.com"], "model": [
                {"id": "claude-opus-5-5", "names": ["claude-opus-5-5", "claude-opus-5-5-########", "claude-opus-5.5*"],
                 "price": [
                    {"input": 4.0, "cache_read": 0.2, "cache_write": 5.0, "cache_write_long": 8.0, "output": 20.0},
                    {"speed": "fast", "input": 8.0, "cache_read": 0.4, "cache_write": 10.0, "cache_write_long": 16.0,
                     "output": 40.0}]},
                {"id": "claude-haiku", "names": ["claude-haiku*"], "price": [
                    {"input": 1.0, "output": 5.0},
                    {"since": "2026-10-14", "input": 2.0, "output": 6.0},
                    {"hours": "22:30-01:00", "input": 3.0, "output": 7.0}]}]},
            {"id": "openai", "hosts": ["api.openai.com"], "model": [
                {"id": "gpt-6-sol", "names": ["gpt-6-sol"], "price": [
                    {"input": 2.0, "cache_read": 0.2, "cache_write": 2.5, "output": 10.0, "above": [
                        {"tokens": 272_000, "input": 4.0, "cache_read": 0.4, "cache_write": 5.0, "output": 15.0}]}]}]},
            {"id": "reseller", "hosts": ["api.reseller.example"], "model": [
                {"id": "resold", "names": ["*opus-5-5*"], "price": [{"input": 9.0, "output": 9.0}]}]}
        ]
    }))
    .unwrap();
    table.check().unwrap();
    table
}

fn rates(model: &str) -> Rates {
    table()
        .rates(&PriceQuery {
            model,
            ..PriceQuery::default()
        })
        .unwrap()
}

#[track_caller]
fn assert_dollars(cost: f64, expected: f64) {
    assert!((cost - expected).abs() < 1e-9, "{cost} and not {expected}");
}

const DAY: u64 = 86_400_000;
/// 2026-10-14, 00:00 UTC.
const OCTOBER_14: u64 = 20_740 * DAY;

#[test]
fn a_model_is_found_by_its_most_exact_name() {
    let table = table();
    let id = |name, host| table.model(name, host).map(|model| model.id.as_str());
    for name in [
        "claude-opus-5-5",
        "claude-opus-5-5-20261014",
        "anthropic/Claude-Opus-5.5",
        "claude-opus-5.5-latest",
    ] {
        assert_eq!(id(name, ""), Some("claude-opus-5-5"), "{name}");
    }
    assert_eq!(id("claude-opus-5-5", "api.reseller.example"), Some("resold"));
    assert_eq!(
        id("claude-opus-5-5", "eu.api.anthropic.com"),
        Some("claude-opus-5-5")
    );
    // Not a host of the provider, although it ends like one: every provider is examined.
    assert_eq!(id("gpt-6-sol", "notapi.anthropic.com"), Some("gpt-6-sol"));
    assert_eq!(id("gpt-6-sol", "api.anthropic.com"), None);
    assert_eq!(id("claude-opus-5-5-2026101", "api.anthropic.com"), None);
    assert_eq!(id("my-model", ""), None);
}

#[test]
fn a_rate_holds_since_its_day_in_its_hours_and_for_its_service() {
    let table = table();
    let input = |model, at_ms, service| {
        let rates = table
            .rates(&PriceQuery {
                model,
                host: "",
                at_ms,
                service,
            })
            .unwrap();
        rates.at(1).input
    };
    let noon = 12 * 3_600_000;
    assert_dollars(input("claude-haiku", OCTOBER_14 - DAY + noon, None), 1.0);
    assert_dollars(input("claude-haiku", OCTOBER_14 + noon, None), 2.0);
    assert_dollars(input("claude-haiku", OCTOBER_14 + DAY - 1, None), 3.0);
    assert_dollars(input("claude-haiku", OCTOBER_14 + 3_600_000 - 1, None), 3.0);
    assert_dollars(input("claude-haiku", OCTOBER_14 + 3_600_000, None), 2.0);
    assert_dollars(input("claude-opus-5-5", 0, Some("standard")), 4.0);
    assert_dollars(input("claude-opus-5-5", 0, Some("fast")), 8.0);
}

#[test]
fn a_price_step_prices_the_whole_request() {
    let sol = rates("gpt-6-sol");
    let counts = |input| TokenCounts {
        input,
        output: 1_000,
        ..TokenCounts::default()
    };
    // 272,000 × $2 + 1,000 × $10, and 272,001 × $4 + 1,000 × $15, a million each.
    assert_dollars(counts(272_000).cost(&sol).total(), 0.554);
    assert_dollars(counts(272_001).cost(&sol).total(), 1.103_004);
    // The step counts all of the input, cached or not.
    let cached = TokenCounts {
        cache_read: 300_000,
        ..TokenCounts::default()
    };
    assert_dollars(cached.cost(&sol).total(), 0.12);
}

#[test]
fn each_token_is_billed_once_and_an_hours_write_at_its_own_price() {
    let opus = rates("claude-opus-5-5");
    let counts = TokenCounts {
        input: 1_000,
        cache_read: 100_000,
        cache_write: 2_000,
        cache_write_long: 3_000,
        output: 500,
    };
    // 1,000 × $4 + 100,000 × $0.20 + 2,000 × $5 + 3,000 × $8 + 500 × $20, a million each.
    let cost = counts.cost(&opus);
    assert_dollars(cost.input, 0.004);
    assert_dollars(cost.cache_read, 0.020);
    assert_dollars(cost.cache_write, 0.034);
    assert_dollars(cost.output, 0.010);
    assert_dollars(cost.total(), 0.068);
    assert_eq!(counts.whole_input(), 106_000);
    // As writes of five minutes, the same tokens would seem a sixth cheaper.
    let wrong = TokenCounts {
        cache_write: 5_000,
        cache_write_long: 0,
        ..counts
    };
    assert_dollars(wrong.cost(&opus).cache_write, 0.025);
}

/// A session on Claude Opus 5.5 with four bytes per token.
struct Session {
    bill: ConversationBill,
    at_ms: u64,
    received: u64,
}

fn opus(bytes: u64, cache_read: u64, cache_write: u64, output: u64) -> BilledRequest {
    BilledRequest {
        bytes,
        usage: Some(TokenCounts {
            cache_read,
            cache_write,
            output,
            ..TokenCounts::default()
        }),
        model: "claude-opus-5-5".to_owned(),
        rates: Some(rates("claude-opus-5-5")),
        cache_miss: None,
        own: false,
    }
}

impl Session {
    /// A session after one request of 100,000 tokens (400,000 bytes), all of it stored in the cache.
    fn of_100_000() -> Self {
        let mut bill = ConversationBill::default();
        let first = bill.add(&BilledExchange {
            at_ms: 0,
            received_bytes: 400_000,
            requests: vec![opus(400_000, 0, 100_000, 1_000)],
            ..BilledExchange::default()
        });
        assert_dollars(first.saved().unwrap(), 0.0);
        Self {
            bill,
            at_ms: 0,
            received: 400_000,
        }
    }

    /// The next exchange, cut at the handoff `1`: this much later, and with this many more bytes.
    fn cut(&mut self, later_ms: u64, more: u64, requests: Vec<BilledRequest>) -> ExchangeBill {
        self.at_ms += later_ms;
        self.received += more;
        self.bill.add(&BilledExchange {
            at_ms: self.at_ms,
            received_bytes: self.received,
            fixed_bytes: 80_000,
            handoff: Some("1".to_owned()),
            requests,
            ..BilledExchange::default()
        })
    }
}

#[test]
fn with_a_warm_cache_a_handoff_costs_at_first_and_pays_later() {
    let mut session = Session::of_100_000();
    // 2,000 tokens were added. The fresh context reads 20,000 of instructions and tools from the cache, and
    // writes 5,000.
    let fired = session.cut(60_000, 8_000, vec![opus(100_000, 20_000, 5_000, 1_000)]);
    // With: 20,000 × 0.2 + 5,000 × 5 + 1,000 × 20 = $0.049.
    // Without: 100,000 × 0.2 + 2,000 × 5 + 1,000 × 20 = $0.050.
    assert_dollars(fired.cost.unwrap().total(), 0.049);
    let without = fired.without.as_ref().unwrap();
    assert_eq!(
        without.tokens,
        TokenCounts {
            cache_read: 100_000,
            cache_write: 2_000,
            output: 1_000,
            ..TokenCounts::default()
        }
    );
    assert_dollars(fired.saved().unwrap(), 0.001);
    // From then on, 27,000 tokens are carried instead of 104,000.
    let next = session.cut(60_000, 8_000, vec![opus(108_000, 25_000, 2_000, 1_000)]);
    // With: 25,000 × 0.2 + 2,000 × 5 + 1,000 × 20 = $0.035; without: 102,000 × 0.2 + 2,000 × 5 + 1,000 × 20 =
    // $0.0504.
    assert_dollars(next.saved().unwrap(), 0.0154);
    let without = next.without.as_ref().unwrap().tokens.whole_input();
    assert_eq!(without - next.tokens.whole_input(), 77_000);
}

#[test]
fn with_a_cold_cache_a_handoff_pays_at_once() {
    let mut session = Session::of_100_000();
    let fired = session.cut(600_000, 8_000, vec![opus(100_000, 0, 25_000, 1_000)]);
    // With: 25,000 × 5 + 1,000 × 20 = $0.145; without: 102,000 × 5 + 1,000 × 20 = $0.53.
    assert_dollars(fired.saved().unwrap(), 0.385);
    // A second request within five minutes finds the whole history warm on both sides.
    let next = session.cut(299_000, 0, vec![opus(100_000, 25_000, 0, 0)]);
    assert_dollars(next.saved().unwrap(), (102_000.0 - 25_000.0) * 0.2 / 1e6);
}

#[test]
fn where_the_real_request_missed_the_cache_the_modelled_one_does_too() {
    let mut session = Session::of_100_000();
    session.cut(60_000, 8_000, vec![opus(100_000, 20_000, 5_000, 0)]);
    let missed = session.cut(60_000, 0, vec![opus(100_000, 0, 25_000, 0)]);
    assert_dollars(missed.saved().unwrap(), (102_000.0 - 25_000.0) * 5.0 / 1e6);
}

/// A part of the prefix was read: without the provider's diagnosis the rest would seem to have been warm.
#[test]
fn where_the_provider_says_that_its_cache_missed_the_modelled_request_misses_it_too() {
    let next = |cache_miss| {
        let mut session = Session::of_100_000();
        session.cut(60_000, 8_000, vec![opus(100_000, 20_000, 5_000, 0)]);
        let request = BilledRequest {
            cache_miss,
            ..opus(100_000, 3_000, 22_000, 0)
        };
        session.cut(60_000, 0, vec![request]).without.unwrap().tokens
    };
    let all = |cache_read, cache_write| TokenCounts {
        cache_read,
        cache_write,
        ..TokenCounts::default()
    };
    let miss = |reason, tokens| Some(CacheMiss { reason, tokens });
    assert_eq!(next(None), all(102_000, 0));
    assert_eq!(next(miss(CacheMissReason::ToolsChanged, 22_000)), all(0, 102_000));
    assert_eq!(
        next(miss(CacheMissReason::MessagesChanged, 22_000)),
        all(102_000, 0),
        "what was cut is in front of the change"
    );
}

#[test]
fn what_no_window_takes_is_compacted_and_not_saved() {
    let mut session = Session::of_100_000();
    session.cut(60_000, 8_000, vec![opus(100_000, 20_000, 5_000, 0)]);
    let received_bytes = session.received + 40_000;
    let exchange = BilledExchange {
        at_ms: session.at_ms + 60_000,
        received_bytes,
        fixed_bytes: 80_000,
        handoff: Some("1".to_owned()),
        limit: Some(110_000),
        requests: vec![opus(140_000, 25_000, 10_000, 0)],
        ..BilledExchange::default()
    };
    let bill = session.bill.add(&exchange);
    let without = bill.without.unwrap();
    assert!(without.compacted);
    // The summary: 102,000 read from the cache, 4,000 written. Then 20,000 of the fixed part from the cache,
    // and the summary's 4,000 and the new 10,000 as new input that is stored.
    assert_eq!(
        without.tokens,
        TokenCounts {
            cache_read: 102_000 + 20_000,
            cache_write: 14_000,
            output: 4_000,
            ..TokenCounts::default()
        }
    );
    // The history is 34,000 tokens from here on, and never 112,000 again.
    let after = session.bill.add(&BilledExchange {
        at_ms: exchange.at_ms + 60_000,
        ..exchange
    });
    assert_eq!(after.without.unwrap().tokens.whole_input(), 34_000);
}

#[test]
fn requests_of_ours_cost_and_save_nothing() {
    let mut session = Session::of_100_000();
    let draft = BilledRequest {
        own: true,
        ..opus(400_000, 100_000, 1_000, 2_000)
    };
    let bill = session.cut(60_000, 8_000, vec![draft, opus(100_000, 20_000, 5_000, 1_000)]);
    // 100,000 × 0.2 + 1,000 × 5 + 2,000 × 20 = $0.065 more than without the draft.
    assert_dollars(bill.cost.unwrap().total(), 0.049 + 0.065);
    assert!(bill.saved().unwrap() < -0.06);
}

#[test]
fn many_legs_of_one_request_are_compared_with_one_request() {
    let mut session = Session::of_100_000();
    let legs = vec![opus(100_000, 20_000, 5_000, 1_000); 10];
    let bill = session.cut(60_000, 8_000, legs);
    assert_eq!(bill.without.as_ref().unwrap().tokens.whole_input(), 102_000);
    assert_eq!(bill.tokens.whole_input(), 250_000);
    assert!(bill.saved().unwrap() < 0.0);
}

#[test]
fn before_a_handoff_the_tool_costs_what_it_takes() {
    let mut bill = ConversationBill::default();
    let exchange = BilledExchange {
        received_bytes: 396_000,
        requests: vec![opus(400_000, 90_000, 10_000, 0)],
        ..BilledExchange::default()
    };
    let first = bill.add(&exchange);
    assert_eq!(first.without.as_ref().unwrap().tokens.cache_read, 89_000);
    assert_dollars(first.saved().unwrap(), -1_000.0 * 0.2 / 1e6);
}

#[test]
fn what_an_agent_sends_beside_its_work_is_billed_as_it_was_sent() {
    let mut session = Session::of_100_000();
    session.cut(60_000, 8_000, vec![opus(100_000, 20_000, 5_000, 0)]);
    let title = BilledRequest {
        model: "claude-haiku-4-5".to_owned(),
        ..opus(4_000, 0, 1_000, 20)
    };
    let aside = session.bill.add(&BilledExchange {
        at_ms: session.at_ms + 1_000,
        received_bytes: 4_000,
        requests: vec![title],
        ..BilledExchange::default()
    });
    assert_dollars(aside.saved().unwrap(), 0.0);
    // The history after the handoff is unchanged.
    let next = session.cut(60_000, 8_000, vec![opus(108_000, 25_000, 2_000, 0)]);
    assert_eq!(next.without.unwrap().tokens.cache_read, 102_000);
}

#[test]
fn an_undone_handoff_pays_for_the_cache_that_it_cost() {
    let mut session = Session::of_100_000();
    session.cut(60_000, 8_000, vec![opus(100_000, 20_000, 5_000, 0)]);
    // The whole history is sent again, and no cache has it any more.
    let undone = session.bill.add(&BilledExchange {
        at_ms: session.at_ms + 60_000,
        received_bytes: session.received,
        requests: vec![opus(session.received, 20_000, 82_000, 0)],
        ..BilledExchange::default()
    });
    assert!(undone.saved().unwrap() < -0.38, "{undone:?}");
}

#[test]
fn unknown_prices_leave_the_tokens() {
    let mut bill = ConversationBill::default();
    let request = BilledRequest {
        rates: None,
        ..opus(400, 0, 100, 10)
    };
    let known = opus(400, 0, 100, 10);
    let of = |requests| BilledExchange {
        received_bytes: 400,
        requests,
        ..BilledExchange::default()
    };
    let unpriced = bill.add(&of(vec![request.clone()]));
    assert_eq!(
        (unpriced.tokens.total(), unpriced.cost, unpriced.saved()),
        (110, None, None)
    );
    // One request without a price makes the sum unknown.
    assert_eq!(bill.add(&of(vec![known, request])).cost, None);
    // Without a response nothing is known, and nothing is free.
    let refused = BilledRequest {
        usage: None,
        ..opus(400, 0, 0, 0)
    };
    assert_eq!(bill.add(&of(vec![refused])), ExchangeBill::default());
}

#[test]
fn the_error_is_what_estimates_were_off_by() {
    let mut session = Session::of_100_000();
    // 25 tokens were expected for 100 bytes, and 20 were counted.
    session.cut(60_000, 8_000, vec![opus(100_000, 20_000, 0, 0)]);
    let bill = session.cut(60_000, 0, vec![opus(100_000, 20_000, 0, 0)]);
    let without = bill.without.as_ref().unwrap();
    assert!((0.15..0.25).contains(&without.error), "{}", without.error);
    assert!(bill.error().unwrap() > 0.0);
}

#[test]
fn a_wrong_table_names_the_model() {
    for (row, problem) in [
        (serde_json::json!({"input": -1.0, "output": 1.0}), "a rate"),
        (
            serde_json::json!({"input": 1.0, "output": 1.0, "since": "soon"}),
            "`since`",
        ),
        (
            serde_json::json!({"input": 1.0, "output": 1.0, "hours": "1-2"}),
            "`hours`",
        ),
        (
            serde_json::json!({"input": 1.0, "output": 1.0, "above": [{"tokens": 5}, {"tokens": 5}]}),
            "the steps",
        ),
    ] {
        let table: PriceTable = serde_json::from_value(serde_json::json!({
            "source": "", "date": "", "provider": [{"id": "p", "model": [{"id": "m-1", "names": ["m"], "price": [row]}]}]
        }))
        .unwrap();
        let error = table.check().unwrap_err().to_string();
        assert!(error.contains("`m-1`") && error.contains(problem), "{error}");
    }
}

proptest::proptest! {
    /// For any conversation, no figure is NaN, and the modelled history stays under the limit.
    #[test]
    fn no_conversation_breaks_the_bill(
        steps in proptest::collection::vec(
            (0_u64..10_000_000, 0_u64..5_000_000, 0_u64..400_000, 0_u64..400_000, 0_u64..50_000, 0_u8..4), 1..40),
    ) {
        let mut bill = ConversationBill::default();
        let mut at_ms = 0;
        for (later, received, read, write, output, kind) in steps {
            at_ms += later;
            let added = bill.add(&BilledExchange {
                at_ms,
                received_bytes: received,
                fixed_bytes: received / 10,
                handoff: (kind > 1).then(|| kind.to_string()),
                prompt_bytes: output,
                limit: Some(200_000),
                requests: vec![opus(received / 3 + 1, read, write, output)],
            });
            let without = added.without.clone().unwrap();
            proptest::prop_assert!(added.saved().unwrap().is_finite() && added.error().unwrap().is_finite());
            proptest::prop_assert!(without.tokens.cache_read <= without.tokens.whole_input());
        }
    }
}
