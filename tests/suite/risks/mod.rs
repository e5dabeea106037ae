//! Risks of a cut and known failures of other proxies, with the tests that cover them.
//!
//! `W` stands for every wire: `anthropic`, `openai_chat`, `openai_responses`, `gemini`, `ollama`.
//!
//! | risk of a cut | test |
//! |---|---|
//! | the split message is empty, or has only whitespace | `nothing_or_blanks_left_of_the_split_message::W` |
//! | a leg that called a tool without any text | `conversations::W`, `single_wire::chat_content_is_null_where_a_leg_has_calls_but_no_text` |
//! | results whose calls were cut, including late ones | `results_whose_calls_were_cut::W`, `a_result_right_behind_the_cut::W`, `a_late_result_beside_a_hidden_pair::W`, `wire::openai_responses::tests::cut::results_whose_calls_were_cut_go_wherever_they_stand` |
//! | a call without a result | `a_call_that_the_agent_never_answered::W` |
//! | reasoning without its item, and the reverse | `wire::openai_responses::tests::cut::reasoning_that_lost_its_item_goes`, `…::items_whose_reasoning_was_moved_in_front_go_on_without_ids` |
//! | thinking moved before the sentinel | `single_wire::anthropic_thinking_moved_in_front_of_the_sentinel` |
//! | a missing signature | `single_wire::gemini_signature_that_went_with_a_lost_pair`, `matrix::gemini::mixed_batch` |
//! | a missing id | `stored_pairs::an_identical_earlier_call_has_no_pair`, `…::a_conversation_with_the_same_opening_has_no_pair` |
//! | consecutive messages of one role; the assistant first | `matrix::W::stop_mode`: the carry-over prompt comes first, then the user's next message |
//! | cache breakpoints | `single_wire::anthropic_cache_marks_are_the_agents_own` |
//! | system messages, changes of tools | `single_wire::anthropic_tool_changes_before_the_cut`, `wire::openai_responses::tests::request::a_cut_keeps_what_a_new_session_of_codex_starts_with` |
//! | compaction before and after the cut | `single_wire::compaction_on_either_side_of_the_cut`, `single_wire::responses_compact_is_cut_and_relayed` |
//! | `previous_response_id`, `item_reference` | `wire::openai_responses::tests::request::an_earlier_response_is_renamed_or_left_out_wherever_it_stands`, `…::cut::references_to_our_items_never_reach_upstream` |
//! | diagnostic ids | `single_wire::diagnostic_ids_are_left_unchanged` |
//! | the agent forks or rewinds | `conversations::W` |
//! | the agent returns from a fork, while other branches or conversations with the same opening hand off | `stored_pairs` |
//! | the agent compacts | `conversations::W` |
//! | server tools next to the sentinel | `single_wire::anthropic_server_tools_on_either_side_of_the_cut` |
//! | spelling of numbers, order of keys | `golden::W::bytes_outside_edits_stay` |
//!
//! | failure of other proxies | test |
//! |---|---|
//! | signed thinking | `conversations`, `matrix::anthropic::mixed_batch` |
//! | orphans | above |
//! | framing, stop words, usage | `matrix::W::stream`, `matrix::W::non_stream` |
//! | long silence | `matrix::W::keep_alive` |
//! | mixed batches | `matrix::W::mixed_batch` |
//! | counting | `matrix::W::counting` |
//! | the agent leaves | `bad_input::an_agent_that_leaves_ends_every_leg` |
//! | WebSocket | `proxy::tests::refusals::a_websocket_is_refused_at_once_so_that_agents_fall_back` |
//! | content encodings | `bad_input::compressed_bodies_are_decoded_edited_and_sent_plain`, `failures::answers::compressed_answers_reach_the_agent_plain` |
//! | compaction of the provider | `single_wire::responses_compact_is_cut_and_relayed` |
//! | a custom base URL | `docs/agents.md` |
//! | ids and encrypted reasoning | `conversations::openai_responses`, `wire::openai_responses::tests::pairs` |
//! | thought signatures | `single_wire::gemini_signature_that_went_with_a_lost_pair`, `matrix::gemini::mixed_batch` |
//! | restart | `conversations::W` |
//! | errors and their headers | `errors_are_the_providers_own::W` |
//! | credentials | `upstreams::a_named_upstream_has_its_path_prefix_its_headers_and_its_key_from_the_environment` |
//!
//! The other known failures are in `failures`.

mod all_wires;
mod endings;
mod single_wire;
mod stored_pairs;

macro_rules! on_every_wire {
    ($($risk:ident)*) => {
        $(mod $risk {
            use crate::matrix::variants;
            on_every_wire!(@ $risk: anthropic ANTHROPIC, openai_chat CHAT, openai_responses RESPONSES, gemini GEMINI,
                ollama OLLAMA);
        })*
    };
    (@ $risk:ident: $($wire:ident $variant:ident),*) => {
        $(#[tokio::test]
        async fn $wire() {
            super::all_wires::$risk(variants::$variant).await;
        })*
    };
}

on_every_wire! {
    nothing_or_blanks_left_of_the_split_message
    results_whose_calls_were_cut
    a_late_result_beside_a_hidden_pair
    a_result_right_behind_the_cut
    a_call_that_the_agent_never_answered
    errors_are_the_providers_own
}
