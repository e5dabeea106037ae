//! Provider APIs, one directory per wire, each with the same files.
//!
//! * `request` reads the agent's requests.
//! * `turns` selects the parts that a rewrite may edit, out of those that `parts` reads.
//! * `pairs` restores hidden pairs.
//! * `answer` reads upstream's responses, streamed or complete, inside the shared `leg_machine`.
//! * `ask_again` returns the model's output to the model.
//! * `compose` creates a complete response without upstream.
//! * `usage` counts tokens.
//!
//! A row of `facts` has the constants of a wire, and the functions of these files. Anything else
//! that only one wire needs has a file of its own.
//!
//! The module knows JSON and the providers' rules, but no stores, sockets or policies. It never translates
//! between wires.

pub mod anthropic;
mod aside;
mod call_fingerprint;
mod edits;
pub mod error;
mod facts;
mod fingerprints;
pub mod framer;
pub mod framing;
pub mod gemini;
pub mod leg;
mod leg_machine;
mod leg_state;
mod members;
pub mod ollama;
mod openai;
pub mod openai_chat;
pub mod openai_responses;
mod own_text;
mod parts;
mod sibling_calls;
pub mod sse;
mod synthetic;
#[cfg(test)]
mod text_only_tests;
mod turn;
pub mod view;
mod walk;
mod wires;

pub use aside::{SplitTurn, SyntheticTurn, TurnRest};
pub use call_fingerprint::{id_in, in_answer, lacks_place, unique_part};
pub(crate) use error::error_in;
pub use error::{ProxyError, error_message, is_error, quota_error};
pub use facts::{ItemRules, PlacedChanges, TurnRules, Wire, WireFunctions};
pub use fingerprints::CallMemo;
pub use framing::Framing;
pub use leg::{
    DroppedThinking, Ending, HiddenCall, Leg, LegOutput, LegReport, ResponseWatch, ServedBy, StopReason,
    Usage,
};
pub use leg_machine::LegMachine;
pub use members::{LoneText, TextOnly};
pub use openai::stated_usage;
pub use own_text::EMPTY_TURN;
pub use parts::parts;
pub use sibling_calls::{CallAt, SiblingPair};
pub use synthetic::{AnswerShape, StreamOpening, SyntheticResponse};
pub use view::{
    InjectedItem, InjectedKind, LocatedBody, Operation, PreviousResponse, RequestFacts, Role, ToolChoice,
    ToolList, Turn, TurnChange, TurnContent, TurnPart, TurnPartKind, UnreadReason, View,
};
pub use wires::{WIRES, wire};
