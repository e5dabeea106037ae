//! Repeated calls, and requests that continue the agent's own work.

mod budgets;

use serde_json::{Value, json};

use super::*;
use crate::record::WireId;
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
    let found = repeated_call(&view(&transcript(steps)), &[], 0)?;
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
fn calls_before_a_cut_do_not_count() {
    let read = call("Read", json!({"file_path": "/w/a.rs"}), "fn main() {}");
    let all = view(&transcript(&times(&[read], 5)));
    let count = |from| repeated_call(&all, &[], from).map(|found| found.mark.count);
    assert_eq!([0, 3, 5, 7].map(count), [Some(5), Some(4), Some(3), None]);
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
        repeated_call(&view(&body), &[], 0),
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

#[test]
fn a_session_without_a_name_is_known_after_it_was_resumed() {
    let named = |reminders: &[&str], words: &str| {
        let reminders = reminders.iter().map(
            |text| json!({"type": "text", "text": format!("<system-reminder>\n{text}\n</system-reminder>")}),
        );
        let content: Vec<Value> = reminders
            .chain([json!({"type": "text", "text": words})])
            .collect();
        let body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}]});
        opening(&view(&body), &[])
    };
    let first = named(&["The skills.", "The date."], "Mend the importer.");
    assert!(first.is_some());
    assert_eq!(named(&["The skills."], "Mend the importer."), first);
    assert_ne!(named(&["The skills."], "Mend the exporter."), first);
    assert_eq!(named(&["The skills."], ""), None);
}
