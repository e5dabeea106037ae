//! Data of other tools in a file's form: tasks of beads, threads and reservations of Agent Mail.

use serde_json::Value as Json;

use super::model::ReservationSnapshot;
use super::text::cut;
use super::time::Time;

/// Bytes of a task's title, and of a message's subject.
const TITLE_BYTES: usize = 60;
const SUBJECT_BYTES: usize = 40;

/// Threads that a file names.
const THREADS: usize = 10;

/// The tasks that `br list --format json` prints, as `id: title`: a list, or an object that holds one.
pub fn beads(output: &str) -> Vec<String> {
    let Ok(output) = serde_json::from_str::<Json>(output) else {
        return Vec::new();
    };
    let list = match &output {
        Json::Array(list) => Some(list),
        Json::Object(envelope) => ["issues", "beads", "data", "items", "results"]
            .iter()
            .find_map(|key| envelope.get(*key)?.as_array())
            .or_else(|| envelope.values().find_map(Json::as_array)),
        _ => None,
    };
    let listed = list.into_iter().flatten().filter_map(|bead| {
        let id = bead.get("id")?.as_str().filter(|id| !id.is_empty())?;
        let title = bead.get("title").and_then(Json::as_str).unwrap_or_default();
        Some(match cut(title.trim(), TITLE_BYTES).trim_end() {
            "" => id.to_owned(),
            title => format!("{id}: {title}"),
        })
    });
    listed.collect()
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InboxMessage {
    /// Its thread; empty where it has none.
    pub thread: String,
    pub subject: String,
    /// Who sent it.
    pub from: String,
    /// `normal`, `high`, `urgent`, ….
    pub importance: String,
    /// When it was sent.
    pub created_at: String,
}

impl InboxMessage {
    /// A message as Agent Mail has it.
    pub fn of(message: &Json) -> Self {
        let text = |key: &str| {
            message
                .get(key)
                .and_then(Json::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            thread: text("thread_id"),
            subject: text("subject"),
            from: text("from"),
            importance: text("importance"),
            created_at: text("created_ts"),
        }
    }
}

/// The threads of an inbox, newest first, each once: `[thread] subject (from: NAME)`, urgent ones marked.
pub fn threads(mut messages: Vec<InboxMessage>) -> Vec<String> {
    // Agent Mail writes some times without a zone; unreadable ones are last, in their order.
    messages.sort_by_key(|message| std::cmp::Reverse(Time::parse(&message.created_at)));
    let mut seen = Vec::new();
    let mut lines = Vec::new();
    for message in messages {
        if !message.thread.is_empty() {
            if seen.contains(&message.thread) {
                continue;
            }
            seen.push(message.thread.clone());
        }
        let urgent = if message.importance == "urgent" {
            "⚠️ "
        } else {
            ""
        };
        let thread = match message.thread.as_str() {
            "" => String::new(),
            thread => format!("[{thread}] "),
        };
        let subject = cut(&message.subject, SUBJECT_BYTES).trim_end();
        lines.push(format!("{urgent}{thread}{subject} (from: {})", message.from));
    }
    lines.truncate(THREADS);
    lines
}

/// A reservation of files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Who holds it.
    pub agent: String,
    /// What is reserved.
    pub path_pattern: String,
    /// Whether nobody else may have it.
    pub exclusive: bool,
    /// What for.
    pub reason: String,
    /// When it ends.
    pub expires_at: String,
    /// Whether it was given back.
    pub released: bool,
}

impl Reservation {
    /// A reservation as Agent Mail has it.
    pub fn of(reservation: &Json) -> Self {
        let text = |key: &str| {
            let value = reservation.get(key).and_then(Json::as_str);
            value.unwrap_or_default().to_owned()
        };
        let agent = match text("agent").as_str() {
            "" => text("agent_name"),
            agent => agent.to_owned(),
        };
        Self {
            agent,
            path_pattern: text("path_pattern"),
            exclusive: reservation
                .get("exclusive")
                .and_then(Json::as_bool)
                .unwrap_or_default(),
            reason: text("reason"),
            expires_at: text("expires_ts"),
            released: !text("released_ts").is_empty(),
        }
    }

    /// Whether it holds at a time. One whose end cannot be read is taken to hold.
    pub fn holds(&self, now: Time) -> bool {
        !self.released && Time::parse(&self.expires_at).is_none_or(|end| end > now)
    }

    /// The same as a file has it.
    pub fn snapshot(&self) -> ReservationSnapshot {
        // Without a zone it would be no time of the format's.
        let end = Time::parse(&self.expires_at).map(Time::rfc3339);
        ReservationSnapshot {
            path_pattern: self.path_pattern.clone(),
            exclusive: self.exclusive,
            reason: self.reason.clone(),
            expires_at: end.unwrap_or_default(),
            extra: Vec::new(),
        }
    }
}

/// Reservations as a finding: `path (expires: 12m, exclusive)`, one after the other.
pub fn describe_reservations(reservations: &[Reservation], now: Time) -> String {
    let lines = reservations.iter().map(|one| {
        let left = Time::parse(&one.expires_at).map_or(0, |end| end.since(now));
        let left = match left {
            ..=0 => "expired".to_owned(),
            1..=3600 => format!("{}m", left / 60),
            _ => format!("{:.1}h", left as f64 / 3600.0),
        };
        let exclusive = if one.exclusive { ", exclusive" } else { "" };
        format!("{} (expires: {left}{exclusive})", one.path_pattern)
    });
    lines.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn beads_are_read_from_a_list_and_from_an_envelope() {
        let list = json!([{"id": "bd-1", "title": "auth"}, {"id": "bd-2", "title": "x".repeat(99)}, {"title": "no id"}, {"id": "bd-3"}]);
        let listed = beads(&list.to_string());
        assert_eq!(
            listed,
            [
                "bd-1: auth".to_owned(),
                format!("bd-2: {}", "x".repeat(60)),
                "bd-3".to_owned()
            ]
        );
        for envelope in [json!({"issues": list}), json!({"count": 4, "whatever": list})] {
            assert_eq!(beads(&envelope.to_string()), listed);
        }
        assert!(beads("no JSON").is_empty() && beads("3").is_empty() && beads("{}").is_empty());
    }

    #[test]
    fn threads_stand_newest_first_and_once() {
        let message = |thread: &str, subject: &str, importance: &str, at: &str| {
            InboxMessage::of(
                &json!({"thread_id": thread, "subject": subject, "from": "BlueLake", "importance": importance, "created_ts": at}),
            )
        };
        let summaries = threads(vec![
            message("T-1", "old", "normal", "2026-01-01T00:00:00"),
            message("T-1", "newer", "normal", "2026-01-02T00:00:00+00:00"),
            message("", &"ü".repeat(40), "urgent", "2026-01-03T00:00:00Z"),
            message("T-2", "no time", "normal", ""),
        ]);
        assert_eq!(
            summaries,
            [
                format!("⚠️ {} (from: BlueLake)", "ü".repeat(20)),
                "[T-1] newer (from: BlueLake)".to_owned(),
                "[T-2] no time (from: BlueLake)".to_owned(),
            ]
        );
        let many = (0..30).map(|n| message(&n.to_string(), "x", "", "")).collect();
        assert_eq!(threads(many).len(), 10);
    }

    #[test]
    fn reservations_tell_what_is_left() {
        let now = Time::parse("2026-01-01T00:00:00Z").unwrap();
        let one = |path: &str, end: &str, exclusive: bool| {
            Reservation::of(
                &json!({"agent": "A", "path_pattern": path, "exclusive": exclusive, "expires_ts": end}),
            )
        };
        let all = [
            one("src/**", "2026-01-01T00:12:30", true),
            one("docs/*", "2026-01-01T01:30:00Z", false),
            one("old", "2025-12-31T23:00:00Z", true),
        ];
        assert_eq!(
            describe_reservations(&all, now),
            "src/** (expires: 12m, exclusive); docs/* (expires: 1.5h); old (expires: expired, exclusive)"
        );
        assert_eq!(all.iter().filter(|one| one.holds(now)).count(), 2);
        assert_eq!(all[0].snapshot().expires_at, "2026-01-01T00:12:30Z");
    }
}
