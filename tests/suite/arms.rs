//! Cost of sessions by the moment of their cuts, for the sessions of `tests/recordings/sessions`, and the
//! guarantees of cuts without cost.

#[path = "../../examples/simulation/mod.rs"]
#[allow(dead_code, reason = "each program uses a part of it")]
mod simulation;

use std::path::Path;

use baton_core::bill::{CacheRule, PriceQuery, PriceTable};
use baton_llm::state::prices;

use simulation::{Arm, SessionSizes};

/// The day of the prices.
const NOW: u64 = 1_795_435_200_000;

fn corpus() -> Vec<SessionSizes> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/sessions");
    let files = std::fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path());
    let json = files.filter(|file| file.extension().is_some_and(|ending| ending == "json"));
    let read = |file: std::path::PathBuf| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    json.map(read).collect()
}

fn cost(session: &SessionSizes, arm: Arm, table: &PriceTable) -> f64 {
    let rates = |model: &str| {
        table.rates(&PriceQuery {
            model,
            at_ms: NOW,
            ..PriceQuery::default()
        })
    };
    session.bill(arm, &rates).unwrap().cost
}

/// With pauses that outlive the cache, or above 150,000 tokens.
fn is_long_or_paused(session: &SessionSizes) -> bool {
    let grown: u64 = session.calls.iter().map(|call| call.new).sum();
    let lifetime = CacheRule::for_model(&session.model, false).lifetime_ms;
    session.prefix + grown > 150_000 || session.calls.iter().any(|call| call.pause_ms > lifetime)
}

#[test]
fn no_session_is_dearer_by_more_than_a_hundredth() {
    let table = prices::table(None).unwrap();
    let all = corpus();
    assert!(all.len() >= 20);
    for session in &all {
        let none = cost(session, Arm::None, &table);
        for arm in [Arm::Free, Arm::Pays, Arm::FreeAndPays] {
            let share = cost(session, arm, &table) / none;
            assert!(share <= 1.01, "{} {}: {share}", session.name, arm.name());
        }
    }
}

#[test]
fn sessions_with_pauses_and_long_ones_are_a_fifth_cheaper() {
    let table = prices::table(None).unwrap();
    let all = corpus();
    let sum = |arm| -> f64 {
        let of = all.iter().filter(|session| is_long_or_paused(session));
        of.map(|session| cost(session, arm, &table)).sum()
    };
    for arm in [Arm::Free, Arm::Pays, Arm::FreeAndPays] {
        assert!(sum(arm) <= 0.8 * sum(Arm::None), "{}", arm.name());
    }
}
