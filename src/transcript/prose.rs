//! JSON as a person reads it: strings without their escapes, arguments in a string opened, nothing that is there for
//! machines. Of a message or of any other part of a request. In time proportional to the text.

use crate::json::{self, Span};

/// Members that stand in every message and that nobody reads.
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

/// JSON in strings in JSON is opened so deep.
const OPENED: usize = 4;

/// Values stand in each other so deep, and what is deeper is not read: each level is stepped over once more.
const DEEPEST: usize = 64;

/// A value's text, a line for each string; `None` where `text` is not JSON.
pub fn as_read(text: &[u8]) -> Option<String> {
    let whole = json::whole(text).ok()?;
    let mut out = String::with_capacity(text.len());
    value(text, whole, Depth::default(), &mut out).then_some(out)
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

/// Whether the value is JSON all the way down; what stands before the place where it is not is said by then.
fn value(text: &[u8], at: Span, depth: Depth, out: &mut String) -> bool {
    if depth.value > DEEPEST {
        return true;
    }
    let deeper = Depth {
        value: depth.value + 1,
        ..depth
    };
    let mut sound = true;
    let walked = match text.get(at.start) {
        Some(b'"') => {
            opened(&json::unescape(at.inner().of(text)), depth, out);
            Ok(at.end)
        }
        Some(b'[') => json::array(text, at.start, |at| {
            let end = json::value_end(text, at)?;
            sound &= value(text, Span::new(at, end), deeper, out);
            Ok(end)
        }),
        Some(b'{') => json::object(text, at.start, |key, at| {
            let end = json::value_end(text, at)?;
            let key = json::unescape(key.of(text));
            sound &= member(text, &key, Span::new(at, end), deeper, out);
            Ok(end)
        }),
        Some(b'n') | None => Ok(at.end),
        _ => {
            line(&String::from_utf8_lossy(at.of(text)), out);
            Ok(at.end)
        }
    };
    sound && walked.is_ok()
}

/// A member as the page shows it: `"path": "src/main.rs"`.
fn member(text: &[u8], key: &str, at: Span, depth: Depth, out: &mut String) -> bool {
    if NAMELESS.contains(&key) {
        return value(text, at, depth, out);
    }
    if UNREAD.contains(&key) {
        return true;
    }
    match text.get(at.start) {
        Some(b'"') => {
            let said = json::unescape(at.inner().of(text));
            line(&format!("\"{key}\": \"{said}\""), out);
        }
        Some(b'[' | b'{') => {
            line(&format!("\"{key}\":"), out);
            return value(text, at, depth, out);
        }
        _ => {
            let said = String::from_utf8_lossy(at.of(text));
            line(&format!("\"{key}\": {said}"), out);
        }
    }
    true
}

fn opened(said: &str, depth: Depth, out: &mut String) {
    let may_be_json = depth.opened < OPENED && said.trim_start().starts_with(['{', '[']);
    let json = may_be_json.then(|| json::whole(said.as_bytes()));
    if let Some(Ok(whole)) = json {
        let depth = Depth {
            opened: depth.opened + 1,
            ..depth
        };
        let before = out.len();
        if value(said.as_bytes(), whole, depth, out) {
            return;
        }
        // Brackets alone make no JSON.
        out.truncate(before);
    }
    line(said, out);
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
