//! Short log lines for users. `log.format = "json"` logs all fields.

use std::borrow::Cow;
use std::fmt::{self, Write};

use super::facts::{BRIEF, brief};
use super::{ExchangeEvent, FACTS, HandoffEvent};
use baton_core::text::visible::acts;

/// Maximum length of the message in characters.
const LINE_LENGTH: usize = 118;

/// Maximum length of a path, a model name and a reason in characters.
const PATH: usize = 32;
const MODEL: usize = 24;
const REASON: usize = 40;

impl ExchangeEvent {
    /// Logs the exchange as one line for users.
    pub fn log_line(&self) {
        tracing::info!(target: "baton", "{}", cut(&self.line(), LINE_LENGTH));
    }

    fn line(&self) -> String {
        let mut line = String::with_capacity(2 * LINE_LENGTH);
        // Writing to a string cannot fail.
        let _ = self.write_line(&mut line);
        line
    }

    fn write_line(&self, line: &mut String) -> fmt::Result {
        let route = match self.route.split_once(' ') {
            // Nearly all requests are POSTs, and the line is short.
            Some(("POST", path)) => path,
            _ => &self.route,
        };
        let (id, status) = (cut(brief(&self.id), BRIEF), self.status);
        write!(line, "{id} {status} {}", cut(route, PATH))?;
        if let Some(model) = &self.model {
            write!(line, " {}", cut(model, MODEL))?;
        }
        write!(line, " {}", size(self.received_bytes))?;
        let sent = self.sent_bytes.last();
        if let Some(sent) = sent.filter(|sent| **sent != self.received_bytes) {
            write!(line, " > {}", size(*sent))?;
        }
        write!(line, " {} ms", self.total_ms.round() as u64)?;
        for fact in FACTS {
            let notes = (fact.notes)(self);
            // Most facts have none.
            if !notes.is_empty() {
                write!(line, ", {}", notes.join(", "))?;
            }
        }
        Ok(())
    }
}

impl HandoffEvent {
    /// Logs the handoff as one line for users.
    pub fn log_line(&self) {
        tracing::info!(target: "baton", "{}", cut(&self.line(), LINE_LENGTH));
    }

    fn line(&self) -> String {
        let (before, after) = (size(self.before_bytes), size(self.after_bytes));
        let mut line = format!(
            "handoff {} by {} in {}: {before} > {after}, prompt {}",
            brief(&self.id),
            self.origin,
            cut(&self.conversation, 8),
            size(self.prompt_bytes)
        );
        if let Some(reason) = &self.reason {
            line += &format!(": {}", cut(reason, REASON));
        }
        line
    }
}

/// Shortens untrusted text to one line of at most `most` characters, and replaces control characters.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    // The usual case needs no copy.
    if text.len() <= most && text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return text.into();
    }
    let plain = |c: char| if acts(c) { ' ' } else { c };
    let mut kept: String = text.chars().take(most).map(plain).collect();
    if text.chars().nth(most).is_some() {
        // Makes room for the mark, so that the text stays within `most`.
        kept.pop();
        kept.push('…');
    }
    kept.into()
}

/// Formats a size, such as `512 B`, `3.4 KiB` or `120 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // A float is precise enough: the last digits of huge sizes are not shown.
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    // From this on it would be shown as 1024.
    while amount >= 1023.5 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    // From this on it would be shown as 10.0.
    let decimals = usize::from(amount < 9.95);
    format!("{amount:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::tests::Lines;
    use super::super::{ExchangeFacts, ExchangeOutcome, ThinkingRetry};
    use super::*;
    use baton_core::commands::UndoOutcome;
    use baton_core::nudge::NudgeOutcome;
    use baton_core::rewrite::untooled::ToolOmission;

    /// Maximum characters of a line, including time and level: two lines of a terminal.
    const LINE: usize = 160;

    const ID: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";

    fn event() -> ExchangeEvent {
        ExchangeEvent {
            model: Some("claude-opus-5-5".into()),
            facts: ExchangeFacts {
                status: 200,
                received_bytes: 320_000,
                sent_bytes: vec![320_100, 14_500],
                total_ms: 2310.499,
                fired: vec![ID.into()],
                ..ExchangeFacts::default()
            },
            ..ExchangeEvent::new(ID, "anthropic", "POST /v1/messages")
        }
    }

    fn with(facts: ExchangeFacts) -> ExchangeEvent {
        ExchangeEvent {
            facts,
            ..ExchangeEvent::new(ID, "anthropic", "POST /v1/messages")
        }
    }

    fn logged(log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        lines.text()
    }

    #[test]
    fn an_exchange_is_a_line_that_is_read_at_a_glance() {
        assert_eq!(
            event().line(),
            "0199a3c2-7d1e 200 /v1/messages claude-opus-5-5 312 KiB > 14 KiB 2310 ms, handed off 0199a3c2-7d1e, 2 legs"
        );
        let nudged = ExchangeFacts {
            nudges: vec![NudgeOutcome::Notified, NudgeOutcome::CloseHandoffs],
            ..ExchangeFacts::default()
        };
        let retried = ExchangeFacts {
            dropped_thinking: 2,
            thinking_retry: Some(ThinkingRetry::Accepted),
            ..ExchangeFacts::default()
        };
        let undone = ExchangeFacts {
            undo: Some(UndoOutcome::Undone),
            ..ExchangeFacts::default()
        };
        for (facts, end) in [
            (nudged, ", nudged to hand off, nudging stopped: close handoffs"),
            (retried, ", upstream dropped 2 thinking blocks, thinking left out"),
            (undone, ", handoff undone"),
        ] {
            let line = with(facts).line();
            assert!(line.ends_with(end), "{line}");
        }
        let quiet = ExchangeEvent {
            facts: ExchangeFacts {
                status: 404,
                outcome: ExchangeOutcome::UpstreamError,
                ..ExchangeFacts::default()
            },
            ..ExchangeEvent::new(ID, "openai", "GET /v1/models")
        };
        assert_eq!(
            quiet.line(),
            "0199a3c2-7d1e 404 GET /v1/models 0 B 0 ms, upstream_error"
        );
    }

    #[test]
    fn a_line_is_never_longer_and_never_two() {
        let long = "grün\n\u{1b}[31m ".repeat(1000);
        let events = [
            event(),
            ExchangeEvent {
                model: Some(long.clone()),
                facts: ExchangeFacts {
                    pinned: Some(ID.into()),
                    lost_sentinel: true,
                    untooled: Some(ToolOmission::UnreadRepeatedKey),
                    outcome: ExchangeOutcome::InBandError,
                    received_bytes: u64::MAX,
                    sent_bytes: vec![u64::MAX - 1; 9999],
                    total_ms: 1e15,
                    ..ExchangeFacts::default()
                },
                ..ExchangeEvent::new(&long, &long, format!("POST {long}"))
            },
        ];
        for event in events {
            let text = logged(|| event.log_line());
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.trim_end().chars().count() <= LINE, "{text}");
            assert!(!text.contains('\u{1b}'));
        }
        let handoff = HandoffEvent {
            id: ID.into(),
            exchange: ID.into(),
            conversation: long.clone(),
            origin: "model",
            reason: Some(long),
            wire: "openai_responses",
            prompt_bytes: u64::MAX,
            before_bytes: u64::MAX,
            after_bytes: u64::MAX,
            ..HandoffEvent::default()
        };
        let text = logged(|| handoff.log_line());
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.trim_end().chars().count() <= LINE, "{text}");
    }

    #[test]
    fn sizes_have_units() {
        let sizes = [
            0,
            1023,
            1024,
            3500,
            10_200,
            388_096,
            1_048_570,
            120 << 20,
            u64::MAX,
        ]
        .map(size);
        let expected = [
            "0 B",
            "1023 B",
            "1.0 KiB",
            "3.4 KiB",
            "10 KiB",
            "379 KiB",
            "1.0 MiB",
            "120 MiB",
            "16777216 TiB",
        ];
        assert_eq!(sizes, expected);
    }
}
