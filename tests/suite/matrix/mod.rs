//! Wire × feature, one test for each cell: `matrix::WIRE::FEATURE`.
//!
//! Each runs the real proxy, the strict provider, and an agent that accepts only a correct response. Vendors'
//! variants of a wire are columns like the others.
//!
//! A variant is a row of the table in `variants`, and a feature is a function in `features`. `openai_chat`
//! and `ollama` have no token counts, because their APIs have no such call.

mod both_ways;
mod features;
pub mod fixture;
pub mod parse;
pub mod variants;

macro_rules! cell {
    ($variant:ident: $($feature:ident)*) => {
        $(#[tokio::test]
        async fn $feature() {
            super::features::$feature(super::variants::$variant).await;
        })*
    };
}

/// A server that only streams.
mod chatgpt {
    cell!(CHATGPT: stream mixed_batch refused_call two_refused_calls call_over_the_size_limit escaped_text chain_of_five stop_mode
        keep_alive repeat_after_a_broken_stream restart_in_the_middle);
}

macro_rules! matrix {
    ($($name:ident = $variant:ident, $($counting:ident)?;)*) => {
        $(mod $name {
            cell!($variant: stream non_stream mixed_batch refused_call two_refused_calls written_call call_over_the_size_limit
                escaped_text $($counting)? chain_of_five stop_mode keep_alive repeat_after_a_broken_stream
                restart_in_the_middle);
        })*
    };
}

matrix! {
    anthropic = ANTHROPIC, counting;
    openai_chat = CHAT, ;
    openai_responses = RESPONSES, counting;
    gemini = GEMINI, counting;
    ollama = OLLAMA, ;
    azure = AZURE, ;
    azure_responses = AZURE_RESPONSES, counting;
    openrouter = OPENROUTER, ;
    vllm = VLLM, ;
    vertex = VERTEX, counting;
    foundry = FOUNDRY, counting;
    vertex_gemini = VERTEX_GEMINI, ;
    gemini_array = GEMINI_ARRAY, ;
    code_assist = CODE_ASSIST, counting;
}
