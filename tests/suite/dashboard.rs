//! The Grafana dashboard and the alerts query only existing metrics and labels, and the dashboard shows every
//! metric.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::record::WireId;
use baton_core::wire::Usage;
use baton_llm::state::telemetry::{ExchangeEvent, ExchangeFacts, Metrics};
use serde_json::Value;

/// Labels that Prometheus itself adds.
const SCRAPED: [&str; 2] = ["instance", "job"];

/// The metric that Prometheus itself adds for each target.
const UP: &str = "up";

/// Words of the query language that could be taken for metric names.
const WORDS: [&str; 6] = ["by", "without", "on", "ignoring", "and", "or"];

/// The name of each sample on `/metrics`, with its labels.
fn samples() -> BTreeMap<String, BTreeSet<String>> {
    let metrics = Metrics::new();
    metrics.note_health(true, [true; 2], true);
    metrics.record(&ExchangeEvent {
        wire: Some(WireId::Anthropic),
        model: Some("m".into()),
        facts: ExchangeFacts {
            client: Some("ada".into()),
            sent_bytes: vec![1],
            status: 200,
            first_byte_ms: Some(1.0),
            tokens: vec![Some(Usage::default())],
            ..ExchangeFacts::default()
        },
        ..ExchangeEvent::new("x", "anthropic", "POST /v1/messages")
    });
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in metrics.text().unwrap().lines().filter(|l| !l.starts_with('#')) {
        let query = Query::read(line.rsplit_once(' ').unwrap().0);
        for (name, labels) in query.metrics {
            found.entry(name).or_default().extend(labels);
        }
    }
    found
}

/// Parsed contents of a PromQL expression.
#[derive(Default)]
struct Query {
    /// Names of metrics, each with the labels in its braces.
    metrics: Vec<(String, Vec<String>)>,
    /// Labels of `by (…)`.
    by: Vec<String>,
}

impl Query {
    fn read(text: &str) -> Self {
        let mut query = Self::default();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if c == '[' {
                rest = after(rest, ']');
            } else if c.is_ascii_digit() {
                rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            } else if is_name(c) {
                let (name, behind) = split_name(rest);
                rest = query.name(name, behind);
            } else {
                rest = &rest[c.len_utf8()..];
            }
        }
        query
    }

    /// Parses text that begins with a name. Returns the rest.
    fn name<'a>(&mut self, name: &str, behind: &'a str) -> &'a str {
        let behind = behind.trim_start();
        match behind.chars().next() {
            Some('(') if name == "by" => {
                self.by.extend(inside(behind, ')').map(str::to_owned));
                after(behind, ')')
            }
            Some('(') => behind,
            _ if WORDS.contains(&name) => behind,
            Some('{') => {
                let labels = inside(behind, '}').map(|part| split_name(part).0.to_owned());
                self.metrics.push((name.to_owned(), labels.collect()));
                after(behind, '}')
            }
            // `sum by (…)`: a function, not a metric.
            _ if behind.starts_with("by ") => behind,
            _ => {
                self.metrics.push((name.to_owned(), Vec::new()));
                behind
            }
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn split_name(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()))
}

/// The comma-separated parts between the bracket that `text` begins with and the next `close`.
fn inside(text: &str, close: char) -> impl Iterator<Item = &str> {
    let end = text.find(close).expect("brackets are closed");
    text[1..end].split(',').map(str::trim)
}

fn after(text: &str, close: char) -> &str {
    &text[text.find(close).expect("brackets are closed") + 1..]
}

/// Every `(place, expression, legend)` of the dashboard, variables included.
fn queries(dashboard: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}");
            let legend = text(&target["legendFormat"]);
            found.push((text(&panel["title"]), text(&target["expr"]), legend));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let query = text(&variable["query"]["query"]);
        if let Some(query) = query.strip_prefix("label_values(") {
            let (metric, label) = query.trim_end_matches(')').split_once(", ").unwrap();
            found.push((
                text(&variable["name"]),
                format!("sum by ({label}) ({metric})"),
                String::new(),
            ));
        }
    }
    found
}

/// Finds mistakes in a query.
fn complaints(expr: &str, legend: &str, samples: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let query = Query::read(expr);
    let mut wrong = Vec::new();
    if query.metrics.is_empty() {
        wrong.push("asks for nothing".to_owned());
    }
    for (name, labels) in &query.metrics {
        if name == UP {
            continue;
        }
        let Some(known) = samples.get(name) else {
            wrong.push(format!("no metric {name}"));
            continue;
        };
        let unknown = |label: &&String| !known.contains(*label) && !SCRAPED.contains(&label.as_str());
        let unknown = labels.iter().chain(&query.by).filter(unknown);
        wrong.extend(unknown.map(|label| format!("no label {label} on {name}")));
    }
    for label in legend.split("{{").skip(1) {
        let label = label.split("}}").next().unwrap_or_default();
        if !query.by.iter().any(|by| by == label) {
            wrong.push(format!("the legend's {label} is summed away"));
        }
    }
    wrong
}

#[test]
fn every_query_asks_for_what_exists() {
    let dashboard: Value = serde_json::from_str(include_str!("../../examples/grafana.json")).unwrap();
    let samples = samples();
    let queries = queries(&dashboard);
    let wrong: Vec<_> = queries
        .iter()
        .flat_map(|(place, expr, legend)| {
            let complaints = complaints(expr, legend, &samples);
            complaints.into_iter().map(move |c| format!("{place}: {c}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    // The dashboard shows every metric.
    let shown: BTreeSet<_> = queries
        .iter()
        .flat_map(|(_, expr, _)| Query::read(expr).metrics)
        .map(|(name, _)| family(&name).to_owned())
        .collect();
    let counted: BTreeSet<_> = samples.keys().map(|name| family(name).to_owned()).collect();
    assert_eq!(shown, counted);
}

/// Name and expression of each alert. An expression fills one line.
fn alerts(rules: &str) -> Vec<(&str, &str)> {
    let mut name = "";
    let mut found = Vec::new();
    for line in rules.lines().map(str::trim) {
        name = line.strip_prefix("- alert: ").unwrap_or(name);
        found.extend(line.strip_prefix("expr: ").map(|expr| (name, expr)));
    }
    found
}

#[test]
fn every_alert_asks_for_what_exists_and_is_tested() {
    let rules = include_str!("../../examples/alerts.yml");
    let tests = include_str!("../../examples/alerts.test.yml");
    let samples = samples();
    let alerts = alerts(rules);
    assert_eq!(alerts.len(), rules.matches("alert: ").count());
    assert!(!alerts.is_empty());
    for (name, expr) in alerts {
        assert_eq!(complaints(expr, "", &samples), Vec::<String>::new(), "{name}");
        assert!(
            tests.contains(&format!("alertname: {name}\n")),
            "no test of {name}"
        );
    }
}

/// A metric's name without the suffixes of histograms and counters.
fn family(name: &str) -> &str {
    let suffixes = ["_bucket", "_sum", "_count", "_total", "_info"];
    let bare = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
    bare.unwrap_or(name)
}

#[test]
fn wrong_queries_are_found() {
    let samples = samples();
    for (expr, legend) in [
        ("sum(rate(baton_handoff_total{wire=\"x\"}[5m]))", ""),
        ("sum(rate(baton_handoffs{wire=\"x\"}[5m]))", ""),
        ("sum(rate(baton_handoffs_total{wires=\"x\"}[5m]))", ""),
        ("sum by (outcome) (rate(baton_handoffs_total[5m]))", ""),
        (
            "sum by (wire) (rate(baton_request_overhead_seconds_total[5m]))",
            "",
        ),
        ("sum(rate(baton_handoffs_total[5m]))", "{{wire}}"),
        ("1 - 0.5", ""),
    ] {
        assert!(!complaints(expr, legend, &samples).is_empty(), "{expr}");
    }
    let fine = "1 - histogram_quantile(0.5, sum by (le) (rate(baton_request_overhead_seconds_bucket{instance=~\"$i\"}[5m])))";
    assert_eq!(complaints(fine, "{{le}}", &samples), Vec::<String>::new());
}

#[test]
fn panels_do_not_overlap_and_have_their_own_ids() {
    let dashboard: Value = serde_json::from_str(include_str!("../../examples/grafana.json")).unwrap();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()));
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24);
        for (x, y) in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(cells.insert((x, y)), "{}", panel["title"]);
        }
    }
}
