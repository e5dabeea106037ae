//! Draws a recorded session as SVG: the tokens of each request with and without baton, and the cost of both.
//!
//! `cargo run --example picture > docs/session.svg`
#![allow(clippy::print_stdout)]

#[path = "simulation/mod.rs"]
#[allow(dead_code, reason = "each program uses a part of it")]
mod simulation;

use std::error::Error;
use std::fmt::Write as _;

use baton_core::bill::PriceQuery;
use baton_llm::state::prices;

use simulation::{Arm, SessionSizes};

/// Five hundred calls of one task, as sizes (tests/recordings/sessions/README.md).
const SESSION: &str = include_str!("../tests/recordings/sessions/05-very-long-task.json");

/// 2026-11-23, noon: the day of the prices.
const NOW: u64 = 1_795_435_200_000;

/// The window of the session's model.
const WINDOW: u64 = 1_000_000;

/// Tokens after the system prompt following a handoff: the carry-over prompt, and the content that is read again.
///
/// `run` compares the result with the simulation.
const AFTER_HANDOFF: u64 = 21_500;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 176.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 42.0;

/// Tokens between two grid lines.
const GRID: u64 = 200_000;

/// Colors that are readable on light and dark pages.
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#57606a}.axis{stroke:#8c959f;stroke-opacity:.35}\
    .window{stroke:#cf222e;stroke-opacity:.6;stroke-dasharray:2 4}\
    .ramp{fill:none;stroke:#8c959f;stroke-width:2;stroke-dasharray:5 4}.left{fill:#8c959f;fill-opacity:.14}\
    .saw{fill:none;stroke:#0969da;stroke-width:2.5;stroke-linejoin:round}.sent{fill:#0969da;fill-opacity:.16}\
    .a{font-weight:600}.b{fill:#0969da;font-weight:600}.h{fill:#1a7f37;font-size:12px}\
    @media(prefers-color-scheme:dark){text{fill:#9198a1}.saw{stroke:#4493f8}.b{fill:#4493f8}.h{fill:#3fb950}}";

/// A simulated run of the session.
struct Run {
    /// Tokens of each call's request.
    tokens: Vec<u64>,
    /// Calls that follow a cut.
    cuts: Vec<usize>,
    dollars: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let session: SessionSizes = serde_json::from_str(SESSION)?;
    let alone = run(&session, Arm::None)?;
    let behind = run(&session, Arm::Model)?;
    print!("{}", svg(&session, &alone, &behind));
    Ok(())
}

/// Simulates the session in an arm.
fn run(session: &SessionSizes, arm: Arm) -> Result<Run, Box<dyn Error>> {
    let table = prices::table(None)?;
    let rates = |model: &str| {
        table.rates(&PriceQuery {
            model,
            at_ms: NOW,
            ..PriceQuery::default()
        })
    };
    let bill = session.bill(arm, &rates).ok_or("a model without a price")?;
    let cuts: Vec<_> = bill.cuts.iter().map(|cut| cut.call).collect();
    let mut tokens = Vec::new();
    let mut now = session.prefix;
    for (n, call) in session.calls.iter().enumerate() {
        now += call.new;
        tokens.push(now);
        if cuts.contains(&n) {
            now = session.prefix + AFTER_HANDOFF;
        }
    }
    let agrees = bill.cuts.iter().all(|cut| tokens[cut.call] == cut.tokens);
    if bill.compactions > 0 || !agrees {
        return Err(format!(
            "not as simulated: {} compactions, {:?}",
            bill.compactions, bill.cuts
        )
        .into());
    }
    Ok(Run {
        tokens,
        cuts,
        dollars: bill.cost,
    })
}

fn x(n: usize, calls: usize) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * n as f64 / (calls.max(2) - 1) as f64
}

fn y(tokens: u64) -> f64 {
    HEIGHT - BOTTOM - tokens as f64 / WINDOW as f64 * (HEIGHT - TOP - BOTTOM)
}

/// The points of a line, with a vertical drop at each cut.
fn line(session: &SessionSizes, run: &Run) -> String {
    let calls = session.calls.len();
    let mut points = String::new();
    for (n, tokens) in run.tokens.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(points, "{:.1},{:.1} ", x(n, calls), y(*tokens));
        if let Some(next) = run.tokens.get(n + 1).filter(|next| *next < tokens) {
            let fallen = next.saturating_sub(session.calls[n + 1].new);
            let _ = write!(points, "{:.1},{:.1} ", x(n, calls), y(fallen));
        }
    }
    points.trim_end().to_owned()
}

/// The picture as SVG.
fn svg(session: &SessionSizes, alone: &Run, behind: &Run) -> String {
    let (first, last, floor) = (LEFT, WIDTH - RIGHT, y(0));
    let (ramp, saw) = (line(session, alone), line(session, behind));
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n<title>{}</title>\n\
         <style>{STYLE}</style>\n{}\
         <polygon class=\"left\" points=\"{first},{floor} {ramp} {last},{floor}\"/>\n\
         <polygon class=\"sent\" points=\"{first},{floor} {saw} {last},{floor}\"/>\n\
         <polyline class=\"ramp\" points=\"{ramp}\"/>\n<polyline class=\"saw\" points=\"{saw}\"/>\n{}",
        title(alone, behind),
        grid(),
        labels(session, alone, behind),
    );
    out + "</svg>\n"
}

fn title(alone: &Run, behind: &Run) -> String {
    format!(
        "A session of {} requests costs ${:.2} alone and ${:.2} with {} handoffs",
        alone.tokens.len(),
        alone.dollars,
        behind.dollars,
        behind.cuts.len()
    )
}

/// Horizontal lines with their tokens; the window has its own style.
fn grid() -> String {
    let (first, last) = (LEFT, WIDTH - RIGHT);
    let mut out = String::new();
    for tokens in (0..=WINDOW).step_by(GRID as usize) {
        let (class, at) = (if tokens == WINDOW { "window" } else { "axis" }, y(tokens));
        let _ = writeln!(
            out,
            "<line class=\"{class}\" x1=\"{first}\" x2=\"{last}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{} k</text>",
            first - 8.0,
            at + 4.0,
            tokens / 1000
        );
    }
    out
}

/// Labels of the lines and the handoffs, and the cost of both runs.
fn labels(session: &SessionSizes, alone: &Run, behind: &Run) -> String {
    let calls = session.calls.len();
    let hours = session.calls.iter().map(|call| call.pause_ms).sum::<u64>() as f64 / 3_600_000.0;
    let mut out = String::new();
    for (number, cut) in behind.cuts.iter().enumerate() {
        let (at, up) = (x(*cut, calls), y(behind.tokens[*cut]) - 8.0);
        let _ = writeln!(
            out,
            "<text class=\"h\" x=\"{at:.1}\" y=\"{up:.1}\" text-anchor=\"middle\">handoff {}</text>",
            number + 1
        );
    }
    let after = x(calls - 1, calls) + 10.0;
    for (class, run, what) in [("a", alone, "alone"), ("b", behind, "with baton")] {
        let at = y(run.tokens.last().copied().unwrap_or_default());
        let _ = writeln!(
            out,
            "<text class=\"{class}\" x=\"{after:.1}\" y=\"{at:.1}\">{what}: ${:.2}</text>",
            run.dollars
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{after:.1}\" y=\"{:.1}\">the model's window</text>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">tokens that the model reads, over {calls} requests in {hours:.0} hours (simulated)</text>",
        y(WINDOW) + 4.0,
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 12.0,
    );
    out
}
