//! Converts OpenMetrics to the Prometheus text format (version 0.0.4), which every scraper reads.
//!
//! The samples are the same. Family names differ, and some metric types do not exist there. See
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>.

/// Converts the output of the OpenMetrics encoder.
pub fn plain(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len() + 256);
    // The help line precedes the type line, but the family's name depends on the type.
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map(|(_, text)| text);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "stateset" => ("", "gauge"),
                "gaugehistogram" => ("", "histogram"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some(text) = help.take() {
                out.push_str(&format!("# HELP {name}{suffix} {text}\n"));
            }
            out.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with("# ") {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write;
    use std::process::{Command, Stdio};

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::telemetry::{ExchangeEvent, ExchangeFacts, Metrics};
    use baton_core::record::WireId;
    use baton_core::wire::Usage;

    fn counted() -> String {
        let metrics = Metrics::new();
        metrics.record(&ExchangeEvent {
            wire: Some(WireId::Anthropic),
            model: Some("m".into()),
            facts: ExchangeFacts {
                fired: vec!["a".into()],
                sent_bytes: vec![7, 3],
                status: 200,
                first_byte_ms: Some(300.0),
                tokens: vec![Some(Usage::default())],
                ..ExchangeFacts::default()
            },
            ..ExchangeEvent::new("x", "anthropic", "POST /v1/messages")
        });
        metrics.text().unwrap()
    }

    /// Returns violations of the rules of `promtool check metrics`, as far as they apply to baton's metrics.
    ///
    /// Each sample belongs to the family above it, each family has a known type and a help text, and names
    /// carry their unit.
    fn complaints(text: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut kinds: BTreeMap<String, String> = BTreeMap::new();
        let (mut helped, mut family, mut kind) = (String::new(), String::new(), String::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, described) = rest.split_once(' ').unwrap_or((rest, ""));
                if described.is_empty() {
                    wrong.push(format!("{name}: no help text"));
                }
                helped = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, named) = rest.split_once(' ').unwrap();
                (family, kind) = (name.to_owned(), named.to_owned());
                if !["counter", "gauge", "histogram", "summary", "untyped"].contains(&named) {
                    wrong.push(format!("{name}: type {named}"));
                }
                if helped != name {
                    wrong.push(format!("{name}: no help text"));
                }
                if kinds.insert(family.clone(), kind.clone()).is_some() {
                    wrong.push(format!("{name}: twice"));
                }
                if (kind == "counter") != name.ends_with("_total") {
                    wrong.push(format!("{name}: counters end with _total, and nothing else does"));
                }
                if name.contains("milliseconds") || name.ends_with("_ms") || name.contains("kilobytes") {
                    wrong.push(format!("{name}: base units"));
                }
            } else if line.starts_with('#') {
                wrong.push(format!("a comment: {line}"));
            } else {
                let name = line.split(['{', ' ']).next().unwrap();
                let suffixes: &[&str] = match kind.as_str() {
                    "histogram" => &["_bucket", "_sum", "_count"],
                    _ => &[""],
                };
                if !suffixes.iter().any(|suffix| *name == format!("{family}{suffix}")) {
                    wrong.push(format!("{name}: not of the family {family}"));
                }
            }
        }
        wrong
    }

    #[test]
    fn the_text_format_keeps_its_own_rules() {
        let open = counted();
        assert!(!complaints(&open).is_empty(), "OpenMetrics is no text format");
        let text = plain(&open);
        assert_eq!(complaints(&text), Vec::<String>::new());
        let samples = |text: &str| -> Vec<String> {
            let all = text.lines().filter(|line| !line.starts_with('#'));
            all.map(str::to_owned).collect()
        };
        assert_eq!(samples(&text), samples(&open));
        assert!(text.contains("# TYPE baton_exchanges_total counter\n"));
    }

    #[test]
    #[ignore = "needs promtool"]
    fn promtool_has_nothing_to_say() {
        let tool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut tool = tool.expect("promtool of Prometheus on the PATH");
        tool.stdin
            .take()
            .unwrap()
            .write_all(plain(&counted()).as_bytes())
            .unwrap();
        let output = tool.wait_with_output().unwrap();
        let described = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let all = described(&output.stdout) + &described(&output.stderr);
        assert!(output.status.success() && all.is_empty(), "{all}");
    }
}
