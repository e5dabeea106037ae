//! An answer of our own as a response object, whole or streamed. Events: <https://platform.openai.com/docs/api-reference/responses-streaming>.

use super::OpenaiResponses;
use bytes::Bytes;

use super::own_message::OwnMessage;
use crate::text::json;
use crate::wire::{AnswerShape, Compose, LocalAnswer, Replies, View, sse};

impl Compose for OpenaiResponses {
    fn compose(&self, view: &View, said: &LocalAnswer<'_>, shape: AnswerShape) -> Bytes {
        let message = OwnMessage::named(said.id("msg_"), said.text);
        let object = |status: &str, output: &str, usage: &str| {
            let made = object(said, status, output, usage);
            let asked = self.as_asked(view, made.into());
            String::from_utf8_lossy(&asked).into_owned()
        };
        let done = object("completed", &message.done(), &usage(said));
        match shape {
            AnswerShape::Whole => done.into(),
            AnswerShape::Stream(_) => {
                let begun = format!(r#""response":{}"#, object("in_progress", "", "null"));
                let mut all = vec![
                    ("response.created", begun.clone()),
                    ("response.in_progress", begun),
                ];
                all.extend(message.events(0));
                all.push(("response.completed", format!(r#""response":{done}"#)));
                let events = all.iter().enumerate();
                let frames = events.map(|(n, (name, members))| {
                    sse::named(
                        name,
                        &format!(r#"{{"type":"{name}","sequence_number":{n},{members}}}"#),
                    )
                });
                frames.collect::<Vec<_>>().concat().into()
            }
        }
    }
}

fn object(said: &LocalAnswer<'_>, status: &str, output: &str, usage: &str) -> String {
    format!(
        r#"{{"id":"{}","object":"response","created_at":{},"status":"{status}","error":null,"incomplete_details":null,"instructions":null,"model":{},"output":[{output}],"parallel_tool_calls":true,"previous_response_id":null,"tool_choice":"auto","tools":[],"usage":{usage},"metadata":{{}}}}"#,
        said.id("resp_"),
        said.seconds(),
        json::quote(said.model)
    )
}

fn usage(said: &LocalAnswer<'_>) -> String {
    let (input, output) = (said.input(), said.output());
    format!(
        r#"{{"input_tokens":{input},"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{output},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}}"#,
        input + output
    )
}
