//! `examples/agent-mail`: the script over the public commands, with a scripted Agent Mail server.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{HandoffFile, ReservationSnapshot, ReservationTransfer};
use serde_json::{Value, json};

use super::mail_server::{self, MailCall, MailReply, MailServer};

/// Returns the script's command in a directory, with nothing but the server in its environment.
fn script(dir: &Path, url: &str, args: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(super::Runner::Python.program());
    command
        .arg(root.join("examples/agent-mail/agent_mail.py"))
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .env("BATON", env!("CARGO_BIN_EXE_baton"))
        .env("AGENT_MAIL_URL", url)
        .env("AGENT_MAIL_TOKEN", "t")
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Returns the output of a process while the server runs.
async fn done(child: Child) -> Output {
    tokio::task::spawn_blocking(|| child.wait_with_output().unwrap())
        .await
        .unwrap()
}

fn json_of(done: &Output) -> Value {
    let complaint = String::from_utf8_lossy(&done.stderr);
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {complaint}"))
}

fn file_of(dir: &Path, requested: &ReservationTransfer) -> PathBuf {
    let file = HandoffFile {
        goal: "a".to_owned(),
        now: "b".to_owned(),
        reservation_transfer: Some(requested.clone()),
        ..HandoffFile::default()
    };
    let path = dir.join("handoff.yaml");
    std::fs::write(&path, file.to_yaml()).unwrap();
    path
}

/// Transfers reservations to an agent, and returns the outcome.
async fn run_with(url: &str, requested: &ReservationTransfer, to: &str, agents: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    file_of(dir.path(), requested);
    let mut command = script(
        dir.path(),
        url,
        &["transfer", "handoff.yaml", "--json", "--to", to],
    );
    let done = done(command.env("AGENT_MAIL_AGENTS", agents).spawn().unwrap()).await;
    let outcome = json_of(&done);
    let code = if outcome["success"] == true { 0 } else { 69 };
    assert_eq!(done.status.code(), Some(code), "{outcome}");
    outcome
}

async fn run(server: &MailServer, requested: &ReservationTransfer, to: &str) -> Value {
    run_with(&server.url, requested, to, "").await
}

fn is_back(outcome: &Value) -> bool {
    outcome["success"] == false && outcome["rolled_back"] == true
}

/// Returns the script's result for a handoff file that names an agent.
async fn added(server: &MailServer, args: &[&str], file: &Value) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let args = [&["add"], args].concat();
    let mut child = script(dir.path(), &server.url, &args).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(file.to_string().as_bytes()).unwrap();
    drop(input);
    json_of(&done(child).await)
}

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

/// Grants and releases every request.
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

/// Reservations are advisory: Agent Mail grants them despite a conflict, and reports it.
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
const RENEW: &str = "renew_file_reservations";

#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
async fn files_go_from_one_agent_to_the_other() {
    let server = MailServer::start(|tool, arguments, _| kind(tool, arguments)).await;
    let outcome = run(&server, &requested(), "New").await;
    assert_eq!(
        outcome,
        json!({
            "from_agent": "Old",
            "to_agent": "New",
            "requested_paths": ["a", "b", "c"],
            "granted_paths": ["a", "c", "b"],
            "released_paths": ["a", "b", "c"],
            "conflicts": [],
            "rolled_back": false,
            "success": true,
        })
    );
    assert_eq!(
        server.received_calls(),
        ["release Old a,b,c", "file New exclusive a,c", "file New shared b"]
    );
    let reserved = &server.calls()[1].1;
    assert_eq!(reserved["ttl_seconds"], 900);
    assert_eq!(reserved["reason"], "handoff transfer from Old");
}

#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
async fn what_a_user_reads_says_who_has_the_files() {
    let server = MailServer::start(|tool, arguments, _| match arguments["agent_name"] == "Wrong" {
        true => conflict("b\u{1b}[31m"),
        false => kind(tool, arguments),
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    file_of(dir.path(), &requested());
    let said = async |to: &str| {
        let mut command = script(dir.path(), &server.url, &["transfer", "handoff.yaml", "--to", to]);
        String::from_utf8(done(command.spawn().unwrap()).await.stdout).unwrap()
    };
    assert_eq!(said("New").await, "3 paths went from Old to New\n");
    let failed = said("Wrong").await;
    assert!(
        failed.starts_with("not transferred: 2 paths are reserved by others\n")
            && failed.contains("  b\\x1b[31m is held by Third\n")
            && failed.ends_with("Old holds its files\n"),
        "{failed}"
    );
}

#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
async fn without_project_agent_or_paths_nobody_is_queried() {
    let server = MailServer::start(|tool, arguments, _| kind(tool, arguments)).await;
    let error = |outcome: Value| outcome["error"].as_str().unwrap_or_default().to_owned();
    let mut no_project = requested();
    no_project.project_key.clear();
    assert!(error(run(&server, &no_project, "New").await).contains("project"));
    let mut no_agent = requested();
    no_agent.from_agent.clear();
    assert!(error(run(&server, &no_agent, "New").await).contains("agents"));
    assert!(error(run(&server, &requested(), "").await).contains("agents"));
    let mut no_paths = requested();
    no_paths.reservations.clear();
    let outcome = run(&server, &no_paths, "New").await;
    assert!(
        outcome["success"] == true && outcome["requested_paths"] == json!([]),
        "{outcome}"
    );
    assert_eq!(server.calls(), Vec::<MailCall>::new());
    let outcome = run_with("http://127.0.0.1:1/mcp/", &requested(), "New", "").await;
    assert!(error(outcome).contains("cannot be reached"));
    let dir = tempfile::tempdir().unwrap();
    for (url, complaint) in [("", "AGENT_MAIL_URL"), ("no url at all", "no URL")] {
        let mut command = script(dir.path(), url, &["transfer", "handoff.yaml", "--to", "New"]);
        let done = done(command.spawn().unwrap()).await;
        assert_eq!(done.status.code(), Some(78));
        assert!(String::from_utf8_lossy(&done.stderr).contains(complaint));
    }
}

#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
async fn the_same_agent_renews() {
    let server = MailServer::start(|tool, arguments, _| kind(tool, arguments)).await;
    let outcome = run(&server, &requested(), "Old").await;
    assert_eq!(outcome["success"], true, "{outcome}");
    assert_eq!(server.received_calls(), ["renew Old a,b,c"]);
    assert_eq!(server.calls()[0].1["extend_seconds"], 900);
}

/// What an agent gets from a server that answers one kind of call in another way.
#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
async fn every_failure_is_told_and_leaves_the_files_with_the_old_agent() {
    let back = ["file Old exclusive a,c", "file Old shared b"];
    let short = |count: usize| MailReply::Tool(json!({"renewed": count, "released": count}));
    let one = || MailReply::Tool(json!({"granted": [{"path_pattern": "a"}], "conflicts": []}));
    let down = || MailReply::Raw(500, "down".to_owned());
    for (to, of, reply, error, calls) in [
        (
            "Old",
            RENEW,
            short(2),
            "2 of 3 reservations were renewed",
            &[][..],
        ),
        (
            "Old",
            RENEW,
            MailReply::Fails("no such agent"),
            "renew_file_reservations: no such agent",
            &[],
        ),
        (
            "New",
            RELEASE,
            MailReply::Fails("database is locked"),
            "release_file_reservations: database is locked",
            &[],
        ),
        (
            "New",
            RELEASE,
            short(2),
            "2 of 3 reservations were released",
            &back,
        ),
        // What it may have been granted without an answer goes back as well.
        (
            "New",
            "file New shared",
            down(),
            "Agent Mail answered with status 500",
            &["release New a,c,b", back[0], back[1]],
        ),
        ("New", "file New", one(), "2 of 3 paths were granted", &back),
        // If nothing can be restored, the script reports that.
        (
            "New",
            RESERVE,
            MailReply::Fails("gone"),
            "file_reservation_paths: gone",
            &[],
        ),
    ] {
        let server = MailServer::start(move |tool, arguments, _| {
            let call = mail_server::summary(tool, arguments);
            match tool == of || call.starts_with(of) {
                true => reply.clone(),
                false => kind(tool, arguments),
            }
        })
        .await;
        let outcome = run(&server, &requested(), to).await;
        assert_eq!(outcome["error"], error);
        let is_back = to == "New" && of != RESERVE;
        assert_eq!(
            (&outcome["success"], &outcome["rolled_back"]),
            (&json!(false), &json!(is_back)),
            "{outcome}"
        );
        assert!(
            server
                .received_calls()
                .ends_with(&calls.iter().map(|call| (*call).to_owned()).collect::<Vec<_>>())
        );
    }
}

#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
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
    let mut by_default = requested();
    by_default.grace_period_seconds = 0;
    let outcome = run(&once, &by_default, "New").await;
    assert!(
        outcome["success"] == true && outcome["conflicts"] == json!([]),
        "{outcome}"
    );
    assert!(began.elapsed() >= Duration::from_secs(2));
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
        is_back(&outcome) && outcome["granted_paths"] == json!([]),
        "{outcome}"
    );
    assert_eq!(outcome["conflicts"], json!([{"path": "b", "holders": ["Third"]}]));
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

#[cfg(unix)]
#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
async fn who_cancels_in_the_wait_gives_everything_back() {
    let server = MailServer::start(|tool, arguments, _| match is((tool, arguments), RESERVE, "New") {
        true => conflict("a"),
        false => kind(tool, arguments),
    })
    .await;
    let mut requested = requested();
    requested.grace_period_seconds = 3600;
    let dir = tempfile::tempdir().unwrap();
    file_of(dir.path(), &requested);
    let args = ["transfer", "handoff.yaml", "--json", "--to", "New"];
    let child = script(dir.path(), &server.url, &args).spawn().unwrap();
    // The last call before the wait.
    while server
        .received_calls()
        .last()
        .is_none_or(|call| call != "release New a,a")
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let outcome = json_of(&done(child).await);
    assert!(is_back(&outcome), "{outcome}");
    assert_eq!(outcome["error"], "cancelled");
    assert_eq!(server.received_calls().last().unwrap(), "file Old shared b");
}

#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
async fn a_call_has_a_limit_and_so_has_putting_back() {
    let server = MailServer::start(|tool, arguments, _| match tool {
        RESERVE => MailReply::Hangs,
        _ => kind(tool, arguments),
    })
    .await;
    let began = Instant::now();
    let outcome = run(&server, &requested(), "New").await;
    assert!(
        outcome["success"] == false && outcome["rolled_back"] == false,
        "{outcome}"
    );
    assert!(
        outcome["error"].as_str().unwrap().contains("within 10 s"),
        "{outcome}"
    );
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
async fn answers_come_in_every_shape_of_the_protocol() {
    let late = MailServer::start(|tool, arguments, calls| match kind(tool, arguments) {
        // The first response is a stream with a single event.
        MailReply::Tool(answer) if calls.is_empty() => {
            let result = json!({"content": [{"type": "text", "text": answer.to_string()}]});
            let message = json!({"jsonrpc": "2.0", "id": 1, "result": result});
            MailReply::Raw(200, format!("event: message\ndata: {message}\n\n"))
        }
        MailReply::Tool(answer) => MailReply::Late(Duration::from_millis(10), answer),
        other => other,
    })
    .await;
    let outcome = run(&late, &requested(), "New").await;
    assert_eq!(outcome["success"], true, "{outcome}");
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no tool"}}).to_string();
    for (body, message) in [
        (error.as_str(), "no tool"),
        ("<html>", "no JSON-RPC"),
        ("{\"id\":1}", "no result"),
        ("[3]", "no JSON-RPC"),
    ] {
        let body = body.to_owned();
        let server = MailServer::start(move |_, _, _| MailReply::Raw(200, body.clone())).await;
        let outcome = run(&server, &requested(), "New").await;
        assert!(outcome["error"].as_str().unwrap().contains(message), "{outcome}");
    }
}

#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
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
    assert_eq!(outcome["success"], true, "{outcome}");
    let tools: Vec<_> = server.calls().into_iter().map(|(tool, _)| tool).collect();
    assert_eq!(
        tools[..4],
        [RELEASE, "initialize", "notifications/initialized", RELEASE]
    );
}

#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
async fn inbox_and_reservations_are_added_to_a_file() {
    let server = MailServer::start(|tool, arguments, _| match tool {
        "fetch_inbox" => {
            assert_eq!(arguments["limit"], 10);
            let message = |thread: &str, subject: &str, importance: &str, at: &str| {
                json!({"thread_id": thread, "subject": subject, "from": "Blue", "importance": importance, "created_ts": at})
            };
            let mut all = vec![
                message("T-1", "old", "normal", "2026-01-01T00:00:00"),
                message("T-1", "newer", "normal", "2026-01-02T00:00:00+00:00"),
                message("", &"ü".repeat(40), "urgent", "2026-01-03T00:00:00Z"),
                message("T-2", "no time", "normal", ""),
            ];
            all.extend((0..30).map(|n| message(&n.to_string(), "more", "", "")));
            MailReply::Tool(json!({"result": all}))
        }
        "resources/read" => {
            assert_eq!(arguments["uri"], "resource://file_reservations/%2Fa%20b?active_only=true&format=json");
            MailReply::Fails("no resources here")
        }
        _ => MailReply::Tool(json!([
            {"agent": "Me", "path_pattern": "src/**", "exclusive": true, "expires_ts": "2999-01-01T00:12:30", "reason": "r"},
            {"agent": "Me", "path_pattern": "old", "exclusive": true, "expires_ts": "2025-12-31T23:00:00Z"},
            {"agent": "Me", "path_pattern": "given back", "released_ts": "2025-12-31T23:00:00Z"},
            {"agent": "Other", "path_pattern": "docs/**"}
        ])),
    })
    .await;
    let file = json!({"goal": "a", "now": "b", "agent_id": "Me"});
    let added_file = added(&server, &["--project", "/a b"], &file).await;
    let threads = added_file["agent_mail_threads"].as_array().unwrap();
    assert_eq!(threads.len(), 10);
    assert_eq!(
        json!(threads[..4]),
        json!([
            format!("⚠️ {} (from: Blue)", "ü".repeat(20)),
            "[T-1] newer (from: Blue)",
            "[T-2] no time (from: Blue)",
            "[0] more (from: Blue)",
        ])
    );
    let reserved = added_file["findings"]["file_reservations"].as_str().unwrap();
    assert!(
        reserved.starts_with("src/** (expires: ") && reserved.ends_with("h, exclusive)"),
        "{reserved}"
    );
    let transfer = &added_file["reservation_transfer"];
    assert_eq!(
        (&transfer["from_agent"], &transfer["project_key"]),
        (&json!("Me"), &json!("/a b"))
    );
    assert_eq!(
        transfer["reservations"],
        json!([{"path_pattern": "src/**", "exclusive": true, "reason": "r", "expires_at": "2999-01-01T00:12:30Z"}])
    );
    // baton can read it, and existing fields of the file stay.
    let read = baton_core::handoffs::yaml::read(&added_file.to_string()).unwrap();
    assert!(read.mistyped.is_empty() && read.file.errors().is_empty());
    assert_eq!(
        added(&server, &["--project", "/a b"], &added_file).await,
        added_file
    );
    // `baton handoffs create --transfer-ttl` has written a part of it.
    let begun = json!({"goal": "a", "now": "b", "agent_id": "Me", "reservation_transfer": {"from_agent": "Me",
        "project_key": "/c", "ttl_seconds": 60, "created_at": "2026-01-01T00:00:00Z"}});
    let transfer = &added(&server, &["--project", "/a b"], &begun).await["reservation_transfer"];
    assert_eq!(
        (&transfer["ttl_seconds"], &transfer["project_key"]),
        (&json!(60), &json!("/c"))
    );
    assert_eq!(transfer["reservations"][0]["path_pattern"], "src/**");
    let nobody = json!({"goal": "a"});
    assert_eq!(added(&server, &[], &nobody).await, nobody);
    let away = MailServer::start(|_, _, _| MailReply::Raw(500, "down".to_owned())).await;
    assert_eq!(added(&away, &[], &file).await, file);
}

/// Lists reservations with their remaining time in minutes and hours.
#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
async fn a_finding_says_how_long_reservations_last() {
    let server = MailServer::start(|tool, _, _| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let left = |seconds: i64| Time::of_seconds(now.cast_signed() + seconds).rfc3339();
        MailReply::Tool(match tool {
            "list_file_reservations" => json!([
                {"agent": "Me", "path_pattern": "a", "expires_ts": left(750), "exclusive": true},
                {"agent_name": "Me", "path_pattern": "b", "expires_ts": left(5410)},
                {"agent": "Me", "path_pattern": "c", "expires_ts": "some day"},
            ]),
            _ => json!([]),
        })
    })
    .await;
    let file = added(&server, &[], &json!({"goal": "a", "agent_id": "Me"})).await;
    assert_eq!(
        file["findings"]["file_reservations"],
        "a (expires: 12m, exclusive); b (expires: 1.5h); c (expires: expired)"
    );
}

/// A server that lists few tools offers those for reservations through another tool (the default in 0.1.0).
#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
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
        assert_eq!(outcome["success"], true, "{outcome}");
        let tools: Vec<_> = server.calls().into_iter().map(|(tool, _)| tool).collect();
        // From then on the other tool is tried first.
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
        outcome["error"],
        "release_file_reservations: Agent Mail has no such tool"
    );
}

/// Newer servers require the token that an agent registered with for each call in its name.
#[tokio::test]
#[ignore = "needs Python: .ci/full sdks"]
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
    assert!(
        outcome["error"]
            .as_str()
            .unwrap()
            .contains("AUTHENTICATION_REQUIRED"),
        "{outcome}"
    );
    let agents = "Old=Old-token, New=New-token";
    let outcome = run_with(&server.url, &requested(), "New", agents).await;
    assert_eq!(outcome["success"], true, "{outcome}");
}
