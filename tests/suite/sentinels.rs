//! What stands in an agent's transcript where a handoff happened: its two forms, whose it is, and what a request
//! without a readable one comes to.

use baton_proxy::config::{Client, Config, Secret};
use baton_proxy::handoff::sentinel::SealKey;
use baton_proxy::strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::Value;
use uuid::Uuid;

use crate::harness::anthropic::Anthropic;
use crate::harness::scene::{Scene, handoff, history, said, texts, then, user};
use crate::harness::{AgentSide, KEY, Told, memory};

const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);

fn teammates(config: &mut Config) {
    for upstream in config.upstreams.values_mut() {
        upstream.api_key = Some(Secret::new("sk-of-the-proxy"));
    }
    let client = |name: &str| Client {
        name: name.to_owned(),
        key: Secret::new(format!("key-of-{name}")),
    };
    config.clients = vec![client("ann"), client("bob")];
}

async fn ask_as(scene: &Scene, key: &str, history: &[Value]) -> Told {
    let headers = [("anthropic-version", "2023-06-01"), ("x-api-key", key)];
    let body = Anthropic.body(history, true).to_string().into();
    let heard = scene.baton.post(Anthropic.path(), &headers, body).await;
    assert_eq!(heard.status, 200, "{}", heard.text());
    Anthropic.hear(&heard.raw, true, false).unwrap()
}

fn spoken(text: &str) -> Vec<Value> {
    let answer = serde_json::json!({"role": "assistant", "content": text});
    [&history()[..], &[answer, user("More.")]].concat()
}

/// The store is lost: only the seal speaks for a sentinel, and it speaks for its own client alone.
#[tokio::test]
async fn a_sealed_sentinel_is_its_own_clients() {
    let first = Scene::with([handoff(), Reply::text("Fresh.")], memory(), teammates).await;
    let told = ask_as(&first, "key-of-ann", &history()).await;
    let sentinel = said(&told)[1].to_owned();
    assert!(!sentinel.contains("ann"));

    let later = Scene::with([], memory(), teammates).await;
    for (key, cut) in [("key-of-ann", true), ("key-of-bob", false)] {
        later.script.push(Reply::text("ok"));
        ask_as(&later, key, &spoken(&format!("Done.{sentinel}Fresh."))).await;
        let sent = texts(later.last().messages());
        assert_eq!(sent[0] != "u: Mend the importer.", cut, "{key}: {sent:?}");
    }
    let alone = Scene::with([Reply::text("ok")], memory(), |_| {}).await;
    alone.turn(&spoken(&format!("Done.{sentinel}Fresh."))).await;
    assert_eq!(
        alone.last().messages().len(),
        5,
        "sealed for a client, and shown by nobody"
    );
}

/// Transcripts outlive versions: the older form, sealed before there were clients, holds for who has none.
#[tokio::test]
async fn the_older_form_stays_valid_where_there_are_no_clients() {
    let seal = SealKey::new(KEY).seal("local", ID, "Goal.");
    let older = format!("\n\n[[handoff-resume:{ID}]]\nGoal.\n[[/handoff-resume:{ID}.{seal}]]\n\n");
    let scene = Scene::new([Reply::text("ok")]).await;
    scene.turn(&spoken(&format!("Done.{older}Fresh."))).await;
    assert_eq!(
        texts(scene.last().messages()),
        ["u: Goal.", "a: Fresh.", "u: More."]
    );

    let team = Scene::with([Reply::text("ok")], memory(), teammates).await;
    ask_as(&team, "key-of-ann", &spoken(&format!("Done.{older}Fresh."))).await;
    assert_eq!(team.last().messages().len(), 5);
}

/// What a stranger who opens the transcript reads.
#[tokio::test]
async fn the_sentinel_says_what_happened_and_why() {
    let scene = Scene::new([handoff(), Reply::text("Fresh.")]).await;
    let told = scene.turn(&history()).await;
    let lines: Vec<&str> = said(&told)[1].trim().lines().collect();
    assert_eq!(
        lines[1],
        "*Handed over: done. From here on the model knows only what follows.*"
    );
    assert_eq!((lines[2], lines[3]), ("", "Goal: skip BOMs."));
    let closing = lines.last().unwrap();
    assert!(
        closing.starts_with("[[/handoff-resume:") && closing.len() == 18 + 22 + 2,
        "{closing}"
    );
    scene.script.push(Reply::text("ok"));
    scene.turn(&then(&history(), &told, "More.")).await;
    assert_eq!(scene.last().messages().len(), 3);
    scene.at_peace();
}
