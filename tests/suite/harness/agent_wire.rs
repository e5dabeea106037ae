//! An agent on one wire, and a message in the agent's reading. Also compiled into the soak test.

use serde_json::Value;

/// An agent's use of a wire: its requests, and its parser of responses.
pub trait AgentWire {
    /// Path of a turn.
    fn path(&self) -> &'static str;
    /// Headers of every request.
    fn headers(&self) -> &'static [(&'static str, &'static str)];
    /// Body of a turn.
    fn body(&self, history: &[Value], stream: bool) -> Value;
    /// Parses a response as strictly as the strictest SDK. `broken` means that the connection was cut, so
    /// that the end may be missing.
    fn parse(&self, raw: &[u8], stream: bool, broken: bool) -> Result<Message, String>;
}

/// A response as parsed by an agent.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// Complete parts, in order.
    pub content: Vec<Value>,
    /// Stop reason.
    pub stop: Option<String>,
    /// Usage that an SDK reports at the end.
    pub usage: Value,
    /// Whether the last event arrived.
    pub ended: bool,
    /// An error event.
    pub error: Option<Value>,
    /// Number of keep-alives.
    pub pings: usize,
    /// Id of the response.
    pub id: String,
}
