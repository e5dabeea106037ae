//! The fields of a log line without colour, written as `tracing-subscriber` writes them but without its styles and
//! most of its formatting machinery: every exchange writes two dozen of them.

use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::{MakeVisitor, VisitFmt, VisitOutput};
use tracing_subscriber::fmt::format::Writer;

/// Makes the visitor.
pub(super) struct PlainFields;

impl<'a> MakeVisitor<Writer<'a>> for PlainFields {
    type Visitor = PlainVisitor<'a>;

    fn make_visitor(&self, writer: Writer<'a>) -> PlainVisitor<'a> {
        PlainVisitor {
            writer,
            first: true,
            result: Ok(()),
        }
    }
}

pub(super) struct PlainVisitor<'a> {
    writer: Writer<'a>,
    first: bool,
    result: fmt::Result,
}

impl PlainVisitor<'_> {
    fn field(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.result.is_ok() {
            self.result = self.write(field.name(), value);
        }
    }

    fn write(&mut self, name: &str, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) -> fmt::Result {
        if !std::mem::take(&mut self.first) {
            self.writer.write_char(' ')?;
        }
        if name != "message" {
            self.writer.write_str(name.strip_prefix("r#").unwrap_or(name))?;
            self.writer.write_char('=')?;
        }
        value(&mut self.writer)
    }
}

/// Whether a text is the same with and without escapes.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\')
}

/// Text of anybody's without the control characters that could move the cursor of who reads the log.
fn harmless(writer: &mut Writer<'_>, text: &str) -> fmt::Result {
    let bad = |c: char| c.is_control() && c != '\n' && c != '\t';
    let mut rest = text;
    while let Some(at) = rest.find(bad) {
        writer.write_str(&rest[..at])?;
        let mut chars = rest[at..].chars();
        if let Some(c) = chars.next() {
            write!(writer, "{}", c.escape_default())?;
        }
        rest = chars.as_str();
    }
    writer.write_str(rest)
}

impl Visit for PlainVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let message = field.name() == "message";
        self.field(field, |writer| {
            if message {
                harmless(writer, value)
            } else if is_plain(value) {
                writer.write_char('"')?;
                writer.write_str(value)?;
                writer.write_char('"')
            } else {
                write!(writer, "{value:?}")
            }
        });
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.field(field, |writer| {
            writer.write_str(if value { "true" } else { "false" })
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name().starts_with("log.") {
            return;
        }
        self.field(field, |writer| harmless(writer, &format!("{value:?}")));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.field(field, |writer| {
            writer.write_str(itoa::Buffer::new().format(value))
        });
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.field(field, |writer| {
            writer.write_str(itoa::Buffer::new().format(value))
        });
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.field(field, |writer| write!(writer, "{value:?}"));
    }
}

impl VisitOutput<fmt::Result> for PlainVisitor<'_> {
    fn finish(self) -> fmt::Result {
        self.result
    }
}

impl VisitFmt for PlainVisitor<'_> {
    fn writer(&mut self) -> &mut dyn Write {
        &mut self.writer
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::telemetry::tests::Lines;

    fn log() {
        let (none, some): (Option<u64>, Option<&str>) = (None, Some("a-1"));
        let quoted = "a \"b\" \\ é\n\u{1b}[31m";
        let error = io::Error::other("gone");
        tracing::info!(
            text = "plain",
            quoted,
            n = 7u64,
            i = -3i64,
            f = 0.25,
            yes = true,
            none,
            some,
            "exchange"
        );
        tracing::warn!(%error, ?some, r#type = "t", "with {} in it", 2);
    }

    fn lines(plain: bool) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let builder = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .without_time();
        match plain {
            true => tracing::subscriber::with_default(builder.fmt_fields(PlainFields).finish(), log),
            false => tracing::subscriber::with_default(builder.finish(), log),
        }
        lines.text()
    }

    #[test]
    fn the_line_is_the_librarys() {
        let line = lines(true);
        assert_eq!(line, lines(false));
        assert_eq!(line.lines().count(), 2, "{line}");
    }

    #[test]
    fn control_characters_do_not_get_through() {
        let mut text = String::new();
        harmless(&mut Writer::new(&mut text), "a\u{1b}[2Jb\n\tc").unwrap();
        assert_eq!(text, "a\\u{1b}[2Jb\n\tc");
    }
}
