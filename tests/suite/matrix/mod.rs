//! Wire × feature, one test for each cell: `matrix::WIRE::FEATURE`. The real proxy, the strict provider, and an
//! agent that takes nothing but one correct answer. Vendors' variants of a wire are columns like the others.
//!
//! A wire is a row of `sides`, a feature a function in `cells`. `openai_chat` and `ollama` have no counting: their
//! APIs have no such call.

mod both_ways;
mod cells;
pub mod ears;
pub mod sides;
pub mod stage;

macro_rules! cell {
    ($side:ident: $($feature:ident)*) => {
        $(#[tokio::test]
        async fn $feature() {
            super::cells::$feature(super::sides::$side).await;
        })*
    };
}

macro_rules! matrix {
    ($($name:ident = $side:ident, $($counting:ident)?;)*) => {
        $(mod $name {
            cell!($side: stream non_stream mixed_batch refused_call two_refused_calls call_over_the_bound
                broken_up_text $($counting)? chain_of_five stop_mode keep_alive repeat_after_a_broken_stream
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
