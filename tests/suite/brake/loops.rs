//! Planted loops: each is stopped within three repetitions, or within 2 % of the budget, and work without a loop never.

use baton_llm::state::clock::Clock;
use pretty_assertions::assert_eq;

use super::limits::ticking;
use super::*;

/// A call of the scripted model, with the result that the agent sends.
type Step = (&'static str, Value, String);

/// Plays calls until the brake ends a turn. Returns their number and the text of the end, or `None` after 24 calls.
async fn played(model: impl Fn(usize) -> Step) -> Option<(usize, String)> {
    let stage = fixture(ANTHROPIC, |config| {
        config.brake.no_progress = Some(true);
        config.brake.session.calls = 1_000;
    })
    .await;
    let mut history = vec![stage.user("Mend the importer.")];
    for n in 0..24 {
        let (name, arguments, result) = model(n);
        stage.push(
            Reply::new()
                .say("So.")
                .call_as(format!("toolu_p{n}q"), name, arguments),
        );
        let mut body = (ANTHROPIC.body)(&history, true);
        let tool = |name: &str| json!({"name": name, "description": "x", "input_schema": {"type": "object"}});
        body["tools"] = ["Bash", "Edit", "Task"].map(tool).into();
        let sent = stage
            .baton
            .post("/v1/messages", ANTHROPIC.headers, body.to_string().into());
        let answer = stage.answer(&sent.await, true);
        if answer.calls.is_empty() {
            assert_eq!(stage.script.left(), 1, "the request was not sent");
            return Some((n, answer.text));
        }
        history = [
            &history[..],
            &answer.keep,
            &(stage.variant.results)(&answer.calls, &result),
        ]
        .concat();
    }
    None
}

fn bash(command: &str, result: &str) -> Step {
    ("Bash", json!({"command": command}), result.to_owned())
}

fn edit(n: usize) -> Step {
    let arguments =
        json!({"file_path": "/w/a.rs", "old_string": n.to_string(), "new_string": (n + 1).to_string()});
    ("Edit", arguments, "The file was updated.".to_owned())
}

fn task(n: usize) -> Step {
    let arguments = json!({"prompt": "Review the diff.", "description": format!("round {n}")});
    ("Task", arguments, format!("{n} findings"))
}

#[tokio::test]
async fn planted_loops_are_stopped() {
    // The same failing test; two reads in turn; reviews, and spawns of subagents, with one prompt; an edit and its
    // undo; and a command whose output differs each time.
    let failing = |_| bash("cargo test importer", "test skips_boms ... FAILED in 0.31s");
    let in_turn = |n: usize| bash(["cat a.rs", "cat b.rs"][n % 2], ["fn a() {}", "fn b() {}"][n % 2]);
    let undone = |n: usize| match n % 2 {
        0 => edit(1),
        _ => (
            "Edit",
            json!({"file_path": "/w/a.rs", "old_string": "2", "new_string": "1"}),
            "ok".to_owned(),
        ),
    };
    let stopped = [
        ("failing", played(failing).await, 4),
        ("in turn", played(in_turn).await, 7),
        ("reviews", played(task).await, 4),
        ("undone", played(undone).await, 7),
    ];
    for (name, end, calls) in stopped {
        let (count, text) = end.unwrap_or_else(|| panic!("{name} is not stopped"));
        // A call of each is repeated three times at most.
        assert_eq!(count, calls, "{name}: {text}");
        assert!(count <= 1_000 / 50, "within 2 % of the budget");
        assert!(
            text.contains("stopped: the model repeats itself"),
            "{name}: {text}"
        );
    }
}

#[tokio::test]
async fn work_is_not_stopped() {
    // A failing test between edits; reviews between edits; a poll; reads of a file that grows.
    let mending = |n: usize| match n % 2 {
        0 => edit(n),
        _ => bash("cargo test importer", "test skips_boms ... FAILED"),
    };
    let reviewed = |n: usize| if n.is_multiple_of(2) { edit(n) } else { task(n) };
    let waiting = |_| bash("sleep 30; gh run view 1", "in_progress");
    let reading = |n: usize| bash("tail -1 log", &format!("line {n} of the log"));
    assert_eq!(played(mending).await, None);
    assert_eq!(played(reviewed).await, None);
    assert_eq!(played(waiting).await, None);
    assert_eq!(played(reading).await, None);
}

/// An agent that sends the same request again although it had complete responses. A response that broke off does not
/// count, because agents repeat such a request.
#[tokio::test]
async fn a_storm_of_the_same_request_is_stopped() {
    let stage = fixture(ANTHROPIC, |config| config.brake.no_progress = Some(true)).await;
    let history = worked(&stage, 1).await;
    for n in 0..8 {
        stage.push(Reply::status(529, "Overloaded."));
        assert_eq!(stage.send(&history, false).await.status, 529);
        stage.baton.events(n + 2).await;
    }
    for n in 0..5 {
        stage.push(Reply::text("Done."));
        assert_eq!(stage.ask(&history, false).await.text, "Done.", "{n}");
        stage.baton.events(n + 10).await;
    }
    let ended = stage.ask(&history, false).await;
    assert!(
        ended.text.contains("the same request again after 5 complete"),
        "{}",
        ended.text
    );
    let go = stage.then(&history, &ended, "::go");
    stage.push(Reply::text("Once more."));
    assert!(stage.ask(&go, true).await.text.ends_with("Once more."));
    stage.assert_clean();
}

/// Days and minutes by a clock of the test's own.
#[tokio::test]
async fn budgets_of_time_follow_the_clock() {
    const MINUTE: i64 = 60_000;
    // Noon of a day, so that the test does not cross midnight by itself.
    let day = 86_400_000;
    let now = Clock::default().now_ms();
    let noon = i64::try_from(now / day * day + day / 2).unwrap() - i64::try_from(now).unwrap();
    let clock = Clock::ahead(noon);
    let mut stage = Fixture::new(ANTHROPIC, []).await;
    stage.restart_by(memory(), |config| config.brake.day.tokens = 1, ticking(&clock));
    let history = worked(&stage, 1).await;
    let ended = stopped(&stage, &history).await;
    assert!(
        ended.text.contains("this day is used up") && ended.text.contains("opens again at 00:00 UTC"),
        "{}",
        ended.text
    );
    clock.advance(24 * 60 * MINUTE);
    stage.push(Reply::text("Good morning."));
    assert_eq!(stage.ask(&history, true).await.text, "Good morning.");

    stage.restart_by(
        memory(),
        |config| config.brake.session.millis = 600_000,
        ticking(&clock),
    );
    let history = worked(&stage, 1).await;
    clock.advance(9 * MINUTE);
    stage.push(Reply::new().call_as("toolu_m1n2", "read_file", json!({"path": "b"})));
    let answer = stage.ask(&history, true).await;
    let working = stage.ran(&history, &answer);
    clock.advance(2 * MINUTE);
    let ended = stopped(&stage, &working).await;
    assert!(ended.text.contains("(11 min of 10 min)"), "{}", ended.text);
    stage.assert_clean();
}

/// After a handoff the model does not know what it has read, so the same call again is not a repetition.
#[tokio::test]
async fn a_handoff_begins_the_count_anew() {
    let stage = fixture(ANTHROPIC, |config| config.brake.no_progress = Some(true)).await;
    let read =
        |n: usize| Reply::new().call_as(format!("toolu_h{n}r"), "read_file", json!({"path": "plan.md"}));
    let mut history = stage.history();
    for n in 0..6 {
        if n == 2 {
            stage.push(handoff());
        }
        stage.push(read(n));
        let answer = stage.ask(&history, true).await;
        assert_eq!(notices(&stage), usize::from(n == 5), "{n}");
        history = stage.ran(&history, &answer);
    }
    stopped(&stage, &history).await;
    stage.assert_clean();
}
