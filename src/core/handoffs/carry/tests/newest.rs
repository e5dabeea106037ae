//! Tests of the newest message as the block quotes it.

use super::said::{behind, said_in};
use super::*;

#[test]
fn an_accepted_plan_is_quoted_as_far_as_there_is_room() {
    let steps: Vec<String> = (0..90)
        .map(|n| format!("- Paint the door of hall {n} in the color of its lamp."))
        .collect();
    let plan = format!(
        "Implement the following plan:\n\n# Halls\n\nThe windows must stay as they are.\n\n{}\n\nIf you need specific details from before \
         exiting plan mode, read it.\n\nUser feedback on this plan: Begin at the gate.",
        steps.join("\n")
    );
    let painted = |tokens: usize| {
        let block = behind(&[user(&plan)], tokens);
        assert_contains(&block, "The windows must stay");
        assert!(crate::handoffs::draft::tokens(&block) <= tokens, "{block}");
        block.matches("Paint the door").count()
    };
    let few = painted(600);
    assert!(few > 10 && painted(2000) > few, "{few}");
    assert_contains(&behind(&[user(&plan)], 2000), "Begin at the gate.");
}

#[test]
fn a_long_message_has_its_typed_lines_and_both_ends_of_the_paste() {
    let lines: Vec<String> = (10..70)
        .map(|n| format!("[12:00:{n}] step {n} of the build has nothing to say in this line"))
        .collect();
    let log = lines.join("\n");
    let block = behind(
        &[user(&format!(
            "please see the log and mend it:\n\n{log}\n[12:01:10] No hall was found.\n\nIt may be the lamp."
        ))],
        2000,
    );
    for part in [
        "please see the log",
        "step 10",
        "No hall was found.",
        "It may be the lamp.",
    ] {
        assert_contains(&block, part);
    }
    assert!(!block.contains("step 40") && block.len() < 2000, "{block}");
    // A line of the request that looks like code.
    let fields = "    field: #Lamp<the lamp is not loaded>,\n".repeat(60);
    let block = behind(
        &[user(&format!(
            "Some halls fail with: key :lamp not found in: %{{\n{fields}\nWhy?"
        ))],
        2000,
    );
    assert_contains(&block, "key :lamp not found");
}

#[test]
fn what_a_draft_quotes_is_not_quoted_again() {
    let halls: Vec<String> = (0..60)
        .map(|n| format!("The door of hall {n} should be painted in its own color."))
        .collect();
    let words = said_in(&[user(&halls.join("\n"))]);
    let block = |quoted: &[String]| {
        let draft = format!("Goal: paint.\n\nIn the user's words:\n- {}", quoted.join("\n  "));
        let carried = carry(&draft, &words, None, all(2000)).prompt;
        carried[draft.len()..].to_owned()
    };
    assert_eq!(block(&halls), "");
    assert_contains(&block(&halls[..40]), "hall 40 ");
    // The request and the question before an answer.
    let messages = [
        user("Which color has the hall?"),
        model("Green. Shall I paint the door as well?"),
        user("yes, tomorrow"),
    ];
    let draft = "Which color has the hall?\nGreen. Shall I paint the door as well?\nyes, tomorrow";
    assert_eq!(carry(draft, &said_in(&messages), None, all(600)).prompt, draft);
}
