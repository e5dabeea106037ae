//! Short log lines for people. `log.format = "json"` logs all fields.

use std::fmt::Write;

use super::{DraftEvent, ExchangeEvent, ExchangeOutcome, HandoffEvent, NudgeOutcome, ThinkingRetry};
use baton_core::commands::UndoOutcome;
use baton_core::rewrite::untooled::ToolOmission;
use baton_core::text::visible::acts;

/// Maximum length of the message in characters.
const LINE_LENGTH: usize = 118;

/// Length of the unique prefix of an id.
const BRIEF: usize = 13;

/// Maximum length of a path, a model name and a reason in characters.
const PATH: usize = 32;
const MODEL: usize = 24;
const REASON: usize = 40;

impl ExchangeEvent {
    /// Logs the exchange as one line for people.
    pub fn log_line(&self) {
        tracing::info!(target: "baton", "{}", cut(&self.line(), LINE_LENGTH));
    }

    fn line(&self) -> String {
        let route = match self.route.split_once(' ') {
            Some(("POST", path)) => path,
            _ => &self.route,
        };
        let mut line = String::with_capacity(LINE_LENGTH + 1);
        push_cut(&mut line, brief(&self.id), BRIEF);
        line.push(' ');
        line.push_str(itoa::Buffer::new().format(self.status));
        line.push(' ');
        push_cut(&mut line, route, PATH);
        if let Some(model) = &self.model {
            line.push(' ');
            push_cut(&mut line, model, MODEL);
        }
        line.push(' ');
        push_size(&mut line, self.received_bytes);
        if let Some(sent) = self
            .sent_bytes
            .last()
            .filter(|sent| **sent != self.received_bytes)
        {
            line.push_str(" > ");
            push_size(&mut line, *sent);
        }
        line.push(' ');
        let ms = (self.total.as_micros() + 500) / 1000;
        line.push_str(itoa::Buffer::new().format(ms));
        line.push_str(" ms");
        for note in self.notes() {
            line.push_str(", ");
            line.push_str(&note);
        }
        line
    }

    /// Notes on an unusual exchange, most important first.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.outcome != ExchangeOutcome::Complete {
            notes.push(self.outcome.name().to_owned());
        }
        if let Some(id) = self.fired.last() {
            notes.push(format!("handed off {}", brief(id)));
        }
        if let Some(lacked) = self.lacked() {
            notes.push(format!("{lacked} carried beside the prompt"));
        }
        if !self.draft_legs.is_empty() {
            let drafted = self.drafted();
            let tokens = drafted.all_input() + drafted.output;
            notes.push(format!("draft of {tokens} tokens"));
        }
        for draft in self.drafts.iter().filter(|draft| !draft.is_complete()) {
            let (method, outcome) = (draft.method, draft.outcome.replace('_', " "));
            notes.push(match method {
                DraftEvent::NONE => format!("no draft: {outcome}"),
                method => format!("draft ({method}) {outcome}"),
            });
        }
        if !self.recalls.is_empty() {
            notes.push(format!(
                "recalled: {}",
                super::names(&self.recalls, |recall| recall.name())
            ));
        }
        if self.unpinned {
            notes.push("unpinned".to_owned());
        }
        notes.extend(self.notes_on_losses());
        for nudged in &self.nudges {
            notes.push(match nudged {
                NudgeOutcome::Notified => "nudged to hand off".to_owned(),
                NudgeOutcome::Followed => "as nudged".to_owned(),
                NudgeOutcome::NotWritten => "nudge not written".to_owned(),
                NudgeOutcome::AutoFailed => "automatic handoff failed".to_owned(),
                NudgeOutcome::WouldNotify => "shadow: a notice here".to_owned(),
                NudgeOutcome::WouldHandOver => "shadow: an automatic handoff here".to_owned(),
                NudgeOutcome::WouldCutFree => "shadow: a cut here costs nothing".to_owned(),
                NudgeOutcome::WouldFollowPlan => "shadow: a handoff behind the plan here".to_owned(),
                NudgeOutcome::Stopped(_) => format!("nudging stopped: {}", nudged.name().replace('_', " ")),
            });
        }
        let shadow = self.shadow.as_ref().and_then(|shadow| shadow.saved);
        notes.extend(shadow.map(|saved| format!("would save ${saved:.2}")));
        if let Some(undo) = self.undo {
            notes.push(match undo {
                UndoOutcome::Undone => "handoff undone".to_owned(),
                UndoOutcome::TakenBack => "undo reverted".to_owned(),
                UndoOutcome::Refused => "undo refused".to_owned(),
            });
        }
        if let Some(id) = &self.pinned {
            notes.push(format!("pinned {}", brief(id)));
        }
        if let Some(why) = self.untooled.filter(|why| *why != ToolOmission::NoClientTools) {
            notes.push(format!("no tool: {}", why.name()));
        }
        if self.sent_bytes.len() > 1 {
            notes.push(format!("{} legs", self.sent_bytes.len()));
        }
        notes
    }

    /// Notes on what of the transcript could not be kept.
    fn notes_on_losses(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.lost_pairs > 0 {
            notes.push(format!("{} hidden calls lost", self.lost_pairs));
        }
        if self.lost_insertions > 0 {
            notes.push(format!("{} inserted texts lost", self.lost_insertions));
        }
        if let Some(dropped) = self.dropped_thinking.some() {
            notes.push(format!("upstream dropped {dropped} thinking blocks"));
        }
        if let Some(retry) = self.thinking_retry {
            notes.push(match retry {
                ThinkingRetry::Accepted => "thinking left out".to_owned(),
                ThinkingRetry::Refused => "refused without thinking, too".to_owned(),
            });
        }
        notes
    }
}

impl HandoffEvent {
    /// Logs the handoff as one line for people.
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

/// The prefix of an id that `baton show` and `baton handoffs show` need.
fn brief(id: &str) -> &str {
    id.get(..BRIEF).unwrap_or(id)
}

/// Untrusted text cut to one line of at most `most` characters, control characters replaced.
fn cut(text: &str, most: usize) -> String {
    let mut kept = String::new();
    push_cut(&mut kept, text, most);
    kept
}

/// Appends untrusted text as [`cut`] leaves it. Most texts are short and plain and are appended as they are.
fn push_cut(line: &mut String, text: &str, most: usize) {
    if text.len() <= most && text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        line.push_str(text);
        return;
    }
    let plain = |c: char| if acts(c) { ' ' } else { c };
    line.extend(text.chars().take(most).map(plain));
    if text.chars().nth(most).is_some() {
        line.pop();
        line.push('…');
    }
}

/// `512 B`, `34 KiB`, `3.4 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    let mut size = String::new();
    push_size(&mut size, bytes);
    size
}

/// Appends a size as [`size`] writes it.
fn push_size(line: &mut String, bytes: u64) {
    let (whole, unit) = match bytes {
        0..1024 => (bytes, " B"),
        1024..1_048_576 => (bytes / 1024, " KiB"),
        _ => {
            let _ = write!(line, "{:.1} MiB", bytes as f64 / 1_048_576.0);
            return;
        }
    };
    line.push_str(itoa::Buffer::new().format(whole));
    line.push_str(unit);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pretty_assertions::assert_eq;

    use super::super::tests::Lines;
    use super::super::text_fields::PlainFields;
    use super::*;

    /// Most characters of a line, time and level included: two lines of a terminal.
    const LINE: usize = 160;

    const ID: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";

    fn event() -> ExchangeEvent {
        ExchangeEvent {
            status: 200,
            model: Some("claude-opus-5-5".into()),
            received_bytes: 320_000,
            sent_bytes: vec![320_100, 14_500],
            total: Duration::from_micros(2_310_499),
            fired: vec![ID.into()],
            ..ExchangeEvent::new(ID, "anthropic", "POST /v1/messages")
        }
    }

    fn logged(log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .fmt_fields(PlainFields)
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
        let nudged = ExchangeEvent {
            nudges: vec![
                NudgeOutcome::Notified,
                NudgeOutcome::Stopped(baton_core::nudge::HandoffLoop::CloseHandoffs),
            ],
            ..ExchangeEvent::new(ID, "anthropic", "POST /v1/messages")
        };
        assert!(
            nudged
                .line()
                .ends_with(", nudged to hand off, nudging stopped: close handoffs")
        );
        let retried = ExchangeEvent {
            dropped_thinking: baton_core::wire::DroppedThinking { prefix: 2, other: 0 },
            thinking_retry: Some(ThinkingRetry::Accepted),
            ..ExchangeEvent::new(ID, "anthropic", "POST /v1/messages")
        };
        assert!(
            retried
                .line()
                .ends_with(", upstream dropped 2 thinking blocks, thinking left out")
        );
        let undone = ExchangeEvent {
            undo: Some(UndoOutcome::Undone),
            ..ExchangeEvent::new(ID, "anthropic", "POST /v1/messages")
        };
        assert!(undone.line().ends_with(", handoff undone"));
        let quiet = ExchangeEvent {
            status: 404,
            outcome: ExchangeOutcome::UpstreamError,
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
                pinned: Some(ID.into()),
                unpinned: true,
                untooled: Some(ToolOmission::UnreadRepeatedKey),
                outcome: ExchangeOutcome::InBandError,
                received_bytes: u64::MAX,
                sent_bytes: vec![u64::MAX - 1; 9999],
                total: Duration::from_secs(1 << 40),
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
            model: None,
            at_ms: 0,
            prompt_bytes: u64::MAX,
            before_bytes: u64::MAX,
            after_bytes: u64::MAX,
            lacked: Default::default(),
            relookups: None,
        };
        let text = logged(|| handoff.log_line());
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.trim_end().chars().count() <= LINE, "{text}");
    }
}
