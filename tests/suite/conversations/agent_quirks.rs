//! How agents change a history before they send it again. None of these changes what the model said, so none may
//! change what the model sees.

use proptest::prelude::*;

/// The changes that an agent makes. Each wire has those that real agents make there.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentQuirks {
    /// Joins consecutive texts of the model.
    pub glue: bool,
    /// Trims the end of the model's texts.
    pub trim: bool,
    /// Drops texts that are only white space.
    pub no_blank: bool,
    /// Turns a single text into a string where the wire has lists, and into a list where it has strings.
    pub strings: bool,
    /// Puts a cache breakpoint on the last block of the history.
    pub cache: bool,
    /// Drops thinking.
    pub no_thoughts: bool,
    /// Drops ids: of calls (Gemini), of items (Responses).
    pub no_ids: bool,
    /// Sends one content for each chunk of a stream (Gemini).
    pub chunks: bool,
    /// Sends earlier items by their ids only (Responses).
    pub references: bool,
    /// Names the last response, and sends what is new alone (Responses).
    pub chained: bool,
    /// Moves text before calls (Anthropic, Gemini). That changes the prefix, with and without the proxy.
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
