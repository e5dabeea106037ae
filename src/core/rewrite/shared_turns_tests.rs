//! Turns of an earlier request are not read again, and the rewrite is the same.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::linear_tests::{body, call, message, result};
use super::*;
use crate::mark::{gap, sentinel};
use crate::record::WireId;
use crate::text::{cost, splice};
use crate::wire::{BodyFacts, KnownTurns, Operation, SharedTurns, WIRES, Wire, wire};

const IDS: [Uuid; 2] = [
    Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11),
    Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e12),
];

/// One message, by a number: texts, calls and results in any order, marks of ours, and beginnings of them that were
/// escaped.
fn drawn(w: WireId, n: u8) -> Value {
    let id = format!("call_{}", n % 5);
    let texts = |all: &[&str]| all.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    match n / 5 {
        0..=1 => message(w, "user", &[format!("words {n}")]),
        2..=3 => message(w, "assistant", &[format!("said \"{n}\"")]),
        4..=7 => call(w, &id, &json!({ "n": n })),
        8..=12 => result(w, &id),
        13 => message(w, "assistant", &texts(&["see [[handoff-res", "ume\\: there"])),
        14 => message(w, "assistant", &texts(&["[[handoff-aside\\: or C:\\\\: it"])),
        n => message(
            w,
            "assistant",
            &[gap::spaced(&sentinel::opening(IDS[usize::from(n) % 2]))],
        ),
    }
}

/// The request and its changes with each cut that its transcript offers.
fn rewritten(wire: &dyn Wire, reading: &RequestReading) -> Vec<(Bytes, usize)> {
    let head = wire.carry_over(&[], "Go on.");
    let candidates = reading.candidates(wire);
    let cuts = candidates.iter().map(|candidate| Cut::At {
        candidate,
        prompt: Some("Go on."),
        head: &head,
    });
    let all = cuts.chain([Cut::None]).map(|cut| {
        let what = Rewrite {
            cut,
            tools: Some(crate::tools::ToolTable::handoff()),
            ..Rewrite::default()
        };
        let rewritten = rewrite(wire, reading, &what);
        (splice::flat(rewritten.rope), rewritten.messages)
    });
    all.collect()
}

/// Reads a body of which `earlier` is known; keeps the turns of its first `len` bytes.
fn read_after(
    wire: &dyn Wire,
    body: &Bytes,
    earlier: Option<Arc<KnownTurns>>,
    len: usize,
) -> (RequestReading, Option<Arc<KnownTurns>>) {
    let scanned = BodyFacts {
        turns: earlier.clone(),
        ..BodyFacts::default()
    };
    let mut reading = RequestReading::scanned(wire, body, Operation::Generate, &scanned).unwrap();
    let own = KnownTurns::new(reading.view.list, &reading.view.turns, len).map(Arc::new);
    reading.view.shared = SharedTurns::new(earlier, own.clone());
    (reading, own)
}

proptest! {
    #[test]
    fn what_is_known_changes_nothing(
        drawn_by in proptest::collection::vec(0u8..85, 3..40),
        sizes in proptest::collection::vec((0.0f64..1.0, 0.0f64..1.0), 1..5),
    ) {
        for &wire in WIRES {
            let messages: Vec<Value> = drawn_by.iter().map(|n| drawn(wire.id(), *n)).collect();
            let mut counts: Vec<_> = sizes.iter().map(|(size, len)| {
                (1 + (size * (messages.len() - 1) as f64) as usize, *len)
            }).collect();
            // A conversation grows, and may send the same again.
            counts.sort_by_key(|(count, _)| *count);
            let mut earlier = None;
            for (count, part) in counts {
                let text = body(wire.id(), messages[..count].to_vec());
                let plain = RequestReading::new(wire, &text, Operation::Generate).unwrap();
                // The next one begins with the list's elements, and then has a comma.
                let len = ((plain.view.list.end - 1) as f64 * part) as usize;
                let (reading, own) = read_after(wire, &text, earlier, len);
                prop_assert_eq!(&reading.view.turns, &plain.view.turns);
                prop_assert_eq!(reading.view.list, plain.view.list);
                prop_assert_eq!(rewritten(wire, &reading), rewritten(wire, &plain));
                earlier = own;
            }
        }
    }
}

/// A long conversation of which all but the last turns are known. Only the last turns cost steps: in reading, in the
/// search for orphaned results, and in the search for marks split across texts.
#[test]
fn known_turns_cost_nothing() {
    for id in [WireId::Anthropic, WireId::OpenaiChat] {
        let wire = wire(id);
        let more = (0..2000u32).flat_map(|i| {
            let name = format!("call_{i}");
            [call(id, &name, &json!({ "i": i })), result(id, &name)]
        });
        let first = [drawn(id, 0), drawn(id, 10)];
        let messages: Vec<Value> = first.into_iter().chain(more).collect();
        let short = body(id, messages[..messages.len() - 10].to_vec());
        let long = body(id, messages);
        let looked_at = |text: &Bytes, earlier| {
            let end = RequestReading::new(wire, text, Operation::Generate)
                .unwrap()
                .view
                .list
                .end;
            let scanned = BodyFacts {
                turns: earlier,
                ..BodyFacts::default()
            };
            let (read, view) = cost::of(|| wire.read_scanned(text, Operation::Generate, &scanned));
            let (reading, own) = read_after(wire, text, scanned.turns, end - 1);
            assert_eq!(reading.view.turns, view.unwrap().turns);
            let (paired, lost) = cost::of(|| orphans::dropped(wire, &reading.view, 1, &[]));
            let (unbroken, slashes) = cost::of(|| unescape::edits(wire, &reading, 0));
            assert!(lost.is_empty() && slashes.is_empty());
            ([read, paired, unbroken], own)
        };
        let (all, own) = looked_at(&short, None);
        let (new, _) = looked_at(&long, own);
        for (all, new) in all.iter().zip(new) {
            assert!(new * 100 < *all, "{new} steps behind {all}, {}", id.name());
        }
    }
}
