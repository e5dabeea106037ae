use super::*;

/// Secret content of a document, a variable or a file.
const SECRET: &str = "k7QaBcDeFgHiJkLmNoPqRsTuVwXyZ0123459xZ2";

#[test]
fn an_excerpt_says_where_it_stands_and_what_came_of_its_call() {
    let mut messages = vec![user("Port the importer.")];
    messages.extend(ran(
        "cargo test -p importer",
        "Exit code 101\nerror[E0277]: Flurbo is not Send",
    ));
    messages.push(user("Once more."));
    messages.extend(ran("cargo test -p importer", "test result: ok. 9 passed"));
    let found_text = answer_to(&messages, "compile error of the importer: Flurbo");
    let part = "Turn 1, before handoff 1: result of Bash `cargo test -p importer` (failed, exit 101)";
    assert_contains(&found_text, part);
    assert_contains(&found_text, "\n   error[E0277]: Flurbo is not Send");
    assert_begins(&found_text, "From what was cut (turns 1 to 2, 1 handoff).");
}

#[test]
fn what_the_harness_puts_after_a_result_is_neither_found_nor_quoted() {
    let reminder = "<system-reminder>\nThe zibble list is empty.\n</system-reminder>";
    let mut blocks = ran("cat flurbo.md", "");
    blocks[1]["content"][0]["content"] = json!([
        {"type": "text", "text": "Flurbo needs 512 slots."},
        {"type": "text", "text": reminder},
    ]);
    let mut messages = vec![user("Read it.")];
    messages.extend(ran(
        "cat notes.md",
        &format!("Flurbo needs 256 slots.\n\n{reminder}\n\n{reminder}"),
    ));
    messages.extend(blocks);
    // A file that only quotes such a reminder is the tool's own output.
    let quoted = format!("{reminder}\nis what a murgle looks like.");
    messages.extend(ran("cat hooks.md", &quoted));
    let found_text = answer_to(&messages, "flurbo slots");
    assert_contains(&found_text, "256 slots");
    assert_contains(&found_text, "512 slots");
    assert!(!found_text.contains("reminder"), "{found_text}");
    let found_text = answer_to(&messages, "murgle");
    assert!(found_text.contains("The zibble list is empty."), "{found_text}");
    messages.truncate(5);
    let found_text = answer_to(&messages, "zibble");
    assert_begins(&found_text, "Nothing found for \"zibble\".");
}

#[test]
fn a_file_that_changed_later_says_so() {
    let edit = |new: &str| {
        called(
            "Edit",
            json!({"file_path": "src/limits.rs", "old_string": "x", "new_string": new}),
            "ok",
        )
    };
    let mut messages = vec![user("Raise the limit.")];
    messages.extend(called(
        "Read",
        json!({"file_path": "src/limits.rs"}),
        "const FLURBO: u32 = 10;",
    ));
    messages.push(user("Higher."));
    messages.extend(edit("const FLURBO: u32 = 20;"));
    messages.push(user("Higher still."));
    messages.extend(edit("const FLURBO: u32 = 30;"));
    let found_text = answer_to(&messages, "flurbo in src/limits.rs");
    let excerpts: Vec<&str> = found_text.split("\n\n").skip(1).collect();
    assert!(excerpts[0].contains("u32 = 30"), "the newest first: {found_text}");
    assert!(!excerpts[0].contains("changed later"), "{found_text}");
    let read = excerpts
        .iter()
        .find(|excerpt| excerpt.contains("u32 = 10"))
        .unwrap();
    assert!(read.contains("; changed later in turn 3"), "{found_text}");
}

#[test]
fn of_two_results_that_match_alike_the_later_one_stands_first() {
    let listing: String = (0..45).map(|n| format!("setting_{n} = value_{n}\n")).collect();
    for (early, late) in [
        ("flurbo_port = 8080", "flurbo_port = 9090"),
        ("flurbo_port = 8080", &*format!("{listing}flurbo_port = 9090\n")),
        (&*format!("{listing}flurbo_port = 8080\n"), "flurbo_port = 9090"),
    ] {
        let mut messages = vec![user("Look at it.")];
        messages.extend(ran("./settings one", early));
        for n in 0..20 {
            messages.push(user(&format!("Next, part {n}.")));
            messages.push(model("Done with that part, as it was asked for."));
        }
        messages.extend(ran("./settings two", late));
        let found_text = answer_to(&messages, "flurbo_port");
        let (new, old) = (
            found_text.find("= 9090").unwrap(),
            found_text.find("= 8080").unwrap(),
        );
        assert!(new < old, "{found_text}");
    }
}

#[test]
fn the_newest_revision_stands_first_and_the_older_one_says_that_there_is_one() {
    let mut messages = vec![
        user("Plan it."),
        model("Decision: flurbo events go through kafka, it is simplest."),
    ];
    for n in 0..30 {
        messages.push(user(&format!("Next, part {n}.")));
        messages.push(model("Done with the events of that part."));
    }
    messages.push(model("We change that: flurbo events go through nats now."));
    let found_text = answer_to(&messages, "what was chosen for flurbo events");
    let (new, old) = (
        found_text.find("nats now").unwrap(),
        found_text.find("kafka").unwrap(),
    );
    assert!(new < old, "{found_text}");
    let part = "Turn 1, before handoff 1: you said; changed later in turn 31";
    assert_contains(&found_text, part);
}

#[test]
fn other_forms_and_words_of_like_meaning_are_found() {
    let mut messages = vec![user("Sessions expire after 45 minutes of silence.")];
    messages.extend((0..40).map(|n| model(&format!("Part {n} is done."))));
    for query in ["session expiry", "timeout of a login", "expiration"] {
        let found_text = answer_to(&messages, query);
        assert!(found_text.contains("45 minutes"), "{query}: {found_text}");
    }
    let found_text = answer_to(&[user("x"), model("See StreamMergeTable for it.")], "merge table");
    assert!(found_text.contains("StreamMergeTable"), "{found_text}");
}

#[test]
fn no_credential_is_quoted() {
    let mut messages = vec![user("Deploy it.")];
    messages.extend(called(
        "Read",
        json!({"file_path": "/app/.env"}),
        &format!("SEED={SECRET}"),
    ));
    messages.extend(ran(
        "curl -sv https://api",
        &format!("> Authorization: Bearer {SECRET}\n< 200"),
    ));
    messages.extend(ran(&format!("export API_KEY={SECRET}; make"), "ok"));
    messages.push(model(&format!("The value {SECRET} works for the deploy.")));
    for query in [
        "deploy",
        "authorization bearer",
        "API_KEY",
        "SEED",
        SECRET,
        "k7QaBcDeFgHiJkLmNoPqRsTuVwXyZ",
    ] {
        let found_text = answer_to(&messages, query);
        assert!(
            !found_text.contains(SECRET) && !found_text.contains("k7qab"),
            "{query}: {found_text}"
        );
    }
    let found_text = answer_to(&messages, "authorization bearer");
    assert!(found_text.contains("[redacted:"), "{found_text}");
}

#[test]
fn nothing_is_found_politely() {
    let messages = [user("Mend the importer."), model("The retention is 45 days.")];
    let found_text = answer_to(&messages, "retentiom importor");
    let part = "Nothing found for \"retentiom importor\". Searched: texts, 0 tool calls";
    assert_begins(&found_text, part);
    assert!(
        found_text.ends_with("The nearest words there: importer, retention.")
            || found_text.ends_with("retention, importer."),
        "{found_text}"
    );
    let view = view(&messages);
    let nothing = CutPart {
        end: view.list.start,
        ..whole(&view)
    };
    let found = RecallIndex::new(&nothing, &settings()).answer(&question("retention"));
    assert_eq!(
        (found.excerpts, found.text.starts_with("Nothing to search")),
        (0, true)
    );
}

#[test]
fn an_answer_is_bounded_whatever_was_cut() {
    let long = |n: usize| format!("the flurbo limit is here, and {n} of it. ").repeat(4_000);
    let mut messages: Vec<Value> = (0..20).map(|n| model(&long(n))).collect();
    messages.extend(ran(&"flurbo ".repeat(5_000), &"flurbo\n".repeat(50_000)));
    let found_text = answer_to(&messages, "flurbo limit");
    assert!(
        crate::handoffs::draft::tokens(&found_text) <= 2_000,
        "{}",
        crate::handoffs::draft::tokens(&found_text)
    );
    assert!(found_text.matches("\n\n").count() >= 5, "{found_text}");
}

#[test]
fn no_line_of_ours_and_nothing_of_the_harness_is_quoted() {
    let messages = [
        user("<system-reminder>flurbo rules</system-reminder>"),
        model("Flurbo it is.\n\n[[handoff-aside:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\n\nSo be it."),
        user("[Request interrupted by user]"),
    ];
    let found_text = answer_to(&messages, "flurbo aside interrupted rules");
    assert_contains(&found_text, "Flurbo it is.");
    assert_lacks(&found_text, "handoff-aside");
    assert_lacks(&found_text, "flurbo rules");
    assert_lacks(&found_text, "interrupted by");
}

#[test]
fn a_call_is_found_by_its_place_in_a_draft() {
    let mut messages = vec![user("Port the importer.")];
    messages.extend(failing(ran("cargo build", "error: no main")));
    messages.push(user("Once more."));
    messages.extend(ran("cargo test", "9 passed"));
    messages.extend(ran("cargo doc", "Documenting importer"));
    for query in ["turn 2, call 2", "Call 2 of turn 2: which build failed?"] {
        let text = answer_to(&messages, query);
        let first = text.lines().find(|line| line.starts_with("1. ")).unwrap();
        assert!(first.contains("`cargo test`"), "{query}: {text}");
    }
    // A number alone locates nothing.
    assert!(!answer_to(&messages, "call 2 of build").contains("1. Turn 2"));
    assert!(answer_to(&messages, "turn 7, call 70").starts_with("Nothing found"));
}

#[test]
fn words_of_scripts_without_spaces_are_found_inside_a_sentence() {
    let mut messages = vec![
        user("看看日志。"),
        model("数据库连接失败：用户名错误。已经重试三次"),
    ];
    messages.extend(ran("npm test", "エラー: 接続がタイムアウトしました"));
    messages.push(user("포트는 데이터베이스에서 읽어야 합니다."));
    for (query, line) in [
        ("数据库", "数据库连接失败"),
        ("连接失败", "数据库连接失败"),
        ("用户名 错误", "数据库连接失败"),
        ("接続", "接続がタイムアウト"),
        ("タイムアウト", "接続がタイムアウト"),
        ("데이터베이스", "포트는"),
    ] {
        assert_contains(&answer_to(&messages, query), line);
    }
    assert!(answer_to(&messages, "缓存").starts_with("Nothing found"));
}
