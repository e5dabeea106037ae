//! What a model wrote to a chat server, returned to it with the answers to its calls.

use super::OpenaiChat;
use bytes::Bytes;

use super::pairs::result;
use crate::record::HiddenPair;
use crate::text::{Span, json};
use crate::tools::ToolNames;
use crate::wire::{AskAgain, LegOutput, sse};

/// Members of a reply that are no part of what a model wrote, or are put in here again.
const NOT_REPEATED: [&str; 6] = [
    "role",
    "content",
    "tool_calls",
    "annotations",
    "function_call",
    "audio",
];

impl AskAgain for OpenaiChat {
    /// The assistant's own message, unchanged, with our calls as every later request restores them; then their results.
    fn ask_again(&self, spoken: &LegOutput, pairs: &[HiddenPair], _ours: ToolNames) -> Option<String> {
        let message = match spoken {
            LegOutput::Reply(body) => ChatEcho::reply(body)?,
            LegOutput::Stream(frames) => ChatEcho::stream(frames),
        };
        let calls: Vec<&str> = pairs.iter().map(|p| p.call.as_str()).collect();
        let extras: String = message
            .extras
            .iter()
            .filter(|(_, grown)| !grown.is_empty())
            .map(|(key, grown)| format!(",{}:{}", json::quote(key), grown.json()))
            .collect();
        let content = if message.content.is_empty() {
            "null".to_owned()
        } else {
            message.content.json()
        };
        let own = format!(
            r#"{{"role":"assistant","content":{content}{extras},"tool_calls":[{}]}}"#,
            calls.join(",")
        );
        let results = pairs.iter().map(result);
        Some([own].into_iter().chain(results).collect::<Vec<_>>().join(","))
    }
}

/// The model's message, as far as it goes back.
#[derive(Default)]
struct ChatEcho {
    content: GrowingValue,
    /// Reasoning and the like, by member.
    extras: Vec<(String, GrowingValue)>,
}

/// A member's value, grown delta by delta.
#[derive(Default)]
enum GrowingValue {
    #[default]
    Nothing,
    Text(String),
    List(Vec<String>),
    Other(String),
}

impl GrowingValue {
    fn is_empty(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Text(text) => text.is_empty(),
            Self::List(all) => all.is_empty(),
            Self::Other(raw) => raw == "null",
        }
    }

    fn json(&self) -> String {
        match self {
            Self::Nothing => "null".to_owned(),
            Self::Text(text) => json::quote(text),
            Self::List(all) => format!("[{}]", all.join(",")),
            Self::Other(raw) => raw.clone(),
        }
    }

    /// Strings are glued together, lists appended to, and of anything else the last one counts.
    fn grow(&mut self, data: &[u8], value: Span) {
        let raw = |span: Span| span.text(data);
        match (data.get(value.start), &mut *self) {
            (Some(b'n'), _) => {}
            (Some(b'"'), Self::Text(text)) => text.push_str(&json::unescape(value.inner().of(data))),
            (Some(b'"'), _) => *self = Self::Text(json::unescape(value.inner().of(data)).into_owned()),
            (Some(b'['), Self::List(all)) => all.extend(json::elements(data, value).into_iter().map(raw)),
            (Some(b'['), _) => *self = Self::List(json::elements(data, value).into_iter().map(raw).collect()),
            _ => *self = Self::Other(raw(value)),
        }
    }
}

impl ChatEcho {
    fn reply(body: &Bytes) -> Option<Self> {
        let whole = json::whole(body).ok()?;
        let choices = json::elements(body, json::get(body, whole, "choices")?);
        let mut message = Self::default();
        message.take(body, json::get(body, *choices.first()?, "message")?);
        Some(message)
    }

    fn stream(frames: &[Bytes]) -> Self {
        let mut message = Self::default();
        for frame in frames {
            let data = sse::data(frame);
            let whole = json::root(&data);
            let choices = json::get(&data, whole, "choices").map_or(Vec::new(), |c| json::elements(&data, c));
            let delta = choices.first().and_then(|c| json::get(&data, *c, "delta"));
            if let Some(delta) = delta {
                message.take(&data, delta);
            }
        }
        message
    }

    fn take(&mut self, data: &[u8], message: Span) {
        for (key, value) in json::members(data, message) {
            let key = key.text(data);
            if key == "content" {
                self.content.grow(data, value);
            }
            if NOT_REPEATED.contains(&key.as_str()) {
                continue;
            }
            match self.extras.iter_mut().find(|(name, _)| *name == key) {
                Some((_, grown)) => grown.grow(data, value),
                None => {
                    let mut grown = GrowingValue::default();
                    grown.grow(data, value);
                    self.extras.push((key, grown));
                }
            }
        }
    }
}
