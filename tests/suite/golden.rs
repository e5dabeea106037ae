//! Golden directories (`tests/golden/WIRE/`): request, legs, merged stream and reply, next request, cut
//! request, mixed batch.
//!
//! A new case is a new directory; `manifest.json` explains the names.

use std::path::PathBuf;

use baton_core::marker::seal::{SealKey, SealKeys};
use baton_core::marker::sentinel;
use baton_core::record::WireId;
use baton_core::record::{HiddenPair, HiddenResult, LOCAL};
use baton_core::response::{StreamMerge, Verdict, VerdictInput, judge, place_beside};
use baton_core::rewrite::preamble;
use baton_core::rewrite::{ContinuedResponse, Cut, RequestReading, Rewrite, rewrite};
use baton_core::text::splice;
use baton_core::wire::{Ending, Framing, Leg, Operation, ResponseWatch, View, Wire};
use bytes::Bytes;
use pretty_assertions::assert_eq;
use serde_json::Value;
use uuid::Uuid;

const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);

const WATCH: ResponseWatch = ResponseWatch {
    hide: baton_core::tools::ToolNames::HANDOFF,
    buffered_bytes: 1 << 20,
};

struct Directory(&'static Wire);

impl Directory {
    fn bytes(&self, name: &str) -> Bytes {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(self.0.id().name())
            .join(name);
        std::fs::read(&path)
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
            .into()
    }

    /// A stream, with the file extension of its framing.
    fn stream(&self, name: &str) -> Bytes {
        let lines = self.0.id() == WireId::Ollama;
        self.bytes(&format!("{name}.{}", if lines { "ndjson" } else { "sse" }))
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.bytes(name)).unwrap()
    }

    fn reading(&self, name: &str) -> RequestReading {
        RequestReading::new(self.0, &self.bytes(name), Operation::Generate).unwrap()
    }
}

fn prompt() -> String {
    let manifest = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/manifest.json")).unwrap();
    serde_json::from_slice::<Value>(&manifest).unwrap()["carry_over_prompt"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn key() -> SealKeys {
    SealKey::new(*b"golden-test-key").into()
}

fn shown(wire: &Wire) -> String {
    let seal = key().seal(LOCAL, ID, &prompt());
    wire.sentinel_text(&sentinel::full(ID, Some("survey finished"), &prompt(), &seal))
}

fn plain<'a>() -> Rewrite<'a> {
    Rewrite {
        tools: Some(baton_core::tools::ToolTable::handoff()),
        ..Rewrite::default()
    }
}

fn value(rope: Vec<Bytes>) -> Value {
    serde_json::from_slice(&splice::flat(rope)).unwrap()
}

/// Data of every event, as JSON values.
fn events(stream: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(stream);
    let data = text.lines().filter_map(|l| {
        l.strip_prefix("data: ")
            .or(Some(l).filter(|l| l.starts_with('{')))
    });
    data.map(|d| {
        if d == "[DONE]" {
            Value::from("[DONE]")
        } else {
            serde_json::from_str(d).unwrap()
        }
    })
    .collect()
}

fn tool_goes_in(f: &Directory) {
    let done = rewrite(&f.reading("00_request_agent.json"), &plain());
    assert_eq!(value(done.rope), f.json("01_request_upstream.json"));
}

fn later_leg_and_cut(f: &Directory) {
    let reading = f.reading("00_request_agent.json");
    let found = preamble::of(&reading.view, None, &[]);
    let head = preamble::head(f.0, &found, &prompt());
    let fresh = rewrite(
        &reading,
        &Rewrite {
            cut: Cut::Fresh { head: &head },
            ..plain()
        },
    );
    assert_eq!(value(fresh.rope), f.json("04_leg2_request.json"));

    let next = f.reading("07_next_request_agent.json");
    let candidates = next.candidates();
    let candidate = candidates.first().expect("the sentinel is found");
    let found = &candidate.sentinel;
    let sealed = found.sealed.expect("it is closed");
    let message = sealed.opened(&next.view.body, &key(), LOCAL, found.id);
    assert_eq!(message, Some(prompt()), "its seal verifies");
    assert_eq!(sealed.opened(&next.view.body, &key(), "another", found.id), None);
    let cut = Cut::At {
        candidate,
        prompt: message.as_deref(),
        head: &head,
    };
    let done = rewrite(&next, &Rewrite { cut, ..plain() });
    assert_eq!(value(done.rope), f.json("08_next_request_upstream.json"));
    assert!(done.messages >= 2);
}

/// Input for merging a stream.
struct Merged<'a> {
    f: &'a Directory,
    request: RequestReading,
    legs: [Bytes; 2],
    prompt: String,
    shown: String,
}

impl<'a> Merged<'a> {
    fn new(f: &'a Directory) -> Self {
        Self {
            f,
            request: f.reading("00_request_agent.json"),
            legs: [f.stream("03_leg1"), f.stream("04_leg2")],
            prompt: prompt(),
            shown: shown(f.0),
        }
    }

    /// Runs the legs through the machine, each split at `at`.
    fn cut_at(&self, at: usize) -> Vec<u8> {
        let mut merge = StreamMerge::new(self.f.0.machine(&self.request.view, WATCH), 1 << 20, true);
        let mut out = Vec::new();
        let feed = |merge: &mut StreamMerge, leg: &Bytes, out: &mut Vec<Bytes>| {
            let at = at.min(leg.len());
            merge.feed(leg.slice(..at), out);
            merge.feed(leg.slice(at..), out);
            merge.finish_leg(out);
        };
        feed(&mut merge, &self.legs[0], &mut out);
        assert!(merge.leg_ended());
        let now = VerdictInput {
            messages: 3,
            legs: 1,
            max_chain: 8,
            ..VerdictInput::default()
        };
        let Verdict::Fire {
            prompt: message,
            reason,
        } = judge(merge.report(), &now)
        else {
            panic!("{:?}", judge(merge.report(), &now))
        };
        assert_eq!(
            (message, reason.as_deref()),
            (self.prompt.clone(), Some("survey finished"))
        );
        merge.say(&self.shown, &mut out);
        merge.next_leg();
        feed(&mut merge, &self.legs[1], &mut out);
        assert_eq!(
            judge(merge.report(), &VerdictInput { legs: 2, ..now }),
            Verdict::End(Ending::Own)
        );
        merge.close(Ending::Own, &mut out);
        out.concat()
    }
}

fn stream_merges(f: &Directory) {
    // Pings from upstream are optional; leg 2's ping is relayed unchanged.
    let merged = Merged::new(f);
    let longest = merged.legs.iter().map(Bytes::len).max().unwrap();
    let whole = merged.cut_at(longest);
    assert_eq!(events(&whole), events(&f.stream("05_merged")));
    for at in 0..longest {
        assert!(merged.cut_at(at) == whole, "cut at {at}");
    }
}

fn reply_merges(f: &Directory) {
    let first = f.bytes("02_response_handoff.json");
    let report = f.0.reply(&View::empty(f.0.id()), &first, WATCH).unwrap();
    let now = VerdictInput {
        messages: 3,
        legs: 1,
        max_chain: 8,
        ..VerdictInput::default()
    };
    assert!(matches!(judge(&report, &now), Verdict::Fire { .. }));
    let second = f.bytes("04_leg2.json");
    let legs = vec![
        Leg {
            body: first,
            report,
            then: vec![shown(f.0)],
        },
        Leg {
            report: f.0.reply(&View::empty(f.0.id()), &second, WATCH).unwrap(),
            body: second,
            then: Vec::new(),
        },
    ];
    let joined: Value = serde_json::from_slice(&f.0.join(&legs, None, Ending::Own)).unwrap();
    assert_eq!(joined, f.json("06_merged.json"));
}

fn mixed_batch(f: &Directory) {
    let request = f.reading("00_request_agent.json");
    let stream = f.stream("20_mixed_upstream");
    let wanted = events(&f.stream("21_mixed_to_agent"));
    let mut whole = Vec::new();
    for cut in 0..stream.len() {
        let mut merge = StreamMerge::new(f.0.machine(&request.view, WATCH), 1 << 20, true);
        let mut out = Vec::new();
        merge.feed(stream.slice(..cut), &mut out);
        merge.feed(stream.slice(cut..), &mut out);
        merge.finish_leg(&mut out);
        let now = VerdictInput {
            messages: 3,
            legs: 1,
            max_chain: 8,
            ..VerdictInput::default()
        };
        let Verdict::Mixed(all) = judge(merge.report(), &now) else {
            panic!("{:?}", judge(merge.report(), &now))
        };
        let report = merge.report().clone();
        merge.close(Ending::Own, &mut out);
        let out = out.concat();
        if cut > 0 {
            assert!(out == whole, "cut at {cut}");
            continue;
        }
        assert_eq!(events(&out), wanted);
        whole = out;
        let pairs: Vec<HiddenPair> = all
            .iter()
            .map(|refused| HiddenPair {
                id: ID,
                principal: "local".into(),
                conversation: "c".into(),
                wire: f.0.id(),
                tool: "session_handoff".into(),
                call_id: refused.call.id.clone(),
                call: (f.0.functions.hidden_call)(&refused.call),
                answer: HiddenResult::QUEUED,
                place: place_beside(&report, &refused.call).unwrap(),
                pending: refused.pending.clone(),
                created_ms: 0,
            })
            .collect();
        let next = f.reading("22_mixed_next_agent.json");
        let done = rewrite(
            &next,
            &Rewrite {
                pairs: &pairs,
                ..plain()
            },
        );
        assert_eq!(done.pending.map(|p| p.0), Some(prompt()));
        assert_eq!(value(done.rope), f.json("23_mixed_next_upstream.json"));
    }
}

fn bytes_outside_edits_stay(f: &Directory) {
    let odd = String::from_utf8(f.bytes("00_request_agent.json").to_vec()).unwrap();
    let odd = odd.replacen(
        '{',
        "{\"zz\": 1.0e+2 , \"big\":12345678901234567890123,\"esc\":\"\\u0041\\/\",\n",
        1,
    );
    let body = Bytes::from(odd.clone());
    let reading = RequestReading::new(f.0, &body, Operation::Generate).unwrap();
    let untouched = rewrite(
        &reading,
        &Rewrite {
            tools: None,
            ..plain()
        },
    );
    assert_eq!(untouched.rope.len(), 1);
    assert_eq!(untouched.rope[0].as_ptr(), body.as_ptr());
    let done = splice::flat(rewrite(&reading, &plain()).rope);
    let common = done
        .iter()
        .zip(odd.as_bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let behind = done
        .iter()
        .rev()
        .zip(odd.as_bytes().iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    assert!(
        common + behind >= odd.len(),
        "only insertions: {common} + {behind} of {}",
        odd.len()
    );
}

macro_rules! golden {
    ($name:ident, $wire:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn tool_goes_in() {
                super::tool_goes_in(&Directory(&$wire));
            }
            #[test]
            fn later_leg_and_cut() {
                super::later_leg_and_cut(&Directory(&$wire));
            }
            #[test]
            fn stream_merges_at_every_split() {
                super::stream_merges(&Directory(&$wire));
            }
            #[test]
            fn reply_merges() {
                super::reply_merges(&Directory(&$wire));
            }
            #[test]
            fn mixed_batch_at_every_split() {
                super::mixed_batch(&Directory(&$wire));
            }
            #[test]
            fn bytes_outside_edits_stay() {
                super::bytes_outside_edits_stay(&Directory(&$wire));
            }
        }
    };
}

golden!(anthropic, baton_core::wire::anthropic::WIRE);
golden!(openai_chat, baton_core::wire::openai_chat::WIRE);
golden!(openai_responses, baton_core::wire::openai_responses::WIRE);
golden!(gemini, baton_core::wire::gemini::WIRE);
golden!(ollama, baton_core::wire::ollama::WIRE);

/// Damaged bytes are refused or relayed. Nothing panics, and unchanged bytes are not lost.
fn damage_never_panics(f: &Directory) {
    let legs = [f.stream("03_leg1"), f.stream("20_mixed_upstream")];
    let requests = [
        f.bytes("07_next_request_agent.json"),
        f.bytes("22_mixed_next_agent.json"),
    ];
    let view = f.reading("00_request_agent.json").view;
    for (n, byte) in [(0, b'"'), (1, b'{'), (2, b']'), (3, b'7'), (4, b'\\')] {
        for at in (n..requests[0].len().max(legs[0].len())).step_by(5) {
            for request in &requests {
                let mut damaged = request.to_vec();
                let at = at % damaged.len();
                damaged[at] = byte;
                if let Ok(reading) = RequestReading::new(f.0, &damaged.into(), Operation::Generate) {
                    let _ = (
                        (f.0.functions.bound)(&reading.view),
                        reading.call_names(),
                        reading.candidates(),
                    );
                    rewrite(&reading, &plain());
                }
            }
            for leg in &legs {
                let mut damaged = leg.to_vec();
                let at = at % damaged.len();
                damaged[at] = byte;
                let mut merge = StreamMerge::new(f.0.machine(&view, WATCH), 1 << 20, true);
                let mut out = Vec::new();
                merge.feed(damaged.clone().into(), &mut out);
                merge.finish_leg(&mut out);
                merge.say("mark", &mut out);
                merge.close(Ending::WithoutCall, &mut out);
                let _ = f.0.reply(&View::empty(f.0.id()), &damaged.into(), WATCH);
            }
        }
    }
}

#[test]
fn damaged_gemini_never_panics() {
    damage_never_panics(&Directory(&baton_core::wire::gemini::WIRE));
}

#[test]
fn damaged_ollama_never_panics() {
    damage_never_panics(&Directory(&baton_core::wire::ollama::WIRE));
}

/// Converts the events of a stream to the elements of one JSON array.
fn as_array(stream: &[u8]) -> Bytes {
    let all: Vec<String> = events(stream).iter().map(Value::to_string).collect();
    Bytes::from(format!("[{}]\n", all.join("\n,\r\n")))
}

#[test]
fn gemini_json_array_merges_at_every_split() {
    let f = Directory(&baton_core::wire::gemini::WIRE);
    let request = f.reading("00_request_agent.json");
    let (leg1, leg2) = (as_array(&f.stream("03_leg1")), as_array(&f.stream("04_leg2")));
    for cut in 0..leg1.len().max(leg2.len()) {
        let mut machine = f.0.machine(&request.view, WATCH);
        machine.frame_as(Framing::JsonArray);
        let mut merge = StreamMerge::new(machine, 1 << 20, true);
        let mut out = Vec::new();
        merge.keepalive(&mut out);
        for (n, leg) in [&leg1, &leg2].into_iter().enumerate() {
            let cut = cut.min(leg.len());
            merge.feed(leg.slice(..cut), &mut out);
            merge.keepalive(&mut out);
            merge.feed(leg.slice(cut..), &mut out);
            merge.finish_leg(&mut out);
            assert!(merge.leg_ended());
            if n == 0 {
                merge.say(&shown(f.0), &mut out);
                merge.next_leg();
            }
        }
        merge.close(Ending::Own, &mut out);
        let message: Value = serde_json::from_slice(&out.concat()).unwrap();
        assert_eq!(message, f.json("05_merged_jsonarray.json"), "cut at {cut}");
    }
}
#[test]
fn every_wire_is_found_by_its_name() {
    for id in [
        WireId::Anthropic,
        WireId::OpenaiChat,
        WireId::OpenaiResponses,
        WireId::Gemini,
        WireId::Ollama,
    ] {
        assert_eq!(WireId::named(id.name()), Some(id));
    }
}

#[test]
fn a_response_stored_upstream_continues_from_its_last_leg() {
    let f = Directory(&baton_core::wire::openai_responses::WIRE);
    let next = f.reading("09_stateful_next_agent.json");
    assert_eq!(
        next.view.facts.previous.as_ref().map(|p| &*p.id),
        Some("resp_leg1")
    );
    let (id, owed) = ("resp_leg2", &[][..]);
    let previous = Some(ContinuedResponse { id, owed });
    let done = rewrite(&next, &Rewrite { previous, ..plain() });
    assert!(done.messages >= 2);
    assert_eq!(value(done.rope), f.json("10_stateful_next_upstream.json"));
}
