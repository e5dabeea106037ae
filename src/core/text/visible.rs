//! Escapes characters that could control a terminal or disguise text: control characters, bidirectional
//! controls, and characters without width.
//!
//! All printed or logged output passes through here once, because it may contain text from models, agents and
//! upstreams. Line breaks and tabs are kept.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character controls a terminal or disguises the text around it.
///
/// Control characters are Unicode's `Cc` (C0, DEL, C1). The others are format characters (`Cf`) and
/// characters without a glyph by definition (`Default_Ignorable_Code_Point`), except for the variation
/// selectors that emoji need.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Fast path for plain ASCII, including line breaks and tabs, which covers most strings.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b' '..=b'~' | b'\n' | b'\t'))
}

/// Replaces every character that [`acts`] by `\u{…}`.
///
/// A carriage return before a line break is dropped; elsewhere it could overwrite a line.
pub fn visible(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => shown.push(c),
            '\r' if rest.peek() == Some(&'\n') => {}
            c if acts(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Replaces control characters by `\u{…}`, for text that an agent may print.
///
/// Characters without width stay, because words of some languages and emoji have them.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if is_plain(text) || !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_control(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Escapes a line from baton that may contain styles. Sequences `ESC [ … m` with digits and semicolons are
/// kept.
///
/// Untrusted text in the line can at most be colored, and [`visible`] prevents even that.
pub fn styled(line: &str) -> Cow<'_, str> {
    if is_plain(line) {
        return Cow::Borrowed(line);
    }
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\u{1b}') {
        shown.push_str(&visible(&rest[..at]));
        rest = &rest[at..];
        let (kept, after) = rest.split_at(style_length(rest).unwrap_or(0));
        shown.push_str(kept);
        rest = after;
        if kept.is_empty() {
            shown.extend('\u{1b}'.escape_unicode());
            rest = &rest[1..];
        }
    }
    shown.push_str(&visible(rest));
    Cow::Owned(shown)
}

/// Length in bytes of the style sequence at the start of `text`.
fn style_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    let is_style = parameters[end..].starts_with('m');
    is_style.then_some("\u{1b}[".len() + end + 1)
}

/// Replaces every character that [`acts`] by `\uXXXX` in JSON.
///
/// JSON permits most of them unescaped in strings, so the value stays the same.
pub fn json(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if matches!(c, '\n' | '\t') || !acts(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_acts_is_made_visible() {
        for (text, shown) in [
            ("a\u{1b}[31mb\u{9b}c\u{7f}", "a\\u{1b}[31mb\\u{9b}c\\u{7f}"),
            ("x\r\ny\tz\rw", "x\ny\tz\\u{d}w"),
            ("a\u{202e}b\u{200b}c\u{2066}", "a\\u{202e}b\\u{200b}c\\u{2066}"),
            (
                "\u{feff}\u{2028}\u{61c}\u{e0041}",
                "\\u{feff}\\u{2028}\\u{61c}\\u{e0041}",
            ),
            ("so\u{ad}ft\u{3164}", "so\\u{ad}ft\\u{3164}"),
            ("grün 🦀 ❤\u{fe0f} 日本語 שלום", "grün 🦀 ❤\u{fe0f} 日本語 שלום"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn controls_are_made_visible_and_words_stay() {
        for (text, shown) in [
            (
                "a\u{1b}[2J\u{1b}]0;b\u{7}\r\n\tc\u{9b}",
                "a\\u{1b}[2J\\u{1b}]0;b\\u{7}\\u{d}\n\tc\\u{9b}",
            ),
            ("👨\u{200d}👩 می\u{200c}خواهم", "👨\u{200d}👩 می\u{200c}خواهم"),
        ] {
            assert_eq!(without_controls(text), shown);
        }
    }

    #[test]
    fn styles_of_ours_stay_and_other_sequences_do_not() {
        for (line, shown) in [
            ("\u{1b}[1;31mred\u{1b}[0m", "\u{1b}[1;31mred\u{1b}[0m"),
            ("\u{1b}[2Jx", "\\u{1b}[2Jx"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{1b}", "\\u{1b}"),
            ("\u{1b}[", "\\u{1b}["),
            ("\u{1b}[31\u{202e}m", "\\u{1b}[31\\u{202e}m"),
            ("\u{1b}\u{1b}[mü", "\\u{1b}\u{1b}[mü"),
        ] {
            assert_eq!(styled(line), shown);
        }
    }

    #[test]
    fn json_keeps_its_value() {
        let text = "{\"a\":\"\u{9b}\u{e0001}\u{202e}\"}\n";
        assert_eq!(json(text), "{\"a\":\"\\u009b\\udb40\\udc01\\u202e\"}\n");
    }

    proptest! {
        #[test]
        fn nothing_that_acts_is_left(text in "\\PC*[\u{0}-\u{a0}\u{200b}-\u{206f}\u{1b}\\[m]*\\PC*") {
            let left = |shown: &str| shown.chars().any(|c| acts(c) && !matches!(c, '\n' | '\t'));
            prop_assert!(!left(&visible(&text)));
            let quoted = serde_json::to_string(&text).unwrap();
            prop_assert!(!left(&json(&quoted)));
            prop_assert_eq!(serde_json::from_str::<String>(&json(&quoted)).unwrap(), text);
        }
    }
}
