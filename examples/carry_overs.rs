//! How much of what must be kept is in the carry-over prompts that models wrote. Measured over the handoffs in a
//! state folder, each against the request in which it fired, which the journal has. For comparison: what the last turns
//! of that request would keep in as many bytes, and what a draft without a model does.
//!
//! `cargo run --release --example carry_overs -- STATE_DIR`
#![allow(clippy::print_stdout)]

#[path = "../benches/support/carry_overs.rs"]
mod carry_overs;

use std::error::Error;
use std::path::Path;

use baton_core::record::{Handoff, HandoffOrigin, WireId};
use baton_core::wire::{self, Operation};
use baton_llm::state::journal::{BodySide, ExchangeFilter, ExchangeRow, JournalReader};
use baton_llm::state::store::sqlite::SqliteStore;
use baton_llm::state::store::{HandoffFilter, Store};
use carry_overs::{Shares, shares};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("which state folder?")?;
    let dir = Path::new(&dir);
    let Some(query) = JournalReader::open(dir)? else {
        return Err("there is no journal".into());
    };
    let store = SqliteStore::open_existing(dir)?.ok_or("there is no store")?;
    let handoffs = store.handoffs(&HandoffFilter::default()).await?;
    let by_model = |handoff: &&Handoff| handoff.origin == HandoffOrigin::Model;
    let rows = query.list(&ExchangeFilter::default())?;
    let (mut count, mut sum) = (0, Shares::default());
    println!("must-keeps in       model's own   last turns   local   handoff");
    for handoff in handoffs.iter().filter(by_model) {
        let id = handoff.id.to_string();
        let Some(row) = rows.iter().find(|row| row.event.fired.contains(&id)) else {
            continue;
        };
        let Some(shares) = measured(&query, row, &handoff.prompt)? else {
            continue;
        };
        let Shares {
            all,
            prompt,
            last_turns,
            local,
        } = shares;
        println!("of {all:>4}               {prompt:>9.2} {last_turns:>12.2} {local:>7.2}   {id}");
        count += 1;
        sum.prompt += prompt;
        sum.last_turns += last_turns;
        sum.local += local;
    }
    let mean = |sum: f64| sum / f64::from(count.max(1));
    println!(
        "mean of {count:>3}          {:>9.2} {:>12.2} {:>7.2}",
        mean(sum.prompt),
        mean(sum.last_turns),
        mean(sum.local)
    );
    Ok(())
}

/// One handoff against its request; `None` where the journal has it no longer, or nothing had to be kept.
fn measured(
    query: &JournalReader,
    row: &ExchangeRow,
    prompt: &str,
) -> Result<Option<Shares>, Box<dyn Error>> {
    let wire = row.wire.as_deref().and_then(WireId::named).map(wire::wire);
    let body = query.body(&row.id, BodySide::Sent(0))?;
    let (Some(wire), Some(body)) = (wire, body) else {
        return Ok(None);
    };
    let view = wire.read(&body.into(), Operation::Generate);
    Ok(view.ok().and_then(|view| shares(&view, prompt)))
}
