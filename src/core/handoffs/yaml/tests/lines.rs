use super::super::time::Time;
use super::super::{GoalAndNow, goal_and_now, ledger_entry, value_of};
use super::full;
use crate::text::testing::assert_contains;

#[test]
fn both_values_are_read_in_every_style() {
    for (text, goal, now) in [
        ("goal: a b\nnow: c\n", "a b", "c"),
        ("x: 1\ngoal: 'it''s: x'  # why\nnow: \"a\\tb\"", "it's: x", "a\tb"),
        (
            "goal: >-\n    one\n    two\nnow: |\n    a\n\n    b\ntest: x\n",
            "one two",
            "a\n\nb",
        ),
        ("goal: \"one\n  two\"\nnow: one\n  two\n", "one two", "one two"),
        ("\"goal\": a\n'now' : b\n", "a", "b"),
        ("{goal: a, now: b}", "a", "b"),
        ("{\n\"goal\": \"a\",\n\"now\": \"b\"}", "a", "b"),
        ("test: |\n  goal: wrong\n  now: wrong\ngoal: a\nnow: b", "a", "b"),
        ("goals: x\nnow: b\ngoal: a", "a", "b"),
        ("goal:\nnow: ~\n", "", ""),
        ("goal: a\r\nnow: b\r\n", "a", "b"),
        ("---\ngoal: a\nnow: b", "a", "b"),
        ("goal: \"open\nnow: b\n", "", "b"),
        ("goal: [a]\nnow: {b: c}\n", "", ""),
        ("", "", ""),
    ] {
        let read = goal_and_now(text);
        assert_eq!((read.goal.as_str(), read.now.as_str()), (goal, now), "{text:?}");
    }
    assert_eq!(value_of("goal: a\nstatus: blocked\n", "status"), "blocked");
}

#[test]
fn the_two_keys_read_as_in_the_whole_file() {
    let file = full();
    let read = goal_and_now(&file.to_yaml());
    assert_eq!((read.goal, read.now), (file.goal, file.now));
}

#[test]
fn the_line_is_one_line_and_each_value_is_cut_at_a_character() {
    let read = GoalAndNow {
        goal: format!("x\n{}", "ü".repeat(200)),
        now: "run\tit".to_owned(),
    };
    let line = read.line();
    let (goal, now) = line.split_once(" | ").unwrap();
    assert!(
        goal.starts_with("Last: x ü") && goal.len() <= "Last: ".len() + 240,
        "{goal}"
    );
    assert_eq!(now, "Now: run it");
    assert_eq!(GoalAndNow::default().line(), "");
    let only_now = GoalAndNow {
        now: "b".to_owned(),
        ..GoalAndNow::default()
    };
    assert_eq!(only_now.line(), "Now: b");
}

#[test]
fn the_ledger_has_one_line_for_each_handoff() {
    let mut file = full();
    file.goal = format!("a\n  b {}", "x".repeat(300));
    file.next = (1..=7).map(|n| format!("step {n}")).collect();
    let at = Time::parse("2026-11-22T18:05:48Z").unwrap();
    let entry = ledger_entry(&file, "f.yaml", false, at);
    let lines: Vec<_> = entry.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "## 2026-11-22T18:05:48Z (manual)",
            "- file: f.yaml",
            "- status: partial",
            "- outcome: PARTIAL_PLUS"
        ]
    );
    assert!(
        lines[4].starts_with("- goal: a b xxx") && lines[4].ends_with("..."),
        "{entry}"
    );
    assert_eq!(lines[4].len(), "- goal: ".len() + 200);
    assert_contains(&entry, "- next: step 1, step 2, step 3, step 4, step 5 +2 more\n");
    assert!(ledger_entry(&file, "f.yaml", true, at).contains("(auto)"));
}
