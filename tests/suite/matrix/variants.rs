//! A table of wires and of vendors' variants: how an agent builds requests and parses responses on each.

use baton_strict::{CallStyle, Reply};
use serde_json::{Value, json};

use super::parse;

/// A response as parsed by an agent.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Messages that the agent adds to its history.
    pub keep: Vec<Value>,
    /// All text, joined.
    pub text: String,
    /// Calls of the response.
    pub calls: Vec<Call>,
    /// Stop reason, in the wire's words.
    pub stop: String,
    /// Input tokens, including cached ones.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
}

/// A call: its id and the name of the tool.
pub type Call = (String, String);

/// A token count: the path, the body, and the JSON pointer of the number in the response.
pub type Count = (&'static str, Value, &'static str);

/// A variant of a wire.
#[derive(Clone, Copy)]
pub struct Variant {
    /// Name of the upstream and path of its base URL. `None` is the wire's default upstream.
    pub place: Option<(&'static str, &'static str)>,
    pub path: fn(bool) -> &'static str,
    pub headers: &'static [(&'static str, &'static str)],
    /// Builds a message with the role `user` or `assistant`.
    pub message: fn(&str, &str) -> Value,
    /// Builds the results of calls, all with the same text.
    pub results: fn(&[Call], &str) -> Vec<Value>,
    pub body: fn(&[Value], bool) -> Value,
    /// Parses a response as strictly as the strictest SDK. The error describes the problem.
    pub parse: fn(&[u8], bool) -> Result<Answer, String>,
    /// Sets the style of the provider's replies.
    pub style: fn(Reply) -> Reply,
    /// Stop reasons of an ordinary response, and of one that ends with the sentinel.
    pub stops: [&'static str; 2],
    pub count: Option<fn(&[Value]) -> Count>,
    /// Model of the requests.
    pub model: &'static str,
}

impl Variant {
    /// Adds headers to every request.
    pub fn with_headers(self, more: &[(&'static str, &'static str)]) -> Self {
        let headers = [self.headers, more].concat().leak();
        Self { headers, ..self }
    }

    /// Names the session in every request.
    pub fn in_session(self, id: &'static str) -> Self {
        self.with_headers(&[("x-session-id", id)])
    }
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
}

/// Removes these members from the body.
fn without(mut body: Value, keys: &[&str]) -> Value {
    body.as_object_mut()
        .unwrap()
        .retain(|key, _| !keys.contains(&key.as_str()));
    body
}

pub const ANTHROPIC: Variant = Variant {
    place: None,
    path: |_| "/v1/messages?beta=true",
    // As current SDKs send them. The vendors' variants use the older version.
    headers: &[
        ("anthropic-version", "2026-10-21"),
        ("authorization", "Bearer sk-ant-api03-agent"),
    ],
    message: |role, text| json!({"role": role, "content": [{"type": "text", "text": text}]}),
    results: |calls, text| {
        let block = |(id, _): &Call| json!({"type": "tool_result", "tool_use_id": id, "content": text});
        vec![json!({"role": "user", "content": calls.iter().map(block).collect::<Vec<_>>()})]
    },
    body: |history, stream| {
        json!({
            "model": "claude-strict-1", "max_tokens": 8192, "stream": stream, "thinking": {"type": "adaptive"},
            "system": "You are an agent.",
            "tools": [{"name": "read_file", "description": "Reads.", "input_schema": schema()}],
            "messages": history,
        })
    },
    parse: parse::anthropic,
    style: |reply| reply,
    stops: ["end_turn", "end_turn"],
    count: Some(|history| {
        let body = without((ANTHROPIC.body)(history, false), &["max_tokens", "stream"]);
        ("/v1/messages/count_tokens?beta=true", body, "/input_tokens")
    }),
    model: "claude-strict-1",
};

pub const CHAT: Variant = Variant {
    place: None,
    path: |_| "/v1/chat/completions",
    headers: &[("authorization", "Bearer sk-agent")],
    message: |role, text| json!({"role": role, "content": text}),
    results: |calls, text| {
        let message = |(id, _): &Call| json!({"role": "tool", "tool_call_id": id, "content": text});
        calls.iter().map(message).collect()
    },
    body: |history, stream| {
        let system = json!({"role": "system", "content": "You are an agent."});
        let messages = [&[system][..], history].concat();
        let mut body = json!({
            "model": "gpt-strict-1", "stream": stream,
            "tools": [{"type": "function", "function": {"name": "read_file", "description": "Reads.", "parameters": schema()}}],
            "messages": messages,
        });
        if stream {
            body["stream_options"] = json!({"include_usage": true});
        }
        body
    },
    parse: parse::chat,
    style: |reply| reply,
    stops: ["stop", "stop"],
    count: None,
    model: "gpt-strict-1",
};

pub const RESPONSES: Variant = Variant {
    place: None,
    path: |_| "/v1/responses",
    headers: &[("authorization", "Bearer sk-agent")],
    message: |role, text| {
        let kind = if role == "user" {
            "input_text"
        } else {
            "output_text"
        };
        json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
    },
    results: |calls, text| {
        let item = |(id, _): &Call| json!({"type": "function_call_output", "call_id": id, "output": text});
        calls.iter().map(item).collect()
    },
    body: |history, stream| {
        json!({
            "model": "gpt-strict-1", "stream": stream, "instructions": "You are an agent.", "store": false,
            "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "medium"},
            "tools": [{"type": "function", "name": "read_file", "description": "Reads.", "parameters": schema(), "strict": false}],
            "input": history,
        })
    },
    parse: parse::responses,
    style: |reply| reply,
    stops: ["completed", "completed"],
    count: Some(|history| {
        let body = without((RESPONSES.body)(history, false), &["stream", "store", "include"]);
        ("/v1/responses/input_tokens", body, "/input_tokens")
    }),
    model: "gpt-strict-1",
};

pub const GEMINI: Variant = Variant {
    place: None,
    path: |stream| match stream {
        true => "/v1beta/models/gemini-strict-3:streamGenerateContent?alt=sse",
        false => "/v1beta/models/gemini-strict-3:generateContent",
    },
    headers: &[("x-goog-api-key", "agent")],
    message: |role, text| {
        let role = if role == "user" { "user" } else { "model" };
        json!({"role": role, "parts": [{"text": text}]})
    },
    results: |calls, text| {
        let part = |(id, name): &Call| json!({"functionResponse": {"id": id, "name": name, "response": {"output": text}}});
        vec![json!({"role": "user", "parts": calls.iter().map(part).collect::<Vec<_>>()})]
    },
    body: |history, _| {
        let declared =
            json!({"name": "read_file", "description": "Reads.", "parametersJsonSchema": schema()});
        json!({
            "systemInstruction": {"parts": [{"text": "You are an agent."}]}, "store": false,
            "tools": [{"functionDeclarations": [declared]}],
            "generationConfig": {"thinkingConfig": {"includeThoughts": true}},
            "contents": history,
        })
    },
    parse: parse::gemini,
    style: |reply| reply,
    stops: ["STOP", "STOP"],
    count: Some(|history| {
        let mut request = (GEMINI.body)(history, false);
        request["model"] = json!("models/gemini-strict-3");
        let path = "/v1beta/models/gemini-strict-3:countTokens";
        (path, json!({"generateContentRequest": request}), "/totalTokens")
    }),
    model: "gemini-strict-3",
};

pub const OLLAMA: Variant = Variant {
    place: Some(("ollama", "")),
    path: |_| "/api/chat",
    headers: &[],
    message: |role, text| json!({"role": role, "content": text}),
    results: |calls, text| {
        let message = |(_, name): &Call| json!({"role": "tool", "tool_name": name, "content": text});
        calls.iter().map(message).collect()
    },
    body: |history, stream| {
        let body = (CHAT.body)(history, false);
        json!({
            "model": "llama-strict", "messages": body["messages"], "tools": body["tools"], "stream": stream,
            "think": true,
        })
    },
    parse: parse::ollama,
    style: |reply| reply,
    stops: ["stop", "stop"],
    count: None,
    model: "llama-strict",
};

/// Azure's older paths, which contain the name of the deployment instead of the model.
pub const AZURE: Variant = Variant {
    place: Some(("azure", "")),
    path: |_| "/openai/deployments/strict/chat/completions?api-version=2024-10-21",
    headers: &[("api-key", "agent")],
    body: |history, stream| without((CHAT.body)(history, stream), &["model"]),
    model: "strict",
    ..CHAT
};

/// Azure's newer paths, configured by the upstream's base URL.
pub const AZURE_RESPONSES: Variant = Variant {
    place: Some(("mine", "/openai")),
    path: |_| "/u/mine/v1/responses?api-version=preview",
    headers: &[("api-key", "agent")],
    count: Some(|history| {
        let (_, body, number) = (RESPONSES.count.unwrap())(history);
        ("/u/mine/v1/responses/input_tokens", body, number)
    }),
    ..RESPONSES
};

/// Codex with a ChatGPT plan: a server that only streams.
pub const CHATGPT: Variant = Variant {
    path: |_| "/v1/responses",
    headers: &[
        ("authorization", "Bearer plan-token"),
        ("chatgpt-account-id", "plan-account"),
    ],
    body: |history, _| (RESPONSES.body)(history, true),
    parse: parse::chatgpt,
    count: None,
    ..RESPONSES
};

/// OpenRouter: a path in the base URL, reasoning in the response, and a name split over two deltas.
pub const OPENROUTER: Variant = Variant {
    place: Some(("openrouter", "/api")),
    path: |_| "/u/openrouter/v1/chat/completions",
    style: |reply| reply.reasoning().call_style(CallStyle::SplitName),
    ..CHAT
};

/// vLLM: a whole call in one chunk.
pub const VLLM: Variant = Variant {
    place: Some(("local", "")),
    path: |_| "/u/local/v1/chat/completions",
    style: |reply| reply.reasoning().call_style(CallStyle::OneChunk),
    ..CHAT
};

/// Claude on Vertex: model and streaming in the path, version in the body.
pub const VERTEX: Variant = Variant {
    place: Some(("vertex", "/v1")),
    path: |stream| match stream {
        true => "/projects/p/locations/l/publishers/anthropic/models/claude-strict-1@1:streamRawPredict",
        false => "/projects/p/locations/l/publishers/anthropic/models/claude-strict-1@1:rawPredict",
    },
    headers: &[("authorization", "Bearer ya29.agent")],
    body: |history, stream| {
        let mut body = without((ANTHROPIC.body)(history, stream), &["model", "stream"]);
        body["anthropic_version"] = json!("vertex-2023-10-16");
        body
    },
    count: Some(|history| {
        let path = "/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict";
        let mut body = (ANTHROPIC.count.unwrap())(history).1;
        body["anthropic_version"] = json!("vertex-2023-10-16");
        (path, body, "/input_tokens")
    }),
    model: "claude-strict-1@1",
    ..ANTHROPIC
};

/// Claude on Foundry: the Messages API under a path prefix.
pub const FOUNDRY: Variant = Variant {
    place: Some(("foundry", "/anthropic")),
    path: |_| "/u/foundry/v1/messages",
    count: Some(|history| {
        let (_, body, number) = (ANTHROPIC.count.unwrap())(history);
        ("/u/foundry/v1/messages/count_tokens", body, number)
    }),
    headers: &[("anthropic-version", "2023-06-01"), ("x-api-key", "sk-agent")],
    ..ANTHROPIC
};

/// Gemini on Vertex.
pub const VERTEX_GEMINI: Variant = Variant {
    place: Some(("vertex", "")),
    path: |stream| match stream {
        true => {
            "/v1/projects/p/locations/l/publishers/google/models/gemini-strict-3:streamGenerateContent?alt=sse"
        }
        false => "/v1/projects/p/locations/l/publishers/google/models/gemini-strict-3:generateContent",
    },
    headers: &[("authorization", "Bearer ya29.agent")],
    count: None,
    ..GEMINI
};

/// Gemini without `alt=sse`: one JSON array.
pub const GEMINI_ARRAY: Variant = Variant {
    path: |stream| match stream {
        true => "/v1beta/models/gemini-strict-3:streamGenerateContent",
        false => "/v1beta/models/gemini-strict-3:generateContent",
    },
    parse: parse::gemini_array,
    count: None,
    ..GEMINI
};

/// gemini-cli with a Google login: an envelope wraps the request.
pub const CODE_ASSIST: Variant = Variant {
    place: Some(("codeassist", "")),
    path: |stream| match stream {
        true => "/v1internal:streamGenerateContent?alt=sse",
        false => "/v1internal:generateContent",
    },
    headers: &[("authorization", "Bearer ya29.agent")],
    body: |history, stream| {
        let request = (GEMINI.body)(history, stream);
        json!({"model": "gemini-strict-3", "project": "p", "user_prompt_id": "1", "request": request})
    },
    count: Some(|history| {
        let mut request = (GEMINI.body)(history, false);
        request["model"] = json!("models/gemini-strict-3");
        (
            "/v1internal:countTokens",
            json!({"request": request}),
            "/totalTokens",
        )
    }),
    ..GEMINI
};

/// The five wires.
pub const WIRES: [Variant; 5] = [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA];

/// Generates one test for each wire from a function that takes a variant.
///
/// `on_every_wire!(FUNCTION)` makes `WIRE`, and `on_every_wire!(FUNCTION FUNCTION …;)` makes
/// `WIRE::FUNCTION`.
macro_rules! on_every_wire {
    ($test:ident) => {
        $crate::matrix::variants::on_every_wire!(@one $test: anthropic ANTHROPIC, openai_chat CHAT, openai_responses RESPONSES, gemini GEMINI,
            ollama OLLAMA);
    };
    ($($test:ident)*;) => {
        $crate::matrix::variants::on_every_wire!(@all ($($test)*): anthropic ANTHROPIC, openai_chat CHAT, openai_responses RESPONSES,
            gemini GEMINI, ollama OLLAMA);
    };
    (@one $test:ident: $($wire:ident $variant:ident),*) => {
        $(#[tokio::test]
        async fn $wire() {
            $test($crate::matrix::variants::$variant).await;
        })*
    };
    (@all $tests:tt: $($wire:ident $variant:ident),*) => {
        $(mod $wire {
            $crate::matrix::variants::on_every_wire!(@tests $variant $tests);
        })*
    };
    (@tests $variant:ident ($($test:ident)*)) => {
        $(#[tokio::test]
        async fn $test() {
            super::$test($crate::matrix::variants::$variant).await;
        })*
    };
}
pub(crate) use on_every_wire;

/// Generates two runs for each wire, streamed and in one piece: `on_every_wire_both_ways!(FUNCTION …)` makes
/// `FUNCTION::WIRE`.
///
/// A function takes a variant, and whether the agent requests streams.
macro_rules! on_every_wire_both_ways {
    ($($test:ident)*) => {
        $(mod $test {
            $crate::matrix::variants::on_every_wire_both_ways!(@ $test: anthropic ANTHROPIC, openai_chat CHAT,
                openai_responses RESPONSES, gemini GEMINI, ollama OLLAMA);
        })*
    };
    (@ $test:ident: $($wire:ident $variant:ident),*) => {
        $(#[tokio::test]
        async fn $wire() {
            let variant = $crate::matrix::variants::$variant;
            tokio::join!(super::$test(variant, true), super::$test(variant, false));
        })*
    };
}
pub(crate) use on_every_wire_both_ways;
