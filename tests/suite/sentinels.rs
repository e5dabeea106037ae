//! Sentinels in an agent's transcript: their owner, pasted resume lines, and requests whose sentinel is
//! missing or unknown.

use baton_core::record::Handoff;
use baton_llm::state::config::{ClientKey, Config, Secret, TranscriptDetail};
use baton_llm::state::store::HandoffFilter;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{AnthropicFixture, PROMPT, handoff, history, said, texts, user};
use crate::harness::texts::{assert_begins, assert_contains, assert_lacks};
use crate::harness::{AgentWire, Message, memory};
use crate::matrix::fixture::Fixture;
use crate::matrix::talk::Talk;
use crate::matrix::variants::{CODE_ASSIST, GEMINI_ARRAY, VERTEX, WIRES};

const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);

fn teammates(config: &mut Config) {
    for upstream in config.upstreams.values_mut() {
        upstream.api_key = Some(Secret::new("sk-of-the-proxy"));
    }
    let client = |name: &str| ClientKey {
        name: name.to_owned(),
        key: Some(Secret::new(format!("key-of-{name}"))),
        ..ClientKey::default()
    };
    config.clients = vec![client("ann"), client("bob")];
}

async fn ask_as(fixture: &AnthropicFixture, key: &str, history: &[Value]) -> Message {
    let headers = [("anthropic-version", "2023-06-01"), ("x-api-key", key)];
    let body = Anthropic.body(history, true).to_string().into();
    let response = fixture.baton.post(Anthropic.path(), &headers, body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    Anthropic.parse(&response.raw, true, false).unwrap()
}

fn spoken(text: &str) -> Vec<Value> {
    let answer = serde_json::json!({"role": "assistant", "content": text});
    [&history()[..], &[answer, user("More.")]].concat()
}

/// The store is lost. A sentinel is valid only by its seal, and a seal only for its own client.
#[tokio::test]
async fn a_seal_is_valid_for_its_own_client_only() {
    let first = AnthropicFixture::with([handoff(), Reply::text("Fresh.")], memory(), teammates).await;
    let message = ask_as(&first, "key-of-ann", &history()).await;
    let sentinel = said(&message)[1].to_owned();
    assert!(!sentinel.contains("ann"));

    let later = AnthropicFixture::with([], memory(), teammates).await;
    for (key, cut) in [("key-of-ann", true), ("key-of-bob", false)] {
        later.script.push(Reply::text("ok"));
        ask_as(&later, key, &spoken(&format!("Done.{sentinel}Fresh."))).await;
        let sent = texts(later.last().messages());
        assert_eq!(sent[0] != "u: Mend the importer.", cut, "{key}: {sent:?}");
    }
    let alone = AnthropicFixture::with([Reply::text("ok")], memory(), |_| {}).await;
    alone.turn(&spoken(&format!("Done.{sentinel}Fresh."))).await;
    assert_eq!(
        alone.last().messages().len(),
        5,
        "sealed for a client, and shown by nobody"
    );
}

/// Sends a transcript in which consecutive text was joined, as on chat.
async fn sent_behind(fixture: &AnthropicFixture, sentinel: &str, rest: &str) -> Vec<String> {
    fixture.script.push(Reply::text("ok"));
    fixture.turn(&spoken(&format!("Done.{sentinel}{rest}"))).await;
    texts(fixture.last().messages())
}

/// The form of a sentinel belongs to its handoff. A later change of the setting has no effect on it.
#[tokio::test]
async fn a_sentinel_is_read_as_it_was_shown_whatever_the_setting_is_now() {
    let short = |c: &mut Config| c.handoff.transcript = TranscriptDetail::Sentinel;
    let store = memory();
    let first = AnthropicFixture::with([handoff(), Reply::text("Fresh.")], store.clone(), short).await;
    let message = first.turn(&history()).await;
    let sentinel = said(&message)[1].to_owned();
    let now_full = AnthropicFixture::with([], store, |_| {}).await;
    for rest in ["Goal: skip", &format!("{PROMPT}\nFirst, the reader.")] {
        let sent = sent_behind(&now_full, &sentinel, rest).await;
        assert_eq!(sent, [&format!("u: {PROMPT}"), &format!("a: {rest}"), "u: More."]);
    }
    let store = memory();
    let first = AnthropicFixture::with([handoff(), Reply::text("Fresh.")], store.clone(), |_| {}).await;
    let message = first.turn(&history()).await;
    let torn = said(&message)[1].split_once("\nNext").unwrap().0.to_owned();
    let now_short = AnthropicFixture::with([], store, short).await;
    assert_eq!(
        sent_behind(&now_short, &torn, "").await,
        [&format!("u: {PROMPT}"), "u: More."]
    );
}

/// Claude Code 2.1.330 with a model of 5.5: the request for a complete block pasted as the first message.
#[tokio::test]
async fn a_block_that_claude_code_tags_as_pasted_is_resumed() {
    let fixture = AnthropicFixture::new([handoff(), Reply::text("Fresh."), Reply::text("ok")]).await;
    let message = fixture.turn(&history()).await;
    let block = said(&message)[1].to_owned();
    let reminder = "<system-reminder>\n# gitStatus\nclean\n</system-reminder>\n";
    let pasted = format!("\n\n<pasted_content id=\"19a4\">\n{block}</pasted_content id=\"19a4\">\n");
    let blocks = [reminder, &*pasted].map(|text| json!({"type": "text", "text": text}));
    let first = json!({"role": "user", "content": blocks});
    let system = json!({"role": "system", "content": [{"type": "text", "text": "# Environment"}]});
    fixture.turn(&[first, system]).await;
    // The current session's preamble applies, not that of the session that handed off.
    let sent = fixture.last();
    let roles = sent.messages().iter().map(|m| &m["role"]).collect::<Vec<_>>();
    assert_eq!(roles, ["user", "system"]);
    let head = &sent.messages()[0]["content"];
    assert_eq!(
        (&head[0]["text"], &head[1]["text"]),
        (&json!(reminder), &json!(PROMPT))
    );
    fixture.assert_clean();
}

/// Nothing goes upstream, and the agent gets advice in the format of its wire.
#[tokio::test]
async fn an_unknown_resume_line_is_answered_by_baton_on_every_wire() {
    for variant in WIRES.into_iter().chain([GEMINI_ARRAY, CODE_ASSIST, VERTEX]) {
        for stream in [true, false] {
            let mut talk = Talk::opened(Fixture::new(variant, []).await);
            talk.stream = stream;
            let said = talk.asks(&format!("> [handoff-resume:{ID}] Go on.")).await;
            assert_begins(&said.text, "baton: this handoff is not known here");
            assert!(said.input > 0 && said.calls.is_empty());
            // The agent sends the answer back, and the next turn is an ordinary one.
            assert_eq!(talk.says("Then go on.", "Well.").await.text, "Well.");
            assert_eq!(talk.provider.generations().len(), 1);
            talk.assert_clean();
        }
    }
}

/// Two handoffs in the same millisecond: the truncated id matches both, and one more digit distinguishes
/// them.
#[tokio::test]
async fn an_ambiguous_id_is_reported() {
    let store = memory();
    let fixture = AnthropicFixture::with([handoff(), Reply::text("Fresh.")], store.clone(), |_| {}).await;
    fixture.turn(&history()).await;
    let filter = HandoffFilter {
        limit: 9,
        ..HandoffFilter::default()
    };
    let known = store.handoffs(&filter).await.unwrap().remove(0);
    let twin = Handoff {
        id: Uuid::from_u128(known.id.as_u128() ^ (1 << 71)),
        ..store.handoff(&known.principal, known.id).await.unwrap().unwrap()
    };
    store.put_draft(&twin).await.unwrap();
    let asked = fixture.provider.generations().len();
    let id = twin.id.to_string();
    for line in [
        format!("[[handoff-resume:{}\nGo on.", &id[..13]),
        format!("> [[handoff-resume:{}…]] Go on.", &id[..13]),
    ] {
        let message = fixture.turn(&[user(&line)]).await;
        let said = said(&message)[0].to_owned();
        assert_contains(&said, "more than one handoff");
        assert_lacks(&said, "not known");
    }
    assert_eq!(fixture.provider.generations().len(), asked);
    fixture.script.push(Reply::text("ok"));
    fixture
        .turn(&[user(&format!("[[handoff-resume:{}\nGo on.", &id[..18]))])
        .await;
    assert_eq!(
        texts(fixture.last().messages()),
        [&format!("u: {PROMPT}"), "u: Go on."]
    );
}

/// Each handoff is in an answer of its own, with one call of a tool between two of them.
#[tokio::test]
async fn a_model_that_hands_over_again_and_again_is_stopped_until_the_user_speaks() {
    for variant in WIRES {
        let mut talk = Talk::opened(Fixture::new(variant, []).await);
        talk.history.push(talk.user("Go on."));
        let work = || Reply::new().call("read_file", json!({"path": "a.rs"}));
        let mut handoffs = 0;
        loop {
            talk.push(handoff());
            talk.push(work());
            let answer = talk.goes_on().await;
            if !answer.text.contains("[[handoff-resume:") || handoffs > 20 {
                break;
            }
            handoffs += 1;
            talk.history
                .extend((variant.results)(&answer.calls, "fn main() {}"));
        }
        assert_eq!(handoffs, 7, "one less than handoff.max_chain");
        let answer = talk.asks("Go on.").await;
        talk.history
            .extend((variant.results)(&answer.calls, "fn main() {}"));
        talk.push(handoff());
        talk.push(Reply::text("Fresh."));
        assert_contains(&talk.goes_on().await.text, "[[handoff-resume:");
        talk.assert_clean();
    }
}

/// A subagent's report contains its whole message. The parent's model sees the work in it, without a trace of
/// the handoff, and the parent is not cut.
#[tokio::test]
async fn a_subagents_report_has_no_sentinel_and_cuts_nothing() {
    for variant in WIRES {
        let mut talk = Talk::opened(Fixture::new(variant, []).await);
        talk.push(Reply::text("Found one.").call("session_handoff", json!({"prompt": "Goal: the rest."})));
        let report = talk.says("Go on.", "Found both.").await.text;
        assert_contains(&report, "[[handoff-resume:");
        for (tool, stripped) in [("read_file", false), ("Task", true)] {
            talk.has_tool(tool);
            talk.history = vec![talk.user("Delegate it.")];
            let call = Reply::new().call_as("toolu_1", tool, json!({"prompt": "Look."}));
            talk.runs(call, &report).await;
            talk.push(Reply::text("Thanks."));
            talk.goes_on().await;
            for _ in 0..2 {
                let raw = String::from_utf8_lossy(&talk.last().raw).into_owned();
                for part in ["Delegate it.", "Found one.", "Found both."] {
                    assert_contains(&raw, part);
                }
                assert_eq!(!raw.contains("handoff-resume:"), stripped, "{raw}");
                assert_eq!(!raw.contains("Goal: the rest."), stripped, "{raw}");
                talk.says("More.", "Bye.").await;
            }
        }
        talk.assert_clean();
    }
}
