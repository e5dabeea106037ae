//! Both versions of Anthropic's API: every request of a session has the agent's own version and credential,
//! and nothing that the version refuses.

use baton_strict::{Part, Reply, Rule};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::texts::assert_contains;
use crate::matrix::fixture::{Fixture, PROMPT, handoff_beside};
use crate::matrix::variants::{ANTHROPIC, Answer, Variant};

const NEW: Variant = ANTHROPIC;

const OLD: Variant = Variant {
    headers: &[("anthropic-version", "2023-06-01"), ("x-api-key", "sk-agent")],
    body: |history, stream| {
        let mut body = (ANTHROPIC.body)(history, stream);
        body["temperature"] = json!(1.0);
        body["top_k"] = json!(40);
        body
    },
    ..ANTHROPIC
};

/// Text of the model with a source.
fn cited(text: &str) -> Value {
    let citation = json!({"type": "char_location", "cited_text": text, "document_index": 0, "document_title": "Notes",
        "start_char_index": 0, "end_char_index": 1});
    json!({"type": "text", "text": text, "citations": [citation]})
}

fn says(text: &str) -> Reply {
    Reply::new().thinking("So it is.").part(Part::Block(cited(text)))
}

/// A session with a document, and with text that cites it.
fn session(stage: &Fixture) -> Vec<Value> {
    let source = json!({"type": "text", "media_type": "text/plain", "data": "The retention is 45 days."});
    let document = json!({"type": "document", "source": source, "citations": {"enabled": true}});
    vec![
        json!({"role": "user", "content": [document, {"type": "text", "text": "Mend the importer."}]}),
        json!({"role": "assistant", "content": [cited("Looking.")]}),
        stage.user("Go on."),
    ]
}

async fn ask(stage: &Fixture, history: &[Value], replies: impl IntoIterator<Item = Reply>) -> Answer {
    for reply in replies {
        stage.push(reply);
    }
    stage.ask(history, true).await
}

/// A handoff, a recall, a refused call, a draft, composed answers, an undo and a resume.
async fn all_kinds_of_legs(variant: Variant) -> Fixture {
    let stage = Fixture::new(variant, []).await;
    let opening = session(&stage);
    let handed = ask(&stage, &opening, [handoff_beside(says("Done.")), says("Fresh.")]).await;
    let id = stage.baton.events(1).await[0].fired[0].clone();

    let history = stage.then(&opening, &handed, "What was the retention?");
    let recall = says("Searching.").call("session_recall", json!({"query": "retention"}));
    let answer = ask(&stage, &history, [recall, says("45 days.")]).await;

    let history = stage.then(&history, &answer, "Then go on.");
    let refused = says("Handing over.").call("session_handoff", json!({"prompt": ""}));
    let answer = ask(&stage, &history, [refused, says("Then not.")]).await;

    let history = stage.then(&history, &answer, "::handoff --force");
    let answer = ask(&stage, &history, [says("## Goal\nMend the exporter.")]).await;

    let mut history = [&history[..], &answer.keep].concat();
    for command in [
        "::handoff status",
        "::handoff undo",
        &format!("::handoff resume {id}"),
    ] {
        history.push(stage.user(command));
        let answer = ask(&stage, &history, []).await;
        assert!(answer.text.starts_with("baton: "), "{command}: {}", answer.text);
        history.extend(answer.keep);
        history.push(stage.user("Go on."));
        let answer = ask(&stage, &history, [says("Further.")]).await;
        history.extend(answer.keep);
    }
    stage
}

#[tokio::test]
async fn every_leg_keeps_the_agents_version_and_holds_nothing_that_it_refuses() {
    for variant in [OLD, NEW] {
        let stage = all_kinds_of_legs(variant).await;
        let requests = stage.provider.requests();
        assert_eq!(requests.len(), 10);
        for request in &requests {
            for (name, value) in variant.headers {
                assert_eq!(request.header(name), Some(*value), "request {}", request.number);
            }
            // The agent's settings also apply to hidden legs, and nothing is added.
            let agents = (variant.body)(&[], true);
            for member in ["temperature", "top_p", "top_k"] {
                assert_eq!(
                    request.body.get(member),
                    agents.get(member),
                    "request {}",
                    request.number
                );
            }
        }
        let carried = requests.iter().filter(|request| {
            let first = &request.messages()[0]["content"];
            first.as_str().is_some_and(|text| text.starts_with(PROMPT))
        });
        assert!(carried.count() > 4, "the cut is on later requests, too");
        stage.assert_clean();
        assert!(
            stage
                .baton
                .events(1)
                .await
                .iter()
                .all(|event| !event.subscription)
        );
    }
}

/// The strict provider of the test above refuses the agent's own mistakes.
#[tokio::test]
async fn what_the_newer_version_refuses_is_the_agents_own_error() {
    let variant = Variant {
        headers: NEW.headers,
        ..OLD
    };
    let stage = Fixture::new(variant, []).await;
    let refused = stage.send(&stage.history(), true).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let rules: Vec<Rule> = stage
        .provider
        .complaints()
        .iter()
        .map(|found| found.rule)
        .collect();
    assert_eq!(rules, [Rule::Version, Rule::Version]);
    assert_contains(&refused.text(), "temperature: Extra inputs are not permitted");
}
