//! A script for agents that run on their own: replies in order, each for the request that can use it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::autopilot::Autopilot;
use super::dialect::Received;
use super::model::Model;
use super::reply::{Part, Reply};

/// Replies in order. A request takes the next one if it lists the tools that this reply calls; a reply that calls none
/// goes to the next request with tools. All others, such as requests for a title, are answered by the [`Autopilot`],
/// and so is what comes after the last one. A request that comes twice in a row is answered the same way twice.
#[derive(Debug, Default)]
pub struct Script(Mutex<ScriptState>);

#[derive(Debug, Default)]
struct ScriptState {
    replies: Vec<Reply>,
    next: usize,
    last: Option<Bytes>,
}

/// A reply as it is written in a script.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedReply {
    thinking: Option<String>,
    text: Option<String>,
    #[serde(default)]
    calls: Vec<ScriptedCall>,
}

/// A call as it is written in a script: arguments that are a string are the tool's free text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    name: String,
    arguments: Value,
}

impl Script {
    /// Reads a script: a JSON list of `{"thinking": …, "text": …, "calls": [{"name": …, "arguments": …}]}`, in which
    /// each member may be left out.
    ///
    /// # Errors
    /// If it is no such list.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        let scripted: Vec<ScriptedReply> = serde_json::from_str(json)?;
        let replies = scripted.into_iter().map(ScriptedReply::reply).collect();
        Ok(Self(Mutex::new(ScriptState {
            replies,
            ..ScriptState::default()
        })))
    }

    /// How many replies were not requested yet.
    pub fn left(&self) -> usize {
        let state = self.state();
        state.replies.len() - state.next
    }

    fn state(&self) -> MutexGuard<'_, ScriptState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScriptedReply {
    fn reply(self) -> Reply {
        let mut reply = Reply::new();
        if let Some(thinking) = self.thinking {
            reply = reply.thinking(thinking);
        }
        if let Some(text) = self.text {
            reply = reply.say(text);
        }
        for call in self.calls {
            reply = match call.arguments {
                Value::String(text) => reply.raw_call(call.name, text),
                arguments => reply.call(call.name, arguments),
            };
        }
        reply
    }
}

impl Model for Script {
    fn reply(&self, request: &Received) -> Reply {
        let mut state = self.state();
        if state.next > 0 && state.last.as_ref() == Some(&request.raw) {
            return state.replies[state.next - 1].clone();
        }
        let offered = request.tool_names();
        let is_offered = |part: &Part| match part {
            Part::Call { name, .. } => offered.contains(name),
            _ => true,
        };
        let next = state.replies.get(state.next).cloned();
        let fits = |reply: &Reply| !offered.is_empty() && reply.parts.iter().all(is_offered);
        let Some(reply) = next.filter(fits) else {
            drop(state);
            return Autopilot.reply(request);
        };
        state.next += 1;
        state.last = Some(request.raw.clone());
        without_thinking_unless(request.dialect.thinks(&request.body), reply)
    }
}

/// Thinking is only emitted where requested.
fn without_thinking_unless(thinks: bool, mut reply: Reply) -> Reply {
    reply
        .parts
        .retain(|part| thinks || !matches!(part, Part::Thinking(_)));
    reply
}

#[cfg(test)]
mod tests {
    use super::super::reply::Arguments;
    use super::*;

    #[test]
    fn a_script_is_read_as_it_is_written() {
        let script = Script::read(
            r#"[{"text": "a", "calls": [{"name": "t", "arguments": {"x": 1}}, {"name": "p", "arguments": "free"}]},
                {"thinking": "b"}]"#,
        )
        .unwrap();
        assert_eq!(script.left(), 2);
        let state = script.state();
        let call = |at: usize| match &state.replies[0].parts[at] {
            Part::Call { name, arguments, .. } => (name.clone(), arguments.clone()),
            other => panic!("{other:?}"),
        };
        assert_eq!(state.replies[0].parts[0], Part::Text("a".to_owned()));
        assert_eq!(call(1).1.value(), serde_json::json!({"x": 1}));
        assert_eq!(call(2), ("p".to_owned(), Arguments::Raw("free".to_owned())));
        drop(state);
        assert!(Script::read(r#"[{"txt": "a"}]"#).is_err());
    }
}
