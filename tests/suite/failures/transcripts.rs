//! Failures of transcripts: found again, quoted, summarized, sent again.

use std::time::Duration;

use baton_strict::{Fault, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{AnthropicFixture, assistant, handoff, history, said, texts, then, user};
use crate::harness::quirks::{Quirks, applied};
use crate::harness::{AgentWire, Baton, config, memory};

use super::carry;

#[tokio::test]
async fn two_proxies_in_a_row_leave_the_handoff_to_the_first() {
    let inner = AnthropicFixture::new([handoff(), Reply::text("Fresh."), Reply::text("Next.")]).await;
    let outer = Baton::start(config(&format!("http://{}", inner.baton.addr)), memory());
    let ask = async |history: &[Value]| {
        let response = outer.turn(&Anthropic, &Anthropic.body(history, true)).await;
        Anthropic.parse(&response.raw, true, response.broken).unwrap()
    };
    let message = ask(&history()).await;
    assert_eq!(said(&message).len(), 3);
    assert!(said(&message)[1].contains("\n\n[[handoff-resume:"));
    ask(&then(&history(), &message, "More.")).await;
    let seen = inner.last();
    assert_eq!(
        texts(seen.messages()),
        [carry().as_str(), "a: Fresh.", "u: More."]
    );
    let tools = ["read_file", "run", "session_handoff", "session_recall"];
    assert_eq!(seen.tool_names(), tools);
    inner.assert_clean();
}

#[tokio::test]
async fn a_tool_of_the_agents_own_with_our_name_is_its_own() {
    let fixture = AnthropicFixture::new([]).await;
    for stream in [true, false] {
        fixture.script.push(handoff());
        let mut body = Anthropic.body(&history(), stream);
        body["tools"][0]["name"] = "session_handoff".into();
        let response = fixture.baton.turn(&Anthropic, &body).await;
        let message = Anthropic.parse(&response.raw, stream, response.broken).unwrap();
        assert_eq!(fixture.last().body, body);
        assert_eq!(
            (message.content.len(), message.stop.as_deref()),
            (2, Some("tool_use"))
        );
        assert_eq!(message.content[1]["name"], "session_handoff");
    }
}

#[tokio::test]
async fn a_quoted_sentinel_cuts_nothing() {
    let fixture = AnthropicFixture::new([handoff(), Reply::text("Fresh.")]).await;
    let message = fixture.turn(&history()).await;
    let sentinel = said(&message)[1].to_owned();
    // Another conversation reads the first one's session file, and its model repeats the content.
    let quoting = Reply::text(format!("The file says:{sentinel}That is all.")).deltas(3);
    let read = json!({"type": "tool_result", "tool_use_id": "c", "content": sentinel});
    let call = json!({"type": "tool_use", "id": "c", "name": "run", "input": {"path": "x"}});
    let reading = vec![
        user("Read it."),
        assistant(&[call]),
        json!({"role": "user", "content": [read]}),
    ];
    for stream in [true, false] {
        fixture.script.push(quoting.clone());
        fixture.script.push(Reply::text("ok"));
        let message = fixture.heard(&reading, stream).await;
        let next = then(&reading, &message, &format!("Sure?{sentinel}"));
        let quirks = Quirks {
            glue: true,
            trim: true,
            strings: true,
            ..Quirks::default()
        };
        let glued = applied(quirks, &next);
        fixture.turn(&glued).await;
        let sent = texts(fixture.last().messages());
        assert_eq!(sent.len(), 5);
        assert_eq!(
            sent[3],
            format!("a: The file says:{sentinel}That is all."),
            "given back whole"
        );
    }
    fixture.assert_clean();
}

#[tokio::test]
async fn an_impatient_client_gets_two_whole_answers() {
    let slow = Reply::text("Fresh.").fault(Fault::Stall {
        events: 3,
        time: Some(Duration::from_millis(500)),
    });
    let fixture = AnthropicFixture::new([handoff(), slow, Reply::text("Fresh again.")]).await;
    let body = Anthropic.body(&history(), true);
    let (first, second) = tokio::join!(fixture.baton.turn(&Anthropic, &body), async {
        tokio::time::sleep(Duration::from_millis(250)).await;
        fixture.baton.turn(&Anthropic, &body).await
    });
    let first = Anthropic.parse(&first.raw, true, first.broken).unwrap();
    let second = Anthropic.parse(&second.raw, true, second.broken).unwrap();
    assert_eq!((said(&first)[2], said(&second)[1]), ("Fresh.", "Fresh again."));
    assert_eq!(said(&first)[1], said(&second)[0], "one handoff");
    for message in [first, second] {
        fixture.script.push(Reply::text("ok"));
        fixture.turn(&then(&history(), &message, "More.")).await;
        assert_eq!(texts(fixture.last().messages())[0], carry());
    }
    fixture.assert_clean();
}
