//! The search pattern: ignores case and whitespace, and matches stored text as the user reads it.

use regex::{Regex, RegexBuilder, bytes};

use baton_core::text::json;
use baton_core::transcript::{AnswerContent, AnswerPartKind, texts};

/// Characters shown before and after a match, so that the match is visible where the page shows two lines.
const BEFORE: usize = 40;
const CHARS_AFTER: usize = 100;

/// Maximum length of a pattern in characters.
const LONGEST: usize = 1000;

/// Maximum depth to which JSON inside strings is parsed.
const OPENED: usize = 4;

/// The text to search for.
pub(super) struct SearchPattern {
    text: Regex,
    /// A word of the pattern that JSON does not escape. Most chunks lack it and need not be parsed.
    word: Option<bytes::Regex>,
}

impl SearchPattern {
    /// Compiles a pattern. Returns `None` if it is empty or too long.
    pub(super) fn new(wanted: &str) -> Option<Self> {
        if wanted.chars().count() > LONGEST {
            return None;
        }
        let words: Vec<String> = wanted.split_whitespace().map(regex::escape).collect();
        if words.is_empty() {
            return None;
        }
        let mut text = RegexBuilder::new(&words.join(r"\s+"));
        let text = text.case_insensitive(true).build().ok()?;
        // JSON may escape any other character.
        let plain = wanted.split(|c: char| !c.is_ascii_alphanumeric());
        let longest = plain.max_by_key(|word| word.len());
        let longest = longest.filter(|word| !word.is_empty());
        // ASCII without Unicode rules, so it can search bytes that are not valid UTF-8.
        let word = longest.and_then(|word| bytes::Regex::new(&format!("(?i-u){word}")).ok());
        Some(Self { text, word })
    }

    /// Whether the pattern matches the text.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.text.is_match(text)
    }

    pub(super) fn snippet(&self, text: &str) -> Option<[String; 3]> {
        let found = self.text.find(text)?;
        let before: String = last_chars(&text[..found.start()], BEFORE);
        let after: String = text[found.end()..].chars().take(CHARS_AFTER).collect();
        Some([line(&before), line(found.as_str()), line(&after)])
    }

    /// Returns the first match in a chunk.
    pub(super) fn look(&self, chunk: &[u8], side: &str) -> Option<[String; 3]> {
        // A stream splits words over several events, so the pre-filter must look into the assembled text.
        let answered = matches!(side, "response" | "shown");
        if answered
            && self
                .word
                .as_ref()
                .is_none_or(|word| AnswerContent::may_hold(chunk, |text| word.is_match(text)))
            && let Some(text) = answer_as_read(chunk)
        {
            // A match in the framing of a stream, outside of its text, does not count.
            let found = self.snippet(&text);
            if found.is_some() || is_stream(chunk) {
                return found;
            }
        }
        if self.word.as_ref().is_some_and(|word| !word.is_match(chunk)) {
            return None;
        }
        // A piece of a request body may not be valid JSON by itself. Then the unescaped bytes are searched.
        let mut text = String::new();
        let found = add_texts(chunk, 0, &mut text).and_then(|()| self.snippet(&text));
        found.or_else(|| self.snippet(&json::unescape(chunk)))
    }
}

/// Returns the parts of a response, each text on its own line. Returns `None` if no part is recognized.
fn answer_as_read(answer: &[u8]) -> Option<String> {
    let mut out = String::new();
    for part in AnswerContent::from_body(answer).parts {
        // The model's output is text even if it looks like JSON.
        let depth = match part.kind {
            AnswerPartKind::Call => 0,
            _ => OPENED,
        };
        out.extend(part.name.map(|name| name.get().into_owned() + "\n"));
        add_text(&part.text(), depth, &mut out);
    }
    (!out.is_empty()).then_some(out)
}

/// Adds a line for each string in a JSON value. Returns `None` if it is not JSON.
fn add_texts(json: &[u8], depth: usize, out: &mut String) -> Option<()> {
    let all = texts(json)?;
    all.iter().for_each(|text| add_text(&text.get(), depth, out));
    Some(())
}

/// Adds a string, or the strings inside of it if it is JSON.
fn add_text(text: &str, depth: usize, out: &mut String) {
    let may_be_json = depth < OPENED && text.trim_start().starts_with(['{', '[']);
    if !may_be_json || add_texts(text.as_bytes(), depth + 1, out).is_none() {
        out.push_str(text);
        out.push('\n');
    }
}

/// Whether a response is a stream of events or lines.
fn is_stream(answer: &[u8]) -> bool {
    json::whole(answer).is_err()
}

pub(super) fn last_chars(text: &str, n: usize) -> String {
    let from = text.char_indices().rev().take(n).last();
    from.map_or("", |(at, _)| &text[at..]).to_owned()
}

/// Joins text to one line. Blanks at its ends stay, since it is one of three adjacent pieces.
fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_whitespace() {
            true if out.ends_with(' ') => {}
            true => out.push(' '),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_read_without_their_escapes() {
        let read = |message: serde_json::Value| {
            let mut text = String::new();
            add_texts(message.to_string().as_bytes(), 0, &mut text).map(|()| text)
        };
        let chat = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
            "function": {"name": "run", "arguments": "{\"command\":\"grep \\\"a b\\\" x\\nls\"}"}}]});
        assert_eq!(read(chat).unwrap(), "run\ngrep \"a b\" x\nls\n");
        let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
            "content": [{"type": "text", "text": "line \"one\"\n\ttwo"}]}]});
        assert_eq!(read(result).unwrap(), "line \"one\"\n\ttwo\n");
        let braces = json!({"content": ["{like this}", "[[ and this ]]", "{\"a\":[{b}]}"]});
        assert_eq!(
            read(braces).unwrap(),
            "{like this}\n[[ and this ]]\n{\"a\":[{b}]}\n"
        );
        let mut text = String::new();
        assert_eq!(add_texts(b"{\"model\":\"m\",\"messages\":[", 0, &mut text), None);
    }

    #[test]
    fn white_space_and_case_do_not_matter_and_the_match_is_in_view() {
        let wanted = SearchPattern::new("  The \"ROOF\"  leaks ").unwrap();
        let long = format!("{} the\n\t\"roof\" LEAKS badly", "x ".repeat(500));
        let [before, found, after] = wanted.snippet(&long).unwrap();
        assert_eq!((found.as_str(), after.as_str()), ("the \"roof\" LEAKS", " badly"));
        assert!(before.chars().count() <= BEFORE);
        let chunk = json!({"role": "user", "content": long}).to_string();
        assert!(wanted.look(chunk.as_bytes(), "received").is_some());
        assert!(SearchPattern::new(" \n").is_none());
        let stream = b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n\
            data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"No err\"}}\n\n\
            data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"or.\"}}\n\n";
        let found = |wanted: &str| {
            SearchPattern::new(wanted)
                .unwrap()
                .look(stream, "response")
                .is_some()
        };
        assert!(found("no error") && !found("message_start") && !found("delta"));
        let other = SearchPattern::new("Größe ändern").unwrap();
        assert!(other.is_in("die GRÖSSE oder die GRÖßE ÄNDERN"));
    }
}
