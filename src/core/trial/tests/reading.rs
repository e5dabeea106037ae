//! Records of agents as sessions.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn answers_results_lists_and_plans_are_read() {
    let todos = |state: &str| call("TodoWrite", json!({"todos": [{"content": "a", "status": state}]}));
    let result = |id: &str, text: &str| {
        said(
            2,
            json!([{"type": "tool_result", "tool_use_id": id, "content": text}]),
        )
    };
    let read_call = call("Read", json!({"file_path": "/src/a.rs"}));
    let id = read_call[0]["id"].as_str().unwrap().to_owned();
    let plan = call("ExitPlanMode", json!({"plan": "x"}));
    let plan_id = plan[0]["id"].as_str().unwrap().to_owned();
    let sessions = read(&[
        said(0, json!("Mend the parser.")),
        answer(1, 0, [3, 20_000, 0, 9], todos("in_progress")),
        answer(
            1,
            0,
            [3, 20_000, 0, 50],
            json!([{"type": "text", "text": "more"}]),
        ),
        answer(2, 1, [3, 500, 20_000, 60], read_call),
        result(&id, &"x".repeat(4_000)),
        answer(3, 2, [3, 1_000, 20_500, 70], todos("completed")),
        said(
            3,
            json!("<system-reminder>\nA text of the harness\n</system-reminder>"),
        ),
        said(90, json!("And now the page.")),
        answer(4, 90, [3, 22_000, 0, 80], plan),
        result(&plan_id, "User has approved your plan"),
        answer(
            5,
            91,
            [3, 100, 22_000, 90],
            json!([{"type": "text", "text": "Done."}]),
        ),
    ]);
    let [session] = &sessions[..] else {
        panic!("{sessions:?}")
    };
    assert_eq!(
        (session.title.as_str(), session.calls.len()),
        ("Mend the parser.", 5)
    );
    assert_eq!(session.calls[0].counts.output, 50);
    let flags: Vec<_> = session
        .calls
        .iter()
        .map(|call| (call.user, call.finished, call.plan))
        .collect();
    let plain = (false, false, false);
    assert_eq!(
        flags,
        [
            (true, false, false),
            plain,
            plain,
            (true, true, false),
            (false, false, true)
        ]
    );
    assert_eq!(session.calls[2].files[0].1, 1_000);
    let steps: Vec<_> = session
        .calls
        .iter()
        .map(|call| (call.step_done, call.steps))
        .collect();
    assert_eq!(steps[1], (false, Some((0, 1))));
    assert_eq!(steps[3], (true, Some((1, 0))));
}

/// A fork begins with copies of its parent's calls, under another id.
#[test]
fn forks_and_copies_count_once_in_every_order() {
    let parent = growing(30_000, 1_000, &[1; 10], &[]);
    let mut fork = parent.clone();
    fork.id = "fork".to_owned();
    fork.calls.truncate(6);
    let mut own = fork.calls[5].clone();
    (own.id, own.at_ms) = (99, own.at_ms + MINUTE);
    fork.calls.push(own);
    let all = [parent.clone(), fork.clone(), parent.clone()];
    let counted = counted_once(all.to_vec());
    let calls: Vec<_> = counted
        .iter()
        .map(|one| (one.id.as_str(), one.copied, one.calls.len()))
        .collect();
    assert_eq!(
        calls.iter().map(|one| one.2 - one.1).sum::<usize>(),
        11,
        "{calls:?}"
    );
    let mut other = all.to_vec();
    other.reverse();
    assert_eq!(counted_once(other), counted);
    // The parent paid for the copied call.
    let forked = counted.iter().find(|one| one.copied == 1).unwrap();
    let one = reckoned(forked);
    assert!(
        one.paid.unwrap() < 0.1 && one.calls == forked.calls.len() - 1,
        "{one:?}"
    );
    assert!(one.deviation().unwrap().abs() < 0.01, "{one:?}");
}

/// Claude Code records the request of a compaction as a subagent, which reads the session's cache.
#[test]
fn a_recorded_compaction_is_used_and_an_avoided_one_is_saved() {
    let mut session = troubled();
    session.agent = Some(AgentKind::ClaudeCode);
    let mut summary = growing(1, 1, &[1], &[]);
    summary.agent = session.agent;
    summary.id = "s/acompact-0f".to_owned();
    summary.calls[0].id = 999;
    summary.calls[0].counts = TokenCounts {
        input: 3,
        cache_read: 160_000,
        cache_write: 2_000,
        output: 3_000,
        ..TokenCounts::default()
    };
    session
        .calls
        .iter_mut()
        .for_each(|call| call.answered_ms = call.at_ms);
    summary.calls[0].answered_ms = session.calls[40].answered_ms - 1;
    let counted = counted_once(vec![session.clone(), summary]);
    let [session] = &counted[..] else {
        panic!("{counted:?}")
    };
    let one = reckoned(session);
    assert_eq!((one.calls, one.arms[0].bill.compactions), (61, 1));
    assert!(one.deviation().unwrap().abs() < 1e-9);
    let early = one.arm("notice_80k").unwrap();
    assert!(early.bill.compactions == 0 && early.saved > 0.0, "{early:?}");
}

/// Two subagents that older versions write alternately into the session's own file, a copy of each line, and a response
/// without an id.
#[test]
fn inline_subagents_copies_and_lines_without_ids_are_told_apart() {
    let side = |uuid: &str, parent: Option<&str>, n: u64, read: u64| {
        let mut line = answer(n, n, [3, 9_000, read, 9], json!([{"type": "text", "text": "x"}]));
        line["isSidechain"] = true.into();
        line["uuid"] = uuid.into();
        line["parentUuid"] = parent.map_or(Value::Null, Value::from);
        line
    };
    let mut unnamed = answer(9, 9, [3, 500, 30_000, 9], json!([{"type": "text", "text": "y"}]));
    unnamed["message"].as_object_mut().unwrap().remove("id");
    unnamed["requestId"] = "req_9".into();
    let lines = [
        answer(1, 1, [3, 30_000, 0, 9], json!([{"type": "text", "text": "x"}])),
        side("aaaaaaaa-1", None, 2, 0),
        side("bbbbbbbb-1", None, 3, 0),
        side("aaaaaaaa-2", Some("aaaaaaaa-1"), 4, 9_000),
        side("bbbbbbbb-2", Some("bbbbbbbb-1"), 5, 9_000),
        unnamed,
    ];
    let lines: Vec<Value> = lines
        .iter()
        .flat_map(|line| [line.clone(), line.clone()])
        .collect();
    let mut found: Vec<(String, usize)> = read(&lines)
        .iter()
        .map(|one| (one.id.clone(), one.calls.len()))
        .collect();
    found.sort();
    let expected = [("s", 2), ("s/aaaaaaaa", 2), ("s/bbbbbbbb", 2)];
    assert_eq!(found, expected.map(|(id, calls)| (id.to_owned(), calls)));
}

/// Checks that the provider's own rounds are billed, but not part of the context.
#[test]
fn rounds_of_the_provider_are_paid_and_not_context() {
    let mut line = answer(
        1,
        1,
        [3, 1_000, 30_000, 50],
        json!([{"type": "text", "text": "x"}]),
    );
    let round = json!({"input_tokens": 3, "cache_creation_input_tokens": 1_000, "cache_read_input_tokens": 30_000, "output_tokens": 50});
    line["message"]["usage"]["iterations"] = json!([round, round]);
    let one = reckoned(&read(&[line])[0]);
    assert_eq!((one.longest, one.tokens.whole_input()), (31_003, 62_006));
    assert!(one.deviation().unwrap().abs() < 1e-9);
}

#[test]
fn a_session_behind_baton_is_told_apart() {
    let id = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";
    let with = |text: String| {
        read(&[answer(
            1,
            1,
            [3, 30_000, 0, 9],
            json!([{"type": "text", "text": text}]),
        )])
    };
    let behind = with(format!("Done.\n\n[[handoff-resume:{id}]]\n*Handed over.*"));
    assert!(behind[0].behind_baton && !with(format!("It writes `[[handoff-resume:{id}]]`."))[0].behind_baton);
    let all = [
        reckoned(&behind[0]),
        reckoned(&growing(30_000, 1_000, &[1; 10], &[])),
    ];
    let report = report(&all);
    assert_eq!((report.sessions, report.behind_baton, report.calls), (1, 1, 10));
}
