//! Wire × feature, one test for each cell: `matrix::WIRE::FEATURE`.
//!
//! Each runs the real proxy, the strict provider, and an agent that accepts only a correct response. Vendors'
//! variants of a wire have the features that depend on their form.
//!
//! A variant is a row of the table in `variants`, and a feature is a function in `features`. `openai_chat`
//! and `ollama` have no token counts, because their APIs have no such call. Chains, restarts and interruptions
//! are in `conversations`.

mod features;
pub mod fixture;
pub mod journaled;
pub mod parse;
pub mod talk;
pub mod variants;

macro_rules! cell {
    ($variant:ident: $($feature:ident)*) => {
        $(#[tokio::test]
        async fn $feature() {
            super::features::$feature(super::variants::$variant).await;
        })*
    };
}

macro_rules! wires {
    ($($name:ident = $variant:ident, $($counting:ident)?;)*) => {
        $(mod $name {
            cell!($variant: stream non_stream mixed_batch refused_call two_refused_calls written_call call_over_the_size_limit
                escaped_text $($counting)? stop_mode lost_leg keep_alive repeat_after_a_broken_stream);
        })*
    };
}

wires! {
    anthropic = ANTHROPIC, counting;
    openai_chat = CHAT, ;
    openai_responses = RESPONSES, counting;
    gemini = GEMINI, counting;
    ollama = OLLAMA, ;
}

/// A vendor differs in paths, headers, and the form of bodies.
macro_rules! vendors {
    ($($name:ident = $variant:ident, $($more:ident)*;)*) => {
        $(mod $name {
            cell!($variant: stream mixed_batch $($more)*);
        })*
    };
}

vendors! {
    azure = AZURE, non_stream;
    azure_responses = AZURE_RESPONSES, non_stream counting;
    // A server that only streams.
    chatgpt = CHATGPT, refused_call;
    openrouter = OPENROUTER, non_stream;
    vllm = VLLM, non_stream lost_leg;
    vertex = VERTEX, non_stream counting;
    foundry = FOUNDRY, non_stream counting;
    vertex_gemini = VERTEX_GEMINI, non_stream;
    // Framings of their own.
    gemini_array = GEMINI_ARRAY, non_stream lost_leg escaped_text keep_alive repeat_after_a_broken_stream;
    code_assist = CODE_ASSIST, non_stream counting escaped_text keep_alive repeat_after_a_broken_stream;
}
