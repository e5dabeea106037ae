//! Changes that agents make to a history before they send it again. None of them changes the model's words,
//! so none may change the model's view.

use proptest::prelude::*;

/// The changes that an agent makes, limited to those of real agents on each wire.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentQuirks {
    /// Joins consecutive text parts of the model.
    pub glue: bool,
    /// Trims the end of the model's text parts.
    pub trim: bool,
    /// Drops text parts of only whitespace.
    pub no_blank: bool,
    /// Turns single text content into a string on wires with lists, and into a list on wires with strings.
    pub strings: bool,
    /// Puts a cache breakpoint on the last block of the history.
    pub cache: bool,
    /// Drops thinking.
    pub no_thoughts: bool,
    /// Drops ids: those of calls (Gemini) or of items (Responses).
    pub no_ids: bool,
    /// Sends a content for each chunk of a stream (Gemini).
    pub chunks: bool,
    /// Sends earlier items only by their ids (Responses).
    pub references: bool,
    /// Names the last response, and sends only new items (Responses).
    pub chained: bool,
    /// Moves text before calls (Anthropic, Gemini). This changes the prefix, with or without the proxy.
    pub text_first: bool,
}

impl AgentQuirks {
    /// Whether the provider stores its responses.
    pub fn stored(self) -> bool {
        self.references || self.chained
    }
}

pub fn quirks() -> impl Strategy<Value = AgentQuirks> {
    prop::collection::vec(any::<bool>(), 10).prop_map(|b| AgentQuirks {
        glue: b[0],
        trim: b[1],
        no_blank: b[2],
        strings: b[3],
        cache: b[4],
        no_thoughts: b[5],
        no_ids: b[6],
        chunks: b[7] && !b[0],
        references: b[8] && !b[5] && !b[6],
        chained: b[7] && !b[8],
        text_first: b[9] && b[4],
    })
}
