//! Fixed work items whose instructions `benches/instructions.sh` counts. Without arguments, only checks that
//! they run.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/history.rs"]
#[allow(dead_code)]
mod history;
#[path = "support/wires.rs"]
mod wires;

use std::hint::black_box;

use baton_core::marker::seal::SealKey;
use baton_core::marker::{gap, sentinel};
use baton_core::record::LOCAL;
use baton_core::rewrite::{Cut, RequestReading, Rewrite, rewrite};
use baton_core::text::json;
use baton_core::tools::ToolTable;
use baton_core::wire::Operation;
use baton_core::wire::anthropic;
use bytes::Bytes;
use history::Shape;
use uuid::Uuid;

const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);
const HEAD: &str = r#"{"role":"user","content":"Go on with the importer."}"#;
const PROMPT: &str = "Go on with the importer.";
const EVENTS: usize = 1_280;

/// A name, and the function that prepares the work.
type Case = (&'static str, fn() -> Work);

const CASES: [Case; 12] = [
    ("request 2 KB whole", || request(2_000, false)),
    ("request 100 KB whole", || request(100_000, false)),
    ("request 100 KB pinned", || request(100_000, true)),
    ("request 1 MB pinned", || request(1_000_000, true)),
    ("stream of text, 1 event in a read", || stream("anthropic", 1, 1)),
    ("stream of text, 64 events in a read", || {
        stream("anthropic", 1, 64)
    }),
    ("stream of a later leg, 64 events in a read", || {
        stream("anthropic", 2, 64)
    }),
    ("stream of openai_chat, 64 events in a read", || {
        stream("openai_chat", 1, 64)
    }),
    ("stream of openai_responses, 64 events in a read", || {
        stream("openai_responses", 1, 64)
    }),
    ("stream of gemini, 64 events in a read", || {
        stream("gemini", 1, 64)
    }),
    ("stream of gemini, 1 event in a read", || stream("gemini", 1, 1)),
    ("stream of ollama, 64 events in a read", || {
        stream("ollama", 1, 64)
    }),
];

/// Prepared work, whose instructions count.
type Work = Box<dyn FnOnce() -> usize>;

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    for (name, prepare) in CASES {
        if wanted.is_empty() {
            println!("{name}");
        }
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            let work = prepare();
            black_box(measured(work));
        }
    }
}

/// Runs the work. Only instructions inside this function count.
#[inline(never)]
fn measured(work: Work) -> usize {
    work()
}

fn body(bytes: usize, pinned: bool) -> Bytes {
    let seal = SealKey::new(*b"bench").seal(LOCAL, ID, PROMPT);
    let mark = json::quote(&gap::spaced(&sentinel::full(ID, Some("done"), PROMPT, &seal)));
    let sentinel = pinned.then(|| mark[1..mark.len() - 1].to_owned());
    history::body(
        1,
        &Shape {
            bytes,
            sentinel,
            kept: 50_000,
        },
    )
    .into()
}

fn request(bytes: usize, pinned: bool) -> Work {
    let body = body(bytes, pinned);
    // Created once per process.
    let tools = ToolTable::handoff();
    Box::new(move || {
        let reading = RequestReading::new(&anthropic::WIRE, &body, Operation::Generate).unwrap();
        let candidates = reading.candidates();
        let cut = candidates.first().map_or(Cut::None, |candidate| Cut::At {
            candidate,
            prompt: Some(PROMPT),
            head: HEAD,
        });
        let what = Rewrite {
            cut,
            tools: Some(tools),
            ..Rewrite::default()
        };
        rewrite(&reading, &what).rope.len()
    })
}

fn stream(wire: &str, legs: usize, per_read: usize) -> Work {
    let wire = wires::wire(wire);
    let reads = wires::reads(wire.id(), EVENTS, per_read);
    let mut merge = wires::machine(wire, legs);
    let mut out = Vec::with_capacity(8);
    Box::new(move || {
        let mut pieces = 0;
        for read in reads {
            out.clear();
            merge.feed(read, &mut out);
            pieces += out.len();
        }
        pieces
    })
}
