//! Several users of one proxy: who owns a session, which ids resume one.

use baton_strict::{Options, Queue, Reply, Strict};
use serde_json::{Value, json};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::handoff;
use crate::harness::program::{Program, config_for};
use crate::harness::{AgentWire, Message, post, temp};

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Sends a transcript with this credential.
async fn ask(program: &Program, (header, value): (&'static str, &str), history: &[Value]) -> Message {
    let headers = [(header, value), ("anthropic-version", "2023-06-01")];
    let url = format!("{}{}", program.data, Anthropic.path());
    let response = post(&url, &headers, Anthropic.body(history, true).to_string().into()).await;
    assert_eq!(response.status, 200, "{}", response.text());
    Anthropic.parse(&response.raw, true, false).unwrap()
}

/// Text of a response.
fn text(message: &Message) -> String {
    Value::from(message.content.clone()).to_string()
}

/// The id of the handoff that a response shows.
fn id(message: &Message) -> String {
    let text = text(message);
    let (_, line) = text.split_once("[[handoff-resume:").unwrap();
    line[..36].to_owned()
}

const UNKNOWN: &str = "this handoff is not known here";

/// Without clients, on a proxy that others reach, each API key is a principal of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_api_keys_are_two_principals_without_clients() {
    let script = [handoff(), Reply::text("Fresh.")];
    let provider = Strict::start(Queue::new(script), Options::default())
        .await
        .unwrap();
    let dir = temp();
    let config = config_for(&provider, dir.path(), "server.hosts = ['baton.test']\n");
    let program = Program::start(&config, &dir.path().join("state"));
    let (ada, grace) = (
        ("x-api-key", "sk-ant-api03-ada"),
        ("x-api-key", "sk-ant-api03-grace"),
    );
    let history = [
        user("Mend it."),
        json!({"role": "assistant", "content": "Looking."}),
        user("Go on."),
    ];
    let made = id(&ask(&program, ada, &history).await);
    let resume = async |who, given: &str| {
        let asked = [
            user("Another session."),
            json!({"role": "assistant", "content": "Here."}),
        ];
        let asked = [&asked[..], &[user(&format!("::handoff resume {given}"))]].concat();
        text(&ask(&program, who, &asked).await)
    };
    assert!(resume(grace, &made).await.contains(UNKNOWN), "another key");
    assert!(resume(ada, &made[..13]).await.contains(UNKNOWN), "a time");
    assert!(resume(ada, &made[..23]).await.contains(&made), "with random bits");
    assert!(resume(ada, &made).await.contains(&made));
}

/// Users of subscriptions have no lasting key and are one principal. Nobody finds the id of another's handoff.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_cannot_be_enumerated() {
    let script = Queue::new([handoff(), Reply::text("Fresh.")]);
    let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
    let dir = temp();
    let config = config_for(&provider, dir.path(), "server.hosts = ['baton.test']\n");
    let program = Program::start(&config, &dir.path().join("state"));
    let bearer = ("authorization", "Bearer sk-ant-oat01-one");
    let renewed = ("authorization", "Bearer sk-ant-oat01-two");
    let history = [
        user("Mend it."),
        json!({"role": "assistant", "content": "Looking."}),
        user("Go on."),
    ];
    let made = id(&ask(&program, bearer, &history).await);
    let resume = async |given: &str| {
        let asked = [
            user("Another session."),
            json!({"role": "assistant", "content": "Here."}),
        ];
        let asked = [
            &asked[..],
            &[user(&format!("[[handoff-resume:{given}]]\nGo on."))],
        ]
        .concat();
        text(&ask(&program, renewed, &asked).await)
    };
    for last in "0123456789".chars() {
        let guess = format!("{}{last}", &made[..12]);
        assert!(resume(&guess).await.contains(UNKNOWN), "{guess}");
    }
    assert!(
        resume(&made[..23]).await.contains(UNKNOWN),
        "refused for a minute"
    );
    script.push(Reply::text("On it."));
    assert!(resume(&made).await.contains("On it."), "the whole id");
}
