//! How much of what must be kept stands in the carry-over prompts that models wrote by themselves: measured over the handoffs
//! in a state folder, each against the request in which it fired, which the journal has. Beside it, what the last turns of that
//! request would keep in as many bytes, and what a draft without a model does.
//!
//! `cargo run --release --example carry_overs -- STATE_DIR`
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::error::Error;
use std::path::Path;

use baton_proxy::draft::{Count, Index, Preset, Request, Settings};
use baton_proxy::journal::{Filter, Query, Row, Side};
use baton_proxy::record::{Handoff, Origin, WireId};
use baton_proxy::redact::Redactor;
use baton_proxy::store::sqlite::SqliteStore;
use baton_proxy::store::{HandoffFilter, Store};
use baton_proxy::transcript::Transcript;
use baton_proxy::wire::{self, Operation};

/// Shares, each of all that must be kept.
#[derive(Default)]
struct Shares {
    model: f64,
    last_turns: f64,
    local: f64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("which state folder?")?;
    let dir = Path::new(&dir);
    let Some(query) = Query::open(dir)? else {
        return Err("there is no journal".into());
    };
    let store = SqliteStore::open_existing(dir)?.ok_or("there is no store")?;
    let handoffs = store.handoffs(&HandoffFilter::default()).await?;
    let by_model = |handoff: &&Handoff| handoff.origin == Origin::Model;
    let rows = query.list(&Filter::default())?;
    let (mut count, mut sum) = (0, Shares::default());
    println!("must-keeps in       model's own   last turns   local   handoff");
    for handoff in handoffs.iter().filter(by_model) {
        let id = handoff.id.to_string();
        let Some(row) = rows.iter().find(|row| row.event.fired.contains(&id)) else {
            continue;
        };
        let Some((shares, all)) = measured(&query, row, &handoff.prompt)? else {
            continue;
        };
        let Shares {
            model,
            last_turns,
            local,
        } = shares;
        println!("of {all:>4}               {model:>9.2} {last_turns:>12.2} {local:>7.2}   {id}");
        count += 1;
        sum.model += model;
        sum.last_turns += last_turns;
        sum.local += local;
    }
    let mean = |sum: f64| sum / f64::from(count.max(1));
    println!(
        "mean of {count:>3}          {:>9.2} {:>12.2} {:>7.2}",
        mean(sum.model),
        mean(sum.last_turns),
        mean(sum.local)
    );
    Ok(())
}

/// One handoff against its request; `None` where the journal has it no longer, or nothing had to be kept.
fn measured(query: &Query, row: &Row, prompt: &str) -> Result<Option<(Shares, usize)>, Box<dyn Error>> {
    let wire = row.wire.as_deref().and_then(WireId::named).map(wire::wire);
    let body = query.body(&row.id, Side::Sent(0))?;
    let (Some(wire), Some(body)) = (wire, body) else {
        return Ok(None);
    };
    let Ok(view) = wire.read(&body.into(), Operation::Generate) else {
        return Ok(None);
    };
    let mut index = Index::new(Settings {
        redactor: Redactor::new(&[]),
        ..Settings::default()
    });
    index.extend(&Transcript::of(&view));
    let (there, all) = index.kept_in(prompt);
    if all == 0 {
        return Ok(None);
    }
    let share = |text: &str| index.kept_in(text).0 as f64 / all as f64;
    let request = Request {
        focus: "",
        preset: Preset::Implement,
        tokens: 3000,
        count: Count::Estimated,
        repository: "",
        commands: true,
        why: true,
    };
    let shares = Shares {
        model: there as f64 / all as f64,
        last_turns: share(&last(&Transcript::of(&view), prompt.len())),
        local: index.local(&request).map_or(0.0, |local| share(&local)),
    };
    Ok(Some((shares, all)))
}

/// The last texts of a transcript, of about so many bytes.
fn last(transcript: &Transcript<'_>, bytes: usize) -> String {
    let mut texts = Vec::new();
    let mut left = bytes;
    for turn in transcript.turns().rev() {
        for part in turn.parts().iter().rev() {
            for text in part.texts().iter().rev() {
                let text = text.get().into_owned();
                if text.len() > left {
                    texts.reverse();
                    return texts.join("\n");
                }
                left -= text.len();
                texts.push(text);
            }
        }
    }
    texts.reverse();
    texts.join("\n")
}
