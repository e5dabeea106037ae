//! Serving side of baton: the data listener (`proxy`), one agent request from end to end (`exchange`), the
//! admin listener, and the process that serves both (`service`).
//!
//! Depends on the core and the state, and must not depend on commands.
//!
//! ```
//! use baton_serve::proxy::fault::Code;
//!
//! // Agents may retry a request that the proxy had no capacity for.
//! assert!(Code::OVERLOADED.retryable && Code::OVERLOADED.status == 503);
//! ```

pub mod admin;
pub mod app;
mod connections;
pub mod exchange;
mod heavy;
pub mod proxy;
pub mod service;

use baton_state as state;
