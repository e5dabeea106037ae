//! A faster formatter for log fields without colour. Its output equals `tracing-subscriber`'s default; it skips the styles
//! and most of the `fmt` machinery, since every exchange logs two dozen fields.

use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::{MakeVisitor, VisitFmt, VisitOutput};
use tracing_subscriber::fmt::format::Writer;

use baton_core::text::visible::visible;

/// Makes the visitor.
pub(super) struct PlainFields;

/// Initial capacity for the line of an exchange.
const LINE: usize = 1024;

impl<'a> MakeVisitor<Writer<'a>> for PlainFields {
    type Visitor = PlainVisitor<'a>;

    fn make_visitor(&self, writer: Writer<'a>) -> PlainVisitor<'a> {
        PlainVisitor {
            writer,
            line: String::with_capacity(LINE),
        }
    }
}

pub(super) struct PlainVisitor<'a> {
    writer: Writer<'a>,
    /// The fields, handed to the writer in one piece: each call to the writer is dynamic.
    line: String,
}

impl PlainVisitor<'_> {
    /// Appends the field's name and returns the line for its value.
    fn field(&mut self, field: &Field) -> &mut String {
        if !self.line.is_empty() {
            self.line.push(' ');
        }
        let name = field.name();
        if name != "message" {
            self.line.push_str(name.strip_prefix("r#").unwrap_or(name));
            self.line.push('=');
        }
        &mut self.line
    }
}

/// Whether a text needs no escapes.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\')
}

/// Appends untrusted text with its control characters escaped, which could move the cursor of a terminal.
fn harmless(line: &mut String, text: &str) {
    line.push_str(&visible(text));
}

/// Appends a number with at most three decimals (a time in milliseconds) as `{:?}` formats it; returns `false` for any
/// other number.
fn thousandths(line: &mut String, value: f64) -> bool {
    const MOST: f64 = 1e12;
    let all = value * 1000.0;
    if !(0.0..MOST).contains(&value) || value.is_sign_negative() || (all.round() / 1000.0) != value {
        return false;
    }
    let all = all.round() as u64;
    line.push_str(itoa::Buffer::new().format(all / 1000));
    line.push('.');
    let (mut rest, mut unit) = (all % 1000, 100);
    loop {
        line.push(char::from(b'0' + (rest / unit) as u8));
        (rest, unit) = (rest % unit, unit / 10);
        if rest == 0 {
            return true;
        }
    }
}

impl Visit for PlainVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let message = field.name() == "message";
        let line = self.field(field);
        if message {
            harmless(line, value);
        } else if is_plain(value) {
            line.push('"');
            line.push_str(value);
            line.push('"');
        } else {
            let _ = write!(line, "{value:?}");
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.field(field).push_str(if value { "true" } else { "false" });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if !field.name().starts_with("log.") {
            harmless(self.field(field), &format!("{value:?}"));
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.field(field).push_str(itoa::Buffer::new().format(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.field(field).push_str(itoa::Buffer::new().format(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let line = self.field(field);
        if !thousandths(line, value) {
            let _ = write!(line, "{value:?}");
        }
    }
}

impl VisitOutput<fmt::Result> for PlainVisitor<'_> {
    fn finish(mut self) -> fmt::Result {
        self.writer.write_str(&self.line)
    }
}

impl VisitFmt for PlainVisitor<'_> {
    fn writer(&mut self) -> &mut dyn Write {
        &mut self.line
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::state::telemetry::tests::Lines;

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
    fn numbers_are_spelled_as_the_library_spells_them() {
        let few = [
            0.0,
            -0.0,
            0.5,
            1e-7,
            1e12,
            1e16,
            f64::NAN,
            f64::INFINITY,
            -1.5,
            0.1 + 0.2,
        ];
        let times = (0..200_000u64).map(|n| (n * n * 7) as f64 / 1000.0);
        for value in few.into_iter().chain(times) {
            let mut text = String::new();
            if thousandths(&mut text, value) {
                assert_eq!(text, format!("{value:?}"));
            } else {
                assert!(!(value.fract() == 0.0 && (1.0..1e6).contains(&value)), "{value}");
            }
        }
    }

    #[test]
    fn control_characters_do_not_get_through() {
        let mut text = String::new();
        harmless(&mut text, "a\u{1b}[2Jb\n\tc");
        assert_eq!(text, "a\\u{1b}[2Jb\n\tc");
    }
}
