//! Limits that depend on who sends a request: the windows of a subscription, a provider's refusal, a client's own limits.

use baton_llm::serve::app::App;
use baton_llm::state::clock::Clock;
use baton_strict::Fault;
use pretty_assertions::assert_eq;

use super::*;
use crate::harness::sqlite;
use crate::matrix::variants::{GEMINI, RESPONSES};

const HOUR: u64 = 3_600_000;

/// A reply that calls a tool and states that so much of the window is used, until an hour from now.
fn stating(stage: &Fixture, n: usize, clock: &Clock, used: u32) -> Reply {
    let resets = (clock.now_ms() + HOUR) / 1_000;
    let (id, path) = (format!("toolu_w{n}n"), json!({"path": format!("f{n}")}));
    let call = Reply::new().call_as(id, "read_file", path);
    let [name, reset] = match (stage.variant.path)(true).starts_with("/v1/messages") {
        true => ["utilization", "reset"].map(|name| format!("anthropic-ratelimit-unified-5h-{name}")),
        false => ["used-percent", "reset-at"].map(|name| format!("x-codex-primary-{name}")),
    };
    let is_percent = name.ends_with("percent");
    let used = if is_percent {
        used.to_string()
    } else {
        format!("0.{used}")
    };
    call.header(&name, used).header(&reset, resets.to_string())
}

/// Gives a proxy this clock.
pub(super) fn ticking(clock: &Clock) -> impl FnOnce(App) -> App + use<> {
    let clock = clock.clone();
    move |mut app| {
        app.clock = clock;
        app
    }
}

/// One step of the agent, after which this percentage of the window is used.
async fn uses(talk: &mut Talk, clock: &Clock, n: usize, share: u32) {
    let call = stating(talk, n, clock, share);
    let answer = talk.runs(call, "fn main() {}").await;
    assert_eq!(answer.calls.len(), 1, "{n}: {}", answer.text);
    written().await;
}

#[tokio::test]
async fn a_share_of_a_subscriptions_window_is_a_budget() {
    for (variant, window) in [(ANTHROPIC, "5h"), (RESPONSES, "primary")] {
        let (dir, clock) = (temp(), Clock::default());
        let change = |config: &mut Config| {
            config.brake.may_raise = Some(true);
            config.brake.plan.share = 8_000;
        };
        let mut talk = begun(variant, |_| {}).await;
        talk.restart_by(sqlite(dir.path()), change, ticking(&clock));
        for (n, share) in [50, 70, 81].into_iter().enumerate() {
            uses(&mut talk, &clock, n, share).await;
        }
        assert_eq!(notices(&talk), 1, "at 80 % of the limit the model is told");
        // Another process knows it as well.
        talk.restart_by(sqlite(dir.path()), change, ticking(&clock));
        let history = talk.history.clone();
        let text = stopped(&mut talk).await.text;
        let opens = format!("the subscription's {window} window is used up (81% of 80%) and opens again at ");
        assert_contains(&text, &opens);
        assert_contains(&text, " UTC (20");
        let ended = std::mem::replace(&mut talk.history, history);

        // Another session of the account has the same window, and another account has its own.
        talk.history[0] = talk.user("Write the exporter.");
        let other = talk.history.clone();
        stopped(&mut talk).await;
        talk.push(Reply::text("Mine."));
        let body = (variant.body)(&other, true).to_string();
        let headers = [variant.headers[0], ("authorization", "Bearer sk-another-agent")];
        let headers = &headers[usize::from(variant.headers.len() == 1)..];
        let mine = talk.baton.post((variant.path)(true), headers, body.into()).await;
        assert_contains(&mine.text(), "Mine.");

        talk.history = ended;
        let status = talk.command("::handoff status").await;
        assert_contains(&status, "plan 81% of 80%");
        // `::go` holds within this window. The next one begins at its reset, with its own limit.
        talk.history.push(talk.user("::go"));
        for (n, share) in [(3, 95), (4, 97), (5, 98)] {
            uses(&mut talk, &clock, n, share).await;
        }
        clock.advance(2 * i64::try_from(HOUR).unwrap());
        uses(&mut talk, &clock, 6, 90).await;
        let history = talk.history.clone();
        assert_contains(&stopped(&mut talk).await.text, "(90% of 80%)");
        talk.history = history;
        clock.advance(2 * i64::try_from(HOUR).unwrap());
        uses(&mut talk, &clock, 7, 10).await;
        talk.assert_clean();
    }
}

/// A refusal with status 429 reaches the agent as it is, since agents retry it. baton says when the provider opens again.
#[tokio::test]
async fn a_providers_limit_is_told_and_relayed() {
    let gemini = json!({"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600s"}]}});
    let codex = json!({"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached",
        "plan_type": "plus", "resets_at": Clock::default().now_ms() / 1_000 + 3_600}});
    let anthropic = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Later."}});
    for (variant, header, body, opens) in [
        (ANTHROPIC, ("retry-after", "3600"), &anthropic, true),
        (GEMINI, ("x-a", "b"), &gemini, true),
        (RESPONSES, ("x-a", "b"), &codex, true),
        (ANTHROPIC, ("x-a", "b"), &anthropic, false),
    ] {
        let mut talk = Talk::opened(Fixture::new(variant, []).await);
        talk.history.push(talk.user("Go on."));
        let refusal = Fault::Raw {
            status: 429,
            content_type: "application/json".to_owned(),
            body: body.to_string().into(),
        };
        talk.push(Reply::failing(refusal).header(header.0, header.1));
        let refused = talk.send(&talk.history, false).await;
        assert_eq!((refused.status, refused.json()), (429, body.clone()));
        assert_eq!(refused.header(header.0), Some(header.1));
        let limit = talk.baton.events(1).await[0].facts.provider_limit.unwrap();
        assert_eq!(limit.opens_ms.is_some(), opens);
        if let Some(opens) = limit.opens_ms {
            let after = opens.saturating_sub(Clock::default().now_ms());
            assert!((HOUR - 60_000..=HOUR).contains(&after), "{after}");
        }
        written().await;
        let status = talk.command("::handoff status").await;
        let line = "Upstream refuses requests: the provider's limit is reached; it opens again at ";
        assert_eq!(status.contains(line), opens, "{status}");
        talk.assert_clean();
    }
}

/// A client's own limits, from the list and from its file, are stricter or looser than those of all.
#[tokio::test]
async fn a_client_has_its_own_limits() {
    let dir = temp();
    let clients = dir.path().join("clients");
    std::fs::create_dir(&clients).unwrap();
    let grace = "key = 'grace-0123456789abcdef'\n[brake]\nsession_calls = 4\nsession_dollars = 2\nmay_raise = false\n";
    std::fs::write(clients.join("grace.toml"), grace).unwrap();
    let provider = Strict::start(Autopilot, Options::default()).await.unwrap();
    let more = format!(
        "server.clients_dir = '{}'\n[brake]\nsession_calls = 2\n[[clients]]\nname = 'ada'\nkey = 'ada-0123456789abcdef'\n\
         [clients.brake]\nsession_calls = 1\n[[clients]]\nname = 'eve'\nkey = 'eve-0123456789abcdef'\n",
        clients.display()
    );
    let config = config_for(&provider, dir.path(), &more);
    let program = Program::start(&config, &dir.path().join("state"));
    let call = json!({"type": "tool_use", "id": "toolu_c1l9", "name": "read_file", "input": {"path": "a"}});
    let results = json!([{"type": "tool_result", "tool_use_id": "toolu_c1l9", "content": "x"}]);
    let working = [
        (ANTHROPIC.message)("user", "Mend the importer."),
        json!({"role": "assistant", "content": [call]}),
        json!({"role": "user", "content": results}),
    ];
    let go = [&working[..2], &[(ANTHROPIC.message)("user", "::go")]].concat();
    let ask = async |key: &str, history: &[Value], budget: Option<&'static str>| {
        let url = format!("{}/v1/messages", program.data);
        let key = format!("{key}-0123456789abcdef");
        let mut headers = vec![("anthropic-version", "2026-10-21"), ("x-api-key", &key)];
        headers.extend(budget.map(|budget| ("x-baton-budget", budget)));
        let body = (ANTHROPIC.body)(history, false).to_string();
        let response = crate::harness::post(&url, &headers, body.into()).await;
        written().await;
        response.text()
    };
    for (key, calls) in [("ada", 1), ("eve", 2), ("grace", 4)] {
        for _ in 0..calls {
            let said = ask(key, &working, None).await;
            assert!(!said.contains("stopped:"), "{key}: {said}");
        }
        let said = ask(key, &working, None).await;
        assert!(said.contains(&format!("of {calls} model call")), "{key}: {said}");
    }
    // A request of a client that may not raise its budget can only lower it.
    let status = [&working[..], &[(ANTHROPIC.message)("user", "::handoff status")]].concat();
    for (key, budget, limit) in [
        ("grace", "1000", "$2.00"),
        ("grace", "1", "$1.00"),
        ("ada", "1000", "$1000.00"),
    ] {
        let said = ask(key, &status, Some(budget)).await;
        assert!(said.contains(&format!("of {limit}")), "{key} {budget}: {said}");
    }
    // Only those who may raise it continue.
    let said = ask("grace", &go, None).await;
    assert!(said.contains("brake.may_raise is off"), "{said}");
    assert!(!ask("ada", &go, None).await.contains("may_raise"));
}

#[test]
fn bad_limits_of_a_client_name_key_file_and_line() {
    let dir = temp();
    let clients = dir.path().join("clients");
    std::fs::create_dir(&clients).unwrap();
    let config = dir.path().join("baton.toml");
    let assert_fails = |key: &str, part: &str| {
        let mut check = super::baton(dir.path(), &["check", "--config"]);
        super::assert_fails(check.arg(&config), &[key, part]);
    };
    for (key, value) in [
        ("session_dollars", "'5 EUR'"),
        ("session_tokens", "99999999999999999999999999999999999999999999"),
        ("plan_window_share", "80"),
        ("may_raise", "'no'"),
        ("session_euros", "5"),
    ] {
        let list = format!(
            "[[clients]]\nname = 'ada'\nkey = 'ada-0123456789abcdef'\nbrake = {{ {key} = {value} }}\n"
        );
        std::fs::write(&config, list).unwrap();
        assert_fails(&format!("clients.0.brake.{key}"), "baton.toml:4");
        let file = format!("key = 'eve-0123456789abcdef'\n[brake]\n{key} = {value}\n");
        std::fs::write(clients.join("eve.toml"), file).unwrap();
        std::fs::write(&config, format!("server.clients_dir = '{}'\n", clients.display())).unwrap();
        assert_fails(&format!("brake.{key}"), "eve.toml:3");
    }
}
