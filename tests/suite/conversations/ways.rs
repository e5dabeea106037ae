//! What agents do to a history before they send it again (CLIENTS.md, sections 0, 3 and 7). None of it changes what the
//! model said, and so none of it may change what the model sees.

use proptest::prelude::*;

/// Which of them an agent has. Each wire's agents have those that are real there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ways {
    /// Neighbouring texts of the model become one.
    pub glue: bool,
    /// Blanks at the end of the model's texts go.
    pub trim: bool,
    /// Texts of nothing but white space go.
    pub no_blank: bool,
    /// A lone text becomes a string where the wire has lists, and a list where it has strings.
    pub strings: bool,
    /// The last block of the history carries the cache mark.
    pub cache: bool,
    /// Thinking is not sent back.
    pub no_thoughts: bool,
    /// Ids are not sent back: of calls (Gemini), of items (Responses).
    pub no_ids: bool,
    /// One content for each chunk of a stream (Gemini).
    pub chunks: bool,
    /// Earlier items are named by their ids alone (Responses).
    pub references: bool,
    /// Text goes in front of calls (Anthropic, Gemini). It is another prefix then, with and without the proxy.
    pub text_first: bool,
}

pub fn ways() -> impl Strategy<Value = Ways> {
    prop::collection::vec(any::<bool>(), 10).prop_map(|b| Ways {
        glue: b[0],
        trim: b[1],
        no_blank: b[2],
        strings: b[3],
        cache: b[4],
        no_thoughts: b[5],
        no_ids: b[6],
        chunks: b[7] && !b[0],
        references: b[8] && !b[5] && !b[6],
        text_first: b[9] && b[4],
    })
}
