//! JSON as a person reads it: strings without escapes, JSON in strings decoded, no members for machines. Of a message
//! or of any other part of a request. In time proportional to the text.

use crate::text::json::WalkResult;
use crate::text::{Span, json};

/// Members that every message has and no person reads.
const UNREAD: [&str; 14] = [
    "type",
    "role",
    "id",
    "tool_use_id",
    "tool_call_id",
    "call_id",
    "signature",
    "thoughtSignature",
    "thought_signature",
    "encrypted_content",
    "cache_control",
    "status",
    "index",
    "annotations",
];

/// Members that hold what is read, and whose name is not.
const NAMELESS: [&str; 16] = [
    "text",
    "thinking",
    "content",
    "output",
    "response",
    "parts",
    "summary",
    "result",
    "input",
    "arguments",
    "args",
    "function",
    "functionCall",
    "functionResponse",
    "tool_calls",
    "reasoning_content",
];

/// Maximum depth to which JSON in strings is opened.
const OPENED: usize = 4;

/// Values that are in each other deeper than this are not read.
const DEEPEST: usize = 64;

/// A value's text, a line for each string; `None` where `text` is not JSON.
pub fn as_read(text: &[u8]) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    whole(text, Depth::default(), &mut out).then_some(out)
}

/// A text's own lines, or what it says as JSON where it is an object or a list: arguments in a string are read as what
/// they are.
pub(super) fn text_as_read(text: &str, out: &mut String) {
    opened(text, Depth::default(), out);
}

#[derive(Clone, Copy, Default)]
struct Depth {
    value: usize,
    opened: usize,
}

/// Whether `text` is JSON all the way down; if not, the text before the invalid place is in `out` already.
fn whole(text: &[u8], depth: Depth, out: &mut String) -> bool {
    let walked = value(text, json::blank(text, 0), depth, out);
    walked.is_ok_and(|end| json::blank(text, end) == text.len())
}

/// Where the value at `at` ends.
fn value(text: &[u8], at: usize, depth: Depth, out: &mut String) -> WalkResult {
    if depth.value > DEEPEST {
        return json::value_end(text, at);
    }
    let deeper = Depth {
        value: depth.value + 1,
        ..depth
    };
    match text.get(at) {
        Some(b'"') => {
            let end = json::string_end(text, at)?;
            opened(&json::unescape(Span::new(at, end).inner().of(text)), depth, out);
            Ok(end)
        }
        Some(b'[') => json::array(text, at, |at| value(text, at, deeper, out)),
        Some(b'{') => json::object(text, at, |key, at| {
            let key = json::unescape(key.of(text));
            member(text, &key, at, deeper, out)
        }),
        Some(b'n') => json::value_end(text, at),
        _ => {
            let end = json::value_end(text, at)?;
            line(&String::from_utf8_lossy(&text[at..end]), out);
            Ok(end)
        }
    }
}

/// A member as the page shows it: `"path": "src/main.rs"`.
fn member(text: &[u8], key: &str, at: usize, depth: Depth, out: &mut String) -> WalkResult {
    if NAMELESS.contains(&key) {
        return value(text, at, depth, out);
    }
    if UNREAD.contains(&key) {
        return json::value_end(text, at);
    }
    if let Some(b'[' | b'{') = text.get(at) {
        line(&format!("\"{key}\":"), out);
        return value(text, at, depth, out);
    }
    let end = json::value_end(text, at)?;
    let shown = match text[at] {
        b'"' => format!("\"{}\"", json::unescape(Span::new(at, end).inner().of(text))),
        _ => String::from_utf8_lossy(&text[at..end]).into_owned(),
    };
    line(&format!("\"{key}\": {shown}"), out);
    Ok(end)
}

fn opened(shown: &str, depth: Depth, out: &mut String) {
    if depth.opened < OPENED && shown.trim_start().starts_with(['{', '[']) {
        let before = out.len();
        let deeper = Depth {
            opened: depth.opened + 1,
            ..depth
        };
        if whole(shown.as_bytes(), deeper, out) {
            return;
        }
        // Brackets alone make no JSON.
        out.truncate(before);
    }
    line(shown, out);
}

fn line(text: &str, out: &mut String) {
    out.push_str(text);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_read_without_their_escapes() {
        let chat = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
            "function": {"name": "run", "arguments": "{\"command\":\"grep \\\"a b\\\" x\\nls\"}"}}]});
        let text = as_read(chat.to_string().as_bytes()).unwrap();
        assert_eq!(text, "\"name\": \"run\"\n\"command\": \"grep \"a b\" x\nls\"\n");
        let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
            "content": [{"type": "text", "text": "line \"one\"\n\ttwo"}]}]});
        assert_eq!(
            as_read(result.to_string().as_bytes()).unwrap(),
            "line \"one\"\n\ttwo\n"
        );
        assert_eq!(as_read(b"{\"model\":\"m\",\"messages\":["), None);
        let braces = json!({"content": ["{like this}", "[[ and this ]]", "{\"a\":[{b}]}"]}).to_string();
        let text = as_read(braces.as_bytes()).unwrap();
        assert_eq!(text, "{like this}\n[[ and this ]]\n{\"a\":[{b}]}\n");
    }
}
