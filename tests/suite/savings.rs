//! The bill of real exchanges: the provider's usage at the table's prices, the responding model, and
//! `baton savings`.

use baton_core::bill::{BilledExchange, BilledRequest, ConversationBill, PriceQuery};
use baton_llm::state::journal::{self, BillEntry, BillFilter, JournalReader};
use baton_llm::state::prices;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness;
use crate::matrix::fixture::{fresh, handoff};
use crate::matrix::journaled::Journaled;
use crate::matrix::variants::{ANTHROPIC, WIRES};

pub async fn bill(run: &Journaled, exchanges: usize) -> Vec<BillEntry> {
    let (query, table) = (run.query(exchanges).await, prices::table(None).unwrap());
    query.bill(&BillFilter::default(), &table).unwrap()
}

/// Runs the program without the config of this machine's user.
fn command(args: &[&str]) -> std::process::Output {
    let home = harness::temp();
    harness::program::baton(home.path(), args).output().unwrap()
}

/// Every leg counts once, at the price of the responding model, on every wire, streamed and in one piece.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_leg_is_billed_once_and_by_the_model_that_answered() {
    for variant in WIRES {
        for streamed in [true, false] {
            let run = Journaled::new(variant, [Reply::text("Well."), handoff(), fresh()]).await;
            run.sends(streamed).await;
            run.sends(streamed).await;
            let bill = bill(&run, 2).await;
            assert_eq!(bill.len(), 2, "{}", variant.model);
            let legs: u64 = bill.iter().map(|entry| entry.tokens.output).sum();
            let query = JournalReader::open(run.dir.path()).unwrap().unwrap();
            let rows = query.list(&journal::ExchangeFilter::default()).unwrap();
            let counted = rows.iter().flat_map(|row| row.event.tokens.iter().flatten());
            assert_eq!(
                legs,
                counted.map(|leg| leg.output).sum::<u64>(),
                "{}",
                variant.model
            );
            let served = rows.iter().flat_map(|row| &row.event.served).flatten();
            let models: Vec<_> = served.map(|served| served.model.as_str()).collect();
            assert_eq!(models.len(), 3, "{}", variant.model);
            assert!(
                models.iter().all(|model| !model.is_empty()),
                "{} {streamed}: {models:?}",
                variant.model
            );
            assert_eq!(bill[1].handoff, rows[0].event.fired.last().cloned());
            // Before the handoff only baton's tool adds to the cost.
            let before = bill[0].without_tokens.unwrap().whole_input();
            assert!(before < bill[0].tokens.whole_input(), "{}", variant.model);
        }
    }
}

/// `baton savings` over the journal of a proxy that has ended, for users and for programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_reads_the_journal_and_a_table_of_ones_own() {
    let run = Journaled::new(ANTHROPIC, [handoff(), fresh()]).await;
    run.sends(true).await;
    let bill = bill(&run, 1).await;
    let model = bill[0].model.clone().unwrap();
    let prices = run.dir.path().join("prices.toml");
    let table = format!(
        "source = \"mine\"\ndate = \"2026-11-23\"\n[[provider]]\nid = \"p\"\n[[provider.model]]\nid = \"{model}\"\n\
         names = [\"{model}\"]\nprice = [{{ input = 1000000, output = 2000000 }}]\n"
    );
    std::fs::write(&prices, table).unwrap();
    let state = run.dir.path().to_str().unwrap();
    let savings = |more: &[&str]| {
        let mut args = vec![
            "savings",
            "--state-dir",
            state,
            "--prices",
            prices.to_str().unwrap(),
        ];
        args.extend(more);
        let output = command(&args);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let report: serde_json::Value = serde_json::from_str(&savings(&["--json", "--by", "model"])).unwrap();
    let tokens = bill[0].tokens;
    let expected = (tokens.whole_input() + 2 * tokens.output) as f64;
    assert_eq!(report["groups"][0]["key"], model.as_str());
    assert!(
        (report["total"]["cost"].as_f64().unwrap() - expected).abs() < 1e-6,
        "{report}"
    );
    assert_eq!(report["prices"]["source"], "mine");
    assert!(savings(&["--csv"]).starts_with("key,exchanges,"));
    assert!(savings(&[]).contains("without baton"));
    // Without that table the model has no price: only tokens are shown, with one note of the missing price.
    let output = command(&["savings", "--state-dir", state]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("1 exchange without a price").count(), 1, "{text}");
}

/// Real agents' requests (only sizes and usage, recorded with the strict provider: `tests/recordings/bill`).
///
/// Every token that the provider counted is billed once. Before the first handoff only baton's tool has a
/// cost. With 50 KB of instructions and tools and four short tasks the handoffs lose money, as
/// `docs/savings.md` states for short histories.
#[test]
fn real_agents_sessions_are_billed_to_the_token() {
    for (name, recording) in [
        ("claude_code", include_str!("../recordings/bill/claude_code.json")),
        ("codex", include_str!("../recordings/bill/codex.json")),
        ("gemini_cli", include_str!("../recordings/bill/gemini_cli.json")),
    ] {
        let recording: Value = serde_json::from_str(recording).unwrap();
        let model = recording["model"].as_str().unwrap();
        let rates = prices::table(None).unwrap().rates(&PriceQuery {
            model,
            at_ms: 1_795_435_200_000,
            ..PriceQuery::default()
        });
        let rates = rates.unwrap_or_else(|| panic!("{name}: {model} has no price"));
        let mut bill = ConversationBill::default();
        let (mut saved, mut error, mut billed, mut counted) = (0.0, 0.0, 0, 0);
        for (minute, exchange) in (0_u64..).zip(recording["exchanges"].as_array().unwrap()) {
            let requests = exchange["requests"]
                .as_array()
                .unwrap()
                .iter()
                .map(|request| BilledRequest {
                    bytes: request["bytes"].as_u64().unwrap(),
                    usage: Some(serde_json::from_value(request["tokens"].clone()).unwrap()),
                    model: model.to_owned(),
                    rates: Some(rates.clone()),
                    cache_miss: None,
                    own: false,
                });
            let requests: Vec<_> = requests.collect();
            counted += requests
                .iter()
                .map(|request| request.usage.unwrap().total())
                .sum::<u64>();
            let added = bill.add(&BilledExchange {
                at_ms: minute * 60_000,
                received_bytes: exchange["received_bytes"].as_u64().unwrap(),
                fixed_bytes: exchange["fixed_bytes"].as_u64().unwrap(),
                handoff: exchange["handoff"].as_u64().map(|number| number.to_string()),
                requests,
                ..BilledExchange::default()
            });
            billed += added.tokens.total();
            let own = added.saved().unwrap();
            if exchange["handoff"].is_null() {
                assert!(own <= 0.0 && own > -0.003, "{name}: {own}");
            }
            saved += own;
            error += added.error().unwrap();
        }
        assert_eq!(billed, counted, "{name}");
        assert!(saved < 0.0 && error < saved.abs(), "{name}: {saved} ± {error}");
    }
}
