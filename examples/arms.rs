//! The cost of sessions by when they are cut: simulates each session of `tests/recordings/sessions` once per arm.
//!
//! Prints the table of `docs/savings.md`.
//!
//! `cargo run --example arms`
#![allow(clippy::print_stdout)]

#[path = "simulation/mod.rs"]
#[allow(dead_code, reason = "each program uses a part of it")]
mod simulation;

use std::error::Error;
use std::fs;
use std::path::Path;

use baton_core::bill::{PriceQuery, PriceTable, Rates};
use baton_llm::state::prices;

use simulation::{Arm, ArmBill, SessionSizes};

/// 2026-11-23, noon: the day of the prices.
const NOW: u64 = 1_795_435_200_000;

/// Size of the history in tokens from which a session counts as long.
const LONG: u64 = 150_000;

/// The columns of the table.
const ARMS: [Arm; 5] = [Arm::None, Arm::Model, Arm::Free, Arm::Pays, Arm::FreeAndPays];

/// A session with its bill in each arm.
struct SessionBills {
    session: SessionSizes,
    bills: [ArmBill; 5],
}

fn main() -> Result<(), Box<dyn Error>> {
    let table = prices::table(None)?;
    let mut all = Vec::new();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/sessions");
    let mut files: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::path);
    for file in files {
        if file.path().extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let name = file
            .path()
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let session = SessionSizes {
            name,
            ..serde_json::from_slice(&fs::read(file.path())?)?
        };
        let rates = |model: &str| rates(&table, model);
        let bills = ARMS.map(|arm| session.bill(arm, &rates));
        let [Some(none), Some(model), Some(free), Some(pays), Some(both)] = bills else {
            return Err(format!("{}: a model without a price", session.name).into());
        };
        all.push(SessionBills {
            session,
            bills: [none, model, free, pays, both],
        });
    }
    println!("Prices: {}, {}.\n", table.source, table.date);
    println!("| session | calls | `none` | `model`, % | `free`, % | `nudge=pays`, % | both, % |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for one in &all {
        println!("{}", one.row());
    }
    for (name, of) in [
        ("all", (|_| true) as fn(&SessionBills) -> bool),
        (
            "with pauses or above 150,000 tokens",
            SessionBills::is_long_or_paused,
        ),
        ("the others", |one| !one.is_long_or_paused()),
    ] {
        println!("{}", sums(name, &all, of));
    }
    Ok(())
}

fn rates(table: &PriceTable, model: &str) -> Option<Rates> {
    table.rates(&PriceQuery {
        model,
        at_ms: NOW,
        ..PriceQuery::default()
    })
}

impl SessionBills {
    fn is_long_or_paused(&self) -> bool {
        let calls = &self.session.calls;
        let grown: u64 = calls.iter().map(|call| call.new).sum();
        let lifetime = baton_core::bill::CacheRule::for_model(&self.session.model, false).lifetime_ms;
        self.session.prefix + grown > LONG || calls.iter().any(|call| call.pause_ms > lifetime)
    }

    fn row(&self) -> String {
        let cost = |arm: usize| self.bills[arm].cost;
        row(&self.session.name, self.session.calls.len(), cost)
    }
}

fn sums(name: &str, all: &[SessionBills], of: fn(&SessionBills) -> bool) -> String {
    let sum = |arm: usize| -> f64 {
        let of = all.iter().filter(|one| of(one));
        of.map(|one| one.bills[arm].cost).sum()
    };
    let calls: usize = all
        .iter()
        .filter(|one| of(one))
        .map(|one| one.session.calls.len())
        .sum();
    row(&format!("**{name}**"), calls, sum)
}

/// Cost of the calls without cuts, and the difference in percent for each other arm.
fn row(name: &str, calls: usize, cost: impl Fn(usize) -> f64) -> String {
    let none = cost(0);
    let arms = (1..5).map(|arm| format!("{:+.1}", (cost(arm) / none - 1.0) * 100.0));
    format!(
        "| {name} | {calls} | ${none:.2} | {} |",
        arms.collect::<Vec<_>>().join(" | ")
    )
}
