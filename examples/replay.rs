//! Replays a recorded session with one cut, as `baton try` does, and prints the billing of its requests.
//!
//! `tests/cache/run` sends the same requests to a real server with a prefix cache.
//!
//! `cargo run --example replay -- SESSION.jsonl CALL PRICES.toml` cuts in the response of that call, from 0. Without
//! arguments, it prints the assumed tokens of a carry-over prompt and of the tool.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;

use baton_core::bill::PROMPT;
use baton_core::nudge::Windows;
use baton_core::trial::{JOURNAL_POLICIES, JOURNAL_SHADOW, TrialReader, TrialSettings, reckon, tool_tokens};
use baton_llm::state::prices;
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().len() == 1 {
        println!("{}", json!({"prompt": PROMPT, "tool": tool_tokens()}));
        return Ok(());
    }
    let mut words = std::env::args().skip(1);
    let mut next = || words.next().ok_or("SESSION.jsonl CALL PRICES.toml");
    let (file, call, table) = (next()?, next()?.parse::<usize>()?, next()?);
    let mut reader = TrialReader::new(0, &[]);
    for line in std::fs::read_to_string(file)?.lines() {
        reader.entry(&serde_json::from_str(line)?);
    }
    let mut session = reader.into_sessions().pop().ok_or("no session")?;
    session.calls.get_mut(call).ok_or("no such call")?.handoff = true;
    let prices = prices::table(Some(Path::new(&table)))?;
    let settings = TrialSettings {
        prices: &prices,
        windows: &Windows::default(),
        follow_share: 1.0,
    };
    let one = reckon(session, &settings, &JOURNAL_POLICIES).ok_or("no calls")?;
    let cut = one.arm(JOURNAL_SHADOW).ok_or("a model without a price")?;
    println!("{}", json!({"paid": one.paid, "none": one.arms[0], "cut": cut}));
    Ok(())
}
