//! baton connects only to its configured upstreams.
//!
//! With loopback as the only network, the demo, `baton try` and a handoff work, and no packet lacks a route.
#![cfg(target_os = "linux")]

use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use baton_strict::{Options, Received, Reply, Strict};
use pretty_assertions::assert_eq;

use crate::harness::fixture::{PROMPT, handoff, history, texts};
use crate::harness::program::{Program, ask, baton, config_for};
use crate::harness::temp;

/// Set for the test that runs inside the namespace.
const INSIDE: &str = "BATON_TEST_IN_NAMESPACE";

/// An address for documentation (RFC 5737) that has no route.
const ELSEWHERE: &str = "192.0.2.1:443";

#[test]
fn with_loopback_alone_nothing_fails_and_nothing_else_is_tried() {
    let namespace = |script: &str, words: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["-rn", "sh", "-c", script, "sh"])
            .args(words)
            .env(INSIDE, "1");
        command.output()
    };
    let allowed = namespace("ip link set lo up", &[]);
    if !allowed.is_ok_and(|done| done.status.success()) {
        eprintln!("ignored: network namespaces (unshare -rn, ip) are not permitted here");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let test = "network::inside_the_namespace";
    let words = [
        this.to_str().unwrap(),
        "--exact",
        test,
        "--ignored",
        "--nocapture",
    ];
    let ran = namespace("ip link set lo up && exec \"$@\"", &words).unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("1 passed"), "{ran:?}");
}

/// Counts packets and connections in this namespace that had no route.
fn without_route() -> u64 {
    let snmp = fs::read_to_string("/proc/net/snmp").unwrap();
    let mut rows = snmp.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    let at = names.split(' ').position(|name| name == "OutNoRoutes").unwrap();
    let four: u64 = values.split(' ').nth(at).unwrap().parse().unwrap();
    let snmp6 = fs::read_to_string("/proc/net/snmp6").unwrap_or_default();
    let six = snmp6.lines().find_map(|line| line.strip_prefix("Ip6OutNoRoutes"));
    four + six.map_or(0, |count| count.trim().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test above, in a network namespace of its own"]
async fn inside_the_namespace() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let routes = fs::read_to_string("/proc/net/route").unwrap();
    assert_eq!(routes.lines().count(), 1, "loopback alone: {routes}");
    assert_eq!(without_route(), 0);
    // Shows that an attempt would be counted.
    TcpStream::connect(ELSEWHERE).unwrap_err();
    let counted = without_route();
    assert!(counted > 0);

    let dir = temp();
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/homes/pi");
    for words in [&["demo", "--json"][..], &["try", "--from", recorded]] {
        let done = baton(dir.path(), words).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    }

    let model = |seen: &Received| match texts(seen.messages()) == [format!("u: {PROMPT}")] {
        true => Reply::text("Fresh."),
        false => handoff(),
    };
    let provider = Strict::start(model, Options::default()).await.unwrap();
    let config = config_for(&provider, dir.path(), "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command
        .args(["serve", "--log-level", "warn", "--config"])
        .arg(&config);
    command.arg("--state-dir").arg(dir.path().join("state"));
    let mut program = Program::launch(command.stderr(Stdio::piped()));
    let answer = ask(&program, &history()).await;
    assert!(
        answer.content.iter().any(|block| block["text"] == "Fresh."),
        "{:?}",
        answer.content
    );
    let log = program.stopped();
    assert_eq!((log.as_str(), without_route()), ("", counted));
}
