//! The document as a tree of values and back. Reading is lenient: what has the wrong type is reported and left empty, or
//! taken as what it was probably meant to be, so that one slip does not cost the rest of the file.

use std::collections::BTreeMap;

use super::emit;
use super::model::{
    Dimension, FileChanges, HandoffFile, QualityReport, ReservationSnapshot, ReservationTransfer, Task,
};
use super::parse::{self, Malformed};
use super::terms::VERSION;
use super::time::Time;
use super::validate::FieldError;
use super::value::Value;

/// How Go writes a time that was never set.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// A file as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// What it says.
    pub file: HandoffFile,
    /// What has the wrong type.
    pub mistyped: Vec<FieldError>,
}

impl Read {
    /// Everything that is wrong with the file.
    pub fn errors(&self) -> Vec<FieldError> {
        let mut errors = self.mistyped.clone();
        let rules = self.file.errors();
        // A member that could not be read is not reported a second time as missing.
        errors.extend(
            rules
                .into_iter()
                .filter(|error| !self.mistyped.iter().any(|mistyped| mistyped.field == error.field)),
        );
        errors
    }
}

/// Reads a file; what breaks a rule of the format is listed by [`Read::errors`].
///
/// # Errors
/// It is no YAML mapping.
pub fn read(text: &str) -> Result<Read, Malformed> {
    let nothing = |message: &str| Malformed {
        message: message.to_owned(),
        line: 0,
    };
    let entries = match parse::document(text)? {
        Some(Value::Map(entries)) => entries,
        None | Some(Value::Null) => return Err(nothing("there is nothing in it")),
        Some(_) => return Err(nothing("it is no mapping")),
    };
    let mut mistyped = Vec::new();
    let mut file = HandoffFile::default();
    let unknown = members(&mut mistyped, "", entries, |errors, name, value| {
        file.member(errors, name, value)
    });
    file.extra = unknown;
    if file.version.is_empty() {
        VERSION.clone_into(&mut file.version);
    }
    Ok(Read { file, mistyped })
}

/// Gives each entry to `take`, which returns those that it does not know.
fn members(
    errors: &mut Vec<FieldError>,
    path: &str,
    entries: Vec<(String, Value)>,
    mut take: impl FnMut(&mut Errors<'_>, &str, Value) -> Option<Value>,
) -> Vec<(String, Value)> {
    let mut unknown = Vec::new();
    for (name, value) in entries {
        let mut errors = Errors {
            list: errors,
            path,
            name: &name,
        };
        if let Some(value) = take(&mut errors, &name, value) {
            unknown.push((name, value));
        }
    }
    unknown
}

/// Where a value stands, and what is wrong so far.
struct Errors<'e> {
    list: &'e mut Vec<FieldError>,
    path: &'e str,
    name: &'e str,
}

impl Errors<'_> {
    fn field(&self) -> String {
        match self.path {
            "" => self.name.to_owned(),
            path => format!("{path}.{}", self.name),
        }
    }

    fn wrong(&mut self, expected: &str, value: &Value) {
        let found = match value.scalar() {
            Some(text) => text.to_owned(),
            None => value.to_json().to_string(),
        };
        let field = self.field();
        self.list.push(FieldError::new(&field, expected, &found));
    }

    fn text(&mut self, value: Value) -> String {
        match value {
            Value::Null => String::new(),
            Value::Text(text) | Value::Plain(text) => text,
            other => {
                self.wrong("a text", &other);
                String::new()
            }
        }
    }

    fn time(&mut self, value: Value) -> String {
        let text = self.text(value);
        let is_none = Time::parse(&text).is_some_and(|time| time.rfc3339() == NO_TIME);
        if is_none { String::new() } else { text }
    }

    fn whole(&mut self, value: Value) -> i64 {
        let number = value.scalar().map(str::trim).map(|text| match text {
            "" => Some(0),
            text => text.replace('_', "").parse().ok(),
        });
        number.flatten().unwrap_or_else(|| {
            self.wrong("a whole number", &value);
            0
        })
    }

    fn share(&mut self, value: Value) -> f64 {
        let number = value.scalar().map(str::trim).map(|text| match text {
            "" => Some(0.0),
            text => text.parse::<f64>().ok().filter(|number| number.is_finite()),
        });
        number.flatten().unwrap_or_else(|| {
            self.wrong("a number", &value);
            0.0
        })
    }

    fn flag(&mut self, value: Value) -> bool {
        match value.scalar().map(str::to_ascii_lowercase).as_deref() {
            Some("true" | "yes" | "on") => true,
            Some("" | "false" | "no" | "off") => false,
            _ => {
                self.wrong("true or false", &value);
                false
            }
        }
    }

    /// A list of texts. One text alone is a list of it.
    fn texts(&mut self, value: Value) -> Vec<String> {
        match value {
            Value::Null => Vec::new(),
            Value::List(items) => items.into_iter().map(|item| self.text(item)).collect(),
            Value::Text(text) | Value::Plain(text) => {
                self.wrong("a list", &Value::Text(text.clone()));
                vec![text]
            }
            other => {
                self.wrong("a list", &other);
                Vec::new()
            }
        }
    }

    fn map(&mut self, value: Value) -> BTreeMap<String, String> {
        let entries = self.entries(value);
        let entries = entries.into_iter().map(|(key, value)| {
            let text = match value {
                Value::List(_) | Value::Map(_) => {
                    self.wrong("a mapping of texts", &value);
                    value.to_json().to_string()
                }
                scalar => self.text(scalar),
            };
            (key, text)
        });
        entries.collect()
    }

    fn entries(&mut self, value: Value) -> Vec<(String, Value)> {
        match value {
            Value::Null => Vec::new(),
            Value::Map(entries) => entries,
            other => {
                self.wrong("a mapping", &other);
                Vec::new()
            }
        }
    }

    fn items(&mut self, value: Value) -> Vec<Value> {
        match value {
            Value::Null => Vec::new(),
            Value::List(items) => items,
            other => {
                self.wrong("a list", &other);
                Vec::new()
            }
        }
    }

    /// Reads the members of a mapping inside of this one.
    fn inside<T: Default>(
        &mut self,
        value: Value,
        mut member: impl FnMut(&mut T, &mut Errors<'_>, &str, Value) -> Option<Value>,
        keep: impl FnOnce(&mut T, Vec<(String, Value)>),
    ) -> T {
        let entries = self.entries(value);
        let path = self.field();
        let mut inner = T::default();
        let unknown = members(self.list, &path, entries, |errors, name, value| {
            member(&mut inner, errors, name, value)
        });
        keep(&mut inner, unknown);
        inner
    }

    fn tasks(&mut self, value: Value) -> Vec<Task> {
        let items = self.items(value);
        let task = |item| match item {
            // A task that has no files is easily written as a text.
            Value::Text(text) | Value::Plain(text) => Task::new(text),
            item => self.inside(item, Task::member, |task, unknown| task.extra = unknown),
        };
        items.into_iter().map(task).collect()
    }
}

impl HandoffFile {
    /// Takes one member; gives it back where it is none of the format's.
    fn member(&mut self, e: &mut Errors<'_>, name: &str, value: Value) -> Option<Value> {
        match name {
            "version" => self.version = e.text(value),
            "session" => self.session = e.text(value),
            "date" => self.date = e.text(value),
            "created_at" => self.created_at = e.time(value),
            "updated_at" => self.updated_at = e.time(value),
            "status" => self.status = e.text(value),
            "outcome" => self.outcome = e.text(value),
            "goal" => self.goal = e.text(value),
            "now" => self.now = e.text(value),
            "test" => self.test = e.text(value),
            "done_this_session" => self.done_this_session = e.tasks(value),
            "blockers" => self.blockers = e.texts(value),
            "questions" => self.questions = e.texts(value),
            "decisions" => self.decisions = e.map(value),
            "findings" => self.findings = e.map(value),
            "worked" => self.worked = e.texts(value),
            "failed" => self.failed = e.texts(value),
            "next" => self.next = e.texts(value),
            "files" => {
                self.files = e.inside(value, FileChanges::member, |files, unknown| {
                    files.extra = unknown;
                });
            }
            "active_beads" => self.active_beads = e.texts(value),
            "agent_mail_threads" => self.agent_mail_threads = e.texts(value),
            "cm_memories" => self.cm_memories = e.texts(value),
            "agent_id" => self.agent_id = e.text(value),
            "agent_type" => self.agent_type = e.text(value),
            "pane_id" => self.pane_id = e.text(value),
            "tokens_used" => self.tokens_used = e.whole(value),
            "tokens_max" => self.tokens_max = e.whole(value),
            "tokens_pct" => self.tokens_pct = e.share(value),
            "quality" if value == Value::Null => {}
            "quality" => {
                self.quality = Some(e.inside(value, QualityReport::member, |report, unknown| {
                    report.extra = unknown;
                }));
            }
            "reservation_transfer" if value == Value::Null => {}
            "reservation_transfer" => {
                self.reservation_transfer =
                    Some(e.inside(value, ReservationTransfer::member, |transfer, unknown| {
                        transfer.extra = unknown;
                    }));
            }
            _ => return Some(value),
        }
        None
    }

    /// The file as a tree, its members in the format's order.
    pub fn to_value(&self) -> Value {
        let mut map = Members::default();
        map.text("version", &self.version);
        map.text("session", &self.session);
        map.text("date", &self.date);
        map.time("created_at", &self.created_at);
        map.time("updated_at", &self.updated_at);
        map.text("status", &self.status);
        map.text("outcome", &self.outcome);
        map.text("goal", &self.goal);
        map.text("now", &self.now);
        map.text("test", &self.test);
        let tasks = self.done_this_session.iter().map(Task::to_value);
        map.list("done_this_session", tasks.collect());
        map.texts("blockers", &self.blockers);
        map.texts("questions", &self.questions);
        map.map("decisions", &self.decisions);
        map.map("findings", &self.findings);
        map.texts("worked", &self.worked);
        map.texts("failed", &self.failed);
        map.texts("next", &self.next);
        map.value("files", self.files.to_value());
        map.texts("active_beads", &self.active_beads);
        map.texts("agent_mail_threads", &self.agent_mail_threads);
        map.texts("cm_memories", &self.cm_memories);
        map.given("agent_id", &self.agent_id);
        map.given("agent_type", &self.agent_type);
        map.given("pane_id", &self.pane_id);
        map.number("tokens_used", self.tokens_used);
        map.number("tokens_max", self.tokens_max);
        if self.tokens_pct != 0.0 {
            map.plain("tokens_pct", self.tokens_pct.to_string());
        }
        if let Some(report) = &self.quality {
            map.entry("quality", report.to_value());
        }
        if let Some(transfer) = &self.reservation_transfer {
            map.entry("reservation_transfer", transfer.to_value());
        }
        map.close(&self.extra)
    }

    /// The file as text.
    pub fn to_yaml(&self) -> String {
        emit::document(&self.to_value())
    }
}

impl Task {
    fn member(&mut self, e: &mut Errors<'_>, name: &str, value: Value) -> Option<Value> {
        match name {
            "task" => self.task = e.text(value),
            "files" => self.files = e.texts(value),
            _ => return Some(value),
        }
        None
    }

    fn to_value(&self) -> Value {
        let mut map = Members::default();
        map.text("task", &self.task);
        map.texts("files", &self.files);
        map.close(&self.extra)
    }
}

impl FileChanges {
    fn member(&mut self, e: &mut Errors<'_>, name: &str, value: Value) -> Option<Value> {
        match name {
            "created" => self.created = e.texts(value),
            "modified" => self.modified = e.texts(value),
            "deleted" => self.deleted = e.texts(value),
            _ => return Some(value),
        }
        None
    }

    fn to_value(&self) -> Value {
        let mut map = Members::default();
        map.texts("created", &self.created);
        map.texts("modified", &self.modified);
        map.texts("deleted", &self.deleted);
        map.close(&self.extra)
    }
}

impl QualityReport {
    fn member(&mut self, e: &mut Errors<'_>, name: &str, value: Value) -> Option<Value> {
        match name {
            "score" => self.score = e.whole(value),
            "status" => self.status = e.text(value),
            "scored_at" => self.scored_at = e.time(value),
            "dimensions" => {
                let items = e.items(value);
                let dimension = |item| e.inside(item, Dimension::member, |d, unknown| d.extra = unknown);
                self.dimensions = items.into_iter().map(dimension).collect();
            }
            "reasons" => self.reasons = e.texts(value),
            "hints" => self.hints = e.texts(value),
            _ => return Some(value),
        }
        None
    }

    /// The report as a tree.
    pub fn to_value(&self) -> Value {
        let mut map = Members::default();
        map.plain("score", self.score.to_string());
        map.text("status", &self.status);
        if !self.scored_at.is_empty() {
            map.time("scored_at", &self.scored_at);
        }
        let dimensions = self.dimensions.iter().map(Dimension::to_value);
        map.list("dimensions", dimensions.collect());
        map.texts("reasons", &self.reasons);
        map.texts("hints", &self.hints);
        map.close(&self.extra)
    }
}

impl Dimension {
    fn member(&mut self, e: &mut Errors<'_>, name: &str, value: Value) -> Option<Value> {
        match name {
            "name" => self.name = e.text(value),
            "score" => self.score = e.whole(value),
            "reasons" => self.reasons = e.texts(value),
            "hints" => self.hints = e.texts(value),
            _ => return Some(value),
        }
        None
    }

    fn to_value(&self) -> Value {
        let mut map = Members::default();
        map.text("name", &self.name);
        map.plain("score", self.score.to_string());
        map.texts("reasons", &self.reasons);
        map.texts("hints", &self.hints);
        map.close(&self.extra)
    }
}

impl ReservationTransfer {
    fn member(&mut self, e: &mut Errors<'_>, name: &str, value: Value) -> Option<Value> {
        match name {
            "from_agent" => self.from_agent = e.text(value),
            "project_key" => self.project_key = e.text(value),
            "ttl_seconds" => self.ttl_seconds = e.whole(value),
            "grace_period_seconds" => self.grace_period_seconds = e.whole(value),
            "created_at" => self.created_at = e.time(value),
            "reservations" => {
                let items = e.items(value);
                let one = |item| {
                    e.inside(item, ReservationSnapshot::member, |one, unknown| {
                        one.extra = unknown;
                    })
                };
                self.reservations = items.into_iter().map(one).collect();
            }
            _ => return Some(value),
        }
        None
    }

    fn to_value(&self) -> Value {
        let mut map = Members::default();
        map.text("from_agent", &self.from_agent);
        map.text("project_key", &self.project_key);
        map.number("ttl_seconds", self.ttl_seconds);
        map.number("grace_period_seconds", self.grace_period_seconds);
        if !self.created_at.is_empty() {
            map.time("created_at", &self.created_at);
        }
        let all = self.reservations.iter().map(ReservationSnapshot::to_value);
        map.list("reservations", all.collect());
        map.close(&self.extra)
    }
}

impl ReservationSnapshot {
    fn member(&mut self, e: &mut Errors<'_>, name: &str, value: Value) -> Option<Value> {
        match name {
            "path_pattern" => self.path_pattern = e.text(value),
            "exclusive" => self.exclusive = e.flag(value),
            "reason" => self.reason = e.text(value),
            "expires_at" => self.expires_at = e.time(value),
            _ => return Some(value),
        }
        None
    }

    fn to_value(&self) -> Value {
        let mut map = Members::default();
        map.text("path_pattern", &self.path_pattern);
        map.plain("exclusive", self.exclusive.to_string());
        map.given("reason", &self.reason);
        if !self.expires_at.is_empty() {
            map.time("expires_at", &self.expires_at);
        }
        map.close(&self.extra)
    }
}

/// A mapping that is being put together.
#[derive(Default)]
struct Members(Vec<(String, Value)>);

impl Members {
    fn entry(&mut self, name: &str, value: Value) {
        self.0.push((name.to_owned(), value));
    }

    fn plain(&mut self, name: &str, text: String) {
        self.entry(name, Value::Plain(text));
    }

    /// A text that is there even if it is empty.
    fn text(&mut self, name: &str, text: &str) {
        self.entry(name, Value::Text(text.to_owned()));
    }

    /// A text that is left out if it is empty.
    fn given(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.text(name, text);
        }
    }

    /// A time without quotes, as Go's reader expects it.
    fn time(&mut self, name: &str, text: &str) {
        match text {
            "" => self.plain(name, NO_TIME.to_owned()),
            // Only what YAML reads as a time too; another text keeps its quotes.
            text => match Value::unquoted(text) {
                value @ Value::Plain(_) if Time::parse(text).is_some() => self.entry(name, value),
                _ => self.text(name, text),
            },
        }
    }

    fn number(&mut self, name: &str, number: i64) {
        if number != 0 {
            self.plain(name, number.to_string());
        }
    }

    fn list(&mut self, name: &str, items: Vec<Value>) {
        if !items.is_empty() {
            self.entry(name, Value::List(items));
        }
    }

    fn texts(&mut self, name: &str, items: &[String]) {
        let items = items.iter().cloned().map(Value::Text);
        self.list(name, items.collect());
    }

    fn map(&mut self, name: &str, map: &BTreeMap<String, String>) {
        let entries = map
            .iter()
            .map(|(key, text)| (key.clone(), Value::Text(text.clone())));
        self.value(name, Value::Map(entries.collect()));
    }

    /// A mapping that is left out if it is empty.
    fn value(&mut self, name: &str, value: Value) {
        if value != Value::Map(Vec::new()) {
            self.entry(name, value);
        }
    }

    fn close(mut self, extra: &[(String, Value)]) -> Value {
        self.0.extend_from_slice(extra);
        Value::Map(self.0)
    }
}
