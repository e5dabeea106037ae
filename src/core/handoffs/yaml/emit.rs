//! Writes YAML: block style, two blanks a level, every scalar on a line of its own.
//!
//! Scalars are quoted wherever a parser of YAML 1.1 or 1.2 could read something other than that string. Texts of
//! several lines are in double quotes with `\n`, so that readers which look for a line `goal: …` find all of it there.

use std::fmt::Write as _;

use super::value::{YamlValue, is_plain, is_printable, is_special};

/// A key that is longer is written in the explicit form: YAML looks no further for a key's colon than 1,024 characters.
const KEY_BYTES: usize = 512;

/// The document of a mapping.
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

/// The entries of a mapping; the first one continues in a line that has been begun where `begun` says so.
fn map(out: &mut String, entries: &[(String, YamlValue)], depth: usize, mut begun: bool) {
    for (key, value) in entries {
        if !begun {
            indent(out, depth);
        }
        begun = false;
        let from = out.len();
        scalar(out, key);
        // The written key is measured, since an escape is longer than its character.
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

/// A value after its key or its dash. A mapping begins after `before`: in a list on the line of the dash.
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

/// What fits into a line: scalars, and lists and mappings that are empty.
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

/// A string, in quotes where it needs them.
fn scalar(out: &mut String, text: &str) {
    if is_plain(text) && !is_special(text) {
        out.push_str(text);
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
