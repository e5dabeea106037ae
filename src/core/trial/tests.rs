//! Sessions whose outcome is known.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::bill::{Arm, PriceTable, TaskEnd, TokenCounts};

const MINUTE: u64 = 60_000;
const MODEL: &str = "claude-opus-5-5";

fn prices() -> PriceTable {
    serde_json::from_value(json!({
        "source": "test", "date": "2026-11-23",
        "provider": [{"id": "anthropic", "model": [{"id": MODEL, "names": [MODEL], "price": [
            {"input": 4.0, "cache_read": 0.2, "cache_write": 5.0, "cache_write_long": 8.0, "output": 20.0}]}]}]
    }))
    .unwrap()
}

/// A line of Claude Code's with an answer.
fn answer(n: u64, minute: u64, counts: [u64; 4], content: Value) -> Value {
    let [input, write, read, output] = counts;
    json!({"type": "assistant", "sessionId": "s", "timestamp": time(minute), "message": {"id": format!("msg_{n}"), "role": "assistant",
        "model": MODEL, "content": content, "usage": {"input_tokens": input, "cache_creation_input_tokens": write,
        "cache_read_input_tokens": read, "output_tokens": output}}})
}

fn said(minute: u64, content: Value) -> Value {
    json!({"type": "user", "sessionId": "s", "timestamp": time(minute), "message": {"role": "user", "content": content}})
}

fn time(minute: u64) -> String {
    crate::text::date::rfc3339_millis(1_795_435_200_000 + minute * MINUTE)
}

fn call(name: &str, input: Value) -> Value {
    json!([{"type": "tool_use", "id": format!("c{name}{}", input.to_string().len()), "name": name, "input": input}])
}

fn read(lines: &[Value]) -> Vec<RecordedSession> {
    let mut reader = TrialReader::new(0, &[]);
    lines.iter().for_each(|line| reader.entry(line));
    reader.into_sessions()
}

/// A session that grows by a step a call, cached by the rules. `pauses`: in minutes, before each call. `ends`: where the user says
/// something behind a finished list.
fn growing(first: u64, step: u64, pauses: &[u64], ends: &[usize]) -> RecordedSession {
    let mut at_ms = 1_795_435_200_000;
    let mut whole = first;
    let mut session = RecordedSession {
        id: "s".to_owned(),
        models: vec![(MODEL.to_owned(), None)],
        ..RecordedSession::default()
    };
    for (n, pause) in pauses.iter().enumerate() {
        at_ms += pause * MINUTE;
        let last = if n == 0 { 0 } else { whole };
        whole += if n == 0 { 0 } else { step };
        let warm = n > 0 && *pause <= 5;
        let cache_read = if warm { last } else { 0 };
        session.calls.push(RecordedCall {
            id: n as u64 + 1,
            at_ms,
            counts: TokenCounts {
                cache_read,
                cache_write: whole - cache_read,
                output: 400,
                ..TokenCounts::default()
            },
            user: n == 0 || ends.contains(&n),
            finished: ends.contains(&n),
            said: 4 * (first / 2),
            ..RecordedCall::default()
        });
    }
    session
}

fn reckoned(session: &RecordedSession) -> Reckoned {
    reckon(session.clone(), &prices(), &ARMS).unwrap()
}

#[test]
fn the_model_without_cuts_is_what_was_paid() {
    for session in [
        growing(30_000, 1_500, &[1; 80], &[]),
        growing(60_000, 2_000, &[1, 1, 90, 1, 4, 30, 1], &[]),
    ] {
        let off = reckoned(&session).deviation().unwrap();
        assert!(off.abs() < 0.001, "{off}");
    }
}

#[test]
fn a_long_session_gains_from_a_handoff_at_its_tasks_end() {
    let session = growing(30_000, 2_000, &[1; 120], &[60]);
    let one = reckoned(&session);
    let handoff = one.arm(Arm::TaskEnds).unwrap();
    assert_eq!(handoff.bill.cuts.len(), 1);
    assert_eq!(handoff.bill.cuts[0].reason, TaskEnd::Todos.name());
    assert!(handoff.saved > 0.1 && handoff.assumed == 1, "{handoff:?}");
    let report = TrialReport::new(&[one]);
    assert_eq!(report.verdict.outcome, Outcome::ForYou);
}

/// A single question behind a finished list: the cut costs its prompt and what is read again, and no call follows.
#[test]
fn a_session_in_which_a_handoff_loses_is_said_to_lose() {
    let session = growing(60_000, 500, &[1; 12], &[11]);
    let one = reckoned(&session);
    let handoff = one.arm(Arm::TaskEnds).unwrap();
    assert!(
        handoff.saved < 0.0 && one.is_changed(Arm::TaskEnds),
        "{handoff:?}"
    );
    let report = TrialReport::new(&[one]);
    let sum = report.arm(Arm::TaskEnds);
    assert_eq!((sum.cheaper, sum.dearer), (0, 1));
    assert!(sum.lost > 0.0 && report.verdict.outcome != Outcome::ForYou);
}

#[test]
fn a_short_session_is_not_for_handoffs() {
    let one = reckoned(&growing(25_000, 800, &[1; 12], &[5, 9]));
    assert!(
        one.arms.iter().all(|arm| arm.bill.cuts.is_empty()),
        "{:?}",
        one.arms
    );
    assert_eq!(TrialReport::new(&[one]).verdict.outcome, Outcome::NotForYou);
}

#[test]
fn what_is_read_again_is_taken_from_the_session() {
    let mut session = growing(30_000, 2_000, &[1; 60], &[30]);
    session.calls[10].files = vec![(7, 3_000), (8, 2_000)];
    session.calls[40].files = vec![(7, 0)];
    // It is read again in the session itself.
    session.calls[50].files = vec![(8, 2_000), (8, 0)];
    let sizes = sizes(&session).unwrap();
    let again = |at: usize| sizes.calls[at].seen.read_again;
    assert_eq!(
        (again(9), again(10), again(39), again(40)),
        (None, Some(3_000), Some(3_000), Some(0))
    );
    let one = reckoned(&session);
    assert_eq!(one.arm(Arm::TaskEnds).unwrap().assumed, 0);
}

#[test]
fn old_results_are_left_out_in_one_arm() {
    let mut session = growing(30_000, 4_000, &[1; 60], &[]);
    session.calls.iter_mut().for_each(|call| call.results = 4 * 3_500);
    let one = reckoned(&session);
    let mask = one.arm(Arm::Mask).unwrap();
    assert!(
        !mask.bill.cuts.is_empty() && mask.bill.tokens.whole_input() < one.tokens.whole_input(),
        "{mask:?}"
    );
}

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
    let sizes = sizes(session).unwrap();
    let ends: Vec<_> = sizes.calls.iter().map(|call| call.seen.task_end).collect();
    assert_eq!(
        ends,
        [None, None, None, Some(TaskEnd::Todos), Some(TaskEnd::Plan)]
    );
}

/// A fork begins with copies of the calls of its parent, under another id.
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
    // What the copied call cost is the parent's.
    let forked = counted.iter().find(|one| one.copied == 1).unwrap();
    let one = reckon(forked.clone(), &prices(), &ARMS).unwrap();
    assert!(
        one.paid.unwrap() < 0.1 && one.calls == forked.calls.len() - 1,
        "{one:?}"
    );
    assert!(one.deviation().unwrap().abs() < 0.01, "{one:?}");
}

#[test]
fn a_recorded_compaction_is_part_of_what_was_paid() {
    let mut session = growing(30_000, 4_000, &[1; 60], &[]);
    for (n, call) in session.calls.iter_mut().enumerate().skip(40) {
        let whole = 40_000 + (n as u64 - 40) * 4_000;
        call.counts.cache_read = if n == 40 { 20_000 } else { whole - 4_000 };
        call.counts.cache_write = whole - call.counts.cache_read;
    }
    session.calls[40].compacted = true;
    let one = reckoned(&session);
    assert_eq!(one.arms[0].bill.compactions, 1);
    assert!(one.deviation().unwrap().abs() < 0.05, "{:?}", one.deviation());
}
