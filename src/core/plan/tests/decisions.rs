//! Decisions and writes of plans.

use super::*;

#[test]
fn a_pinned_request_is_planned_with_one_read() {
    let mut script = Script::new();
    let id = script.handoff(None);
    let planned = script.plan(&after(&[short(id)]));
    assert_eq!((planned.active(), planned.reads.len()), (Some(id), 1));
    let active = planned.plan.pin.active.unwrap();
    assert_eq!(
        (active.prompt.as_str(), active.routed.as_deref()),
        (PROMPT, Some("small"))
    );
    assert!(planned.plan.offer.tooled && planned.plan.offer.recall);
    assert_eq!(planned.plan.effects.last(), Some(&PlanWrite::Follow(Some(id))));
}

#[test]
fn a_pinned_request_needs_no_warning() {
    let mut script = Script::new();
    let id = script.handoff(None);
    script.live().active = Some(id);
    let CutTarget {
        lost_sentinel,
        lost,
        resumed,
        unresolved,
        ..
    } = script.plan(&after(&[short(id)])).plan.pin;
    assert_eq!(
        (lost_sentinel, lost, resumed, unresolved),
        (false, None, false, None)
    );
}

#[test]
fn many_unknown_sentinels_cost_as_many_reads_as_one() {
    let mut script = Script::new();
    let id = script.handoff(None);
    let after_unknown = |count: usize| {
        let unknown = (0..count).map(|_| short(Uuid::now_v7()));
        let shown: Vec<String> = [short(id)].into_iter().chain(unknown).collect();
        let planned = script.plan(&after(&shown));
        assert_eq!(planned.active(), Some(id));
        assert_eq!(planned.plan.pin.lost.map(short), shown.last().cloned());
        planned.reads.len()
    };
    // The newest, the others, and the pairs next to the calls after the valid one.
    assert_eq!((after_unknown(1), after_unknown(40)), (3, 3));
}

#[test]
fn the_last_sentinel_that_is_known_counts() {
    let mut script = Script::new();
    let first = script.handoff(None);
    let second = script.handoff(Some(first));
    assert_eq!(
        script.plan(&after(&[short(first), short(second)])).active(),
        Some(second)
    );
    assert_eq!(
        script.plan(&after(&[short(second), short(first)])).active(),
        Some(first)
    );
}

#[test]
fn a_seal_stands_for_a_lost_record_and_no_other_text_does() {
    let script = Script::new();
    let id = Uuid::now_v7();
    let shown = sentinel::full(id, None, PROMPT, &keys().seal("local", id, PROMPT));
    let planned = script.plan(&after(std::slice::from_ref(&shown)));
    assert_eq!(planned.active(), Some(id));
    assert_eq!(planned.reads[1..], [vec![Need::SealKeys]]);
    let forged = script.plan(&after(&[shown.replace("importer", "exporter")]));
    assert_eq!((forged.active(), forged.plan.pin.lost), (None, Some(id)));
    let others = sentinel::full(id, None, PROMPT, &keys().seal("alice", id, PROMPT));
    assert_eq!(script.plan(&after(&[others])).active(), None);
}

#[test]
fn a_missing_sentinel_unpins_only_the_loop_of_a_named_session_without_undo() {
    let mut script = Script::new();
    let id = script.handoff(None);
    let fork = after(&["Yes.".to_owned()]);
    let lost_sentinel = |script: &Script, messages: &[Value], operation| {
        let pin = script.plan_of(request(messages), operation).plan.pin;
        assert_eq!((pin.active_id(), pin.lost), (None, None));
        pin.lost_sentinel
    };
    assert!(!lost_sentinel(&script, &fork, Operation::Generate));
    script.live().active = Some(id);
    assert!(lost_sentinel(&script, &fork, Operation::Generate));
    assert!(!lost_sentinel(&script, &fork, Operation::Count));
    let mut undone = after(&[short(id)]);
    let note = note::answer(&format!("the handoff {id} was undone."), id);
    undone.extend([user("::handoff undo"), model(&note), user("Go on.")]);
    assert!(!lost_sentinel(&script, &undone, Operation::Generate));
    // Another conversation may have the same opening.
    script.named = false;
    assert!(!lost_sentinel(&script, &fork, Operation::Generate));
}

#[test]
fn an_unknown_sentinel_is_lost_and_unpins_a_model_call_that_has_no_other() {
    let mut script = Script::new();
    let (id, unknown) = (script.handoff(None), Uuid::now_v7());
    let found = |shown: &[String], operation| {
        let pin = script.plan_of(request(&after(shown)), operation).plan.pin;
        (pin.lost, pin.lost_sentinel)
    };
    let alone = [short(unknown)];
    assert_eq!(found(&alone, Operation::Generate), (Some(unknown), true));
    assert_eq!(found(&alone, Operation::Count), (Some(unknown), false));
    let later = [short(id), short(unknown)];
    assert_eq!(found(&later, Operation::Generate), (Some(unknown), false));
}

#[test]
fn a_users_line_resumes_a_handoff_or_is_answered_here() {
    let mut script = Script::new();
    let id = script.handoff(None);
    let line = |id: &str| vec![user(&format!("[[handoff-resume:{id}]]\n\nGo on."))];
    let known = script.plan(&line(&id.to_string()));
    assert_eq!((known.active(), known.plan.pin.resumed), (Some(id), true));
    let unknown = script.plan(&line(&Uuid::from_u128(7 << 76).to_string())).plan.pin;
    assert_eq!(unknown.unresolved, Some(Unresolved::Unknown));
    assert!(!unknown.resumed);
    let beginning = &id.to_string()[..13];
    assert_eq!(script.plan(&line(beginning)).active(), Some(id));
    let twin = Handoff {
        id: Uuid::from_u128(id.as_u128() ^ 1),
        ..script.handoffs[0].clone()
    };
    script.handoffs.push(twin);
    let ambiguous = script.plan(&line(beginning)).plan.pin;
    assert_eq!(ambiguous.unresolved, Some(Unresolved::Ambiguous));
}

#[test]
fn a_users_line_is_answered_here_only_in_the_last_message_of_a_model_call() {
    let script = Script::new();
    let line = user(&format!(
        "[[handoff-resume:{}]]\n\nGo on.",
        Uuid::from_u128(7 << 76)
    ));
    let found = |messages: &[Value], operation| {
        let pin = script.plan_of(request(messages), operation).plan.pin;
        (pin.unresolved, pin.lost)
    };
    let last = std::slice::from_ref(&line);
    let unknown = (Some(Unresolved::Unknown), None);
    assert_eq!(found(last, Operation::Generate), unknown);
    assert_eq!(found(last, Operation::Count), (None, None));
    let earlier = [line.clone(), model("Yes."), user("Go on.")];
    assert_eq!(found(&earlier, Operation::Generate), (None, None));
}

#[test]
fn a_users_line_resumes_once() {
    let mut script = Script::new();
    let id = script.handoff(None);
    let line = [user(&format!("[[handoff-resume:{id}]]\n\nGo on."))];
    let resumed = |script: &Script, messages: &[Value], operation| {
        let planned = script.plan_of(request(messages), operation);
        assert_eq!(planned.active(), Some(id));
        planned.plan.pin.resumed
    };
    script.live().active = Some(Uuid::now_v7());
    assert!(resumed(&script, &line, Operation::Generate));
    assert!(!resumed(&script, &line, Operation::Count));
    assert!(
        !resumed(&script, &after(&[short(id)]), Operation::Generate),
        "the model's"
    );
    script.live().active = Some(id);
    assert!(!resumed(&script, &line, Operation::Generate));
}

/// The place of a response that the agent left out, behind these messages.
fn point_behind(messages: &[Value], handoff: HandoffId, conversation: &str) -> CutPoint {
    CutPoint {
        handoff,
        principal: "local".to_owned(),
        conversation: conversation.to_owned(),
        position: positions::of(&view(messages)),
        texts: Vec::new(),
        before_command: false,
        created_ms: 1,
    }
}

/// A conversation that is new here may be forked from one whose response was left out.
#[test]
fn a_copied_cut_point_counts_where_its_conversation_still_lists_it() {
    let mut script = Script::new();
    let id = script.handoff(None);
    let before = [user(BEFORE), model("Yes."), user("More.")];
    let point = point_behind(&before, id, "origin");
    script.cut_points = vec![point.clone()];
    let next = [&before[..], &[user("And now?")]].concat();
    assert_eq!(script.plan(&next).active(), None, "it was shown there meanwhile");
    script.left_out_elsewhere = vec![id];
    let planned = script.plan(&next);
    assert_eq!(planned.active(), Some(id));
    let effects = [PlanWrite::TakeOverCutPoint(point), PlanWrite::KeepCutPoint(id)];
    assert_eq!(planned.plan.effects[..2], effects);
    // A conversation with its own decision is not a fork.
    script.live().tooled = Some(true);
    assert_eq!(script.plan(&next).active(), None);
}

/// The model's output since then was written without the handoff, unless a request was cut there before.
#[test]
fn an_older_branch_is_not_cut_at_a_handoff_that_was_made_in_front_of_it() {
    let mut script = Script::new();
    let id = script.handoff(None);
    let before = [user(BEFORE), model("Yes.")];
    let point = point_behind(&before, id, "c");
    script.live().listed.as_mut().unwrap().cut_points = vec![Arc::new(point)];
    let next = [&before[..], &[user("And now?")]].concat();
    let later = [&next[..], &[model("Now this."), user("And then?")]].concat();
    assert_eq!(script.plan(&later).active(), None);
    assert_eq!(script.plan(&next).active(), Some(id));
    script.live().relied_on = vec![id];
    assert_eq!(script.plan(&later).active(), Some(id));
}

/// A command that made a handoff stays in the transcript, even if the agent leaves out the reply.
#[test]
fn a_rewind_to_before_the_command_is_not_cut_at_its_handoff() {
    let mut script = Script::new();
    let id = script.handoff(None);
    let before = [user(BEFORE), model("Yes.")];
    let point = CutPoint {
        before_command: true,
        ..point_behind(&before, id, "c")
    };
    script.live().listed.as_mut().unwrap().cut_points = vec![Arc::new(point)];
    let then = |texts: &[Value]| [&before[..], texts].concat();
    let command = user("::handoff");
    assert_eq!(script.plan(&then(&[user("And now?")])).active(), None);
    assert_eq!(
        script.plan(&then(&[command.clone(), user("And now?")])).active(),
        Some(id)
    );
    let joined =
        json!({"role": "user", "content": [command["content"][0], {"type": "text", "text": "And now?"}]});
    assert_eq!(script.plan(&then(&[joined])).active(), Some(id));
}

#[test]
fn a_copys_insertions_are_taken_over_with_their_places() {
    let mut script = Script::new();
    let opening = [user(BEFORE)];
    let insertion = Insertion {
        id: Uuid::now_v7(),
        principal: "local".to_owned(),
        conversation: "origin".to_owned(),
        wire: WireId::Anthropic,
        place: InsertionPoint::After(positions::of(&view(&opening))),
        content: InsertionContent::Text("a notice".to_owned()),
        created_ms: 1,
    };
    script.insertions = vec![insertion.clone()];
    let next = after(&["Yes.".to_owned()]);
    assert!(script.plan(&next).plan.places.insertions.is_empty(), "no copy");
    script.live().may_be_copy = true;
    let planned = script.plan(&next).plan;
    assert_eq!(planned.places.insertions[0].text, "a notice");
    let taken_over = PlanWrite::TakeOverInsertions(vec![insertion]);
    assert!(planned.effects.contains(&taken_over));
    assert!(planned.offer.tooled, "they prove that the tool was offered");
    let other = [user("Mend that."), model("Yes."), user("Go on.")];
    let planned = script.plan(&other).plan;
    let lost = vec![script.insertions[0].id];
    assert!(
        planned.places.insertions.is_empty() && planned.effects.contains(&PlanWrite::LoseInsertions(lost))
    );
}

#[test]
fn a_hidden_call_belongs_to_its_conversation() {
    let mut script = Script::new();
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "run", "input": {}}]});
    let result =
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]});
    let messages = [user(BEFORE), call, result];
    let own = pair("c", "t1");
    script.pairs = vec![own.clone(), pair("another", "t1")];
    let Plan { places, effects, .. } = script.plan(&messages).plan;
    assert_eq!(places.pairs, std::slice::from_ref(&own));
    assert_eq!(places.beside_calls, [own.id]);
    assert!(effects.contains(&PlanWrite::KnowPairs(vec![Arc::new(own)])));
}

#[test]
fn a_command_is_taken_out_and_what_was_read_for_the_whole_is_asked_for_anew() {
    let script = Script::new();
    let planned = script.plan(&[user(BEFORE), model("Yes."), user("::pins")]);
    assert_eq!(planned.plan.pin.command.as_deref(), Some("::pins"));
    let mut script = Script::new();
    let id = script.handoff(None);
    let note = note::answer(&format!("the handoff {id} was undone."), id);
    let mut messages = after(&[short(id)]);
    messages.extend([user("::handoff undo"), model(&note), user("Go on.")]);
    let planned = script.plan(&messages);
    assert_eq!(planned.active(), None);
    assert!(planned.plan.pin.undone.is_undone(id));
    assert!(planned.plan.pin.taken_out.original.is_some());
    assert_eq!(planned.call.edition, 1);
    let walks = planned.reads.iter().flatten();
    assert_eq!(
        walks
            .filter(|need| matches!(need, Need::PairsAfter { .. }))
            .count(),
        2
    );
}

#[test]
fn the_tool_is_the_conversations_decision() {
    let opening = [user(BEFORE)];
    let thinking = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "Yes."}]});
    let under_way = [user(BEFORE), thinking, user("Go on.")];
    let untooled = |script: &Script, messages: &[Value]| script.plan(messages).plan.offer.untooled;
    let mut script = Script::new();
    assert_eq!(untooled(&script, &opening), None);
    assert_eq!(untooled(&script, &under_way), Some(ToolOmission::BoundHistory));
    script.live().tooled = Some(true);
    assert_eq!(untooled(&script, &under_way), None);
    script.live().tooled = Some(false);
    assert_eq!(untooled(&script, &under_way), Some(ToolOmission::BoundHistory));
    script.live = None;
    assert_eq!(untooled(&script, &opening), Some(ToolOmission::StoreDown));
    let count = Script::new().plan_of(request(&under_way), Operation::Count);
    let decides = |planned: &Outcome| {
        let mut effects = planned.plan.effects.iter();
        effects.any(|effect| matches!(effect, PlanWrite::DecideTool(_)))
    };
    assert!(!decides(&count) && decides(&Script::new().plan(&opening)));
}

#[test]
fn a_request_that_is_no_agents_turn_gets_no_tool() {
    let rows = [
        (json!({"tools": []}), ToolOmission::NoClientTools),
        (
            json!({"tool_choice": {"type": "tool", "name": "run"}}),
            ToolOmission::ToolChoice,
        ),
        (json!({"max_tokens": 512}), ToolOmission::SmallOutput),
    ];
    let with = |messages: &[Value], members: &Value| {
        let mut body = request(messages);
        body.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        body
    };
    let untooled = |script: &Script, body, operation| script.plan_of(body, operation).plan.offer.untooled;
    let mut script = Script::new();
    for (members, why) in rows {
        let body = with(&[user(BEFORE)], &members);
        assert_eq!(
            untooled(&script, body, Operation::Generate),
            Some(why),
            "{members}"
        );
    }
    // A count of a single tool, without a system prompt.
    let mut lone = request(&[user(BEFORE)]);
    lone.as_object_mut().unwrap().remove("system");
    assert_eq!(
        untooled(&script, lone, Operation::Count),
        Some(ToolOmission::CountProbe)
    );
    // The first request would not have got the tool with so small an output limit. A conversation that has it
    // keeps it.
    script.live().tooled = Some(true);
    let small = with(&after(&["Yes.".to_owned()]), &json!({"max_tokens": 512}));
    assert_eq!(untooled(&script, small, Operation::Generate), None);
}

#[test]
fn a_cut_keeps_the_search_that_it_was_made_with() {
    let mut script = Script::new();
    let id = script.handoff(None);
    let offer = |script: &Script, messages: &[Value]| {
        let offer = script.plan(messages).plan.offer;
        (offer.recall, offer.recall_next, offer.searchable)
    };
    let cut = after(&[short(id)]);
    assert_eq!(offer(&script, &[user(BEFORE)]), (false, true, true));
    assert_eq!(offer(&script, &cut), (true, true, true));
    script.recall = false;
    assert_eq!(offer(&script, &[user(BEFORE)]), (false, false, false));
    assert_eq!(offer(&script, &cut), (true, false, true));
    script.handoffs[0].recall = false;
    script.recall = true;
    assert_eq!(offer(&script, &cut), (false, true, false));
}

#[test]
fn what_the_record_says_after_the_write_is_what_holds() {
    let decision = |script: &Script, messages: &[Value]| {
        let effects = script.plan(messages).plan.effects;
        let mut decided = effects.into_iter().filter_map(|effect| match effect {
            PlanWrite::DecideTool(decision) => Some(decision),
            _ => None,
        });
        decided.next().unwrap()
    };
    let open = decision(&Script::new(), &[user(BEFORE)]);
    assert_eq!(
        (open.written(true), open.written(false)),
        (None, Some(ToolOmission::BoundHistory))
    );
    assert_eq!(open.unwritten(), Some(ToolOmission::StoreDown));
    let mut script = Script::new();
    let id = script.handoff(None);
    let proven = decision(&script, &after(&[short(id)]));
    assert_eq!((proven.written(false), proven.unwritten()), (None, None));
}

#[test]
fn thinking_that_was_refused_in_the_stretch_is_left_out() {
    let mut script = Script::new();
    let messages = after(&["Yes.".to_owned()]);
    let omission = |handoff| ThinkingOmission {
        handoff,
        position: positions::of(&view(&messages)),
    };
    script.live().omissions = vec![omission(Uuid::now_v7())];
    assert_eq!(script.plan(&messages).plan.places.omitted, None);
    script.live().omissions.push(omission(ThinkingOmission::UNCUT));
    assert_eq!(script.plan(&messages).plan.places.omitted, Some(3));
}

#[test]
fn without_a_store_nothing_is_written() {
    let mut script = Script::new();
    script.live = None;
    let id = script.handoff(None);
    for messages in [after(&[]), after(&[short(id)])] {
        let effects = script.plan(&messages).plan.effects;
        assert!(effects.is_empty(), "{effects:?}");
    }
}
