//! A scripted provider that answers like the real APIs and enforces their rules.
//!
//! It is the upstream of the tests, and any agent or SDK can be pointed at it. It imports nothing from
//! the other crates: it is deliberately a second implementation of the rules of each provider API. So the same mistake
//! here cannot mask a mistake in `wire`.
//!
//! A request goes through four steps. The server parses it into a [`Received`]. The wire's dialect checks it against
//! the rules. Each violation is recorded as a [`Complaint`] and, except for a few rules, answered with an HTTP 400 in
//! the wire's shape. A [`Model`] decides the [`Reply`]. The dialect writes that reply in the wire's format, with the
//! chunk sizes, the delays and the [`Fault`] that the reply asks for.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use baton_strict::{Options, Queue, Reply, Strict};
//! use serde_json::json;
//!
//! let model = Queue::new([
//!     Reply::new().thinking("Look first.").call("read_file", json!({"path": "src/lib.rs"})),
//!     Reply::text("Done.").in_bytes(7),
//! ]);
//! let provider = Strict::start(model, Options::default()).await?;
//! // … point the client at provider.url() …
//! assert!(provider.complaints().is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! To add a wire: a directory with the same parts (`mod`: its dialect, `transcript`: reading a request, `rules`: checking
//! it, `render`: writing a reply). Also a variant of [`Wire`], a line in `wires.rs` and rows in `routes.rs`.

mod aborted;
mod anthropic;
mod api;
mod autopilot;
mod body;
mod canonical;
mod complaint;
mod dialect;
mod exchange;
mod faults;
mod fields;
mod gemini;
mod lineage;
mod memory;
mod model;
mod ollama;
mod openai_chat;
mod openai_error;
mod openai_responses;
mod options;
mod prefix;
mod proxy_texts;
mod reply;
mod routes;
mod script;
mod server;
mod signature;
mod transcript;
mod usage;
mod wires;

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod server_tests;

pub use anthropic::signed_summary;
pub use api::{Endpoint, Wire};
pub use autopilot::Autopilot;
pub use complaint::{Complaint, Rule};
pub use dialect::Received;
pub use faults::Fault;
pub use model::{Model, Queue};
pub use options::Options;
pub use reply::{Arguments, CallStyle, Chunks, Delivery, Part, Reply, Stop};
pub use script::Script;
pub use server::{DirectAnswer, Strict};
pub use transcript::{Role, ToolCall, ToolDefinition, ToolResult, Turn};
pub use usage::Usage;
