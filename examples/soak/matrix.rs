//! The suite's table of wires: how an agent builds requests and parses answers on each.

#[path = "../../tests/suite/matrix/parse.rs"]
pub mod parse;
#[path = "../../tests/suite/matrix/variants.rs"]
pub mod variants;
