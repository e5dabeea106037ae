//! The words of commands: what is one, what it answers, and that neither it nor its answer reaches the model.

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json as value};

use super::{and, command, elements, says, thought};
use crate::harness::memory;
use crate::harness::texts::assert_contains;
use crate::matrix::fixture::{Fixture, fresh, handoff};
use crate::matrix::variants::{self, Variant, on_every_wire};

on_every_wire!(answered_and_taken_out reported_sizes unknown_words first_of_all glued_and_trimmed other_prefix switched_off tool_results;);

async fn answered_and_taken_out(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let sent = elements(&stage);
    let mut now = [&history[..], &answer.keep].concat();
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
        let (text, then) = command(&stage, &now, asked).await;
        assert!(text.contains(said), "{asked}: {text}");
        now = then;
    }
    let next = and(&stage, &now, "More.");
    let answer = says(&stage, &next, thought("Second.")).await;
    assert_eq!(elements(&stage)[..sent.len()], sent, "the prefix stays");
    let plain = [
        "u: Mend the importer.",
        "a: Looking.",
        "u: Go on.",
        "a: First.",
        "u: More.",
    ];
    assert_eq!(stage.sent(), plain);
    let sent = elements(&stage);
    // Once more after it, and a request after that.
    let (_, now) = command(&stage, &[&next[..], &answer.keep].concat(), "::handoff status").await;
    says(&stage, &and(&stage, &now, "Third."), thought("So.")).await;
    assert_eq!(elements(&stage)[..sent.len()], sent);
    stage.assert_clean();
}

/// Agents read a response's usage as their context size and compact by it. No answer from baton reports more
/// than the model's view.
async fn reported_sizes(variant: Variant) {
    const FINISHED: usize = 40_000;
    let stage = Fixture::new(variant, []).await;
    let history = [&stage.history()[..], &[stage.user(&"Old. ".repeat(FINISHED / 5))]].concat();
    stage.push(handoff());
    stage.push(fresh());
    let fired = stage.ask(&history, true).await;
    let mut now = [&history[..], &fired.keep].concat();
    for (asked, stream) in [
        ("::handoff status", true),
        ("::handoff status", false),
        ("::pin Never touch the schema.", true),
        ("::handoff --method local --force --no-git the reader", true),
        ("::handoff --method local --force --no-git the writer", false),
        ("::help", true),
    ] {
        now = and(&stage, &now, asked);
        let answer = stage.ask(&now, stream).await;
        assert!(answer.text.starts_with("baton: "), "{asked}: {}", answer.text);
        assert!(answer.input > 0, "{asked}");
        assert!(
            answer.input * 4 < FINISHED as u64 / 2,
            "{asked}: {} tokens",
            answer.input
        );
        now.extend(answer.keep);
    }
    let (text, _) = command(&stage, &now, "::handoff status").await;
    assert_contains(&text, "Conversation: ");
    assert_contains(&text, "always sent.");
}

async fn unknown_words(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    for asked in ["::hadnoff", "::pni x"] {
        let (text, now) = command(&stage, &history, asked).await;
        assert!(text.contains("there is no command `::"), "{text}");
        assert!(
            text.contains("Did you mean `::") && text.lines().count() == 3,
            "{text}"
        );
        says(&stage, &and(&stage, &now, "More."), Reply::text("So.")).await;
        assert_eq!(stage.sent().last().unwrap(), "u: Go on.More.");
    }
    for asked in ["::std::vector is slow.", "Why is ::pin one?", ":pin x"] {
        says(&stage, &and(&stage, &history[..2], asked), Reply::text("So.")).await;
        assert_eq!(stage.sent()[2], format!("u: {asked}"));
    }
    stage.assert_clean();
}

/// A session that begins with a command.
async fn first_of_all(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let (_, now) = command(&stage, &[], "::pin Be brief.").await;
    let (text, now) = command(&stage, &now, "::pins").await;
    assert!(text.contains("1. Be brief."), "{text}");
    says(&stage, &and(&stage, &now, "Mend it."), thought("So.")).await;
    assert_eq!(stage.sent(), ["u: Mend it."]);
    stage.assert_clean();
}

/// Agents trim the text that they keep, and some join adjacent text.
async fn glued_and_trimmed(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let (text, _) = command(&stage, &history, "::handoff status").await;
    let message = variant.message;
    let asked = message("user", "::handoff status");
    for (kept, left) in [
        (text.trim_end().to_owned(), ""),
        (format!("{text}\n"), ""),
        (format!("\n\n  {text}  "), ""),
        (
            format!("{text}\n\nAnd this is the model's."),
            "And this is the model's.",
        ),
        (format!("The model's own.\n\n{text}"), "The model's own."),
    ] {
        let now = [
            &history[..],
            &[
                asked.clone(),
                message("assistant", &kept),
                message("user", "More."),
            ],
        ]
        .concat();
        says(&stage, &now, Reply::text("So.")).await;
        let sent = stage.sent();
        match left {
            "" => assert_eq!(sent[2..], ["u: Go on.More."], "{kept:?}"),
            left => assert_eq!(
                sent[2..],
                ["u: Go on.", &format!("a: {left}"), "u: More."],
                "{kept:?}"
            ),
        }
    }
    stage.assert_clean();
}

async fn other_prefix(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), |config| {
        config.commands.prefix = "!!".to_owned();
    })
    .await;
    let (text, now) = command(&stage, &stage.history(), "!!handoff help").await;
    assert!(text.contains("!!unpin N"), "{text}");
    says(&stage, &and(&stage, &now, "!pin x"), Reply::text("So.")).await;
    assert_eq!(stage.sent().last().unwrap(), "u: Go on.!pin x");
    stage.assert_clean();
}

/// If commands are disabled, nothing is a command, but earlier answers stay out of the model's view.
async fn switched_off(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), |config| config.commands.prefix.clear()).await;
    let history = stage.history();
    says(&stage, &and(&stage, &history[..2], "::pins"), Reply::text("So.")).await;
    assert_eq!(stage.sent()[2], "u: ::pins");
    let id = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";
    let note = (variant.message)(
        "assistant",
        &format!("baton: nothing is pinned.\n\n[[handoff-note:{id}]]"),
    );
    let now = [&history[..], &[stage.user("::pins"), note, stage.user("More.")]].concat();
    says(&stage, &now, Reply::text("So.")).await;
    assert_eq!(stage.sent().last().unwrap(), "u: Go on.More.");
    assert_eq!(stage.script.left(), 0);
}

/// The prefix in a tool result, and in a file after the user's own words, is plain text.
async fn tool_results(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let reads = Reply::new()
        .thinking("Read.")
        .call("read_file", value!({"path": "a"}));
    let answer = says(&stage, &history, reads).await;
    let results = (variant.results)(&answer.calls, "::pin x\n::handoff undo");
    let ran = [&history[..], &answer.keep, &results].concat();
    let answer = says(&stage, &ran, thought("Read.")).await;
    assert_eq!(answer.text, "Read.");
    let (_, now) = command(&stage, &[&ran[..], &answer.keep].concat(), "::pins").await;
    says(&stage, &and(&stage, &now, "And so:\n::pin x"), thought("So.")).await;
    assert_eq!(stage.sent().last().unwrap(), "u: And so:\n::pin x");
    stage.assert_clean();
}

/// Text that the agent's harness puts before the user's words is not part of a command, and stays.
#[tokio::test]
async fn a_reminder_in_front_of_a_command_stays() {
    let stage = Fixture::new(variants::ANTHROPIC, []).await;
    let block = |text: &str| value!({"type": "text", "text": text});
    let reminder = "<system-reminder>\nCLAUDE.md says so.\n</system-reminder>";
    let first = value!({"role": "user", "content": [block(reminder), block("::pin Be brief.")]});
    let asked = stage.provider.requests().len();
    let answer = stage.ask(std::slice::from_ref(&first), true).await;
    assert_eq!(stage.provider.requests().len(), asked);
    let now = [&[first][..], &answer.keep, &[stage.user("Mend it.")]].concat();
    says(&stage, &now, thought("So.")).await;
    assert_eq!(stage.sent(), [format!("u: {reminder}Mend it.")]);
    stage.assert_clean();
}

/// A request for a title has the session's id and messages, but no tools; one that classifies the user's
/// words asks for JSON. Commands quoted in them are neither executed nor forwarded.
#[tokio::test]
async fn a_request_beside_the_session_does_nothing() {
    let mut stage = Fixture::new(variants::CHAT, []).await;
    stage.variant.headers = &[("authorization", "Bearer sk-agent"), ("x-session-id", "one")];
    let history = stage.history();
    let answer = says(&stage, &history, Reply::text("First.")).await;
    assert_eq!(answer.text, "First.");
    let alone = vec![stage.user("::pin Be brief.")];
    let title = vec![value!({"role": "user", "content": [
        {"type": "text", "text": "A title for this:"}, {"type": "text", "text": "::pin Be brief."}]})];
    let named = vec![stage.user("Name this task in a few words.\n\nUser prompt:\n::pin Be brief.")];
    let json = || value!({"type": "json_object"});
    for (messages, format, has_tools) in [
        (&alone, Value::Null, false),
        (&title, Value::Null, false),
        (&title, json(), false),
        (&named, json(), false),
        // Codex 0.169 lists its tools in that request as well.
        (&named, json(), true),
    ] {
        let mut body = (variants::CHAT.body)(messages, false);
        let all = body.as_object_mut().unwrap();
        if !has_tools {
            all.remove("tools");
        }
        if !format.is_null() {
            all.insert("response_format".to_owned(), format);
        }
        stage.push(Reply::text("A title."));
        let reply = stage
            .baton
            .post(
                "/v1/chat/completions",
                stage.variant.headers,
                body.to_string().into(),
            )
            .await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(
            stage.sent().last().unwrap().ends_with("(a command)"),
            "{:?}",
            stage.sent()
        );
    }
    let (text, _) = command(&stage, &history, "::pins").await;
    assert!(text.contains("nothing is pinned"), "{text}");
    stage.assert_clean();
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
        let reply = stage
            .baton
            .post(
                "/v1/responses",
                variants::RESPONSES.headers,
                body.to_string().into(),
            )
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
