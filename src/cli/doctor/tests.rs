use std::collections::BTreeSet;

use http::StatusCode;
use pretty_assertions::assert_eq;

use super::installation::{JournalSummary, UpstreamProbe};
use super::rows::{judged, used};
use super::*;
use baton_core::brake::BrakeOutcome;
use baton_core::record::PlanWindow;
use baton_state::clock::now_ms;
use baton_state::config::{Config, Environment};
use baton_state::journal::ExchangeRow;
use baton_state::telemetry::ProviderLimit;

fn probe(name: &str, answer: Result<u16, &str>) -> UpstreamProbe {
    UpstreamProbe {
        name: name.to_owned(),
        base_url: format!("https://{name}.example"),
        answer: answer
            .map(|status| StatusCode::from_u16(status).unwrap())
            .map_err(str::to_owned),
    }
}

fn severities(findings: &[Finding]) -> Vec<FindingSeverity> {
    findings.iter().map(|finding| finding.severity).collect()
}

#[test]
fn a_refusal_counts_as_reachable() {
    let answers = [Ok(401), Ok(404), Ok(503), Err("no such host")];
    let found = judged(&answers.map(|answer| probe("a", answer)), &BTreeSet::new());
    use FindingSeverity::{Ok as Fine, Warning};
    assert_eq!(severities(&found), [Fine, Fine, Warning, Warning]);
    assert_eq!(found[0].message, "https://a.example answers (status 401)");
}

#[test]
fn an_unreachable_upstream_is_an_error_where_it_is_used() {
    let unreached = Err("no route");
    let probes = [probe("a", unreached), probe("b", unreached), probe("c", Ok(401))];
    let found = judged(&probes, &BTreeSet::from(["b".to_owned()]));
    use FindingSeverity::{Error, Ok as Fine, Warning};
    assert_eq!(severities(&found), [Warning, Error, Fine]);
    let begins = ["ignore this if you do not use it", "check network"];
    for (finding, begins) in found.iter().zip(begins) {
        let help = finding.help.as_deref().unwrap();
        assert!(help.starts_with(begins), "{found:?}");
    }
}

#[test]
fn without_a_network_there_is_one_finding() {
    let probes = [probe("a", Err("no such host")), probe("b", Err("no such host"))];
    for (used, severity) in [
        (None, FindingSeverity::Warning),
        (Some("b"), FindingSeverity::Error),
    ] {
        let found = judged(&probes, &used.map(str::to_owned).into_iter().collect());
        assert_eq!(severities(&found), [severity]);
        assert_eq!(found[0].subject, "network");
        let none = "none of 2 upstreams can be reached; https://";
        assert!(found[0].message.starts_with(none), "{found:?}");
    }
}

#[test]
fn an_upstream_is_used_if_the_journal_or_the_config_names_it() {
    let load = |text| {
        let file = Some(("my.toml", text));
        Config::from_text(file, &Environment::default(), &Flags::default()).unwrap()
    };
    let names = |names: &[&str]| names.iter().copied().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(used(&load(""), names(&[])), names(&[]));
    assert_eq!(used(&load(""), names(&["openai"])), names(&["openai"]));
    let own = load("upstreams.gemini.base_url = 'http://box'\nupstreams.mine.base_url = 'http://mine'\n");
    assert_eq!(used(&own, names(&[])), names(&["gemini", "mine"]));
}

#[test]
fn a_question_is_turned_into_something_to_do() {
    let env = Environment::default();
    let problems = Config::from_text(Some(("my.toml", "[sever]\n")), &env, &Flags::default()).unwrap_err();
    let help = config::problems(&problems)[0].help.clone();
    assert_eq!(help.as_deref(), Some("correct it: did you mean `server`?"));
}

#[test]
fn a_directory_of_clients_that_is_still_empty_needs_a_key_as_well() {
    let subjects = |config: &Config| -> Vec<String> {
        let found = config::warnings(config).into_iter();
        found.map(|finding| finding.subject).collect()
    };
    let mut config = Config::default_for_tests();
    config.server.hosts = vec!["baton.test".to_owned()];
    assert!(subjects(&config).contains(&"server.hosts".to_owned()));
    let dir = tempfile::tempdir().unwrap();
    config.server.clients_dir = Some(dir.path().to_owned());
    assert!(!subjects(&config).contains(&"server.hosts".to_owned()));
}

#[test]
fn every_warning_and_error_has_advice() {
    let names: Vec<_> = CHECKS.iter().map(|(name, _)| *name).collect();
    let expected = "config proxy ports store keys journal upstreams agents sign-ins budget";
    assert_eq!(names.join(" "), expected);
    let mut config = Config::default_for_tests();
    config.upstreams.clear();
    let dir = tempfile::tempdir().unwrap();
    config.state_dir = dir.path().join("state");
    for row in examine(&Installation::new(config, true)) {
        let finding = row.finding;
        let is_fine = finding.severity == FindingSeverity::Ok;
        assert_eq!(finding.help.is_none(), is_fine, "{finding:?}");
    }
}

#[test]
fn a_stop_of_the_brake_is_reported_with_its_exchange() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::default_for_tests();
    config.state_dir = dir.path().join("state");
    let mut installation = Installation::new(config, false);
    let budgets = |installation: &Installation| -> Vec<Finding> {
        let all = examine(installation).into_iter();
        let found = all.filter(|row| row.check == "budget");
        found.map(|row| row.finding).collect()
    };
    let journal = |newest| {
        let totals = Default::default();
        Ok(Some(JournalSummary { totals, newest }))
    };
    assert_eq!(budgets(&installation), [Finding::ok("brake", "no budget is set")]);
    installation.config.brake.session.microdollars = 5;
    let ok = &budgets(&installation)[0];
    assert_eq!(ok.message, "no agent was stopped recently");
    let mut newest = vec![ExchangeRow::default(), ExchangeRow::default()];
    newest[0].event.brake = Some(BrakeOutcome::Released);
    newest[1].event.brake = Some(BrakeOutcome::StoppedLoop);
    newest[1].id = "exchange-1".to_owned();
    installation.journal = journal(newest);
    let stopped = &budgets(&installation)[0];
    assert_eq!(stopped.severity, FindingSeverity::Warning);
    assert!(stopped.message.ends_with(": exchange-1"), "{stopped:?}");
    for (may_raise, stop, may_go_on) in [
        (true, BrakeOutcome::StoppedBudget, true),
        (false, BrakeOutcome::StoppedLoop, true),
        (false, BrakeOutcome::StoppedBudget, false),
    ] {
        let mut row = ExchangeRow::default();
        row.event.brake = Some(stop);
        installation.config.brake.may_raise = Some(may_raise);
        installation.journal = journal(vec![row]);
        let help = budgets(&installation)[0].help.clone().unwrap();
        assert_eq!(help.contains("`::go`"), may_go_on, "{stop:?}: {help}");
    }
    let mut row = ExchangeRow {
        upstream: Some("anthropic".to_owned()),
        ..ExchangeRow::default()
    };
    row.event.plan_windows = vec![PlanWindow {
        name: "5h".to_owned(),
        used: 10_000,
        ..PlanWindow::default()
    }];
    let mut limited = |opens_ms| {
        row.event.provider_limit = Some(ProviderLimit { opens_ms });
        installation.journal = journal(vec![row.clone()]);
        budgets(&installation)
    };
    let found = limited(Some(now_ms() + 3_600_000));
    assert_eq!(
        (&*found[1].subject, &*found[1].message),
        ("subscription", "used: 5h 100%")
    );
    assert_eq!(found[2].subject, "anthropic");
    assert!(found[2].message.contains("it opens again at "), "{found:?}");
    for over in [Some(now_ms() - 1), None] {
        assert_eq!(limited(over).len(), 2);
    }
}
