//! The inspector shows each exchange correctly on every wire.
//!
//! This covers the tokens and duration of each leg, the reason for each message, the parts of a request
//! outside of its messages, and search results.

use std::time::Duration;

use baton_core::bill::CacheMissReason;
use baton_core::record::WireId;
use baton_core::rewrite::ChangeReason;
use baton_core::wire::{ResponseWatch, View};
use baton_llm::state::journal::{
    BodySide as Body, ExchangeDetail, ExchangeFilter, ExchangeRow, JournalReader, MessageState,
};
use baton_strict::{Fault, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::texts::assert_contains;
use crate::matrix::journaled::Journaled;
use crate::matrix::variants::{ANTHROPIC, CODE_ASSIST, WIRES};

/// Text that is streamed in many pieces, with characters that JSON escapes.
const SENTENCE: &str =
    "The quick brown fox jumps over \"one\" lazy dog, and <then> sleeps in the größte hall.";

const PROMPT: &str = "# Goal\n\nGo on with the \"second\" task: mend src/hall/mod.rs.";

fn handoff() -> Reply {
    Reply::text(SENTENCE).call(
        "session_handoff",
        json!({"prompt": PROMPT, "reason": "the first one is done"}),
    )
}

fn failing(status: u16) -> Reply {
    Reply::failing(Fault::Status {
        status,
        retry_after: Some(0),
        message: "later".to_owned(),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handoff_that_the_model_did_not_call_is_described_as_such() {
    let mut run = Journaled::new(ANTHROPIC, []).await;
    run.fixture.stream = false;
    let command = "::handoff --method local --force --no-git the reader";
    run.fixture.asks(command).await;
    let (_, row, exchange) = run.newest(1).await;
    let notes = exchange.notes.join("\n");
    let wanted = format!(
        "baton stored handoff {} without a call from the model",
        row.event.fired[0]
    );
    assert!(notes.contains(&wanted), "{notes}");
    assert!(!notes.contains("The model called"), "{notes}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_belong_to_their_leg_and_failed_legs_have_a_status() {
    for variant in WIRES {
        for stream in [true, false] {
            let run = Journaled::new(
                variant,
                [handoff(), failing(429), failing(503), Reply::text("Fresh.")],
            )
            .await;
            run.sends(stream).await;
            let (_, row, exchange) = run.newest(1).await;
            assert_eq!(row.statuses, [Some(200), Some(429), Some(503), Some(200)]);
            let tokens = &row.event.tokens;
            let known: Vec<_> = tokens.iter().map(Option::is_some).collect();
            assert_eq!(known, [true, false, false, true], "{} {row:?}", variant.model);
            let (first, last) = (tokens[0].unwrap(), tokens[3].unwrap());
            assert!(
                first.all_input() > 0 && last.all_input() > 0 && first.output > last.output,
                "{row:?}"
            );
            let sum = row.tokens_sum.unwrap();
            assert_eq!(sum.all_input(), first.all_input() + last.all_input());
            assert_eq!(sum.output, first.output + last.output);
            // The event for logs and metrics has the same numbers.
            let events = run.fixture.baton.events(1).await;
            let spent = events[0].spent();
            assert_eq!((spent.all_input(), spent.output), (sum.all_input(), sum.output));
            for (leg, tokens) in exchange.legs.iter().zip(tokens) {
                let usage = leg.response.usage.map(|usage| usage.output);
                assert_eq!(usage, tokens.map(|tokens| tokens.output));
            }
            in_the_order_of_events(&row, &exchange);
        }
    }
}

fn in_the_order_of_events(row: &ExchangeRow, exchange: &ExchangeDetail) {
    let fired = &row.event.fired[0];
    let all = exchange.notes.join("\n");
    let order = [
        format!("Leg 1: The model called session_handoff. baton stored handoff {fired}"),
        format!("Leg 2: The transcript was cut at handoff {fired}"),
        "Leg 2: Upstream responded with 429, and baton sent another request.".to_owned(),
        "Leg 3: Upstream responded with 503, and baton sent another request.".to_owned(),
        format!("Leg 4: The transcript was cut at handoff {fired}"),
    ];
    let places: Vec<_> = order.iter().map(|note| all.find(note.as_str())).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?}\n{all}"
    );
}

/// Some wires include cached tokens in their input tokens, others do not.
#[test]
fn input_tokens_have_the_same_parts_on_every_wire() {
    let watch = ResponseWatch {
        hide: baton_core::tools::ToolNames::NONE,
        buffered_bytes: 1 << 20,
    };
    let replies = [
        (
            WireId::Anthropic,
            5,
            json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": "end_turn", "usage": {"input_tokens": 100, "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 5, "output_tokens": 7}}),
        ),
        (
            WireId::OpenaiChat,
            5,
            json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [{"index": 0,
            "finish_reason": "stop", "message": {"role": "assistant", "content": "a"}}], "usage": {"prompt_tokens": 165,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 5}, "completion_tokens": 7}}),
        ),
        (
            WireId::OpenaiResponses,
            0,
            json!({"id": "r", "object": "response", "status": "completed", "model": "m",
            "output": [], "usage": {"input_tokens": 160, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 7}}),
        ),
        (
            WireId::Gemini,
            0,
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]},
            "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 160, "cachedContentTokenCount": 60,
            "candidatesTokenCount": 4, "thoughtsTokenCount": 3}}),
        ),
    ];
    for (id, written, reply) in replies {
        let wire = baton_core::wire::wire(id);
        let usage = wire
            .reply(&View::empty(wire.id()), &reply.to_string().into(), watch)
            .unwrap()
            .usage;
        let parts = (usage.input, usage.cache_read, usage.cache_write, usage.output);
        assert_eq!(parts, (100, 60, written, 7), "{id:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leg_that_is_asked_again_keeps_its_cut() {
    for variant in WIRES {
        let empty = Reply::text("Hm.").call("session_handoff", json!({"prompt": ""}));
        let run = Journaled::new(
            variant,
            [handoff(), Reply::text("Fresh."), empty, Reply::text("So be it.")],
        )
        .await;
        let answer = run.sends(true).await;
        run.fixture
            .ask(&run.fixture.then(&run.fixture.history(), &answer, "More."), true)
            .await;
        let (_, row, exchange) = run.newest(2).await;
        let id = row.event.pinned.clone().unwrap();
        assert_eq!(row.legs, 2, "{row:?}");
        let cuts: Vec<_> = row
            .changes
            .iter()
            .filter(|change| change.change.why == ChangeReason::Cut)
            .collect();
        assert!(
            cuts.iter()
                .all(|cut| cut.change.handoff.is_some_and(|at| at.to_string() == id)),
            "{cuts:?}"
        );
        let notes = exchange.notes.join("\n");
        assert_contains(&notes, &format!("Leg 2: The transcript was cut at handoff {id}"));
        assert_contains(&notes, "1 handoff call was answered with an error");
        // The reasons of one leg are not shown for another.
        let asked = |leg: usize| {
            let mut messages = exchange.legs[leg].sent.messages.iter();
            messages.any(|message| message.why == Some(ChangeReason::AskAgain))
        };
        assert_eq!(
            [asked(0), asked(1)],
            [false, true],
            "{:?}",
            exchange.legs[1].sent.messages
        );
        let prompts = exchange.legs.iter().map(|leg| {
            let messages = leg.sent.messages.iter();
            messages
                .filter(|message| {
                    message.why == Some(ChangeReason::Cut) && message.state == MessageState::New
                })
                .count()
        });
        assert_eq!(prompts.collect::<Vec<_>>(), [1, 1]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_the_model_saw_has_a_row() {
    for variant in WIRES.into_iter().chain([CODE_ASSIST]) {
        let run = Journaled::new(variant, [Reply::text("Hello.")]).await;
        run.sends(true).await;
        let (query, row, exchange) = run.newest(1).await;
        let sent = &exchange.legs[0].sent;
        let system = sent
            .envelope
            .iter()
            .chain(&sent.messages)
            .find(|row| row.role == "system");
        assert_eq!(
            system.unwrap().first_line,
            "You are an agent.",
            "{}",
            variant.model
        );
        let tools: Vec<_> = sent.envelope.iter().filter(|row| row.role == "tools").collect();
        assert!(tools[0].first_line.starts_with("read_file") && tools[0].state == MessageState::Kept);
        let ours = tools.last().unwrap();
        assert!(ours.first_line.starts_with("session_handoff "), "{ours:?}");
        assert_eq!(
            (ours.state, ours.why),
            (MessageState::New, Some(ChangeReason::Tool))
        );
        assert_eq!(exchange.received.envelope.len() + 1, sent.envelope.len());
        // The text of the part, as the model reads it.
        let full = query
            .envelope_row(&row.id, Body::Sent(0), ours.i)
            .unwrap()
            .unwrap();
        let message = full.parts[0].text.as_deref().unwrap();
        assert!(message.len() > 200 && !message.contains("\\n"), "{message}");
        assert!(full.parts[1].json.as_ref().unwrap().get().contains("prompt"));
        assert!(query.envelope_row(&row.id, Body::Sent(0), 99).unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_search_covers_text_as_a_user_reads_it() {
    for variant in WIRES.into_iter().chain([CODE_ASSIST]) {
        for stream in [true, false] {
            let call = Reply::text(SENTENCE).call("read_file", json!({"path": "src/hall/größte \"one\".rs"}));
            let run = Journaled::new(variant, [call, Reply::text("Fresh.")]).await;
            run.sends(stream).await;
            let (query, row, _) = run.newest(1).await;
            for wanted in [
                "jumps over \"one\" lazy dog, and <then> sleeps",
                "JUMPS  over \"one\"\nlazy",
                "in the größte hall",
                "src/hall/größte \"one\".rs",
            ] {
                let found = query.search(wanted, 10).unwrap();
                assert_eq!(
                    found.hits.len(),
                    1,
                    "{} {stream} {wanted}: {found:?}",
                    variant.model
                );
                let hit = &found.hits[0];
                assert_eq!(hit.exchange, row.id);
                assert_eq!(hit.title.as_deref(), Some(title(&query).as_str()));
                assert!(
                    matches!(hit.side.as_str(), "response" | "shown") && hit.position.of == "body",
                    "{hit:?}"
                );
                let plain = |text: &str| {
                    text.split_whitespace()
                        .collect::<Vec<_>>()
                        .join(" ")
                        .to_lowercase()
                };
                assert_eq!(plain(&hit.snippet[1]), plain(wanted));
                assert!(
                    !hit.snippet.concat().contains("\\\"") && !hit.snippet.concat().contains("data:"),
                    "{hit:?}"
                );
            }
            assert!(query.search("jumps over two", 10).unwrap().hits.is_empty());
        }
    }
}

fn title(query: &JournalReader) -> String {
    query.conversations(None, 1).unwrap().remove(0).title
}

/// The agent requests the provider's diagnosis, and changes its tools.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_providers_reason_for_a_cache_miss_is_a_note() {
    for stream in [true, false] {
        let run = Journaled::new(ANTHROPIC, [Reply::text("First."), Reply::text("Second.")]).await;
        let fixture = &run.fixture;
        let ask = |previous: Value, tool: &'static str| async move {
            let mut body = (ANTHROPIC.body)(&fixture.history(), stream);
            body["diagnostics"] = json!({"previous_message_id": previous});
            body["tools"][0]["name"] = json!(tool);
            let path = (ANTHROPIC.path)(stream);
            let answer = fixture
                .baton
                .post(path, ANTHROPIC.headers, body.to_string().into())
                .await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            answer.text()
        };
        let first = ask(Value::Null, "read_file").await;
        let id = first
            .split("\"id\":\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        ask(json!(id), "read_files").await;
        let (query, row, exchange) = run.newest(2).await;
        let miss = row.event.served[0].as_ref().unwrap().cache_miss.unwrap();
        assert_eq!(miss.reason, CacheMissReason::ToolsChanged);
        assert!(miss.tokens > 20, "{miss:?}");
        let note = format!(
            "The provider's cache could not serve about {} tokens: the list of tools is not as in the earlier request.",
            miss.tokens
        );
        assert!(exchange.notes.contains(&note), "{:?}", exchange.notes);
        let earlier = query.list(&ExchangeFilter::default()).unwrap().remove(1);
        assert_eq!(earlier.event.served[0].as_ref().unwrap().cache_miss, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_hit_names_its_place() {
    let run = Journaled::new(ANTHROPIC, [handoff(), Reply::text("Fresh.")]).await;
    run.sends(true).await;
    let (query, _, exchange) = run.newest(1).await;
    let at = |wanted: &str| {
        let hit = query.search(wanted, 10).unwrap().hits.remove(0);
        (hit.side, hit.position.of, hit.position.leg, hit.position.i)
    };
    assert_eq!(
        at("You are an agent."),
        ("received".into(), "envelope", None, Some(0))
    );
    let tools = exchange.legs[0].sent.envelope.len();
    assert_eq!(at("session_handoff"), ("response".into(), "body", Some(0), None));
    // Only the tool's description contains this.
    let full = query
        .envelope_row(&exchange.exchange.id, Body::Sent(0), tools - 1)
        .unwrap()
        .unwrap();
    let words: String = full.parts[0].text.as_deref().unwrap().chars().take(60).collect();
    assert_eq!(at(&words), ("sent".into(), "envelope", Some(0), Some(tools - 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_har_has_times_headers_and_addresses_of_each_leg() {
    for variant in WIRES {
        let slow = Reply::text("Fresh.").head_delay(Duration::from_millis(80));
        let run = Journaled::new(variant, [handoff(), failing(429), slow]).await;
        run.sends(true).await;
        let (query, row, _) = run.newest(1).await;
        let har = query.har(&row.id).unwrap().unwrap();
        let entries = har["log"]["entries"].as_array().unwrap();
        assert_eq!(entries.len(), 4);
        let url = run.fixture.provider.url();
        for entry in &entries[1..] {
            let to = entry["request"]["url"].as_str().unwrap();
            let path = (variant.path)(true).split('?').next().unwrap();
            assert!(to.starts_with(&url) && to.ends_with(path), "{to}");
            let headers = entry["request"]["headers"].as_array().unwrap();
            assert!(
                headers.iter().any(|header| header["name"] == "accept-encoding"),
                "{headers:?}"
            );
        }
        let last = &entries[3];
        assert!(
            last["timings"]["wait"].as_f64().unwrap() >= 79.0,
            "{}",
            last["timings"]
        );
        assert!(last["time"].as_f64() >= last["timings"]["wait"].as_f64());
        assert_eq!(entries[2]["response"]["status"], 429);
        assert!(!har.to_string().contains("sk-agent") && !har.to_string().contains("sk-ant-api03-agent"));
        let _: &Value = last;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsent_input_is_net_of_every_request_that_went_upstream() {
    let mut run = Journaled::new(ANTHROPIC, [handoff(), failing(429), Reply::text("Fresh.")]).await;
    let long = run.fixture.user(&"A long way to go. ".repeat(2000));
    run.fixture.history[0] = long;
    run.fixture.asks("Go on.").await;
    let (query, row, _) = run.newest(1).await;
    let tokens = |bytes: u64| i64::try_from(bytes / 4).unwrap();
    // The first request was sent in full and the later ones in addition, so nothing was saved.
    let sent = row.event.sent_bytes.iter().sum();
    assert_eq!(row.event.sent_bytes.len(), 3);
    assert_eq!(row.unsent_tokens, tokens(row.event.received_bytes) - tokens(sent));
    assert!(row.unsent_tokens < 0, "{row:?}");
    let all = query.conversations(None, 1).unwrap().remove(0);
    assert_eq!(all.unsent_tokens, row.unsent_tokens);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_model_looked_up_again_is_found_in_the_journal() {
    let read = |path: &str| Reply::text("Reading.").call("read_file", json!({"path": path}));
    let mut run = Journaled::new(ANTHROPIC, []).await;
    let talk = &mut run.fixture;
    talk.history = vec![talk.user("Mend it.")];
    talk.runs(read("src/a.rs"), "fn main() {}").await;
    talk.push(handoff());
    talk.push(Reply::text("On it."));
    talk.goes_on().await;
    talk.history.push(talk.user("On."));
    for path in ["src/a.rs", "src/b.rs"] {
        talk.runs(read(path), "fn main() {}").await;
    }
    talk.push(Reply::text("Done."));
    talk.goes_on().await;
    let (query, row, _) = run.newest(5).await;
    let conversation = row.conversation.unwrap();
    let id = row.event.pinned.as_deref().unwrap().parse().unwrap();
    let found = query.called_again(&conversation, id).unwrap();
    assert_eq!(found, Some(vec!["src/a.rs".to_owned()]));
    let unknown = "0199a3c2-0000-7000-8000-000000000001".parse().unwrap();
    assert_eq!(query.called_again(&conversation, unknown).unwrap(), None);
}
