//! Writes YAML: block style, two spaces per level, each scalar on one line.
//!
//! A scalar is quoted if a YAML 1.1 or 1.2 parser could read anything but that string. Multi-line strings are
//! written in double quotes with `\n`, so that readers which look for a line `goal: …` find all of it there.

use std::fmt::Write as _;

use super::value::{YamlValue, is_plain, is_printable, is_special};

/// Length in bytes above which a key is written in the explicit form.
///
/// YAML looks for a key's colon within 1,024 characters only.
const KEY_BYTES: usize = 512;

/// Writes a mapping as a document.
pub(super) fn document(value: &YamlValue) -> String {
    let mut out = String::new();
    match value {
        YamlValue::Map(entries) if entries.is_empty() => out.push_str("{}\n"),
        YamlValue::Map(entries) => map(&mut out, entries, 0, false),
        other => {
            inline(&mut out, other);
            out.push('\n');
        }
    }
    out
}

/// Writes the entries of a mapping. If `begun` is set, the first one continues the current line.
fn map(out: &mut String, entries: &[(String, YamlValue)], depth: usize, mut begun: bool) {
    for (key, value) in entries {
        if !begun {
            indent(out, depth);
        }
        begun = false;
        let from = out.len();
        scalar(out, key);
        // Measures the written key, because an escape is longer than its character.
        if out.len() - from > KEY_BYTES {
            out.insert_str(from, "? ");
            out.push('\n');
            indent(out, depth);
        }
        out.push(':');
        nested(out, value, depth + 1, "\n");
    }
}

fn list(out: &mut String, items: &[YamlValue], depth: usize) {
    for item in items {
        indent(out, depth);
        out.push('-');
        nested(out, item, depth + 1, " ");
    }
}

/// Writes a value after its key or its dash. `before` separates it from a mapping: a space keeps it on the dash's line.
fn nested(out: &mut String, value: &YamlValue, depth: usize, before: &str) {
    match value {
        YamlValue::Map(inner) if !inner.is_empty() => {
            out.push_str(before);
            map(out, inner, depth, before == " ");
        }
        YamlValue::List(items) if !items.is_empty() => {
            out.push('\n');
            list(out, items, depth);
        }
        other => {
            out.push(' ');
            inline(out, other);
            out.push('\n');
        }
    }
}

/// Writes a value that fits on the line: a scalar, or an empty list or mapping.
fn inline(out: &mut String, value: &YamlValue) {
    match value {
        YamlValue::Null => out.push_str("null"),
        YamlValue::Plain(text) => out.push_str(text),
        YamlValue::Text(text) => scalar(out, text),
        YamlValue::List(_) => out.push_str("[]"),
        YamlValue::Map(_) => out.push_str("{}"),
    }
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Writes a string, in quotes if needed.
fn scalar(out: &mut String, text: &str) {
    if is_plain(text) && !is_special(text) {
        out.push_str(text);
    // Single quotes need no escapes, so the string stays readable.
    } else if text.chars().all(is_printable) && text.contains(['"', '\\']) {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    } else {
        double(out, text);
    }
}

fn double(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02X}"),
                    0x100..=0xffff => write!(out, "\\u{code:04X}"),
                    _ => write!(out, "\\U{code:08X}"),
                };
            }
        }
    }
    out.push('"');
}
