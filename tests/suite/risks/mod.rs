//! The risks of a cut (WIRE, section 8), and the failures of other proxies (FAILURES) that name a wire: which test
//! holds each. `W` stands for every wire: `anthropic`, `openai_chat`, `openai_responses`, `gemini`, `ollama`.
//!
//! | risk behind the cut | test |
//! |---|---|
//! | nothing, or blanks, left of the split message | `nothing_or_blanks_left_of_the_split_message::W` |
//! | a leg that called a tool without a word | `a_leg_that_calls_without_a_word::W`, `own::chat_content_is_null_where_a_leg_called_without_a_word` |
//! | results whose calls were cut, late ones too | `results_whose_calls_were_cut::W`, `a_result_right_behind_the_cut::W`, `a_late_result_beside_a_hidden_pair::W`, `wire::openai_responses::tests::cut::results_whose_calls_were_cut_go_wherever_they_stand` |
//! | a call without a result | `a_call_that_the_agent_never_answered::W` |
//! | reasoning without its item, and the reverse | `wire::openai_responses::tests::cut::reasoning_that_lost_its_item_goes`, `…::items_whose_reasoning_was_moved_in_front_go_on_without_ids` |
//! | thinking moved in front of the sentinel | `own::anthropic_thinking_moved_in_front_of_the_sentinel` |
//! | a signature that is missing | `own::gemini_signature_that_went_with_a_lost_pair`, `matrix::gemini::mixed_batch` |
//! | an id that is missing | `remembered::an_identical_earlier_call_has_no_pair`, `…::a_conversation_that_opens_alike_has_no_pair` |
//! | neighbours of one role; the assistant first | `matrix::W::stop_mode`: the carry-over prompt stands first, the user's next message behind it |
//! | cache breakpoints | `own::anthropic_cache_marks_are_the_agents_own` |
//! | system messages, changes of tools | `own::anthropic_tool_changes_before_the_cut`, `wire::openai_responses::tests::request::a_cut_keeps_what_a_new_session_of_codex_starts_with` |
//! | compaction before and behind the cut | `own::compaction_on_either_side_of_the_cut`, `own::responses_compact_is_cut_and_relayed` |
//! | `previous_response_id`, `item_reference` | `wire::openai_responses::tests::request::an_earlier_response_is_renamed_or_left_out_wherever_it_stands`, `…::cut::references_to_our_items_never_reach_upstream` |
//! | ids that only diagnose | `own::ids_that_only_diagnose_are_left_alone` |
//! | the agent forks or rewinds | `a_rewind_unpins_or_pins_to_the_handoff_before::W` |
//! | … and comes back, while other branches or conversations of the same opening hand over | `remembered` |
//! | the agent compacts | `the_agents_own_compaction::W` |
//! | server tools beside the sentinel | `own::anthropic_server_tools_on_either_side_of_the_cut` |
//! | number spelling, key order | `golden::W::bytes_outside_edits_stay` |
//!
//! | FAILURES row | test |
//! |---|---|
//! | 2 signed thinking | `conversations`, `matrix::anthropic::mixed_batch` |
//! | 3 orphans | above |
//! | 6, 9, 11 framing, stop words, usage | `matrix::W::stream`, `matrix::W::non_stream` |
//! | 7 silence | `matrix::W::keep_alive` |
//! | 8 mixed batches | `matrix::W::mixed_batch` |
//! | 10 counting | `matrix::W::counting` |
//! | 12 the agent leaves | `an_agent_that_leaves_between_the_legs::W`, `bad_input::an_agent_that_leaves_ends_every_leg` |
//! | 14 WebSocket | `proxy::tests::refusals::a_websocket_is_refused_so_that_codex_falls_back` |
//! | 15, 16 codings | `bad_input::compressed_bodies_are_decoded_edited_and_sent_plain`, `failures::answers::row_16_…` |
//! | 17 compaction of the provider | `own::responses_compact_is_cut_and_relayed` |
//! | 18 a base URL of one's own | `docs/decisions.md` |
//! | 19 ids and encrypted reasoning | `matrix::openai_responses::chain_of_five`, `wire::openai_responses::tests::pairs` |
//! | 20 thought signatures | `own::gemini_signature_that_went_with_a_lost_pair`, `matrix::gemini::mixed_batch` |
//! | 24, 29 restart | `matrix::W::restart_in_the_middle` |
//! | 27 errors and their headers | `errors_are_the_providers_own::W` |
//! | 28 credentials | `upstreams::a_named_upstream_has_its_folder_its_headers_and_its_key_from_the_environment` |
//!
//! The other rows are in `failures`, by their number.

mod ends;
mod every;
mod own;
mod remembered;

macro_rules! on_every_wire {
    ($($risk:ident)*) => {
        $(mod $risk {
            use crate::matrix::sides;
            on_every_wire!(@ $risk: anthropic ANTHROPIC, openai_chat CHAT, openai_responses RESPONSES, gemini GEMINI,
                ollama OLLAMA);
        })*
    };
    (@ $risk:ident: $($wire:ident $side:ident),*) => {
        $(#[tokio::test]
        async fn $wire() {
            super::every::$risk(sides::$side).await;
        })*
    };
}

on_every_wire! {
    nothing_or_blanks_left_of_the_split_message
    results_whose_calls_were_cut
    a_late_result_beside_a_hidden_pair
    a_result_right_behind_the_cut
    a_call_that_the_agent_never_answered
    a_leg_that_calls_without_a_word
    a_rewind_unpins_or_pins_to_the_handoff_before
    the_agents_own_compaction
    errors_are_the_providers_own
    an_agent_that_leaves_between_the_legs
}
