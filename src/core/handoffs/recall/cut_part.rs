//! The searched text: the part of a request that the model no longer sees.

use crate::redact::Redactor;
use crate::transcript::Transcript;

/// The part of a request that the model no longer sees.
#[derive(Clone, Copy)]
pub struct CutPart<'a> {
    pub transcript: Transcript<'a>,
    /// Offset in the request's body: what is in front of it was cut.
    pub end: usize,
}

/// The settings of an index; they never change.
#[derive(Debug, Clone, Default)]
pub struct RecallIndexSettings {
    /// How texts of a harness begin (`handoff.preamble_tags`).
    pub tags: Vec<String>,
    /// Takes credentials out of whatever is quoted.
    pub redactor: Redactor,
}
