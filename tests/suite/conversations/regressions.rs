//! Regression tests: conversations that once failed.

use super::agent_quirks::AgentQuirks;
use super::plan::{Broken, End, LegPlan, Piece, Plan, Step, Trouble};
use super::run;
use super::wires::PROFILES;

fn leg(pieces: &[Piece], end: End) -> LegPlan {
    LegPlan {
        pieces: pieces.to_vec(),
        end,
        chunks: 0,
        delta: 20,
        trouble: None,
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

fn plain(who: usize) -> Step {
    turn(
        who,
        true,
        vec![leg(&[Piece::Think, Piece::Text(0)], End::Natural)],
    )
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

/// The model's view does not contain thinking before a dropped call, so there is nothing to hand off.
#[test]
fn a_lone_thought_behind_a_cut_is_no_content() {
    for stream in [true, false] {
        holds(vec![
            plain(0),
            turn(0, stream, vec![leg(&[Piece::Call, Piece::Good(0)], End::Natural)]),
            turn(
                0,
                stream,
                vec![
                    leg(&[Piece::Think], End::Natural),
                    leg(&[Piece::Think, Piece::Good(0)], End::MaxTokens),
                ],
            ),
            turn(0, stream, vec![leg(&[Piece::Good(0)], End::Natural)]),
            plain(0),
        ]);
    }
}

#[test]
fn a_dropped_call_leaves_no_message_that_is_empty_or_ends_in_thinking() {
    for stream in [true, false] {
        for end in [End::MaxTokens, End::Refusal] {
            let bare = turn(0, stream, vec![leg(&[Piece::Good(0)], end)]);
            let thought = turn(0, stream, vec![leg(&[Piece::Think, Piece::Good(0)], end)]);
            holds(vec![plain(0), bare, plain(0), thought, plain(0)]);
        }
        let chain = vec![leg(&[Piece::Think, Piece::Good(0)], End::Natural); 4];
        holds(vec![plain(0), turn(0, stream, chain), plain(0)]);
        let refused = vec![leg(&[Piece::Think, Piece::Empty], End::Natural); 3];
        holds(vec![plain(0), turn(0, stream, refused), plain(0)]);
    }
}

#[test]
fn text_after_a_refused_call_keeps_its_place() {
    for stream in [true, false] {
        let again = leg(&[Piece::Think, Piece::Text(2)], End::Natural);
        let legs = vec![
            leg(&[Piece::Think, Piece::Empty, Piece::Text(0)], End::Natural),
            again,
        ];
        holds(vec![turn(0, stream, legs), plain(0), plain(0)]);
    }
}

#[test]
fn pairs_are_found_after_a_conversation_with_the_same_opening_hands_over() {
    let pair = turn(
        0,
        true,
        vec![leg(&[Piece::Think, Piece::Call, Piece::Good(0)], End::Natural)],
    );
    let cut = LegPlan {
        trouble: Some(Trouble::Cut(0)),
        ..leg(&[Piece::Text(0)], End::Natural)
    };
    let fires = turn(1, true, vec![leg(&[Piece::Good(0)], End::Natural), cut]);
    holds(vec![pair.clone(), plain(1), fires.clone(), plain(0), plain(0)]);
    // The same situation by a rewind: the branch that handed over removed the other one's pair from the list.
    let alone = turn(0, true, vec![leg(&[Piece::Good(1)], End::Natural)]);
    let fork = |back| Step::Fork { who: 0, back };
    holds(vec![
        plain(0),
        plain(0),
        pair,
        plain(0),
        plain(0),
        alone,
        fork(1),
        plain(0),
        fork(1),
        plain(0),
    ]);
}

#[test]
fn a_hidden_call_before_text_that_was_joined_to_the_sentinel_keeps_its_place() {
    let glue = AgentQuirks {
        glue: true,
        ..AgentQuirks::default()
    };
    for stream in [true, false] {
        let mixed = leg(&[Piece::Good(1), Piece::Text(0), Piece::Call], End::Natural);
        let legs = vec![leg(&[Piece::Good(0)], End::Natural), mixed];
        holds_with(glue, vec![plain(0), turn(0, stream, legs), plain(0), plain(0)]);
    }
}

/// The handoff of one conversation removes the other one's pair from their common list, and the pair's
/// sibling has lost its id.
#[test]
fn pairs_are_found_without_ids_in_conversations_with_the_same_opening() {
    let pair = turn(1, false, vec![leg(&[Piece::Call, Piece::Good(0)], End::Natural)]);
    let says = turn(0, true, vec![leg(&[Piece::Text(0)], End::Natural)]);
    let fires = turn(0, true, vec![leg(&[Piece::Good(0)], End::Natural)]);
    let quirks = AgentQuirks {
        no_ids: true,
        ..AgentQuirks::default()
    };
    holds_with(quirks, vec![pair, says, fires, plain(1), plain(1)]);
}

/// An agent that writes `tool_calls` before `content`. The calls still count as after the sentinel.
#[test]
fn a_pair_in_the_cut_message_is_found_where_calls_precede_the_text() {
    let mixed = leg(&[Piece::Call, Piece::Good(0)], End::Natural);
    let fires = leg(&[Piece::Think, Piece::Good(0)], End::Natural);
    let quirks = AgentQuirks {
        no_thoughts: true,
        ..AgentQuirks::default()
    };
    for stream in [true, false] {
        let legs = vec![fires.clone(), mixed.clone()];
        holds_with(quirks, vec![plain(0), turn(0, stream, legs), plain(0), plain(0)]);
    }
}

/// Reasoning is bound to the call after it, and Gemini's signature belongs to the first call. A hidden call
/// before an agent's call therefore stays in a truncated turn, without effect.
#[test]
fn a_hidden_call_before_the_agents_own_stays_in_a_truncated_turn() {
    for stream in [true, false] {
        for hidden in [&[Piece::Good(0)][..], &[Piece::Broken, Piece::Good(0)]] {
            let pieces = [&[Piece::Think], hidden, &[Piece::Call, Piece::Good(1)]].concat();
            let cut_off = turn(0, stream, vec![leg(&pieces, End::MaxTokens)]);
            holds(vec![cut_off, plain(0), plain(0)]);
        }
    }
}

/// Agents that keep a response as one string join its items without separators (goose).
#[test]
fn a_mark_split_over_two_texts_is_escaped() {
    for stream in [true, false] {
        let halves = [Piece::Text(5), Piece::Think, Piece::Text(6)];
        let quoting = turn(0, stream, vec![leg(&halves, End::Natural)]);
        holds(vec![quoting, plain(0), plain(0)]);
        let with_call = [Piece::Text(5), Piece::Think, Piece::Text(6), Piece::Call];
        let quoting = turn(0, stream, vec![leg(&with_call, End::Natural)]);
        holds(vec![quoting, plain(0), plain(0)]);
    }
}

/// An error from baton instead of a response that failed before its first byte names the handoff, like every
/// response to a cut request.
#[test]
fn an_answer_that_fails_at_once_names_the_active_handoff() {
    let says = leg(&[Piece::Text(0)], End::Natural);
    let fires = vec![leg(&[Piece::Good(0)], End::Natural), says.clone()];
    let cut = LegPlan {
        trouble: Some(Trouble::Cut(0)),
        ..says.clone()
    };
    let fails = turn(0, false, vec![cut, says]);
    holds(vec![plain(0), turn(0, true, fires), fails, plain(0)]);
}

/// The placeholder for a dropped call is a new item each time, because two items with the same id are
/// refused.
#[test]
fn two_dropped_calls_are_two_items() {
    for stream in [true, false] {
        let bare = || turn(0, stream, vec![leg(&[Piece::Good(0)], End::MaxTokens)]);
        holds(vec![bare(), bare(), plain(0)]);
    }
}

/// Upstream's own call is only a reference by item id. The hidden calls follow each other, each with its
/// result.
#[test]
fn two_hidden_calls_beside_one_that_is_sent_by_reference() {
    let three = [Piece::Call, Piece::Good(0), Piece::Good(1)];
    let pair = turn(0, false, vec![leg(&three, End::Natural)]);
    let quirks = AgentQuirks {
        references: true,
        ..AgentQuirks::default()
    };
    holds_with(quirks, vec![pair, plain(0), plain(0)]);
}

/// Two conversations with the same opening make the same call with different ids. A pair next to one call
/// does not belong to the other conversation.
#[test]
fn a_pair_stays_with_its_own_call_where_another_is_alike() {
    let pair = turn(2, false, vec![leg(&[Piece::Same, Piece::Good(0)], End::Natural)]);
    let alone = turn(1, false, vec![leg(&[Piece::Same], End::Natural)]);
    holds(vec![pair, alone, plain(1), plain(2)]);
}

/// An agent that drops ids. In the first response the handoff call carries the signature, so its sibling is
/// unsigned. The equal call of the other conversation is signed (Gemini).
#[test]
fn a_pair_beside_an_unsigned_call_stays_out_of_a_conversation_whose_equal_call_is_signed() {
    let quirks = AgentQuirks {
        no_ids: true,
        ..AgentQuirks::default()
    };
    for stream in [true, false] {
        let pair = turn(0, stream, vec![leg(&[Piece::Good(0), Piece::Same], End::Natural)]);
        let alone = turn(1, stream, vec![leg(&[Piece::Same], End::Natural)]);
        holds_with(quirks, vec![pair, alone, plain(1), plain(0), plain(0)]);
    }
}

/// After a handoff, with each part in a content of its own: the text between the sentinel and the call
/// belongs to the new leg.
#[test]
fn a_hidden_call_before_text_keeps_its_place_where_each_part_is_a_content() {
    let quirks = AgentQuirks {
        chunks: true,
        ..AgentQuirks::default()
    };
    for stream in [true, false] {
        let mixed = leg(&[Piece::Good(0), Piece::Text(0), Piece::Call], End::Natural);
        let legs = vec![leg(&[Piece::Good(0)], End::Natural), mixed];
        holds_with(quirks, vec![plain(0), turn(0, stream, legs), plain(0), plain(0)]);
    }
}

/// A refused call after a handoff that is then undone has a different prefix. Gemini's signature of the call
/// is removed, and so is the item id on Responses.
#[test]
fn a_hidden_call_behind_an_undone_handoff_is_not_bound_to_its_prefix() {
    let fires = turn(0, true, vec![leg(&[Piece::Think, Piece::Good(0)], End::Natural)]);
    let refused = [Piece::Think, Piece::Broken];
    let again = leg(&[Piece::Think, Piece::Text(0)], End::Natural);
    let refused = turn(0, true, vec![leg(&refused, End::Natural), again]);
    let beside = [Piece::Think, Piece::Broken, Piece::Call];
    let beside = turn(0, true, vec![leg(&beside, End::Natural)]);
    let undo = |stream| Step::Undo { who: 0, stream };
    let begins = vec![plain(0), plain(0), fires, refused, beside, plain(0)];
    let then = [undo(true), plain(0), undo(false), plain(0), undo(true), plain(0)];
    holds([begins, then.to_vec()].concat());
}

/// A call that was queued before an undone handoff does not take effect again.
#[test]
fn a_queued_call_in_front_of_an_undone_handoff_is_void() {
    let queued = turn(0, true, vec![leg(&[Piece::Call, Piece::Good(0)], End::Natural)]);
    let undo = Step::Undo { who: 0, stream: true };
    holds(vec![
        plain(0),
        queued,
        plain(0),
        plain(0),
        undo,
        plain(0),
        plain(0),
    ]);
}

/// A call that was queued after a handoff in a truncated turn. It takes no effect after an undo of that
/// handoff, nor after the undo is reverted.
#[test]
fn a_queued_call_behind_a_handoff_is_void_when_that_is_undone() {
    for (stream, twice) in [(true, true), (false, true), (true, false), (false, false)] {
        let queued = vec![
            leg(&[Piece::Good(0)], End::Natural),
            leg(&[Piece::Good(0), Piece::Call], End::Natural),
        ];
        let thinks = |end| turn(0, stream, vec![leg(&[Piece::Think], end)]);
        let undo = || Step::Undo { who: 0, stream };
        holds(vec![
            thinks(End::Natural),
            turn(0, stream, queued),
            thinks(End::MaxTokens),
            undo(),
            if twice { undo() } else { plain(0) },
            thinks(End::Natural),
            thinks(End::Natural),
        ]);
    }
}

/// A synthetic response with a sentinel is sent only by its id, which identifies the handoff. The user's
/// words before the model's newest response do not count as open, although that response is sent by id as
/// well.
#[test]
fn an_automatic_handoff_at_which_an_answer_ends_is_known_by_its_item() {
    let steps = (0..16).map(|_| plain(0)).collect();
    let quirks = AgentQuirks {
        references: true,
        ..AgentQuirks::default()
    };
    goes_well(&Plan {
        quirks,
        stops: true,
        auto_from: 400,
        ..plan(steps)
    });
}

/// After an undone handoff the model sees everything that it searched, and has no search tool, so its
/// searches are removed.
#[test]
fn a_search_behind_an_undone_handoff_goes_with_its_tool() {
    let fires = turn(0, true, vec![leg(&[Piece::Think, Piece::Good(0)], End::Natural)]);
    let search = [Piece::Think, Piece::Recall];
    let alone = turn(0, true, vec![leg(&search, End::Natural)]);
    let beside = [Piece::Think, Piece::Recall, Piece::Call];
    let beside = turn(0, true, vec![leg(&beside, End::Natural)]);
    let undo = || Step::Undo { who: 0, stream: true };
    let begins = vec![plain(0), plain(0), fires, plain(0), alone, beside, plain(0)];
    holds([begins, vec![undo(), plain(0), plain(0), undo(), plain(0)]].concat());
}

/// A context notice keeps its position although a later handoff is undone. Content before the active handoff
/// stays unchanged.
#[test]
fn a_notice_in_front_of_an_undone_handoff_keeps_its_place() {
    let fires = || turn(0, true, vec![leg(&[Piece::Think, Piece::Good(0)], End::Natural)]);
    let undo = || Step::Undo { who: 0, stream: true };
    let begins = vec![plain(0), plain(0), fires(), plain(0), plain(0), plain(0)];
    let then = vec![fires(), plain(0), undo(), plain(0), undo(), plain(0)];
    goes_well(&Plan {
        nudge_from: 1,
        ..plan([begins, then].concat())
    });
}

/// A sentinel may be a message of its own, and a call without an id is identified by the messages before it.
/// A call made while the handoff was undone is found when the handoff is active again.
#[test]
fn a_hidden_call_without_an_id_keeps_its_place_when_an_undo_is_taken_back() {
    let quirks = AgentQuirks {
        no_ids: true,
        ..AgentQuirks::default()
    };
    let mixed = leg(&[Piece::Good(0), Piece::Call], End::Natural);
    for (stream, stops) in [(true, true), (false, true), (true, false), (false, false)] {
        let undo = || Step::Undo { who: 2, stream };
        let fires = turn(2, stream, vec![leg(&[Piece::Good(0)], End::Natural)]);
        for opening in 0..4 {
            goes_well(&Plan {
                opening,
                quirks,
                recall: false,
                stops,
                ..plan(vec![
                    plain(0),
                    plain(2),
                    plain(0),
                    fires.clone(),
                    undo(),
                    turn(2, stream, vec![mixed.clone()]),
                    plain(2),
                    undo(),
                    plain(2),
                ])
            });
        }
    }
}

/// The situation of the previous test, with a later handoff that is undone.
#[test]
fn a_hidden_call_without_an_id_keeps_its_place_when_a_later_handoff_is_undone() {
    let mixed = leg(&[Piece::Call, Piece::Good(0)], End::Natural);
    let undo = || Step::Undo {
        who: 3,
        stream: false,
    };
    let says = |piece| turn(3, false, vec![leg(&[piece], End::Natural)]);
    goes_well(&Plan {
        opening: 0,
        stops: true,
        nudge_from: 1,
        auto_from: 2169,
        ..plan(vec![
            plain(3),
            says(Piece::Good(0)),
            undo(),
            turn(3, false, vec![mixed]),
            says(Piece::Think),
            undo(),
            says(Piece::Think),
            undo(),
            says(Piece::Think),
        ])
    });
}

/// A call was refused, the model thought and handed over, and that was undone. Only the refused call is left
/// of its message.
#[test]
fn a_thought_before_a_handoff_that_was_undone_does_not_end_a_message() {
    let fires = vec![
        leg(&[Piece::Empty], End::Natural),
        leg(&[Piece::Think, Piece::Good(0)], End::Natural),
    ];
    for (stream, stops) in [(true, true), (false, true), (true, false), (false, false)] {
        goes_well(&Plan {
            opening: 0,
            recall: false,
            stops,
            ..plan(vec![
                plain(0),
                turn(0, stream, fires.clone()),
                Step::Undo { who: 0, stream },
                plain(0),
            ])
        });
    }
}

/// If the provider stores the responses, no line announces a draft. An error after it is a response of its
/// own.
#[test]
fn an_error_behind_an_automatic_handoff_is_told_as_the_agent_can_read_it() {
    for references in [false, true] {
        let mut refused = leg(&[Piece::Think], End::Natural);
        refused.trouble = Some(Trouble::Status(429));
        let think = || turn(0, false, vec![leg(&[Piece::Think], End::Natural)]);
        goes_well(&Plan {
            opening: 0,
            quirks: AgentQuirks {
                references,
                ..AgentQuirks::default()
            },
            auto_from: 100,
            ..plan(vec![think(), turn(0, true, vec![refused]), think()])
        });
    }
}

/// A pasted response with a handoff in it does not count as a rule of the user, and a short message is not
/// mistaken for another.
#[test]
fn what_a_user_quotes_of_a_handoff_is_no_rule() {
    let says = |says: u8| Step::Turn {
        who: 0,
        legs: vec![leg(&[Piece::Think], End::Natural)],
        stream: false,
        says,
        broken: Broken::Again,
        restart_when_broken: false,
        drafts: Vec::new(),
    };
    let hands_over = || turn(0, false, vec![leg(&[Piece::Good(0)], End::Natural)]);
    holds(vec![
        plain(0),
        plain(0),
        hands_over(),
        says(2),
        says(3),
        hands_over(),
        plain(0),
    ]);
}

/// A dropped call before more text of the model is found again after an undo, because its reasoning requires
/// it.
#[test]
fn a_dropped_call_is_found_by_its_reasoning_behind_an_undo() {
    for stream in [false, true] {
        let dropped = leg(&[Piece::Think, Piece::Good(0), Piece::Text(0)], End::MaxTokens);
        holds(vec![
            turn(0, stream, vec![dropped]),
            turn(0, stream, vec![leg(&[Piece::Good(0)], End::Natural)]),
            Step::Undo { who: 0, stream },
            turn(0, stream, vec![leg(&[Piece::Think], End::Natural)]),
        ]);
    }
}

/// Thinking right before an undone handoff ends its message if the leg after the handoff had no output.
#[test]
fn a_thought_in_front_of_an_undone_handoff_ends_no_message() {
    for stream in [false, true] {
        let fires = leg(&[Piece::Text(0), Piece::Think, Piece::Good(0)], End::Natural);
        let cut_off = leg(&[Piece::Good(0)], End::MaxTokens);
        holds(vec![
            plain(0),
            turn(0, stream, vec![fires, cut_off]),
            Step::Undo { who: 0, stream },
            plain(0),
        ]);
    }
}

/// A response that was interrupted after a hidden call and a line break.
#[test]
fn a_blank_behind_a_refused_call_is_no_message() {
    let broken_off = LegPlan {
        delta: 1,
        trouble: Some(Trouble::CleanEnd(1)),
        ..leg(&[Piece::Text(1)], End::Natural)
    };
    let kept = Step::Turn {
        who: 0,
        legs: vec![leg(&[Piece::Empty], End::Natural), broken_off],
        stream: true,
        says: 0,
        broken: Broken::Kept,
        restart_when_broken: false,
        drafts: Vec::new(),
    };
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
    let broken_off = LegPlan {
        trouble: Some(Trouble::CleanEnd(4)),
        ..leg(&[Piece::Text(0)], End::Natural)
    };
    let fires = leg(&[Piece::Good(0)], End::Natural);
    let twice = Step::Turn {
        who: 0,
        legs: vec![
            fires.clone(),
            broken_off,
            fires.clone(),
            leg(&[Piece::Call], End::Natural),
        ],
        stream: true,
        says: 0,
        broken: Broken::Doubled,
        restart_when_broken: false,
        drafts: Vec::new(),
    };
    for stream in [true, false] {
        let third = turn(0, stream, vec![fires.clone()]);
        holds(vec![plain(0), twice.clone(), third, plain(0)]);
    }
}

/// An agent that sends earlier items only by their ids. The request contains neither the sentinels nor the
/// calls.
#[test]
fn handoffs_in_a_row_are_limited_for_an_agent_that_sends_items_by_reference() {
    let quirks = AgentQuirks {
        references: true,
        ..AgentQuirks::default()
    };
    let fires = leg(&[Piece::Good(0)], End::Natural);
    let works = leg(&[Piece::Call], End::Natural);
    for stream in [true, false] {
        let chain = vec![fires.clone(), fires.clone(), fires.clone(), works.clone()];
        let chain = turn(0, stream, chain);
        let works = || turn(0, stream, vec![works.clone()]);
        let fires = || turn(0, stream, vec![fires.clone()]);
        // One round of calls lies between the chain and the refused handoff, then three.
        holds_with(quirks, vec![plain(0), chain.clone(), fires(), plain(0)]);
        holds_with(quirks, vec![plain(0), chain, works(), works(), fires(), plain(0)]);
    }
}

/// A user quotes a response with a handoff, and a threshold hands over. The prompt then contains words that
/// replace its tags, and is shown with the tags.
#[test]
fn a_prompt_that_quotes_a_shown_handoff_keeps_its_tags() {
    let says = |says: u8, leg: LegPlan| Step::Turn {
        who: 0,
        legs: vec![leg],
        stream: false,
        says,
        broken: Broken::Again,
        restart_when_broken: true,
        drafts: Vec::new(),
    };
    let thinks = || leg(&[Piece::Think], End::Natural);
    let busy = LegPlan {
        trouble: Some(Trouble::Status(429)),
        ..thinks()
    };
    goes_well(&Plan {
        opening: 0,
        recall: false,
        stops: true,
        auto_from: 300,
        ..plan(vec![
            says(0, thinks()),
            says(5, thinks()),
            says(0, leg(&[Piece::Good(0)], End::Natural)),
            says(2, busy),
            says(2, thinks()),
        ])
    });
}
