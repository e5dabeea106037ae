//! The user's words from before an earlier handoff.

use super::said::said_since;
use super::*;

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
