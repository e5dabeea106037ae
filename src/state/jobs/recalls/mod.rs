//! Answers calls of baton's tools whose result is a text.
//!
//! Knows the current request, as far as the model does not see it any more. Must not know: who asks (`exchange`), how an
//! answer gets back to the model.

mod call;
mod recaller;

pub use call::{AnswerOutcome, CallAnswerer, RecallCall};
pub use recaller::Recaller;
