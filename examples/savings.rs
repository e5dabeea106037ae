//! The length from which on a handoff pays off: two simulated sessions, one with a handoff and one without.
//!
//! Uses the embedded prices and the providers' cache rules. Prints the tables of `docs/savings.md`; with a file name it
//! draws the plot as SVG.
//!
//! `cargo run --example savings -- docs/savings.svg`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fmt::Write;

use baton_core::bill::{CacheRule, PriceQuery, PriceTable, RequestSegment, SimulatedCache};
use baton_llm::state::prices;

/// Tokens of the system prompt and tools of a real agent: 84 KB.
const PREFIX: u64 = 21_000;
/// Tokens that one call adds, its result and the model's output; and tokens of that output.
const STEP: u64 = 1_500;
const OUTPUT: u64 = 400;
/// Tokens of a carry-over prompt.
const PROMPT: u64 = 1_500;
/// Tokens of one call that reads cut content again, and of its output.
const READ: u64 = 5_000;
const READ_OUTPUT: u64 = 150;
const MINUTE: u64 = 60_000;
/// 2026-11-23, noon: the day of the prices.
const NOW: u64 = 1_795_435_200_000;
/// Number of calls after which the handoff counts as never paying off.
const MOST: u32 = 1_000;

const MODELS: [&str; 6] = [
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "gpt-6.1-sol",
    "gemini-4-argon",
    "deepseek-v4-pro",
];
const HISTORIES: [u64; 8] = [
    40_000, 60_000, 80_000, 100_000, 150_000, 200_000, 300_000, 500_000,
];
const CALLS: [u32; 5] = [5, 10, 20, 40, 80];
/// Tokens that are read again after the cut.
const READ_AGAIN: [u64; 2] = [5_000, 20_000];

/// A single handoff.
#[derive(Clone, Copy)]
struct Scenario<'a> {
    model: &'a str,
    /// Tokens of the last request before the handoff.
    history: u64,
    read_again: u64,
    /// The pause after the response in which the handoff fires.
    pause_ms: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let table = prices::table(None)?;
    println!("Prices: {}, {}.\n", table.source, table.date);
    for read_again in READ_AGAIN {
        println!(
            "Calls until a handoff has paid, cache warm, {} tokens read again:\n",
            thousands(read_again)
        );
        println!("{}", calls_table(&table, read_again));
        println!(
            "After a pause of three hours it has paid after one call, from {} on.\n",
            cold_length(&table, read_again)
        );
    }
    println!("Shortest history at which a handoff pays, warm, 20k tokens read again:\n");
    println!("{}", length_table(&table));
    if let Some(file) = std::env::args().nth(1) {
        std::fs::write(file, plot(&table))?;
    }
    Ok(())
}

/// Table with a warm cache: rows of models, columns of histories.
fn calls_table(table: &PriceTable, read_again: u64) -> String {
    let mut text = String::from("| model |");
    HISTORIES
        .iter()
        .for_each(|history| _ = write!(text, " {} |", thousands(*history)));
    text.push_str("\n|---|");
    text.push_str(&"---:|".repeat(HISTORIES.len()));
    for model in MODELS {
        _ = write!(text, "\n| {model} |");
        for history in HISTORIES {
            let scenario = Scenario {
                model,
                history,
                read_again,
                pause_ms: MINUTE,
            };
            let cell = pays_after(table, scenario).map_or("never".to_owned(), |calls| calls.to_string());
            _ = write!(text, " {cell} |");
        }
    }
    text.push('\n');
    text
}

/// The shortest history whose handoff pays off with the first call after a pause of three hours, on every model.
fn cold_length(table: &PriceTable, read_again: u64) -> String {
    let pays = |history: u64| {
        MODELS.iter().all(|model| {
            let scenario = Scenario {
                model,
                history,
                read_again,
                pause_ms: 180 * MINUTE,
            };
            pays_after(table, scenario) == Some(1)
        })
    };
    let longer = HISTORIES.iter().rev().take_while(|history| pays(**history));
    longer
        .last()
        .map_or("—".to_owned(), |history| thousands(*history))
}

/// The shortest history, in steps of 1,000 tokens, whose handoff has paid off after this many calls.
fn length_table(table: &PriceTable) -> String {
    let mut text = String::from("| model |");
    CALLS
        .iter()
        .for_each(|calls| _ = write!(text, " {calls} calls |"));
    text.push_str("\n|---|");
    text.push_str(&"---:|".repeat(CALLS.len()));
    for model in MODELS {
        _ = write!(text, "\n| {model} |");
        for calls in CALLS {
            let pays = |history: &u64| {
                let scenario = Scenario {
                    model,
                    history: *history,
                    read_again: 20_000,
                    pause_ms: MINUTE,
                };
                pays_after(table, scenario).is_some_and(|needed| needed <= calls)
            };
            let shortest = (25_000..=1_000_000).step_by(1_000).find(pays);
            _ = write!(text, " {} |", shortest.map_or("—".to_owned(), thousands));
        }
    }
    text.push('\n');
    text
}

/// Number of calls after the handoff until the session with it has cost less than the one without it.
///
/// `None` if that takes more than [`MOST`].
fn pays_after(table: &PriceTable, scenario: Scenario<'_>) -> Option<u32> {
    let query = PriceQuery {
        model: scenario.model,
        at_ms: NOW,
        ..PriceQuery::default()
    };
    let rates = table.rates(&query)?;
    let rule = CacheRule::for_model(scenario.model, false);
    let mut with = SimulatedCache::new(rule, rates.write_is_billed);
    let mut without = with.clone();
    let segment = |id, tokens| RequestSegment { id, tokens };
    let prefix = segment(0, PREFIX);
    let history = [prefix, segment(1, scenario.history - PREFIX)];
    // Both sessions have sent the history before.
    with.send(NOW, &history, 0);
    without.send(NOW, &history, 0);
    let mut at_ms = NOW + MINUTE;
    let mut whole = vec![history[0], history[1], segment(2, STEP)];
    let mut saved = without.send(at_ms, &whole, OUTPUT).cost(&rates).total();
    // The leg that hands over, and the first one after the cut.
    saved -= with.send(at_ms, &whole, PROMPT).cost(&rates).total();
    let mut cut = vec![prefix, segment(3, PROMPT)];
    saved -= with.send(at_ms, &cut, OUTPUT).cost(&rates).total();
    at_ms += scenario.pause_ms;
    // Separate calls read the content again. The session without a handoff does not make them.
    for id in 0..scenario.read_again / READ {
        cut.push(segment(100 + id, READ));
        saved -= with.send(at_ms, &cut, READ_OUTPUT).cost(&rates).total();
    }
    for call in 1..=MOST {
        let step = segment(1_000 + u64::from(call), STEP);
        whole.push(step);
        cut.push(step);
        saved += without.send(at_ms, &whole, OUTPUT).cost(&rates).total();
        saved -= with.send(at_ms, &cut, OUTPUT).cost(&rates).total();
        if saved >= 0.0 {
            return Some(call);
        }
        at_ms += MINUTE;
    }
    None
}

fn thousands(tokens: u64) -> String {
    format!("{}k", tokens / 1_000)
}

/// The plot: calls until the handoff pays off, over the length of the history. Both axes are logarithmic.
fn plot(table: &PriceTable) -> String {
    const COLOURS: [&str; 6] = ["#b45309", "#7c3aed", "#be185d", "#0f766e", "#1d4ed8", "#57534e"];
    // Dashed, because the lines of models with proportional prices coincide.
    const DASHES: [&str; 6] = ["none", "12 6", "none", "4 5", "none", "none"];
    let x = |history: u64| 70.0 + (history as f64 / 40_000.0).log2() * 140.0;
    let y = |calls: f64| 330.0 - calls.log10() * 130.0;
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 400\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <title>Calls until a handoff has paid, by the length of the history; warm cache, 20,000 tokens read again</title>\n\
         <rect width=\"800\" height=\"400\" fill=\"#fff\"/>\n",
    );
    for history in HISTORIES {
        let at = x(history);
        _ = writeln!(
            svg,
            "<line x1=\"{at:.0}\" y1=\"60\" x2=\"{at:.0}\" y2=\"330\" stroke=\"#e7e5e4\"/>\n<text x=\"{at:.0}\" y=\"348\" text-anchor=\"middle\">{}</text>",
            thousands(history)
        );
    }
    for calls in [1.0, 3.0, 10.0, 30.0, 100.0] {
        let at = y(calls);
        _ = writeln!(
            svg,
            "<line x1=\"70\" y1=\"{at:.0}\" x2=\"600\" y2=\"{at:.0}\" stroke=\"#e7e5e4\"/>\n<text x=\"60\" y=\"{:.0}\" text-anchor=\"end\">{calls}</text>",
            at + 4.0
        );
    }
    let lengths: Vec<u64> = (40_000..=500_000).step_by(5_000).collect();
    for ((model, colour), dashes) in MODELS.into_iter().zip(COLOURS).zip(DASHES) {
        let points = lengths.iter().filter_map(|&history| {
            let calls = pays_after(
                table,
                Scenario {
                    model,
                    history,
                    read_again: 20_000,
                    pause_ms: MINUTE,
                },
            )?;
            (calls <= 100).then(|| format!("{:.1},{:.1}", x(history), y(calls.into())))
        });
        let points: Vec<_> = points.collect();
        _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>",
            points.join(" ")
        );
    }
    for (n, (model, colour)) in MODELS.into_iter().zip(COLOURS).enumerate() {
        let at = 80 + 20 * n;
        _ = writeln!(
            svg,
            "<line x1=\"615\" y1=\"{at}\" x2=\"635\" y2=\"{at}\" stroke=\"{colour}\" stroke-width=\"2\"/>\n<text x=\"641\" y=\"{}\">{model}</text>",
            at + 4
        );
    }
    svg.push_str("<text x=\"70\" y=\"34\" font-size=\"15\" font-weight=\"600\">Calls until a handoff has paid</text>\n<text x=\"335\" y=\"376\" text-anchor=\"middle\">tokens of history at the handoff (warm cache, 20k tokens read again)</text>\n</svg>\n");
    svg
}
