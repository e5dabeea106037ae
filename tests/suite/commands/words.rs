//! The words of commands: what is one, what it answers, and that neither it nor its answer reaches the model.

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json as value};

use super::opened;
use crate::harness::memory;
use crate::harness::texts::{assert_begins, assert_contains};
use crate::matrix::fixture::{Fixture, thought};
use crate::matrix::talk::{Talk, WORKED};
use crate::matrix::variants::{self, Variant, on_every_wire};

on_every_wire!(answered_and_taken_out reported_sizes unknown_words first_of_all glued_and_trimmed other_prefix switched_off tool_results;);

async fn answered_and_taken_out(variant: Variant) {
    let mut talk = Talk::worked(variant).await;
    let sent = talk.elements();
    for (asked, said) in [
        ("::handoff status", "the model sees the whole history"),
        ("::handoff help", "::unpin N"),
        ("::help", "::unpin N"),
        ("::pins", "nothing is pinned"),
        ("::unpin 99", "`::pin TEXT` includes TEXT"),
        ("::pin Never touch the schema.", "pinned as number 1"),
        ("  ::pin Never touch the schema.\n", "pinned already, as number 1"),
        ("::pin", "write `::pin TEXT`"),
        ("::pins", "   1. Never touch the schema."),
        ("::unpin 2", "its number is 1"),
        ("::unpin x", "its number is 1"),
        ("::unpin 1", "no longer pinned"),
        ("::unpin 1", "nothing is pinned, so nothing was changed"),
        ("::handoff undo", "nothing to undo"),
        (
            "::handoff undo 0199a3c2",
            "no handoff of this transcript has that id",
        ),
    ] {
        assert_contains(&talk.command(asked).await, said);
    }
    talk.says("More.", thought("Second.")).await;
    assert_eq!(talk.elements()[..sent.len()], sent, "the prefix stays");
    assert_eq!(talk.sent(), [&WORKED[..], &["u: More."]].concat());
    let sent = talk.elements();
    // Once more after it, and a request after that.
    talk.command("::handoff status").await;
    talk.says("Third.", thought("So.")).await;
    assert_eq!(talk.elements()[..sent.len()], sent);
    talk.assert_clean();
}

/// Agents read a response's usage as their context size and compact by it. No answer from baton reports more
/// than the model's view.
async fn reported_sizes(variant: Variant) {
    const FINISHED: usize = 40_000;
    let mut talk = opened(variant).await;
    talk.history.push(talk.user("Go on."));
    talk.hands_over(&"Old. ".repeat(FINISHED / 5)).await;
    for (asked, stream) in [
        ("::handoff status", true),
        ("::handoff status", false),
        ("::pin Never touch the schema.", true),
        ("::handoff --method local --force --no-git the reader", true),
        ("::handoff --method local --force --no-git the writer", false),
        ("::help", true),
    ] {
        talk.stream = stream;
        let answer = talk.asks(asked).await;
        assert_begins(&answer.text, "baton: ");
        assert!(
            (1..FINISHED as u64 / 8).contains(&answer.input),
            "{asked}: {} tokens",
            answer.input
        );
    }
    let text = talk.command("::handoff status").await;
    assert_contains(&text, "Conversation: ");
    assert_contains(&text, "always sent.");
}

async fn unknown_words(variant: Variant) {
    let mut talk = opened(variant).await;
    for asked in ["::hadnoff", "::pni x"] {
        talk.history.truncate(2);
        let text = talk.command(asked).await;
        assert_contains(&text, "there is no command `::");
        assert_contains(&text, "Did you mean `::");
        assert_eq!(text.lines().count(), 3, "{text}");
        talk.says("More.", "So.").await;
        assert_eq!(talk.sent()[2..], ["u: More."]);
    }
    for asked in ["::std::vector is slow.", "Why is ::pin one?", ":pin x"] {
        talk.history.truncate(2);
        talk.says(asked, "So.").await;
        assert_eq!(talk.sent()[2], format!("u: {asked}"));
    }
    talk.assert_clean();
}

/// A session that begins with a command.
async fn first_of_all(variant: Variant) {
    let mut talk = Talk::new(Fixture::new(variant, []).await);
    talk.command("::pin Be brief.").await;
    assert_contains(&talk.command("::pins").await, "1. Be brief.");
    talk.says("Mend it.", thought("So.")).await;
    assert_eq!(talk.sent(), ["u: Mend it."]);
    talk.assert_clean();
}

/// Agents trim the text that they keep, and some join adjacent text.
async fn glued_and_trimmed(variant: Variant) {
    let mut talk = opened(variant).await;
    let text = talk.command("::handoff status").await;
    for (kept, left) in [
        (text.trim_end().to_owned(), None),
        (format!("{text}\n"), None),
        (format!("\n\n  {text}  "), None),
        (
            format!("{text}\n\nAnd this is the model's."),
            Some("a: And this is the model's."),
        ),
        (format!("The model's own.\n\n{text}"), Some("a: The model's own.")),
    ] {
        talk.history.truncate(2);
        let asked = [
            talk.user("Go on."),
            talk.user("::handoff status"),
            (variant.message)("assistant", &kept),
        ];
        talk.history.extend(asked);
        talk.says("More.", "So.").await;
        match left {
            None => assert_eq!(talk.sent()[2..], ["u: Go on.More."], "{kept:?}"),
            Some(left) => assert_eq!(talk.sent()[2..], ["u: Go on.", left, "u: More."], "{kept:?}"),
        }
    }
    talk.assert_clean();
}

async fn other_prefix(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), |config| {
        config.commands.prefix = "!!".to_owned()
    });
    let mut talk = Talk::opened(stage.await);
    assert_contains(&talk.command("!!handoff help").await, "!!unpin N");
    talk.says("!pin x", "So.").await;
    assert_eq!(talk.sent()[2..], ["u: !pin x"]);
    talk.assert_clean();
}

/// If commands are disabled, nothing is a command, but earlier answers stay out of the model's view.
async fn switched_off(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), |config| config.commands.prefix.clear());
    let mut talk = Talk::opened(stage.await);
    talk.says("::pins", "So.").await;
    assert_eq!(talk.sent()[2], "u: ::pins");
    talk.history.truncate(2);
    let note = "baton: nothing is pinned.\n\n[[handoff-note:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]";
    let noted = [
        talk.user("Go on."),
        talk.user("::pins"),
        (variant.message)("assistant", note),
    ];
    talk.history.extend(noted);
    talk.says("More.", "So.").await;
    assert_eq!(talk.sent()[2..], ["u: Go on.More."]);
    assert_eq!(talk.script.left(), 0);
}

/// The prefix in a tool result, and in a file after the user's own words, is plain text.
async fn tool_results(variant: Variant) {
    let mut talk = Talk::worked(variant).await;
    talk.history.push(talk.user("Read."));
    let reads = thought("Reading.").call("read_file", value!({"path": "a"}));
    talk.runs(reads, "::pin x\n::handoff undo").await;
    talk.push(thought("Read."));
    assert_eq!(talk.goes_on().await.text, "Read.");
    talk.command("::pins").await;
    talk.says("And so:\n::pin x", thought("So.")).await;
    assert_eq!(talk.sent().last().unwrap(), "u: And so:\n::pin x");
    talk.assert_clean();
}

/// Text that the agent's harness puts before the user's words is not part of a command, and stays.
#[tokio::test]
async fn a_reminder_in_front_of_a_command_stays() {
    let mut talk = Talk::new(Fixture::new(variants::ANTHROPIC, []).await);
    let block = |text: &str| value!({"type": "text", "text": text});
    let reminder = "<system-reminder>\nCLAUDE.md says so.\n</system-reminder>";
    talk.history = vec![value!({"role": "user", "content": [block(reminder), block("::pin Be brief.")]})];
    talk.goes_on().await;
    assert_eq!(talk.provider.requests().len(), 0);
    talk.says("Mend it.", thought("So.")).await;
    assert_eq!(talk.sent(), [format!("u: {reminder}Mend it.")]);
    talk.assert_clean();
}

/// A request for a title has the session's id and messages, but no tools; one that classifies the user's
/// words asks for JSON. Commands quoted in them are neither executed nor forwarded.
#[tokio::test]
async fn a_request_beside_the_session_does_nothing() {
    let mut talk = opened(variants::CHAT).await;
    talk.variant = talk.variant.in_session("one");
    talk.says("Go on.", "First.").await;
    let alone = vec![talk.user("::pin Be brief.")];
    let title = vec![value!({"role": "user", "content": [
        {"type": "text", "text": "A title for this:"}, {"type": "text", "text": "::pin Be brief."}]})];
    let named = vec![talk.user("Name this task in a few words.\n\nUser prompt:\n::pin Be brief.")];
    // Codex 0.169 lists its tools in the last one.
    for (messages, in_json, has_tools) in [
        (&alone, false, false),
        (&title, false, false),
        (&title, true, false),
        (&named, true, false),
        (&named, true, true),
    ] {
        let mut body = (variants::CHAT.body)(messages, false);
        let all = body.as_object_mut().unwrap();
        if !has_tools {
            all.remove("tools");
        }
        if in_json {
            all.insert("response_format".to_owned(), value!({"type": "json_object"}));
        }
        talk.push(Reply::text("A title."));
        let body = body.to_string().into();
        let reply = talk
            .baton
            .post("/v1/chat/completions", talk.variant.headers, body)
            .await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let sent = talk.sent();
        assert!(sent.last().unwrap().ends_with("(a command)"), "{sent:?}");
    }
    assert_contains(&talk.command("::pins").await, "nothing is pinned");
    talk.assert_clean();
}

/// Upstream stores the transcript, so the request after a command continues from the response before it.
#[tokio::test]
async fn a_transcript_that_the_provider_holds_goes_on_behind_a_command() {
    let stage = Fixture::new(variants::RESPONSES, [Reply::text("One.")]).await;
    let send = async |input: Value, previous: &Value| {
        let mut body = (variants::RESPONSES.body)(&[], false);
        (body["input"], body["store"]) = (input, value!(true));
        if !previous.is_null() {
            body["previous_response_id"] = previous.clone();
        }
        let body = body.to_string().into();
        let reply = stage
            .baton
            .post("/v1/responses", variants::RESPONSES.headers, body)
            .await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["id"].clone()
    };
    let none = send(value!("::pins"), &Value::Null).await;
    let first = send(value!("Mend it."), &none).await;
    let last = || stage.provider.generations().last().unwrap().body.clone();
    assert!(last().get("previous_response_id").is_none_or(Value::is_null));
    let note = send(value!([stage.user("::handoff status")]), &first).await;
    let undo = send(value!([stage.user("::handoff undo")]), &note).await;
    stage.push(Reply::text("Two."));
    send(value!([stage.user("More.")]), &undo).await;
    assert_eq!(last()["previous_response_id"], first);
    assert_eq!(last()["input"], value!([stage.user("More.")]));
    stage.assert_clean();
}
