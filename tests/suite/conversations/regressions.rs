//! Regression tests: conversations that once failed.

use super::agent_quirks::AgentQuirks;
use super::plan::Piece::{self, Call, Empty, Good, Recall, Same, Text, Think};
use super::plan::{Broken, End, LegPlan, Plan, Step, Trouble};
use super::run;
use super::wires::PROFILES;

fn leg(pieces: &[Piece]) -> LegPlan {
    ending(End::Natural, pieces)
}

fn ending(end: End, pieces: &[Piece]) -> LegPlan {
    LegPlan {
        pieces: pieces.to_vec(),
        end,
        chunks: 0,
        delta: 20,
        trouble: None,
    }
}

fn troubled(trouble: Trouble, pieces: &[Piece]) -> LegPlan {
    LegPlan {
        trouble: Some(trouble),
        ..leg(pieces)
    }
}

fn turn(who: usize, stream: bool, legs: Vec<LegPlan>) -> Step {
    Step::Turn {
        who,
        legs,
        stream,
        says: 0,
        broken: Broken::Again,
        restart_when_broken: false,
        drafts: Vec::new(),
    }
}

/// A turn in which the model says this.
fn says(stream: bool, pieces: &[Piece]) -> Step {
    says_to(0, stream, pieces)
}

fn says_to(who: usize, stream: bool, pieces: &[Piece]) -> Step {
    turn(who, stream, vec![leg(pieces)])
}

/// A turn whose response is cut off.
fn cut_off(stream: bool, pieces: &[Piece]) -> Step {
    turn(0, stream, vec![ending(End::MaxTokens, pieces)])
}

fn plain(who: usize) -> Step {
    says_to(who, true, &[Think, Text(0)])
}

/// A turn in which the user says something special, and the model's response is this leg.
fn asked(asks: u8, restart: bool, leg: LegPlan) -> Step {
    Step::Turn {
        who: 0,
        legs: vec![leg],
        stream: false,
        says: asks,
        broken: Broken::Again,
        restart_when_broken: restart,
        drafts: Vec::new(),
    }
}

/// A streamed turn whose agent treats an interrupted response in this way.
fn interrupted(broken: Broken, legs: Vec<LegPlan>) -> Step {
    Step::Turn {
        who: 0,
        legs,
        stream: true,
        says: 0,
        broken,
        restart_when_broken: false,
        drafts: Vec::new(),
    }
}

fn undo(stream: bool) -> Step {
    Step::Undo { who: 0, stream }
}

/// These steps of an agent without quirks, whose model searches what was cut.
fn plan(steps: Vec<Step>) -> Plan {
    Plan {
        opening: 1,
        forbids: false,
        quirks: AgentQuirks::default(),
        recall: true,
        stops: false,
        steps,
        nudge_from: 0,
        auto_from: 0,
    }
}

fn holds(steps: Vec<Step>) {
    goes_well(&plan(steps));
}

/// Runs the steps as streams and as whole responses.
fn both_hold(steps: impl Fn(bool) -> Vec<Step>) {
    both_hold_with(AgentQuirks::default(), steps);
}

fn both_hold_with(quirks: AgentQuirks, steps: impl Fn(bool) -> Vec<Step>) {
    for stream in [true, false] {
        holds_with(quirks, steps(stream));
    }
}

fn holds_with(quirks: AgentQuirks, steps: Vec<Step>) {
    goes_well(&Plan {
        quirks,
        ..plan(steps)
    });
}

fn goes_well(plan: &Plan) {
    for profile in PROFILES {
        run(profile, plan, &super::Setting::OneProcess)
            .unwrap_or_else(|e| panic!("{} {e}", profile.transcript));
    }
}

fn without_ids() -> AgentQuirks {
    AgentQuirks {
        no_ids: true,
        ..AgentQuirks::default()
    }
}

/// An agent that sends earlier items only by their ids.
fn by_reference() -> AgentQuirks {
    AgentQuirks {
        references: true,
        ..AgentQuirks::default()
    }
}

/// The model's view does not contain thinking before a dropped call, so there is nothing to hand off.
#[test]
fn a_lone_thought_behind_a_cut_is_no_content() {
    both_hold(|stream| {
        let dropped = ending(End::MaxTokens, &[Think, Good(0)]);
        vec![
            plain(0),
            says(stream, &[Call, Good(0)]),
            turn(0, stream, vec![leg(&[Think]), dropped]),
            says(stream, &[Good(0)]),
            plain(0),
        ]
    });
}

#[test]
fn a_dropped_call_leaves_no_message_that_is_empty_or_ends_in_thinking() {
    for end in [End::MaxTokens, End::Refusal] {
        both_hold(|stream| {
            let bare = turn(0, stream, vec![ending(end, &[Good(0)])]);
            let thought = turn(0, stream, vec![ending(end, &[Think, Good(0)])]);
            vec![plain(0), bare, plain(0), thought, plain(0)]
        });
    }
    both_hold(|stream| {
        let chain = vec![leg(&[Think, Good(0)]); 4];
        vec![plain(0), turn(0, stream, chain), plain(0)]
    });
    both_hold(|stream| {
        let refused = vec![leg(&[Think, Empty]); 3];
        vec![plain(0), turn(0, stream, refused), plain(0)]
    });
}

#[test]
fn text_after_a_refused_call_keeps_its_place() {
    both_hold(|stream| {
        let legs = vec![leg(&[Think, Empty, Text(0)]), leg(&[Think, Text(2)])];
        vec![turn(0, stream, legs), plain(0), plain(0)]
    });
}

#[test]
fn pairs_are_found_after_a_conversation_with_the_same_opening_hands_over() {
    let pair = says(true, &[Think, Call, Good(0)]);
    let fires = turn(
        1,
        true,
        vec![leg(&[Good(0)]), troubled(Trouble::Cut(0), &[Text(0)])],
    );
    holds(vec![pair.clone(), plain(1), fires, plain(0), plain(0)]);
    // The same situation by a rewind: the branch that handed over removed the other one's pair from the list.
    let fork = || Step::Fork { who: 0, back: 1 };
    let begins = vec![
        plain(0),
        plain(0),
        pair,
        plain(0),
        plain(0),
        says(true, &[Good(1)]),
    ];
    holds([begins, vec![fork(), plain(0), fork(), plain(0)]].concat());
}

#[test]
fn a_hidden_call_before_text_that_was_joined_to_the_sentinel_keeps_its_place() {
    let glue = AgentQuirks {
        glue: true,
        ..AgentQuirks::default()
    };
    both_hold_with(glue, |stream| {
        let legs = vec![leg(&[Good(0)]), leg(&[Good(1), Text(0), Call])];
        vec![plain(0), turn(0, stream, legs), plain(0), plain(0)]
    });
}

/// The handoff of one conversation removes the other one's pair from their common list, and the pair's
/// sibling has lost its id.
#[test]
fn pairs_are_found_without_ids_in_conversations_with_the_same_opening() {
    let pair = says_to(1, false, &[Call, Good(0)]);
    let fires = [says(true, &[Text(0)]), says(true, &[Good(0)])];
    let steps = [&[pair], &fires[..], &[plain(1), plain(1)]].concat();
    holds_with(without_ids(), steps);
}

/// An agent that writes `tool_calls` before `content`. The calls still count as after the sentinel.
#[test]
fn a_pair_in_the_cut_message_is_found_where_calls_precede_the_text() {
    let quirks = AgentQuirks {
        no_thoughts: true,
        ..AgentQuirks::default()
    };
    both_hold_with(quirks, |stream| {
        let legs = vec![leg(&[Think, Good(0)]), leg(&[Call, Good(0)])];
        vec![plain(0), turn(0, stream, legs), plain(0), plain(0)]
    });
}

/// Reasoning is bound to the call after it, and Gemini's signature belongs to the first call. A hidden call
/// before an agent's call therefore stays in a truncated turn, without effect.
#[test]
fn a_hidden_call_before_the_agents_own_stays_in_a_truncated_turn() {
    for hidden in [&[Good(0)][..], &[Piece::Broken, Good(0)]] {
        let pieces = [&[Think], hidden, &[Call, Good(1)]].concat();
        both_hold(|stream| vec![cut_off(stream, &pieces), plain(0), plain(0)]);
    }
}

/// Agents that keep a response as one string join its items without separators (goose).
#[test]
fn a_mark_split_over_two_texts_is_escaped() {
    let halves = [Text(5), Think, Text(6), Call];
    for quoting in [&halves[..3], &halves[..]] {
        both_hold(|stream| vec![says(stream, quoting), plain(0), plain(0)]);
    }
}

/// An error from baton instead of a response that failed before its first byte names the handoff, like every
/// response to a cut request.
#[test]
fn an_answer_that_fails_at_once_names_the_active_handoff() {
    let text = || leg(&[Text(0)]);
    let fires = turn(0, true, vec![leg(&[Good(0)]), text()]);
    let fails = turn(0, false, vec![troubled(Trouble::Cut(0), &[Text(0)]), text()]);
    holds(vec![plain(0), fires, fails, plain(0)]);
}

/// The placeholder for a dropped call is a new item each time, because two items with the same id are
/// refused.
#[test]
fn two_dropped_calls_are_two_items() {
    both_hold(|stream| {
        let dropped = cut_off(stream, &[Good(0)]);
        vec![dropped.clone(), dropped, plain(0)]
    });
}

/// Upstream's own call is only a reference by item id. The hidden calls follow each other, each with its
/// result.
#[test]
fn two_hidden_calls_beside_one_that_is_sent_by_reference() {
    let pair = says(false, &[Call, Good(0), Good(1)]);
    holds_with(by_reference(), vec![pair, plain(0), plain(0)]);
}

/// Two conversations with the same opening make the same call with different ids. A pair next to one call
/// does not belong to the other conversation.
#[test]
fn a_pair_stays_with_its_own_call_where_another_is_alike() {
    let pair = says_to(2, false, &[Same, Good(0)]);
    holds(vec![pair, says_to(1, false, &[Same]), plain(1), plain(2)]);
}

/// An agent that drops ids. In the first response the handoff call carries the signature, so its sibling is
/// unsigned. The equal call of the other conversation is signed (Gemini).
#[test]
fn a_pair_beside_an_unsigned_call_stays_out_of_a_conversation_whose_equal_call_is_signed() {
    both_hold_with(without_ids(), |stream| {
        let pair = says(stream, &[Good(0), Same]);
        vec![pair, says_to(1, stream, &[Same]), plain(1), plain(0), plain(0)]
    });
}

/// After a handoff, with each part in a content of its own: the text between the sentinel and the call
/// belongs to the new leg.
#[test]
fn a_hidden_call_before_text_keeps_its_place_where_each_part_is_a_content() {
    let quirks = AgentQuirks {
        chunks: true,
        ..AgentQuirks::default()
    };
    both_hold_with(quirks, |stream| {
        let legs = vec![leg(&[Good(0)]), leg(&[Good(0), Text(0), Call])];
        vec![plain(0), turn(0, stream, legs), plain(0), plain(0)]
    });
}

/// A refused call after a handoff that is then undone has a different prefix. Gemini's signature of the call
/// is removed, and so is the item id on Responses.
#[test]
fn a_hidden_call_behind_an_undone_handoff_is_not_bound_to_its_prefix() {
    let refused = vec![leg(&[Think, Piece::Broken]), leg(&[Think, Text(0)])];
    let begins = vec![
        plain(0),
        plain(0),
        says(true, &[Think, Good(0)]),
        turn(0, true, refused),
        says(true, &[Think, Piece::Broken, Call]),
        plain(0),
    ];
    let then = [true, false, true].map(|stream| [undo(stream), plain(0)]);
    holds([begins, then.concat()].concat());
}

/// A call that was queued before an undone handoff does not take effect again.
#[test]
fn a_queued_call_in_front_of_an_undone_handoff_is_void() {
    let queued = says(true, &[Call, Good(0)]);
    let begins = vec![plain(0), queued, plain(0), plain(0)];
    holds([begins, vec![undo(true), plain(0), plain(0)]].concat());
}

/// A call that was queued after a handoff in a truncated turn. It takes no effect after an undo of that
/// handoff, nor after the undo is reverted.
#[test]
fn a_queued_call_behind_a_handoff_is_void_when_that_is_undone() {
    for twice in [true, false] {
        both_hold(|stream| {
            let queued = vec![leg(&[Good(0)]), leg(&[Good(0), Call])];
            let thinks = || says(stream, &[Think]);
            vec![
                thinks(),
                turn(0, stream, queued),
                cut_off(stream, &[Think]),
                undo(stream),
                if twice { undo(stream) } else { plain(0) },
                thinks(),
                thinks(),
            ]
        });
    }
}

/// A synthetic response with a sentinel is sent only by its id, which identifies the handoff. The user's
/// words before the model's newest response do not count as open, although that response is sent by id as
/// well.
#[test]
fn an_automatic_handoff_at_which_an_answer_ends_is_known_by_its_item() {
    goes_well(&Plan {
        quirks: by_reference(),
        stops: true,
        auto_from: 400,
        ..plan((0..16).map(|_| plain(0)).collect())
    });
}

/// After an undone handoff the model sees everything that it searched, and has no search tool, so its
/// searches are removed.
#[test]
fn a_search_behind_an_undone_handoff_goes_with_its_tool() {
    let fires = says(true, &[Think, Good(0)]);
    let alone = says(true, &[Think, Recall]);
    let beside = says(true, &[Think, Recall, Call]);
    let begins = vec![plain(0), plain(0), fires, plain(0), alone, beside, plain(0)];
    let then = vec![undo(true), plain(0), plain(0), undo(true), plain(0)];
    holds([begins, then].concat());
}

/// A context notice keeps its position although a later handoff is undone. Content before the active handoff
/// stays unchanged.
#[test]
fn a_notice_in_front_of_an_undone_handoff_keeps_its_place() {
    let fires = || says(true, &[Think, Good(0)]);
    let begins = vec![plain(0), plain(0), fires(), plain(0), plain(0), plain(0)];
    let then = vec![fires(), plain(0), undo(true), plain(0), undo(true), plain(0)];
    goes_well(&Plan {
        nudge_from: 1,
        ..plan([begins, then].concat())
    });
}

/// A sentinel may be a message of its own, and a call without an id is identified by the messages before it.
/// A call made while the handoff was undone is found when the handoff is active again.
#[test]
fn a_hidden_call_without_an_id_keeps_its_place_when_an_undo_is_taken_back() {
    for (stream, stops) in [(true, true), (false, true), (true, false), (false, false)] {
        let undo = || Step::Undo { who: 2, stream };
        let fires = says_to(2, stream, &[Good(0)]);
        let mixed = says_to(2, stream, &[Good(0), Call]);
        let begins = vec![plain(0), plain(2), plain(0), fires];
        let steps = [begins, vec![undo(), mixed, plain(2), undo(), plain(2)]].concat();
        for opening in 0..4 {
            goes_well(&Plan {
                opening,
                quirks: without_ids(),
                recall: false,
                stops,
                ..plan(steps.clone())
            });
        }
    }
}

/// The situation of the previous test, with a later handoff that is undone.
#[test]
fn a_hidden_call_without_an_id_keeps_its_place_when_a_later_handoff_is_undone() {
    let undo = || Step::Undo {
        who: 3,
        stream: false,
    };
    let says = |pieces: &[Piece]| says_to(3, false, pieces);
    let begins = vec![plain(3), says(&[Good(0)]), undo(), says(&[Call, Good(0)])];
    let thinks = || says(&[Think]);
    let then = vec![thinks(), undo(), thinks(), undo(), thinks()];
    goes_well(&Plan {
        opening: 0,
        stops: true,
        nudge_from: 1,
        auto_from: 2169,
        ..plan([begins, then].concat())
    });
}

/// A call was refused, the model thought and handed over, and that was undone. Only the refused call is left
/// of its message.
#[test]
fn a_thought_before_a_handoff_that_was_undone_does_not_end_a_message() {
    for (stream, stops) in [(true, true), (false, true), (true, false), (false, false)] {
        let fires = turn(0, stream, vec![leg(&[Empty]), leg(&[Think, Good(0)])]);
        goes_well(&Plan {
            opening: 0,
            recall: false,
            stops,
            ..plan(vec![plain(0), fires, undo(stream), plain(0)])
        });
    }
}

/// If the provider stores the responses, no line announces a draft. An error after it is a response of its
/// own.
#[test]
fn an_error_behind_an_automatic_handoff_is_told_as_the_agent_can_read_it() {
    for quirks in [AgentQuirks::default(), by_reference()] {
        let refused = turn(0, true, vec![troubled(Trouble::Status(429), &[Think])]);
        goes_well(&Plan {
            opening: 0,
            quirks,
            auto_from: 100,
            ..plan(vec![says(false, &[Think]), refused, says(false, &[Think])])
        });
    }
}

/// A pasted response with a handoff in it does not count as a rule of the user, and a short message is not
/// mistaken for another.
#[test]
fn what_a_user_quotes_of_a_handoff_is_no_rule() {
    let hands_over = || says(false, &[Good(0)]);
    let quotes = |what| asked(what, false, leg(&[Think]));
    let begins = vec![plain(0), plain(0), hands_over()];
    holds([begins, vec![quotes(2), quotes(3), hands_over(), plain(0)]].concat());
}

/// A dropped call before more text of the model is found again after an undo, because its reasoning requires
/// it.
#[test]
fn a_dropped_call_is_found_by_its_reasoning_behind_an_undo() {
    both_hold(|stream| {
        vec![
            cut_off(stream, &[Think, Good(0), Text(0)]),
            says(stream, &[Good(0)]),
            undo(stream),
            says(stream, &[Think]),
        ]
    });
}

/// Thinking right before an undone handoff ends its message if the leg after the handoff had no output.
#[test]
fn a_thought_in_front_of_an_undone_handoff_ends_no_message() {
    both_hold(|stream| {
        let dropped = ending(End::MaxTokens, &[Good(0)]);
        let fires = turn(0, stream, vec![leg(&[Text(0), Think, Good(0)]), dropped]);
        vec![plain(0), fires, undo(stream), plain(0)]
    });
}

/// A response that was interrupted after a hidden call and a line break.
#[test]
fn a_blank_behind_a_refused_call_is_no_message() {
    let broken_off = LegPlan {
        delta: 1,
        ..troubled(Trouble::CleanEnd(1), &[Text(1)])
    };
    let kept = interrupted(Broken::Kept, vec![leg(&[Empty]), broken_off]);
    // An agent that joins adjacent texts has the blank in the string of the line for the call.
    for glue in [false, true] {
        let quirks = AgentQuirks {
            glue,
            ..AgentQuirks::default()
        };
        holds_with(quirks, vec![plain(0), kept.clone(), plain(0)]);
    }
}

/// An agent that keeps the partial output of an interrupted response before its repetition. The sentinel of
/// one handoff then stands in the history twice, and is one handoff of a chain.
#[test]
fn a_handoff_that_an_agent_keeps_twice_is_one_of_its_chain() {
    let fires = || leg(&[Good(0)]);
    let broken_off = troubled(Trouble::CleanEnd(4), &[Text(0)]);
    let legs = vec![fires(), broken_off, fires(), leg(&[Call])];
    let twice = interrupted(Broken::Doubled, legs);
    both_hold(|stream| {
        let third = says(stream, &[Good(0)]);
        vec![plain(0), twice.clone(), third, plain(0)]
    });
}

/// An agent that sends earlier items only by their ids. The request contains neither the sentinels nor the
/// calls.
#[test]
fn handoffs_in_a_row_are_limited_for_an_agent_that_sends_items_by_reference() {
    // One round of calls lies between the chain and the refused handoff, or three.
    for rounds in [0, 2] {
        both_hold_with(by_reference(), |stream| {
            let chain = [Good(0), Good(0), Good(0), Call].map(|piece| leg(&[piece]));
            let mut steps = vec![plain(0), turn(0, stream, chain.into())];
            steps.extend((0..rounds).map(|_| says(stream, &[Call])));
            steps.extend([says(stream, &[Good(0)]), plain(0)]);
            steps
        });
    }
}

/// A user quotes a response with a handoff, and a threshold hands over. The prompt then contains words that
/// replace its tags, and is shown with the tags.
#[test]
fn a_prompt_that_quotes_a_shown_handoff_keeps_its_tags() {
    let asked = |what, leg| asked(what, true, leg);
    let thinks = || leg(&[Think]);
    goes_well(&Plan {
        opening: 0,
        recall: false,
        stops: true,
        auto_from: 300,
        ..plan(vec![
            asked(0, thinks()),
            asked(5, thinks()),
            asked(0, leg(&[Good(0)])),
            asked(2, troubled(Trouble::Status(429), &[Think])),
            asked(2, thinks()),
        ])
    });
}

/// A sentinel that was a message of its own counts in the names of the calls after it, until it is undone.
#[test]
fn a_hidden_call_without_an_id_is_found_after_the_handoff_before_it_is_undone() {
    both_hold_with(without_ids(), |stream| {
        let alone = says(stream, &[Good(0)]);
        let hidden = says(stream, &[Good(4), Call]);
        vec![
            plain(0),
            alone,
            hidden,
            plain(0),
            undo(stream),
            plain(0),
            undo(stream),
            plain(0),
        ]
    });
}
