//! Names and counts of the metrics.

use pretty_assertions::assert_eq;

use super::*;
use crate::jobs::recalls::AnswerOutcome;
use crate::telemetry::{ExchangeEvent, ExchangeFacts, HandoffEvent};
use baton_core::record::WireId;
use baton_core::wire::Usage;

fn event(model: &str) -> ExchangeEvent {
    ExchangeEvent {
        wire: Some(WireId::Anthropic),
        model: Some(model.into()),
        handoffs: vec![HandoffEvent {
            origin: "model",
            wire: "anthropic",
            prompt_bytes: 300,
            before_bytes: 400_000,
            after_bytes: 9_000,
            missing_items: [("rule", 2)].into(),
            relookups: Some(3),
            ..HandoffEvent::default()
        }],
        facts: ExchangeFacts {
            nudges: vec![baton_core::nudge::NudgeOutcome::Notified],
            undo: Some(baton_core::commands::UndoOutcome::Undone),
            dropped_thinking: 3,
            dropped_for_prefix: 3,
            thinking_retry: Some(crate::telemetry::ThinkingRetry::Accepted),
            recalls: vec![AnswerOutcome::Found],
            sent_bytes: vec![7, 3],
            status: 200,
            first_byte_ms: Some(300.0),
            tokens: vec![
                None,
                Some(Usage {
                    input: 1,
                    cache_read: 2,
                    cache_write: 3,
                    cache_write_long: 1,
                    output: 4,
                    ..Usage::default()
                }),
            ],
            relookups: 3,
            ..ExchangeFacts::default()
        },
        ..ExchangeEvent::new("x", "anthropic", "POST /v1/messages")
    }
}

#[test]
fn an_exchange_is_counted_by_its_wire() {
    let metrics = Metrics::new();
    metrics.record(&event("m"));
    let text = metrics.text().unwrap();
    for line in [
        "baton_exchanges_total{wire=\"anthropic\",outcome=\"complete\"} 1",
        "baton_handoffs_total{wire=\"anthropic\",origin=\"model\"} 1",
        "baton_handoff_after_bytes_sum{wire=\"anthropic\",origin=\"model\"} 9000.0",
        "baton_nudges_total{wire=\"anthropic\",outcome=\"told\"} 1",
        "baton_nudges_total{wire=\"anthropic\",outcome=\"followed\"} 0",
        "baton_recalls_total{wire=\"anthropic\",outcome=\"found\"} 1",
        "baton_handoff_missing_items_total{wire=\"anthropic\",kind=\"rule\"} 2",
        "baton_handoff_relookups_total{wire=\"anthropic\"} 3",
        "baton_handoff_missing_items_total{wire=\"anthropic\",kind=\"claim\"} 0",
        "baton_undos_total{wire=\"anthropic\",outcome=\"undone\"} 1",
        "baton_undos_total{wire=\"anthropic\",outcome=\"taken_back\"} 0",
        "baton_recalls_total{wire=\"anthropic\",outcome=\"too_often\"} 0",
        "baton_thinking_retries_total{wire=\"anthropic\",outcome=\"accepted\"} 1",
        "baton_thinking_retries_total{wire=\"anthropic\",outcome=\"refused\"} 0",
        "baton_thinking_dropped_total{wire=\"anthropic\",reason=\"prefix\"} 3",
        "baton_thinking_dropped_total{wire=\"anthropic\",reason=\"other\"} 0",
        "baton_legs_total{wire=\"anthropic\"} 2",
        "baton_sent_bytes_total{wire=\"anthropic\"} 10",
        "baton_tokens_total{wire=\"anthropic\",model=\"m\",kind=\"read\"} 2",
        "baton_cost_unpriced_total{wire=\"anthropic\",model=\"m\"} 1",
        "gen_ai_client_token_usage_sum{gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"anthropic\",gen_ai_request_model=\"m\",gen_ai_token_type=\"input\"} 6.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nnot in\n{text}");
    }
}

/// A family without a sample is not in the output, so each has one, and the source has no further families.
#[test]
fn the_reference_has_every_metric_with_its_labels() {
    let metrics = Metrics::new();
    let mut event = event("m");
    event.drafts = vec![crate::telemetry::DraftEvent {
        origin: "person",
        method: "oneshot",
        outcome: "complete",
    }];
    (event.draft_legs, event.draft_methods) = (vec![1], vec!["oneshot"]);
    event.client = Some("ada".into());
    metrics.note_health(true, [true; 2], true);
    metrics.record(&event);
    metrics.count_by(ScrapedCounts::default);
    let text = crate::telemetry::prometheus::plain(&metrics.text().unwrap());
    let page = include_str!("../../../../docs/reference.md");
    let (_, section) = page.split_once("\n## Metrics\n").unwrap();
    let listed = section.matches("\n  - `").count();
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    for name in &names {
        let samples = [name, "_bucket"].concat();
        let sample = text.lines().find(|line| {
            let sampled = line.split(['{', ' ']).next();
            sampled == Some(name) || sampled == Some(&samples)
        });
        let labels = sample.unwrap().split_once('{').map_or("", |(_, rest)| rest);
        let labels = labels
            .split(['{', ',', '}'])
            .filter_map(|label| label.split_once("=\""));
        let labels: Vec<_> = labels
            .filter(|(label, _)| *label != "le")
            .map(|(label, _)| format!("`{label}`"))
            .collect();
        let group = match labels.is_empty() {
            true => "\n* no label:\n".to_owned(),
            false => format!("\n* {}:\n", labels.join(", ")),
        };
        let (_, rest) = section.split_once(&group).expect(&group);
        let group = rest.split("\n* ").next().unwrap();
        assert!(group.contains(&format!("- `{name}`: ")), "{name}: {group}");
    }
    assert_eq!(names.len(), listed);
    let sources = [
        include_str!("mod.rs"),
        include_str!("costs.rs"),
        include_str!("health.rs"),
    ];
    let sources = sources.concat();
    let registered = sources.matches("add(r, \"").count() + counters().count();
    // The version is registered under its name only.
    assert_eq!(names.len(), registered + 1);
}

#[test]
fn open_exchanges_are_counted_at_each_scrape() {
    let metrics = Metrics::new();
    assert!(metrics.text().unwrap().contains("baton_open_exchanges 0"));
    metrics.count_by(|| ScrapedCounts {
        open: 3,
        dropped: 2,
        ..ScrapedCounts::default()
    });
    for _ in 0..2 {
        let text = metrics.text().unwrap();
        assert!(text.contains("baton_open_exchanges 3"));
        assert!(text.contains("baton_journal_dropped_total 2"));
    }
}

/// Claude Opus 5.5 at the embedded prices per million tokens.
///
/// 1,000 new tokens at $4, 10,000 read at $0.20, 2,000 written for an hour at $8, 100 of output at $20.
#[test]
fn what_tokens_cost_is_counted_for_the_model_that_answered() {
    let metrics = Metrics::new();
    let tokens = Usage {
        input: 1_000,
        cache_read: 10_000,
        cache_write: 2_000,
        cache_write_long: 2_000,
        output: 100,
        reasoning: 0,
    };
    let served = baton_core::wire::ServedBy {
        model: "claude-opus-5-5-20261014".to_owned(),
        service: None,
        cache_miss: None,
    };
    let mut event = event("claude-latest");
    event.tokens = vec![None, Some(tokens)];
    event.served = vec![None, Some(served)];
    metrics.record(&event);
    event.subscription = true;
    metrics.record(&event);
    let text = metrics.text().unwrap();
    let model = r#"wire="anthropic",model="claude-opus-5-5-20261014""#;
    for (kind, count, dollars) in [
        ("new", 2_000, 0.004),
        ("read", 20_000, 0.002),
        ("written", 4_000, 0.016),
        ("output", 200, 0.002),
    ] {
        for line in [
            format!("baton_tokens_total{{{model},kind=\"{kind}\"}} {count}"),
            format!("baton_cost_dollars_total{{{model},kind=\"{kind}\"}} {dollars}"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nnot in\n{text}");
        }
    }
    assert!(
        text.contains(&format!("baton_cost_unpriced_total{{{model}}} 1")),
        "{text}"
    );
}

/// Clients are named by the config. Any number of API keys share one label.
#[test]
fn clients_have_bounded_labels() {
    let metrics = Metrics::new();
    let ended = |client: Option<String>| ExchangeEvent {
        facts: ExchangeFacts {
            client,
            tokens: vec![Some(Usage {
                input: 5,
                ..Usage::default()
            })],
            ..ExchangeFacts::default()
        },
        ..ExchangeEvent::new("x", "anthropic", "POST /v1/messages")
    };
    metrics.record(&ended(None));
    assert!(
        !metrics.text().unwrap().contains("client=\""),
        "none without clients"
    );
    metrics.record(&ended(Some("ada".into())));
    for n in 0..1000 {
        metrics.record(&ended(Some(format!("key-{n:024x}"))));
    }
    let text = metrics.text().unwrap();
    for line in [
        "baton_client_exchanges_total{client=\"ada\",outcome=\"complete\"} 1\n",
        "baton_client_exchanges_total{client=\"other\",outcome=\"complete\"} 1000\n",
        "baton_client_tokens_total{client=\"ada\",kind=\"new\"} 5\n",
        "baton_client_cost_dollars_total{client=\"ada\"} 0.0\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(text.matches("client=\"").count(), 2 * 6);
}
