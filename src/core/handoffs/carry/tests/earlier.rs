//! The user's words from before an earlier handoff.

use super::said::{said_after, said_since};
use super::*;
use crate::record::Handoff;

/// The block of a second handoff: one before it followed these messages.
fn second(texts: &[&str]) -> String {
    let mut messages: Vec<Value> = texts
        .iter()
        .flat_map(|text| [user(text), model("So be it.")])
        .collect();
    messages.extend([user("Now paint the hall."), model("It is painted.")]);
    let cut = messages.len() - 1;
    messages.push(user("Now paint the doors."));
    carry("Goal: doors.", &said_since(&messages, Some(cut)), None, all(2000)).prompt
}

#[test]
fn a_statement_from_before_the_last_cut_is_carried_and_a_request_is_not() {
    for held in [
        "The lamps hang from wires.",
        "lamps go into `attic/`",
        "Ask me before you move the lamps.",
        "Check with me before moving the lamps.",
        "Leave the lamps alone.",
        "Hands off the lamps.",
        "pls dont touch the lamps",
        "let me review it before you move the lamps",
        "Frag mich, bevor du die Lampen abhängst.",
        "Demande-moi avant de bouger les lampes.",
        "Wir bleiben bei Lampe 3.9.",
        "lampu se nedotýkej",
    ] {
        let block = second(&[held, "Fix the stairs."]);
        assert_contains(&block, held.trim_end_matches('.'));
        assert!(!block.contains("stairs"), "{block}");
    }
}

#[test]
fn earlier_statements_fill_a_part_of_the_budget() {
    let texts: Vec<String> = (0..300)
        .map(|n| format!("Hall {n} has a printer of its own, and its doors are green."))
        .collect();
    let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
    let block = second(&texts);
    let halls = block.matches("has a printer").count();
    assert!((10..40).contains(&halls), "{halls}");
}

#[test]
fn a_correction_is_carried_as_long_as_the_rule_that_it_corrects() {
    for (rule, correction) in [
        ("Always use tabs.", "Scratch that, blanks."),
        (
            "Use Lamp 1.22, not Lamp 1.23.",
            "Actually go with Lamp 1.23 after all.",
        ),
        ("Never sell the blue lamps.", "ok you can sell some lamps now"),
    ] {
        let block = second(&[rule, correction]);
        assert_contains(&block, correction.trim_end_matches('.'));
    }
    let block = second(&[
        "Use Lamp 1.22, not Lamp 1.23.",
        "Actually go with Lamp 1.23 after all.",
    ]);
    assert_contains(&block, "not Lamp 1.23. [replaced by a later word");
    let block = second(&["Always use tabs.", "Scratch that, blanks."]);
    assert_contains(
        &block,
        "\n- Scratch that, blanks.\n- Always use tabs. [replaced by a later word where the two conflict]\n",
    );
}

#[test]
fn a_rule_ends_with_the_permission_of_what_it_forbids() {
    for (rule, permission) in [
        ("Never push to the attic.", "ok you can push to the attic now"),
        ("Never push to the attic.", "You may now push to the attic."),
        (
            "Keep the old lamp.",
            "Forget what I said about the old lamp, remove it.",
        ),
    ] {
        let block = second(&[rule, permission]);
        assert!(!block.contains(rule), "{block}");
    }
    let block = second(&["Never push to the attic.", "you can see the attic from here now"]);
    assert_contains(&block, "Never push to the attic.");
}

/// The block of a handoff after these messages, of which an earlier handoff has those before.
fn behind_after(messages: &[Value], earlier: &EarlierWords) -> String {
    carry("Goal: more.", &said_after(messages, earlier), None, all(2000)).prompt
}

/// The record of a handoff that was made after these messages, and after another one.
fn handed_over(texts: &[&str], prompt: &str, earlier: &EarlierWords) -> EarlierWords {
    let messages: Vec<Value> = texts
        .iter()
        .flat_map(|text| [user(text), model("So be it.")])
        .collect();
    let carried = carry(prompt, &said_after(&messages, earlier), None, all(2000));
    let handoff = Handoff {
        prompt: carried.prompt,
        carried: carried.items,
        ..Handoff::default()
    };
    EarlierWords::of_handoff(&handoff)
}

#[test]
fn a_statement_follows_a_handoff_whose_history_is_gone() {
    let first = handed_over(
        &[
            "The lamps hang from wires.",
            "Fix the stairs. Hands off the lamps.",
        ],
        "Goal: stairs.",
        &EarlierWords::default(),
    );
    // Resumed twice, each time in a session of its own.
    let second = handed_over(&["Go on."], "Goal: the second half.", &first);
    let block = behind_after(&[user("Go on.")], &second);
    assert_contains(&block, "\n- Fix the stairs. Hands off the lamps.\n  Go on.\n");
    assert_contains(&block, "- The lamps hang from wires.");
    assert_eq!(block.matches("Go on.").count(), 1, "{block}");
    // Another request ends the first one, and not the statements.
    let block = behind_after(&[user("Now paint the doors.")], &second);
    assert_contains(&block, "- Hands off the lamps.");
    assert_contains(&block, "- The lamps hang from wires.");
    assert!(!block.contains("stairs"), "{block}");
    // What the history still has is listed once.
    let messages = [user("The lamps hang from wires."), user("Now paint the doors.")];
    let block = behind_after(&messages, &second);
    assert_eq!(block.matches("from wires").count(), 1, "{block}");
}

#[test]
fn a_request_that_the_prompt_reports_as_done_is_not_carried_on() {
    let done = "All tasks are done. Nothing is left to do.";
    let first = handed_over(&["Fix the stairs."], done, &EarlierWords::default());
    assert!(!behind_after(&[user("Go on.")], &first).contains("stairs"));
    let open = handed_over(&["Fix the stairs."], "Goal: stairs.", &EarlierWords::default());
    assert_contains(&behind_after(&[model("I begin.")], &open), "- Fix the stairs.");
}
