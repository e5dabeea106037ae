//! Long conversations, long messages and long sentences.

use super::said::{SAID, behind};
use super::*;

#[test]
fn a_pasted_text_leaves_the_other_texts_of_its_message_alone() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let log = "2026-01-02 03:04:05,678 | INFO | step=1\n2026-01-02 03:04:06,678 | INFO | step=2";
    let rule = "Give me commands with uv, not with pip, from now on.";
    let message = json!({"role": "user", "content": [text(log), text(rule), text(log), text("Go on with the next run.")]});
    let messages = [
        user("Run it."),
        model("Done."),
        message,
        model("Done."),
        user("Now plot it."),
    ];
    let block = behind(&messages, 1200);
    assert!(block.contains(rule) && !block.contains("step="), "{block}");
}

#[test]
fn a_statement_of_long_ago_is_worth_more_than_the_noise_since() {
    let statement =
        "I want to be independent of the database in every module of the business logic, for all clients.";
    let mut messages = vec![user(statement), model("So be it.")];
    for n in 0..400 {
        messages.extend([
            user(&format!("The window number {n} was white again.")),
            model("I see."),
        ]);
    }
    messages.push(user("Open the door."));
    assert!(behind(&messages, 1200).contains(statement));
}

#[test]
fn a_long_sentence_is_carried_with_its_end() {
    let parts: Vec<String> = (0..24).map(|n| format!("hall {n} gets a lamp")).collect();
    let sentence = format!(
        "The plan for the house is that {}, and every lamp is brass",
        parts.join(", ")
    );
    assert!(sentence.len() > 450, "{}", sentence.len());
    let messages = [user(&sentence), model("So be it."), user("Open the door.")];
    let block = behind(&messages, 1200);
    assert!(block.contains(SAID) || block.contains("rules"), "{block}");
    assert!(block.contains("every lamp is brass"), "{block}");
}
