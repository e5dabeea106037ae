//! A scripted provider that answers like the real APIs and enforces their rules.
//!
//! It is the judge of the tests, the upstream of the demo, and a thing to point any agent or SDK at. It
//! knows nothing of the rest of this crate: what it believes about a wire is written down here a second
//! time, on purpose, so that one mistake cannot hide in both places.
//!
//! A request goes through four steps: the server reads it into a [`Received`], the wire's dialect checks
//! it against the rules (each violation is a [`Complaint`] and, but for soft rules, an HTTP 400 in the wire's
//! own shape), a [`Model`] decides the [`Reply`], and the dialect writes that reply in the wire's grammar, in
//! the byte-chunks, with the delays and the [`Fault`] that the reply asks for.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use baton_proxy::strict::{Options, Queue, Reply, Strict};
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
//! A further wire is one folder with the same three parts (the dialect, its `rules`, its `render`), one
//! variant of [`Wire`], and its rows in the table of `routes.rs`.

mod anthropic;
mod api;
mod autopilot;
mod body;
mod canonical;
mod complaint;
mod counts;
mod dialect;
mod exchange;
mod faults;
mod fields;
mod gemini;
mod memory;
mod model;
mod ollama;
mod openai_chat;
mod openai_error;
mod openai_responses;
mod options;
mod reply;
mod routes;
mod server;
mod signature;
mod transcript;
mod usage;
mod wires;

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod wires_tests;

pub use api::{Endpoint, Wire};
pub use autopilot::Autopilot;
pub use complaint::{Complaint, Rule};
pub use dialect::Received;
pub use faults::Fault;
pub use model::{Model, Queue};
pub use options::Options;
pub use reply::{Arguments, CallStyle, Chunks, Delivery, Part, Reply, Stop};
pub use server::Strict;
pub use transcript::{Role, ToolCall, ToolDefinition, ToolResult, Turn};
