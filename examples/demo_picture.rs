//! Draws what `baton demo --json` prints as SVG: the agent's history as a ramp, the upstream requests as a sawtooth below it.
//!
//! `baton demo --json | cargo run --example demo_picture > docs/demo.svg`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fmt::Write as _;

use serde::Deserialize;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 172.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 42.0;

/// Colours readable on light and dark pages.
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#57606a}.axis{stroke:#8c959f;stroke-opacity:.35}\
    .ramp{fill:none;stroke:#8c959f;stroke-width:2;stroke-dasharray:5 4}.left{fill:#8c959f;fill-opacity:.14}\
    .saw{fill:none;stroke:#0969da;stroke-width:2.5;stroke-linejoin:round}.sent{fill:#0969da;fill-opacity:.16}\
    .b{fill:#0969da;font-weight:600}.h{fill:#1a7f37;font-size:12px}\
    @media(prefers-color-scheme:dark){text{fill:#9198a1}.saw{stroke:#4493f8}.b{fill:#4493f8}.h{fill:#3fb950}}";

/// Maximum number of grid lines above the base line.
const LINES: u32 = 5;

/// A round number of bytes, at most [`LINES`] of which make up `most`.
fn step(most: f64) -> f64 {
    let mut decade = 1024.0;
    loop {
        let steps = [1.0, 2.0, 5.0].map(|n| n * decade);
        match steps.into_iter().find(|step| step * f64::from(LINES) >= most) {
            Some(step) => return step,
            None => decade *= 10.0,
        }
    }
}

/// What is drawn of a run.
#[derive(Deserialize)]
struct DemoRun {
    totals: Totals,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Totals {
    requests: usize,
    received_bytes: u64,
    sent_bytes: u64,
}

#[derive(Deserialize)]
struct Turn {
    received_bytes: u64,
    sent_bytes: Vec<u64>,
}

/// One leg: its position, what the agent sent, what was sent upstream, and whether a second leg follows.
struct Point {
    x: f64,
    received: f64,
    sent: f64,
    fired: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let run = serde_json::from_reader(std::io::stdin())?;
    print!("{}", svg(&run));
    Ok(())
}

/// The picture as SVG.
fn svg(story: &DemoRun) -> String {
    let points = points(story);
    let most = points.iter().map(|p| p.received.max(p.sent)).fold(1.0, f64::max);
    let y = |bytes: f64| HEIGHT - BOTTOM - bytes / most * (HEIGHT - TOP - BOTTOM);
    let line = |of: fn(&Point) -> f64| {
        let at = points.iter().map(|p| format!("{:.1},{:.1}", p.x, y(of(p))));
        at.collect::<Vec<_>>().join(" ")
    };
    let (ramp, saw) = (line(|p| p.received), line(|p| p.sent));
    let (first, last) = (LEFT, WIDTH - RIGHT);
    let floor = y(0.0);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n<title>{}</title>\n\
         <style>{STYLE}</style>\n",
        title(story)
    );
    let step = step(most);
    for part in 0..=LINES {
        let bytes = step * f64::from(part);
        if bytes > most {
            break;
        }
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{first}\" x2=\"{last}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\
             <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>",
            y(bytes),
            first - 8.0,
            y(bytes) + 4.0,
            size(bytes as u64)
        );
    }
    let _ = write!(
        out,
        "<polygon class=\"left\" points=\"{first},{floor} {ramp} {last},{floor}\"/>\n\
         <polygon class=\"sent\" points=\"{first},{floor} {saw} {last},{floor}\"/>\n\
         <polyline class=\"ramp\" points=\"{ramp}\"/>\n<polyline class=\"saw\" points=\"{saw}\"/>\n"
    );
    for (number, point) in points.iter().filter(|point| point.fired).enumerate() {
        let (x, up) = (point.x, y(point.sent) - 10.0);
        let _ = writeln!(
            out,
            "<text class=\"h\" x=\"{x:.1}\" y=\"{up:.1}\" text-anchor=\"middle\">handoff {}</text>",
            number + 1
        );
    }
    if let Some(end) = points.last() {
        let x = end.x + 10.0;
        let _ = write!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\">what the agent sends</text>\n\
             <text class=\"b\" x=\"{x:.1}\" y=\"{:.1}\">what the model sees</text>\n",
            y(end.received) + 4.0,
            y(end.sent) + 4.0
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} requests of one conversation, size of each</text>\n</svg>\n",
        f64::midpoint(first, last),
        HEIGHT - 12.0,
        story.totals.requests
    );
    out
}

fn title(story: &DemoRun) -> String {
    let handoffs = points(story).iter().filter(|point| point.fired).count();
    let (received, sent) = (size(story.totals.received_bytes), size(story.totals.sent_bytes));
    format!("The agent sent {received} in all; {sent} reached the model, with {handoffs} handoffs")
}

/// Bytes in KiB or MiB, with two digits at most.
fn size(bytes: u64) -> String {
    let kib = bytes as f64 / 1024.0;
    match kib {
        1024.0.. => format!("{:.1} MiB", kib / 1024.0),
        0.0 => "0 B".to_owned(),
        _ => format!("{kib:.0} KiB"),
    }
}

fn points(story: &DemoRun) -> Vec<Point> {
    let legs = story.turns.iter().flat_map(|turn| {
        let last = turn.sent_bytes.len() - 1;
        let legs = turn.sent_bytes.iter().enumerate();
        legs.map(move |(leg, &sent)| (turn.received_bytes, sent, leg < last))
    });
    let legs: Vec<_> = legs.collect();
    let step = (WIDTH - LEFT - RIGHT) / (legs.len().saturating_sub(1).max(1)) as f64;
    let point = |(at, &(received, sent, fired)): (usize, &(u64, u64, bool))| Point {
        x: LEFT + step * at as f64,
        received: received as f64,
        sent: sent as f64,
        fired,
    };
    legs.iter().enumerate().map(point).collect()
}
