//! An agent on one wire, and a message as it reads it. Also compiled into the soak.

use serde_json::Value;

/// How an agent uses a wire: its requests, and how it parses responses.
pub trait AgentWire {
    /// The path of a turn.
    fn path(&self) -> &'static str;
    /// The headers that go with every request.
    fn headers(&self) -> &'static [(&'static str, &'static str)];
    /// The body of a turn.
    fn body(&self, history: &[Value], stream: bool) -> Value;
    /// Parses a response as strictly as the strictest SDK. `broken`: the connection was cut, so that the end may be
    /// missing.
    fn parse(&self, raw: &[u8], stream: bool, broken: bool) -> Result<Message, String>;
}

/// A response as an agent parsed it.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// The complete parts, in order.
    pub content: Vec<Value>,
    /// Why it stopped.
    pub stop: Option<String>,
    /// The usage as an SDK reports it at the end.
    pub usage: Value,
    /// Whether its last event arrived.
    pub ended: bool,
    /// An error event.
    pub error: Option<Value>,
    /// Keep-alives.
    pub pings: usize,
    /// The response's id.
    pub id: String,
}
