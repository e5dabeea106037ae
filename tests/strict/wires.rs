//! The table of wires: which dialect speaks which API.

use super::anthropic::Anthropic;
use super::api::Wire;
use super::dialect::Dialect;
use super::gemini::Gemini;
use super::ollama::Ollama;
use super::openai_chat::OpenAiChat;
use super::openai_responses::{OpenAiResponses, chatgpt};

pub(crate) fn dialect(wire: Wire) -> &'static dyn Dialect {
    match wire {
        Wire::Anthropic => &Anthropic,
        Wire::OpenAiChat => &OpenAiChat,
        Wire::OpenAiResponses => &OpenAiResponses::API,
        Wire::Gemini => &Gemini,
        Wire::Ollama => &Ollama,
    }
}

/// The dialect of a wire at this path, which some servers speak in a way of their own.
pub(crate) fn dialect_at(wire: Wire, path: &str) -> &'static dyn Dialect {
    match path.starts_with(chatgpt::FOLDER) {
        true => &OpenAiResponses::CHATGPT,
        false => dialect(wire),
    }
}

#[cfg(test)]
impl super::Received {
    /// A request that never went over a socket.
    pub(crate) fn for_test(wire: Wire, path: &str, body: serde_json::Value) -> Self {
        let method = http::Method::POST;
        let headers = http::HeaderMap::new();
        let (_, endpoint) = super::routes::route(&method, path.split('?').next().unwrap_or(""), &headers);
        super::Received {
            number: 1,
            wire,
            endpoint,
            method,
            path: path.to_owned(),
            headers,
            raw: bytes::Bytes::from(body.to_string()),
            body,
            stored_history: Vec::new(),
            received: 1_790_000_000,
            memory: std::sync::Arc::default(),
            dialect: dialect_at(wire, path),
        }
    }

    pub(crate) fn violations(&self) -> Vec<(super::Rule, String)> {
        let mut findings = super::complaint::Findings::new(&[]);
        self.dialect.check(self, &mut findings);
        findings.list
    }

    /// The rules that it breaks.
    pub(crate) fn broken_rules(&self) -> Vec<super::Rule> {
        self.violations().into_iter().map(|(rule, _)| rule).collect()
    }
}
