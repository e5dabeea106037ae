use std::future::pending;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::agent_mail::AgentMail;
use super::super::transfer::{TransferOutcome, transfer};
use super::server::{MailCall, MailReply, MailServer};
use baton_core::handoffs::yaml::{ReservationSnapshot, ReservationTransfer, threads};

fn requested() -> ReservationTransfer {
    let one = |path: &str, exclusive| ReservationSnapshot {
        path_pattern: path.to_owned(),
        exclusive,
        ..ReservationSnapshot::default()
    };
    ReservationTransfer {
        from_agent: "Old".to_owned(),
        project_key: "/p".to_owned(),
        grace_period_seconds: 1,
        reservations: vec![
            one("b", false),
            one("a", true),
            one("c", false),
            one("c", true),
            one("", true),
        ],
        ..ReservationTransfer::default()
    }
}

/// Grants and releases whatever is requested.
fn kind(tool: &str, arguments: &Value) -> MailReply {
    let paths = arguments["paths"].as_array().cloned().unwrap_or_default();
    MailReply::Tool(match tool {
        "release_file_reservations" => json!({"released": paths.len()}),
        "renew_file_reservations" => json!({"renewed": paths.len()}),
        _ => {
            let granted: Vec<_> = paths.iter().map(|path| json!({"path_pattern": path})).collect();
            json!({"granted": granted, "conflicts": []})
        }
    })
}

/// Reservations are advice: Agent Mail grants them in spite of a conflict, and reports it.
fn conflict(path: &str) -> MailReply {
    MailReply::Tool(
        json!({"granted": [{"path_pattern": path}], "conflicts": [{"path": path, "holders": [{"agent": "Third"}]}]}),
    )
}

fn is(call: (&str, &Value), tool: &str, agent: &str) -> bool {
    call.0 == tool && call.1["agent_name"] == agent
}

const RESERVE: &str = "file_reservation_paths";
const RELEASE: &str = "release_file_reservations";

async fn run(server: &MailServer, requested: &ReservationTransfer, to: &str) -> TransferOutcome {
    let mail = AgentMail::new(&server.url, Some("t")).unwrap();
    transfer(&mail, requested, to, pending()).await
}

#[tokio::test]
async fn files_go_from_one_agent_to_the_other() {
    let server = MailServer::start(|tool, arguments, _| kind(tool, arguments)).await;
    let outcome = run(&server, &requested(), "New").await;
    assert!(
        outcome.success && outcome.error.is_empty() && !outcome.rolled_back,
        "{outcome:?}"
    );
    assert_eq!(outcome.requested_paths, ["a", "b", "c"]);
    assert_eq!(outcome.released_paths, ["a", "b", "c"]);
    assert_eq!(outcome.granted_paths, ["a", "c", "b"]);
    assert_eq!(
        server.received_calls(),
        ["release Old a,b,c", "file New exclusive a,c", "file New shared b"]
    );
    let reserved = &server.calls()[1].1;
    assert_eq!(reserved["ttl_seconds"], 900);
    assert_eq!(reserved["reason"], "handoff transfer from Old");
    let json = serde_json::to_value(&outcome).unwrap();
    for member in [
        "from_agent",
        "to_agent",
        "requested_paths",
        "granted_paths",
        "released_paths",
        "conflicts",
        "rolled_back",
        "success",
    ] {
        assert!(json.get(member).is_some(), "{member}");
    }
}

#[tokio::test]
async fn without_project_agent_or_paths_nothing_is_requested() {
    let server = MailServer::start(|tool, arguments, _| kind(tool, arguments)).await;
    let mut no_project = requested();
    no_project.project_key.clear();
    assert!(run(&server, &no_project, "New").await.error.contains("project"));
    let mut no_agent = requested();
    no_agent.from_agent.clear();
    assert!(run(&server, &no_agent, "New").await.error.contains("agents"));
    assert!(run(&server, &requested(), "").await.error.contains("agents"));
    let mut no_paths = requested();
    no_paths.reservations.clear();
    let outcome = run(&server, &no_paths, "New").await;
    assert!(outcome.success && outcome.requested_paths.is_empty());
    assert_eq!(server.calls(), Vec::<MailCall>::new());
    let nobody = AgentMail::new("http://127.0.0.1:1/mcp/", None).unwrap();
    let outcome = transfer(&nobody, &requested(), "New", pending()).await;
    assert!(outcome.error.contains("cannot be reached") && !outcome.success);
    assert!(AgentMail::new("no url at all", None).is_err());
}

#[tokio::test]
async fn the_same_agent_renews() {
    let server = MailServer::start(|tool, arguments, _| kind(tool, arguments)).await;
    let outcome = run(&server, &requested(), "Old").await;
    assert!(outcome.success, "{outcome:?}");
    assert_eq!(server.received_calls(), ["renew Old a,b,c"]);
    assert_eq!(server.calls()[0].1["extend_seconds"], 900);
    let short = MailServer::start(|_, _, _| MailReply::Tool(json!({"renewed": 2}))).await;
    let outcome = run(&short, &requested(), "Old").await;
    assert_eq!(
        (outcome.success, outcome.error.as_str()),
        (false, "2 of 3 reservations were renewed")
    );
    let fails = MailServer::start(|_, _, _| MailReply::Fails("no such agent")).await;
    let outcome = run(&fails, &requested(), "Old").await;
    assert_eq!(outcome.error, "renew_file_reservations: no such agent");
}

#[tokio::test]
async fn a_release_that_fails_or_falls_short_leaves_the_files_with_the_old_agent() {
    let fails = MailServer::start(|tool, arguments, _| match tool {
        RELEASE => MailReply::Fails("database is locked"),
        _ => kind(tool, arguments),
    })
    .await;
    let outcome = run(&fails, &requested(), "New").await;
    assert!(
        !outcome.success && outcome.rolled_back && outcome.released_paths.is_empty(),
        "{outcome:?}"
    );
    assert!(outcome.error.contains("database is locked"));
    let short = MailServer::start(|tool, arguments, _| match tool {
        RELEASE => MailReply::Tool(json!({"released": 2})),
        _ => kind(tool, arguments),
    })
    .await;
    let outcome = run(&short, &requested(), "New").await;
    assert!(!outcome.success && outcome.rolled_back, "{outcome:?}");
    assert_eq!(outcome.error, "2 of 3 reservations were released");
    // What went is reserved again, for the old one.
    assert_eq!(
        short.received_calls(),
        ["release Old a,b,c", "file Old exclusive a,c", "file Old shared b"]
    );
}

#[tokio::test]
async fn a_conflict_is_tried_twice_and_then_everything_goes_back() {
    let once = MailServer::start(|tool, arguments, calls| {
        let tries = calls
            .iter()
            .filter(|(tool, arguments)| is((tool, arguments), RESERVE, "New"));
        match is((tool, arguments), RESERVE, "New") && arguments["exclusive"] == false && tries.count() < 2 {
            true => conflict("b"),
            false => kind(tool, arguments),
        }
    })
    .await;
    let began = Instant::now();
    let outcome = run(&once, &requested(), "New").await;
    assert!(outcome.success && outcome.conflicts.is_empty(), "{outcome:?}");
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(
        once.received_calls(),
        [
            "release Old a,b,c",
            "file New exclusive a,c",
            "file New shared b",
            "release New a,c,b",
            "file New exclusive a,c",
            "file New shared b"
        ]
    );
    let twice = MailServer::start(|tool, arguments, _| {
        match is((tool, arguments), RESERVE, "New") && arguments["exclusive"] == false {
            true => conflict("b"),
            false => kind(tool, arguments),
        }
    })
    .await;
    let outcome = run(&twice, &requested(), "New").await;
    assert!(
        !outcome.success && outcome.rolled_back && outcome.granted_paths.is_empty(),
        "{outcome:?}"
    );
    assert_eq!(outcome.conflicts[0].path, "b");
    assert_eq!(outcome.conflicts[0].holders, ["Third"]);
    assert_eq!(
        twice.received_calls()[5..],
        [
            "file New shared b",
            "release New a,c,b",
            "file Old exclusive a,c",
            "file Old shared b"
        ]
    );
}

#[tokio::test]
async fn any_other_error_after_the_release_gives_everything_back() {
    let server = MailServer::start(|tool, arguments, _| {
        match is((tool, arguments), RESERVE, "New") && arguments["exclusive"] == false {
            true => MailReply::Raw(500, "down".to_owned()),
            false => kind(tool, arguments),
        }
    })
    .await;
    let outcome = run(&server, &requested(), "New").await;
    assert!(!outcome.success && outcome.rolled_back, "{outcome:?}");
    assert_eq!(outcome.error, "Agent Mail answered with status 500");
    assert_eq!(
        server.received_calls()[3..],
        ["release New a,c,b", "file Old exclusive a,c", "file Old shared b"],
        "what it may have been granted without an answer, too"
    );
    let fewer = MailServer::start(|tool, arguments, _| match is((tool, arguments), RESERVE, "New") {
        true => MailReply::Tool(json!({"granted": [{"path_pattern": "a"}], "conflicts": []})),
        false => kind(tool, arguments),
    })
    .await;
    let outcome = run(&fewer, &requested(), "New").await;
    assert_eq!(outcome.error, "2 of 3 paths were granted");
    assert!(outcome.rolled_back);
    // Where nothing can be put back, it says so.
    let gone = MailServer::start(|tool, arguments, _| match tool {
        RESERVE => MailReply::Fails("gone"),
        _ => kind(tool, arguments),
    })
    .await;
    let outcome = run(&gone, &requested(), "New").await;
    assert!(
        !outcome.rolled_back && outcome.released_paths.len() == 3,
        "{outcome:?}"
    );
}

#[tokio::test]
async fn who_cancels_in_the_wait_gives_everything_back() {
    let server = MailServer::start(|tool, arguments, _| match is((tool, arguments), RESERVE, "New") {
        true => conflict("a"),
        false => kind(tool, arguments),
    })
    .await;
    let mut requested = requested();
    requested.grace_period_seconds = 3600;
    let mail = AgentMail::new(&server.url, None).unwrap();
    let cancelled = tokio::time::sleep(Duration::from_millis(800));
    let outcome = transfer(&mail, &requested, "New", cancelled).await;
    assert!(!outcome.success && outcome.rolled_back, "{outcome:?}");
    assert_eq!(outcome.error, "cancelled");
    assert_eq!(server.received_calls().last().unwrap(), "file Old shared b");
}

#[tokio::test]
async fn a_call_has_a_limit_and_so_has_putting_back() {
    let server = MailServer::start(|tool, arguments, _| match tool {
        RESERVE => MailReply::Hangs,
        _ => kind(tool, arguments),
    })
    .await;
    let outcome = run(&server, &requested(), "New").await;
    assert!(!outcome.success && !outcome.rolled_back, "{outcome:?}");
    assert!(outcome.error.contains("within 10 s"), "{}", outcome.error);
}

#[tokio::test]
async fn answers_come_in_every_shape_of_the_protocol() {
    let event = |value: &Value| format!("event: message\ndata: {value}\n\n");
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "{\"released\": 7}"}]}});
    let stream = event(&rpc);
    let server = MailServer::start(move |_, _, _| MailReply::Raw(200, stream.clone())).await;
    let mail = AgentMail::new(&server.url, None).unwrap();
    assert_eq!(mail.call("x", json!({})).await.unwrap(), json!({"released": 7}));
    let late = MailServer::start(|_, _, _| MailReply::Late(Duration::from_millis(10), json!([1]))).await;
    let mail = AgentMail::new(&late.url, None).unwrap();
    assert_eq!(mail.call("x", json!({})).await.unwrap(), json!([1]));
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no tool"}}).to_string();
    for (body, message) in [
        (error.as_str(), "no tool"),
        ("<html>", "no JSON-RPC"),
        ("{\"id\":1}", "no result"),
    ] {
        let body = body.to_owned();
        let server = MailServer::start(move |_, _, _| MailReply::Raw(200, body.clone())).await;
        let mail = AgentMail::new(&server.url, None).unwrap();
        let error = mail.call("x", json!({})).await.unwrap_err();
        assert!(error.message.contains(message), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_wants_a_session_gets_one() {
    let initialized = json!({"jsonrpc": "2.0", "id": 2, "result": {}}).to_string();
    let server = MailServer::start(move |tool, arguments, calls| match tool {
        "initialize" => MailReply::Raw(200, initialized.clone()),
        "notifications/initialized" => MailReply::Raw(202, String::new()),
        _ if calls.is_empty() => MailReply::Raw(400, "no session".to_owned()),
        _ => kind(tool, arguments),
    })
    .await;
    let outcome = run(&server, &requested(), "New").await;
    assert!(outcome.success, "{outcome:?}");
    let tools: Vec<_> = server.calls().into_iter().map(|(tool, _)| tool).collect();
    assert_eq!(
        tools[..4],
        [RELEASE, "initialize", "notifications/initialized", RELEASE]
    );
}

#[tokio::test]
async fn inbox_and_reservations_are_read() {
    let server = MailServer::start(|tool, arguments, _| match tool {
        "fetch_inbox" => {
            assert_eq!(arguments["limit"], 10);
            MailReply::Tool(json!({"result": [{"subject": "review", "from": "Blue", "thread_id": "T", "importance": "urgent"}]}))
        }
        "resources/read" => {
            assert_eq!(arguments["uri"], "resource://file_reservations/%2Fa%20b?active_only=true&format=json");
            MailReply::Fails("no resources here")
        }
        _ => MailReply::Tool(json!([
            {"agent": "Me", "path_pattern": "src/**", "exclusive": true},
            {"agent": "Other", "path_pattern": "docs/**"}
        ])),
    })
    .await;
    let mail = AgentMail::new(&server.url, None).unwrap();
    let inbox = mail.inbox("/a b", "Me").await.unwrap();
    assert_eq!(threads(inbox), ["⚠️ [T] review (from: Blue)"]);
    let reserved = mail.reservations("/a b", "Me").await.unwrap();
    assert_eq!(reserved.len(), 1);
    assert!(reserved[0].exclusive && reserved[0].path_pattern == "src/**");
}

/// Agent Mail as it is: reservations are advice, granted beside another holder's, which is reported as a conflict.
struct MailLedger(std::sync::Mutex<Vec<(String, String, bool)>>);

impl MailLedger {
    fn with(all: &[(&str, &str, bool)]) -> Self {
        let all = all
            .iter()
            .map(|(agent, path, exclusive)| ((*agent).to_owned(), (*path).to_owned(), *exclusive));
        Self(std::sync::Mutex::new(all.collect()))
    }

    fn answer(&self, tool: &str, arguments: &Value) -> MailReply {
        let mut all = self.0.lock().unwrap();
        let agent = arguments["agent_name"].as_str().unwrap().to_owned();
        let paths = arguments["paths"].as_array().unwrap();
        let paths: Vec<&str> = paths.iter().filter_map(Value::as_str).collect();
        let is_meant = |one: &(String, String, bool)| one.0 == agent && paths.contains(&one.1.as_str());
        MailReply::Tool(match tool {
            RELEASE => {
                let before = all.len();
                all.retain(|one| !is_meant(one));
                json!({"released": before - all.len()})
            }
            RESERVE => {
                let exclusive = arguments["exclusive"].as_bool().unwrap();
                let clash = |one: &&(String, String, bool), path: &str| {
                    one.0 != agent && one.1 == path && (one.2 || exclusive)
                };
                let conflicts = paths.iter().filter_map(|path| {
                    let holders: Vec<_> = all
                        .iter()
                        .filter(|one| clash(one, path))
                        .map(|one| json!({"agent": one.0}))
                        .collect();
                    (!holders.is_empty()).then(|| json!({"path": path, "holders": holders}))
                });
                let conflicts: Vec<_> = conflicts.collect();
                let granted: Vec<_> = paths
                    .iter()
                    .map(|path| json!({"path_pattern": path, "exclusive": exclusive}))
                    .collect();
                all.extend(
                    paths
                        .iter()
                        .map(|path| (agent.clone(), (*path).to_owned(), exclusive)),
                );
                json!({"granted": granted, "conflicts": conflicts})
            }
            _ => json!({"renewed": all.iter().filter(|one| is_meant(one)).count()}),
        })
    }

    /// Who holds what, sorted.
    fn received_calls(&self) -> Vec<String> {
        let mut all: Vec<_> = self
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|(agent, path, _)| format!("{agent} {path}"))
            .collect();
        all.sort();
        all
    }
}

/// A third agent holds a path all the while: the old one had its own beside it, and has it again.
#[tokio::test]
async fn files_that_a_third_agent_holds_too_go_back_and_that_is_reported() {
    let reserved = [
        ("Old", "a", true),
        ("Old", "b", false),
        ("Old", "c", true),
        ("Third", "c", true),
    ];
    let kept = std::sync::Arc::new(MailLedger::with(&reserved));
    let before = kept.received_calls();
    let of_server = kept.clone();
    let server = MailServer::start(move |tool, arguments, _| of_server.answer(tool, arguments)).await;
    let outcome = run(&server, &requested(), "New").await;
    assert!(
        !outcome.success && outcome.granted_paths.is_empty(),
        "{outcome:?}"
    );
    assert_eq!(outcome.conflicts[0].holders, ["Third"]);
    assert_eq!(kept.received_calls(), before);
    assert!(outcome.rolled_back, "{outcome:?}");
}

/// A server that lists few tools offers those for reservations through another one (0.1.0 by default).
#[tokio::test]
async fn tools_that_a_server_does_not_list_are_called_through_another_one() {
    for wrong in [
        MailReply::Fails("Unknown tool: release_file_reservations"),
        MailReply::Raw(
            200,
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Unknown tool: x"}})
                .to_string(),
        ),
    ] {
        let server = MailServer::start(move |tool, arguments, _| match tool {
            "call_extended_tool" => kind(arguments["tool_name"].as_str().unwrap(), &arguments["arguments"]),
            _ => wrong.clone(),
        })
        .await;
        let outcome = run(&server, &requested(), "New").await;
        assert!(outcome.success, "{outcome:?}");
        let tools: Vec<_> = server.calls().into_iter().map(|(tool, _)| tool).collect();
        // The other one is tried first from then on.
        assert_eq!(
            tools,
            [
                RELEASE,
                "call_extended_tool",
                "call_extended_tool",
                "call_extended_tool"
            ]
        );
    }
    let neither = MailServer::start(|_, _, _| MailReply::Fails("Unknown tool: x")).await;
    let outcome = run(&neither, &requested(), "New").await;
    assert_eq!(
        outcome.error,
        "release_file_reservations: Agent Mail has no such tool"
    );
}

/// Newer servers do nothing in an agent's name without the token that it registered with.
#[tokio::test]
async fn each_call_has_the_token_of_its_agent() {
    let server = MailServer::start(|tool, arguments, _| {
        let agent = arguments["agent_name"].as_str().unwrap();
        match arguments["registration_token"].as_str() == Some(&format!("{agent}-token")) {
            true => kind(tool, arguments),
            false => MailReply::Fails("AUTHENTICATION_REQUIRED"),
        }
    })
    .await;
    let outcome = run(&server, &requested(), "New").await;
    assert!(outcome.error.contains("AUTHENTICATION_REQUIRED"), "{outcome:?}");
    let tokens = ["Old", "New"].map(|name| (name.to_owned(), format!("{name}-token")));
    let mail = AgentMail::new(&server.url, None).unwrap().with_agents(tokens);
    assert!(!format!("{mail:?}").contains("-token"));
    let outcome = transfer(&mail, &requested(), "New", pending()).await;
    assert!(outcome.success, "{outcome:?}");
}
