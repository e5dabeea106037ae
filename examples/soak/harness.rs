//! The suite's agents and its Redis server, as they are.

#[path = "../../tests/suite/harness/agent_wire.rs"]
mod agent_wire;
#[path = "../../tests/suite/harness/anthropic.rs"]
pub mod anthropic;
#[path = "../../tests/suite/harness/redis.rs"]
pub mod redis;

pub use self::agent_wire::{AgentWire, Message};
