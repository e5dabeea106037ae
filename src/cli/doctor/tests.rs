use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use http::{StatusCode, Version};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::installation::UpstreamProbe;
use super::machine::clock_finding;
use super::upstreams::{findings, used};
use super::*;
use crate::state::config::{Config, Environment};
use crate::state::journal::ExchangeRow;
use baton_core::record::Handoff;

fn probe(name: &str, answer: Result<(u16, Version), &str>) -> UpstreamProbe {
    UpstreamProbe {
        name: name.to_owned(),
        base_url: format!("https://{name}.example"),
        answer: answer
            .map(|(status, version)| (StatusCode::from_u16(status).unwrap(), version))
            .map_err(str::to_owned),
        clock_offset: None,
    }
}

fn severities(findings: &[Finding]) -> Vec<FindingSeverity> {
    findings.iter().map(|finding| finding.severity).collect()
}

#[test]
fn a_refusal_counts_as_reachable_and_names_its_protocol() {
    let found = findings(
        &[
            probe("a", Ok((401, Version::HTTP_11))),
            probe("b", Ok((404, Version::HTTP_11))),
            probe("c", Ok((503, Version::HTTP_11))),
            probe("d", Err("no such host")),
        ],
        &BTreeSet::new(),
    );
    use FindingSeverity::{Ok as Fine, Warning};
    assert_eq!(severities(&found), [Fine, Fine, Warning, Warning]);
    assert_eq!(
        found[0].message,
        "https://a.example answers, HTTP/1.1 over TLS (status 401)"
    );
    assert!(found[1].message.contains("HTTP/1.1 over TLS"), "{found:?}");
}

#[test]
fn an_unreachable_upstream_is_an_error_where_it_is_used() {
    let probes = [
        probe("a", Err("no route")),
        probe("b", Err("no route")),
        probe("c", Ok((401, Version::HTTP_11))),
    ];
    let found = findings(&probes, &BTreeSet::from(["b".to_owned()]));
    assert_eq!(
        severities(&found),
        [
            FindingSeverity::Warning,
            FindingSeverity::Error,
            FindingSeverity::Ok
        ]
    );
    let help = |finding: &Finding| finding.help.clone().unwrap();
    assert!(
        help(&found[0]).starts_with("ignore this if you do not use it"),
        "{found:?}"
    );
    assert!(help(&found[1]).starts_with("check network"), "{found:?}");
}

#[test]
fn an_upstream_is_used_if_the_journal_or_the_config_names_it() {
    let load = |text| {
        let file = Some(("my.toml", text));
        Config::from_text(file, &Environment::default(), &Flags::default()).unwrap()
    };
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(used(&load(""), None), names(&[]));
    assert_eq!(used(&load(""), Some(&names(&["openai"]))), names(&["openai"]));
    let own = load("upstreams.gemini.base_url = 'http://box'\nupstreams.mine.base_url = 'http://mine'\n");
    assert_eq!(used(&own, None), names(&["gemini", "mine"]));
}

#[test]
fn a_question_is_turned_into_something_to_do() {
    let env = Environment::default();
    let problems = Config::from_text(Some(("my.toml", "[sever]\n")), &env, &Flags::default()).unwrap_err();
    let help = config::problems(&problems)[0].help.clone();
    assert_eq!(help.as_deref(), Some("correct it: did you mean `server`?"));
}

#[test]
fn the_clock_is_compared_with_most_upstreams_and_with_the_journal() {
    let now = UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    let secs = |all: &[u64]| all.iter().map(|secs| Duration::from_secs(*secs)).collect();
    let severity = |offsets: &[u64], newest| Some(clock_finding(now, secs(offsets), newest)?.severity);
    assert_eq!(severity(&[], None), None);
    assert_eq!(
        severity(&[0, 2, 9_000], Some(2_000_000_000_000)),
        Some(FindingSeverity::Ok)
    );
    assert_eq!(severity(&[0, 7_200, 7_201], None), Some(FindingSeverity::Warning));
    assert_eq!(
        severity(&[0], Some(2_000_000_301_000)),
        Some(FindingSeverity::Warning)
    );
}

#[test]
fn without_a_network_there_is_one_finding() {
    let probes = ["a", "b"].map(|name| probe(name, Err("no such host")));
    let found = findings(&probes, &BTreeSet::new());
    assert_eq!(severities(&found), [FindingSeverity::Warning]);
    assert_eq!(
        found[0].message,
        "none of 2 upstreams can be reached; https://a.example: no such host"
    );
    let used = BTreeSet::from(["b".to_owned()]);
    assert_eq!(severities(&findings(&probes, &used)), [FindingSeverity::Error]);
    assert_eq!(findings(&probes[..1], &BTreeSet::new())[0].subject, "a");
}

#[test]
fn every_warning_and_error_has_advice() {
    let names: Vec<_> = CHECKS.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "config",
            "proxy",
            "ready",
            "service",
            "ports",
            "clock",
            "store",
            "journal",
            "models",
            "upstreams",
            "agents",
            "sign-ins"
        ]
    );
    let mut config = Config::default_for_tests();
    config.upstreams.clear();
    let dir = tempfile::tempdir().unwrap();
    config.state_dir = dir.path().join("state");
    for row in examine(&Installation::new(config, true)) {
        let finding = row.finding;
        assert_eq!(
            finding.help.is_some(),
            finding.severity != FindingSeverity::Ok,
            "{finding:?}"
        );
    }
}

#[test]
fn a_model_that_writes_its_calls_as_text_is_named() {
    let mut rows = vec![ExchangeRow::default(), ExchangeRow::default()];
    rows[0].model = Some("qwen2.5-coder:1.5b".to_owned());
    rows[0].event.text_tool_calls = 2;
    rows[1].model = Some("claude-opus-5-5".to_owned());
    let found = state::text_tool_calls(&installation::text_tool_calls(&rows));
    assert_eq!(severities(&found), [FindingSeverity::Warning]);
    assert_eq!(found[0].subject, "qwen2.5-coder:1.5b");
    assert!(found[0].help.as_ref().unwrap().contains("--jinja"), "{found:?}");
}

#[test]
fn a_model_whose_prompts_leave_much_out_is_named() {
    let handoff = |model: &str, missing_items: usize| -> Handoff {
        let rule = |state| json!({"kind": "rule", "state": state, "text": "Never push."});
        let mut carried = vec![rule("in_prompt")];
        carried.extend((0..missing_items).map(|_| rule("added")));
        serde_json::from_value(json!({
            "id": "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11", "principal": "local", "conversation": "c", "wire": "anthropic",
            "prompt": "Go on.", "head": "", "created_ms": 0, "history_bytes": 0, "origin": "model", "recall": false,
            "archived": false, "model": model, "carried": carried,
        }))
        .unwrap()
    };
    let mut handoffs: Vec<Handoff> = (0..5).map(|n| handoff("careful", n % 2)).collect();
    handoffs.extend((0..5).map(|_| handoff("forgets", 3)));
    handoffs.push(handoff("new", 9));
    let found = state::omissions(&handoffs);
    assert_eq!(
        severities(&found),
        [FindingSeverity::Ok, FindingSeverity::Warning]
    );
    assert!(found[0].message.starts_with("omits 0.4 rules"), "{found:?}");
    assert!(found[1].message.starts_with("omits 3.0 rules"), "{found:?}");
}
