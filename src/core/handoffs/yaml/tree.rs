//! The document as a tree of values and back. Reading is lenient: a value of the wrong type is reported, and converted
//! or left empty. One mistake does not cost the rest of the file.

use super::emit;
use super::lenient::{FieldErrors, members};
use super::members::MappingBuilder;
use super::model::{CompletedTask, FileChanges, HandoffFile, QualityReport, ReservationTransfer};
use super::parse::{self, InvalidYaml};
use super::terms::VERSION;
use super::validate::FieldError;
use super::value::YamlValue;

/// A file as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedFile {
    /// What it says.
    pub file: HandoffFile,
    /// What has the wrong type.
    pub mistyped: Vec<FieldError>,
}

impl ParsedFile {
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

/// Reads a file; what breaks a rule of the format is listed by [`ParsedFile::errors`].
///
/// # Errors
/// It is no YAML mapping.
pub fn read(text: &str) -> Result<ParsedFile, InvalidYaml> {
    let nothing = |message: &str| InvalidYaml {
        message: message.to_owned(),
        line: 0,
    };
    let entries = match parse::document(text)? {
        Some(YamlValue::Map(entries)) => entries,
        None | Some(YamlValue::Null) => return Err(nothing("there is nothing in it")),
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
    Ok(ParsedFile { file, mistyped })
}

impl HandoffFile {
    /// Takes one member; gives it back where it is none of the format's.
    fn member(&mut self, e: &mut FieldErrors<'_>, name: &str, value: YamlValue) -> Option<YamlValue> {
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
            "quality" if value == YamlValue::Null => {}
            "quality" => {
                self.quality = Some(e.inside(value, QualityReport::member, |report, unknown| {
                    report.extra = unknown;
                }));
            }
            "reservation_transfer" if value == YamlValue::Null => {}
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
    pub fn to_value(&self) -> YamlValue {
        let mut map = MappingBuilder::default();
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
        let tasks = self.done_this_session.iter().map(CompletedTask::to_value);
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
