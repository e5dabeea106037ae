use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::record::{Amounts, EntryKind, Ledger, LedgerEntry, LoopMark, RecordChange, WireId};
use crate::wire::{Operation, View, wire};

fn view(body: &Value) -> View {
    wire(WireId::Anthropic)
        .read(&body.to_string().into(), Operation::Generate)
        .unwrap()
}

/// A call with its result.
#[derive(Clone)]
enum Step {
    Call(&'static str, Value, String, bool),
    User(&'static str),
}

fn call(name: &'static str, input: Value, result: &str) -> Step {
    Step::Call(name, input, result.to_owned(), false)
}

fn bash(command: &str, result: &str) -> Step {
    let failed = result.starts_with("Exit code");
    Step::Call(
        "Bash",
        json!({"command": command, "description": result}),
        result.to_owned(),
        failed,
    )
}

fn edit(n: u32) -> Step {
    call(
        "Edit",
        json!({"file_path": "/w/a.rs", "old_string": n, "new_string": n + 1}),
        "ok",
    )
}

fn transcript(steps: &[Step]) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "Mend the importer."})];
    for (n, step) in steps.iter().enumerate() {
        match step {
            Step::User(text) => {
                messages.push(json!({"role": "assistant", "content": "So."}));
                messages.push(json!({"role": "user", "content": text}));
            }
            Step::Call(name, input, result, failed) => {
                let id = format!("toolu_{n}");
                messages.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]}));
                messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": result, "is_error": failed}]}));
            }
        }
    }
    json!({"model": "m", "max_tokens": 9, "messages": messages, "tools": [{"name": "Bash", "input_schema": {}}]})
}

fn repeated(steps: &[Step]) -> Option<(RepeatKind, u32)> {
    let found = repeated_call(&view(&transcript(steps)), &[])?;
    Some((found.kind, found.mark.count))
}

fn times(steps: &[Step], count: usize) -> Vec<Step> {
    (0..count).flat_map(|_| steps.to_vec()).collect()
}

#[test]
fn the_third_same_call_with_the_same_result_is_a_repetition() {
    let read = call("Read", json!({"file_path": "/w/a.rs"}), "fn main() {}");
    for (count, found) in [
        (2, None),
        (3, Some((RepeatKind::Same, 3))),
        (4, Some((RepeatKind::Same, 4))),
    ] {
        assert_eq!(repeated(&times(std::slice::from_ref(&read), count)), found);
    }
    let test = |seconds: &str| {
        bash(
            "cargo test",
            &format!("Exit code 101\ntest a ... FAILED in {seconds}s"),
        )
    };
    let loops = [test("0.02"), test("1.30"), test("0.11")];
    assert_eq!(repeated(&loops), Some((RepeatKind::Same, 3)), "durations differ");
    let fewer = |left: u32| bash("cargo test", &format!("Exit code 101\n{left} failed"));
    assert_eq!(repeated(&[fewer(3), fewer(2), fewer(1)]), None, "progress");
    let oscillating = times(&[read.clone(), bash("ls", "a")], 3);
    assert_eq!(repeated(&oscillating), Some((RepeatKind::Same, 3)));
}

#[test]
fn a_change_of_files_or_a_word_of_the_user_sets_it_back() {
    let test = bash("cargo test", "Exit code 101\ntest a ... FAILED");
    for between in [
        edit(1),
        bash("python3 mend.py", "ok"),
        bash("sed -i s/a/b/ x", ""),
        Step::User("Once more."),
    ] {
        let steps = [test.clone(), test.clone(), between, test.clone(), test.clone()];
        assert_eq!(repeated(&steps), None);
    }
    let failed = Step::Call(
        "Edit",
        json!({"file_path": "/w/a.rs", "old_string": "a"}),
        "String not found".into(),
        true,
    );
    let found = repeated(&times(&[failed], 3));
    assert_eq!(
        found,
        Some((RepeatKind::Same, 3)),
        "an edit that fails changes nothing"
    );
}

#[test]
fn the_fifth_failure_of_a_command_is_a_repetition_whatever_it_prints() {
    let run = |n: u32| bash("./check.sh", &format!("Exit code 1\nfailure {n}"));
    let failing: Vec<Step> = (0..5).map(run).collect();
    assert_eq!(repeated(&failing[..4]), None);
    assert_eq!(repeated(&failing), Some((RepeatKind::Failing, 5)));
    let mended = [&failing[..3], &[edit(1)], &failing[3..]].concat();
    assert_eq!(repeated(&mended), None);
}

#[test]
fn reviews_without_a_change_between_are_repetitions() {
    let review = |n: u32| {
        call(
            "Task",
            json!({"prompt": "Review the diff.", "description": n}),
            &format!("{n} findings"),
        )
    };
    assert_eq!(
        repeated(&[review(1), review(2), review(3)]),
        Some((RepeatKind::Review, 3))
    );
    let rounds = [review(1), edit(1), review(2), edit(2), review(3)];
    assert_eq!(repeated(&rounds), None, "each round has a change");
    let others = [
        review(1),
        call("Task", json!({"prompt": "Mend them."}), "ok"),
        review(2),
        review(3),
    ];
    assert_eq!(repeated(&others), None, "another agent may have changed files");
}

#[test]
fn the_same_change_again_is_a_repetition() {
    let back = call(
        "Edit",
        json!({"file_path": "/w/a.rs", "old_string": 2, "new_string": 1}),
        "ok",
    );
    let steps = times(&[edit(1), bash("cargo test", "Exit code 101\nFAILED"), back], 3);
    assert_eq!(repeated(&steps), Some((RepeatKind::Change, 3)));
    assert_eq!(repeated(&[edit(1), edit(2), edit(3), edit(4)]), None);
}

#[test]
fn waiting_and_acting_are_no_repetitions() {
    for step in [
        bash("sleep 30 && gh pr checks", "Exit code 8\npending"),
        call("BashOutput", json!({"bash_id": "1"}), "no new output"),
        call("write_stdin", json!({"session_id": 1, "chars": ""}), ""),
        call("browser_press_key", json!({"key": "Down"}), "ok"),
        call("TodoWrite", json!({"todos": []}), "ok"),
        bash("curl -s localhost/next", "ok"),
    ] {
        assert_eq!(repeated(&times(std::slice::from_ref(&step), 9)), None);
    }
    let parallel = json!([1, 2, 3].map(
        |n| json!({"type": "tool_use", "id": format!("t{n}"), "name": "Task", "input": {"prompt": "Vote."}})
    ));
    let results = json!(
        [1, 2, 3].map(|n| json!({"type": "tool_result", "tool_use_id": format!("t{n}"), "content": "yes"}))
    );
    let body = json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "Go."}, {"role": "assistant", "content": parallel}, {"role": "user", "content": results}]});
    assert_eq!(
        repeated_call(&view(&body), &[]),
        None,
        "calls of one turn are made at once"
    );
}

#[test]
fn only_results_without_a_word_of_the_user_continue_the_agents_work() {
    let works = |body: &Value| continues_own_work(&view(body), &[]);
    assert!(works(&transcript(&[bash("ls", "a")])));
    assert!(!works(&transcript(&[])));
    assert!(!works(&transcript(&[bash("ls", "a"), Step::User("And now?")])));
    let mut queued = transcript(&[bash("ls", "a")]);
    let last = queued["messages"].as_array_mut().unwrap().last_mut().unwrap();
    let content = last["content"].as_array_mut().unwrap();
    content.push(json!({"type": "text", "text": "<system-reminder>x</system-reminder>"}));
    assert!(works(&queued), "a reminder is the agent's");
    let last = queued["messages"].as_array_mut().unwrap().last_mut().unwrap();
    last["content"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "text", "text": "Stop that."}));
    assert!(!works(&queued), "the user typed meanwhile");
}

fn entry(n: u128, at_ms: u64, kind: EntryKind) -> RecordChange {
    let id = Uuid::from_u128(n);
    RecordChange::Ledger(LedgerEntry { id, at_ms, kind })
}

fn spent(n: u128, microdollars: u64) -> RecordChange {
    let amounts = Amounts {
        microdollars,
        tokens: 10 * microdollars,
        calls: 1,
        millis: 0,
    };
    entry(
        n,
        n as u64,
        EntryKind::Spent {
            amounts,
            unpriced: 0,
            request: None,
        },
    )
}

fn ledger(changes: &[RecordChange]) -> Ledger {
    let mut record = crate::record::Conversation::default();
    for change in changes {
        change.apply(&mut record);
    }
    record.ledger.map(|ledger| *ledger).unwrap_or_default()
}

/// Entries in any order, each any number of times, give the same sums.
#[test]
fn a_ledger_counts_each_entry_once_in_any_order() {
    let entries: Vec<RecordChange> = (1..=40).map(|n| spent(n, n as u64)).collect();
    let expected = ledger(&entries).spent;
    assert_eq!((expected.microdollars, expected.calls), (820, 40));
    let mut seed = 7_u64;
    for _ in 0..50 {
        let mut mixed = entries.clone();
        for at in (1..mixed.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            mixed.swap(at, (seed >> 33) as usize % (at + 1));
        }
        let twice: Vec<RecordChange> = mixed.chunks(8).flat_map(|some| [some, some].concat()).collect();
        let got = ledger(&twice).spent;
        assert_eq!(
            Amounts { millis: 0, ..got },
            Amounts {
                millis: 0,
                ..expected
            }
        );
    }
}

#[test]
fn only_the_agents_own_time_counts() {
    let began = |n, at, continues| entry(n, at, EntryKind::Began { continues });
    let ended = |n, at| {
        entry(
            n,
            at,
            EntryKind::Spent {
                amounts: Amounts::default(),
                unpriced: 0,
                request: None,
            },
        )
    };
    let all = [
        began(1, 1_000, false),
        ended(2, 3_000),
        began(3, 8_000, true),
        ended(4, 9_000),
        began(5, 90_000, false),
    ];
    assert_eq!(
        ledger(&all).spent.millis,
        8_000,
        "the user's pause is not the agent's"
    );
}

const LIMITS: Amounts = Amounts {
    microdollars: 100,
    tokens: 0,
    calls: 0,
    millis: 0,
};

fn decided(ledger: &Ledger, continues: bool, repeat: Option<RepeatedCall>) -> &'static str {
    let accounts = [Account {
        kind: AccountKind::Session,
        limits: LIMITS,
        ledger,
    }];
    let decision = decide(&BrakeInput {
        accounts: &accounts,
        continues,
        repeat,
        request: 1,
    });
    match decision {
        BrakeDecision::Pass => "pass",
        BrakeDecision::TellModel(_) => "model",
        BrakeDecision::TellUser(_) => "user",
        BrakeDecision::End(_) => "end",
    }
}

#[test]
fn the_model_is_told_once_then_the_agent_is_stopped_and_the_user_never() {
    let at = |microdollars| ledger(&[spent(1, microdollars)]);
    for (spent, own, users) in [
        (79, "pass", "pass"),
        (80, "model", "model"),
        (99, "model", "model"),
        (100, "end", "user"),
    ] {
        assert_eq!(
            (decided(&at(spent), true, None), decided(&at(spent), false, None)),
            (own, users),
            "{spent}"
        );
    }
    let told = [spent(1, 80), entry(2, 2, EntryKind::Told)];
    assert_eq!(decided(&ledger(&told), true, None), "pass");
    let granted = entry(4, 4, EntryKind::Granted(LIMITS));
    let more = [&told[..], &[spent(3, 20), granted]].concat();
    assert_eq!(decided(&ledger(&more), true, None), "pass");
    let again = [&more[..], &[spent(5, 60)]].concat();
    assert_eq!(
        decided(&ledger(&again), true, None),
        "model",
        "of the next limit it is told anew"
    );
    let halted = ledger(&[entry(1, 1, EntryKind::Halted)]);
    assert_eq!(
        (decided(&halted, true, None), decided(&halted, false, None)),
        ("end", "user")
    );
}

#[test]
fn a_loop_that_the_user_lets_pass_is_counted_from_there() {
    let repeat = |count| {
        Some(RepeatedCall {
            kind: RepeatKind::Same,
            mark: LoopMark { key: 9, count },
            call: "ls".to_owned(),
        })
    };
    let none = Ledger::default();
    let steps = [3, 4, 5].map(|count| decided(&none, true, repeat(count)));
    assert_eq!(steps, ["model", "end", "end"]);
    assert_eq!(decided(&none, false, repeat(4)), "pass", "the user has spoken");
    let mark = LoopMark { key: 9, count: 4 };
    let passed = ledger(&[
        entry(1, 1, EntryKind::StoppedAt(mark)),
        entry(2, 2, EntryKind::Granted(Amounts::default())),
    ]);
    let steps = [4, 5, 6, 7, 8].map(|count| decided(&passed, true, repeat(count)));
    assert_eq!(steps, ["pass", "pass", "pass", "model", "end"]);
}

#[test]
fn the_same_request_after_complete_answers_is_stopped() {
    let answered = |n| {
        entry(
            n,
            1,
            EntryKind::Spent {
                amounts: Amounts::default(),
                unpriced: 0,
                request: Some(1),
            },
        )
    };
    let ledgers = [4, 5].map(|count| ledger(&(1..=count).map(answered).collect::<Vec<_>>()));
    assert_eq!(
        ledgers.map(|ledger| decided(&ledger, true, None)),
        ["pass", "end"]
    );
}

#[test]
fn a_grant_is_enough_for_the_next_request() {
    let overshot = ledger(&[spent(1, 1_700)]);
    let account = Account {
        kind: AccountKind::Session,
        limits: LIMITS,
        ledger: &overshot,
    };
    assert_eq!(account.grant(None).microdollars, 100 + 1_600);
    assert_eq!(account.grant(Some(10)).microdollars, 10 + 1_600);
    let grant = entry(2, 2, EntryKind::Granted(account.grant(Some(10))));
    assert_eq!(decided(&ledger(&[spent(1, 1_700), grant]), true, None), "model");
}

#[test]
fn a_budget_is_a_plain_number_of_dollars() {
    for (text, expected) in [
        ("5", Some(5_000_000)),
        ("$2.50", Some(2_500_000)),
        ("0.01", Some(10_000)),
        ("1000000", Some(1_000_000_000_000)),
    ] {
        assert_eq!(parse_dollars(text).ok(), expected);
    }
    for text in [
        "0", "-1", "1e99", "1e3", "5 EUR", "€5", "", "NaN", "inf", "1000001", "0.001", "5,00", ".",
    ] {
        assert!(parse_dollars(text).is_err(), "{text}");
    }
}

#[test]
fn a_request_lowers_a_budget_and_raises_it_only_if_it_may() {
    let policy = |may_raise| BrakePolicy {
        session: LIMITS,
        may_raise,
        ..BrakePolicy::default()
    };
    let limit = |policy: BrakePolicy, declared| policy.declaring(declared).session.microdollars;
    assert_eq!(
        [Some(50), Some(500), None].map(|d| limit(policy(false), d)),
        [50, 100, 100]
    );
    assert_eq!(
        [Some(50), Some(500), None].map(|d| limit(policy(true), d)),
        [50, 500, 100]
    );
    assert_eq!(limit(BrakePolicy::default(), Some(7)), 7);
    assert!(BrakePolicy::default().is_off() && !policy(true).is_off());
}

#[test]
fn an_end_says_what_was_spent_and_how_to_go_on() {
    let used = ledger(&[spent(1, 5_030_000)]);
    let limits = Amounts {
        microdollars: 5_000_000,
        ..Amounts::default()
    };
    let accounts = [Account {
        kind: AccountKind::Session,
        limits,
        ledger: &used,
    }];
    let reason = BrakeReason::Budget(accounts[0].clone(), BudgetUnit::Dollars);
    let end = EndText {
        prefix: "::",
        is_subagent: false,
        may_go_on: true,
        seen: None,
    };
    let text = ends(&reason, &accounts, &end);
    for part in [
        "used up ($5.03 of $5.00)",
        "Spent: $5.03, 50.3 M tokens, 1 model call.",
        "`::go` continues with as much again",
        "`::go 10`",
        "`::stop`",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let sub = ends(
        &reason,
        &accounts,
        &EndText {
            is_subagent: true,
            ..end
        },
    );
    assert!(
        sub.contains("Report to your caller") && !sub.contains("::go"),
        "{sub}"
    );
    let silent = ends(&reason, &accounts, &EndText { prefix: "", ..end });
    assert!(!silent.contains("go`"), "{silent}");
    assert!(model_notice(&reason, true, None).starts_with("<budget-notice>"));
}
