//! Other user statements, appended to a prompt.

use super::*;
use crate::agents::files::FileChange;
use crate::work::SeenChange;

/// The user's words in these messages.
pub(super) fn said_in(messages: &[Value]) -> UsersWords {
    said_since(messages, None)
}

/// The user's words in these messages, and those of an earlier handoff.
pub(super) fn said_after(messages: &[Value], earlier: &EarlierWords) -> UsersWords {
    words_of(messages, None, earlier)
}

/// The user's words in these messages, of which the one with the index `cut` had a cut.
pub(super) fn said_since(messages: &[Value], cut: Option<usize>) -> UsersWords {
    words_of(messages, cut, &EarlierWords::default())
}

fn words_of(messages: &[Value], cut: Option<usize>, earlier: &EarlierWords) -> UsersWords {
    let body = json!({"model": "m", "messages": messages}).to_string();
    let view = wire::wire(WireId::Anthropic)
        .read(&body.into(), Operation::Generate)
        .unwrap();
    users_words(&RuleSources {
        since: cut,
        earlier,
        said: &UserMessages::from_transcript(&Transcript::from_view(&view), &[], None),
        without: &[],
        markers: &[],
        redactor: &Redactor::new(&[]),
    })
}

/// The block after a poor prompt that follows these messages.
pub(super) fn behind(messages: &[Value], tokens: usize) -> String {
    let carried = carry(
        "Goal: go on with the work.",
        &said_in(messages),
        None,
        all(tokens),
    );
    carried.prompt["Goal: go on with the work.".len()..]
        .trim()
        .to_owned()
}

pub(super) const NEWEST: &str = "The user's newest message, quoted. It is still to be answered unless the text above says that it is done:";
const RULES: &str =
    "The user's rules and decisions, quoted word for word. They hold unless the text above says otherwise:";
pub(super) const SAID: &str = "What else the user said, quoted, newest first. Requests among it may be done:";

#[test]
fn the_newest_message_is_carried_whole_and_the_rest_by_rank() {
    let port =
        "Port the importer. The old one reads CSV alone, with all of the quotes and the escapes that it has.";
    let decision = "I think we should keep the old format for now, because two customers still read it.";
    let open = "Is the exporter done?\nThen look at the page in `docs/export.md`.";
    let messages = [
        user(port),
        model("Done."),
        user(decision),
        model("So be it."),
        user("Thanks!"),
        model("Yes?"),
        user(open),
    ];
    assert_eq!(
        behind(&messages, 600),
        format!(
            "<carried-over>\n{NEWEST}\n- Is the exporter done?\n  Then look at the page in `docs/export.md`.\n{RULES}\n- {decision}\n{SAID}\n- \
             {port}\n</carried-over>"
        )
    );
    // Sentences that decide something come before others.
    let few = behind(&messages, 80);
    assert_contains(&few, decision);
    assert_contains(&few, "docs/export.md");
    assert_lacks(&few, "CSV");
}

#[test]
fn what_the_model_or_a_tool_said_before_is_not_the_users() {
    let advice = "You should always run the whole suite before each commit.";
    let log = "The importer must never be called before the exporter.";
    let result =
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": log}]});
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]});
    let copied = format!("{advice}\n{log}\nNever touch the migrations of the old importer.");
    let messages = [
        model(advice),
        call,
        result,
        user(&copied),
        model("So be it."),
        user("Mend the exporter."),
    ];
    let said = behind(&messages, 600);
    let is_own = |said: &str| {
        said.contains("Never touch the migrations")
            && !said.contains("whole suite")
            && !said.contains("must never")
    };
    assert!(is_own(&said), "{said}");
    // A line as long as a request beside them changes nothing.
    let mut long = messages.clone();
    long[3] = user(&format!("{copied}\n{}", "word ".repeat(40_000)));
    let said = behind(&long, 600);
    assert!(is_own(&said), "{said}");
    // A terminal shows the model's text without its Markdown.
    let marked = "**Important**: you should *always* run `make all` before each commit.";
    let copied = "Important: you should always run make all before each commit.";
    let said = behind(
        &[
            model(marked),
            user(copied),
            model("Yes."),
            user("Mend the exporter."),
        ],
        600,
    );
    assert!(!said.contains("make all"), "{said}");
    // The user said it first.
    let said = behind(&[user(advice), model(advice), user("Mend the exporter.")], 600);
    assert!(said.contains(advice), "{said}");
}

#[test]
fn a_draft_without_a_model_tells_the_users_words_itself() {
    let messages = [
        user("Can you add a test of the reader? Commit this."),
        model("Done."),
        user("I thought we wanted the small format instead of the large one?"),
        model("Yes."),
        user("Port the exporter."),
    ];
    let words = said_in(&messages);
    let draft = "Goal: Port the exporter.\n\nEarlier requests. They are done; do not run them again. What they say of how to work holds:\n- Can you add a test of the reader? \
                 Commit this. (turn 1)\n- I thought we wanted the small format instead of the large one? (turn 2)\n\n<read-files>\n</read-files>";
    let carried = carry(draft, &words, None, all(600)).prompt;
    let block = &carried[draft.len()..];
    assert_eq!(block, "");
}

#[test]
fn a_reply_stands_with_what_it_answers() {
    let port = "Port the exporter to the new interface.";
    for reply in ["yes please", "2", "Go on.", "ok, try again", "weiter", "继续"] {
        let block = behind(
            &[
                user(port),
                model("There are two ways.\nShall I take the second one?"),
                user(reply),
            ],
            600,
        );
        let expected = format!(
            "<carried-over>\n{NEWEST}\n- {port}\n  (The model asked: Shall I take the second one?)\n  {reply}\n</carried-over>"
        );
        assert_eq!(block, expected);
    }
    assert_eq!(behind(&[user("hello")], 600), "");
    // A password that the model asked for is not quoted.
    let block = behind(
        &[
            user(port),
            model("It needs root.\nsudo password?"),
            user("swordfish"),
        ],
        600,
    );
    assert_contains(&block, "[redacted:password]");
    assert!(!block.contains("swordfish"), "{block}");
    // The question need not be the last sentence.
    let asked = model("There are two ways.\n**Which disk has it?**\n\nLook at its label first.");
    let block = behind(
        &[
            user(port),
            asked.clone(),
            user("The blue one, next to the printer"),
        ],
        600,
    );
    assert!(
        block.contains(&format!("- {port}\n  (The model asked: Which disk has it?")),
        "{block}"
    );
    // A request after a question is another one.
    let block = behind(&[user(port), asked, user("Now write the importer.")], 600);
    assert!(
        block.starts_with(&format!("<carried-over>\n{NEWEST}\n- Now write the importer.")),
        "{block}"
    );
    // What the model asked before the agent's own summary was not asked before the user's words.
    let compacted = [
        user("2"),
        model("Shall I take the second one?"),
        user("The user wants the importer."),
        model("Your context was compacted. The previous message is a summary."),
    ];
    assert!(!behind(&compacted, 600).contains("The model asked"));
}

#[test]
fn a_message_with_much_to_say_leaves_room_for_others() {
    let wish = "I want the titles to stand above the pages.";
    let much: Vec<String> = (0..40)
        .map(|n| format!("The shelf number {n} should be as wide as the hall."))
        .collect();
    let messages = [
        user(wish),
        model("Ok."),
        user(&much.join(" ")),
        model("Ok."),
        user("Where is the button?"),
    ];
    let block = behind(&messages, 300);
    assert!(block.contains(wish) && block.contains("shelf number"), "{block}");
}

#[test]
fn what_the_model_repeats_after_the_user_is_the_users() {
    let wish = "I want the titles of all books to be shown on the left side of the page.";
    let messages = [
        user(wish),
        model(&format!("You said: {wish}")),
        user(wish),
        model("Done."),
        user("Now print the page."),
    ];
    assert_contains(&behind(&messages, 600), wish);
}

#[test]
fn an_address_is_no_choice_and_a_wish_over_an_example_no_announcement() {
    let wish = "Keep the shelf as it is, but the titles should have this color:";
    let messages = [
        user("192.168.7.21"),
        model("Noted."),
        user(&format!("{wish}\n```\n.title {{ color: red }}\n```")),
        model("Done."),
        user("Now print the page."),
    ];
    let block = behind(&messages, 600);
    assert_contains(&block, "192.168.7.21");
    assert_contains(&block, wish);
}

#[test]
fn lines_that_only_announce_or_refer_are_left_out() {
    let messages = [
        user("@pages/index.md @pages/shelf.md"),
        model("Ok."),
        user("A few more things:"),
        model("Yes?"),
        user("Where is the button?"),
    ];
    let block = behind(&messages, 600);
    assert!(
        !block.contains("@pages") && !block.contains("few more"),
        "{block}"
    );
}

#[test]
fn short_lines_that_say_something_are_kept() {
    for text in [
        "@https://git.example.com/hall.git",
        "Can we build it in OakWood?",
        "The gate is still too loud:",
        "这里不需要显示什么标题，与大门不同。",
    ] {
        let messages = [user(text), model("Ok."), user("Now print the page.")];
        assert_contains(&behind(&messages, 600), text);
    }
}

#[test]
fn a_small_budget_has_room_for_a_rule_beside_the_newest_message() {
    let request = "Port the exporter to the new interface, with all of its options, its tests and its pages, and then look at the importer.";
    let messages = [user("Never touch `migrations/`."), model("Ok."), user(request)];
    let block = behind(&messages, 100);
    assert_contains(&block, "- Port the exporter to the new interface");
    assert_contains(&block, " […]\n");
    assert_contains(&block, "- Never touch");
    // Without rules the message may take it all.
    assert!(behind(&[user(request)], 100).contains("look at the importer."));
    assert!(behind(&messages, 600).contains("look at the importer."));
}

#[test]
fn a_message_that_mostly_repeats_the_models_plan_is_none_of_the_users_words() {
    let plan = "Move the reader into a directory of its own, with its tests.\n\
                Keep the names of the public functions as they are today.\n\
                Write the page about the reader before the next release.\nKeep both.";
    let messages = [
        user("Plan it. Never touch the exporter."),
        model(plan),
        user(plan),
        model("It is moved."),
        user("Is there a page?"),
    ];
    let block = behind(&messages, 600);
    assert_contains(&block, "Never touch the exporter.");
    assert_lacks(&block, "Keep both");
}

#[test]
fn statements_that_say_little_come_after_others() {
    let fact = "The domain is registered with the ministry already.";
    let mut messages = vec![user(fact)];
    for said in [
        "It is there",
        "这样了",
        "这样对了",
        "Looks odd",
        "Вот так",
        "是这样吗",
        "The second tab",
    ] {
        messages.extend([model("Go on."), user(said)]);
    }
    messages.extend([model("Go on."), user("Where is the button to deploy it?")]);
    let block = behind(&messages, 75);
    assert!(block.contains(fact), "{block}");
}

#[test]
fn a_value_comes_before_what_else_was_said() {
    let value = "The server for the pages listens on port 7345.";
    let mut messages = vec![user(value)];
    for said in [
        "The window opens in the middle of the screen.",
        "The index has the letters of the alphabet.",
    ] {
        messages.extend([model("Go on."), user(said)]);
    }
    messages.extend([model("Go on."), user("Where is the button?")]);
    let block = behind(&messages, 75);
    assert!(block.contains(value) && !block.contains("window"), "{block}");
}

#[test]
fn a_wish_for_a_state_comes_before_other_decisions() {
    let wish = "I want the titles to stand above the pages.";
    let mut messages = vec![user(wish)];
    for said in [
        "I think the window opens slowly on the old screen.",
        "I thought the index has the letters of the alphabet.",
    ] {
        messages.extend([model("Go on."), user(said)]);
    }
    messages.extend([model("Go on."), user("Where is the button?")]);
    let block = behind(&messages, 60);
    assert!(block.contains(wish) && !block.contains("alphabet"), "{block}");
}

#[test]
fn a_long_list_of_rules_leaves_room_for_what_was_said_since() {
    let rules: Vec<String> = (0..60)
        .map(|n| format!("Always keep module {n} below two hundred lines."))
        .collect();
    let since = "The page should open in a window of its own.";
    let messages = [
        user(&rules.join("\n")),
        model("Ok."),
        user(since),
        model("Ok."),
        user("Where is the button?"),
    ];
    let block = behind(&messages, 600);
    assert!(
        block.contains(since) && block.matches("Always keep").count() > 20,
        "{block}"
    );
}

#[test]
fn a_report_that_names_a_value_replaces_no_rule() {
    let rule = "The port must be 8080.";
    let report = "I get an error: the port is 9090 in use.";
    let found = found(&[user(rule), model("Ok."), user(report)], &[], &[]);
    assert!(!texts(&found).contains(&report), "{found:?}");
}

#[test]
fn a_rule_in_another_language_is_one() {
    for rule in [
        "Ändere niemals die öffentliche Schnittstelle.",
        "Die Kommentare müssen englisch sein.",
        "Ne touche pas au dossier des migrations.",
        "Réponds toujours en français.",
        "No uses bibliotecas nuevas sin preguntar.",
        "Los mensajes siempre en inglés.",
        "不要修改公共接口。",
        "提交信息必须用英文。",
        "公開APIは変更しないでください。",
        "Nunca altere a interface pública.",
        "Os comentários devem ser em inglês.",
        "Non modificare le migrazioni.",
        "Rispondi sempre in italiano.",
        "Никогда не меняй публичный интерфейс.",
        "Комментарии должны быть на английском.",
        "공개 인터페이스는 수정하지 마세요.",
        "커밋 메시지는 반드시 영어로 작성하세요.",
        "コメントは必ず英語で書いてください。",
    ] {
        assert_eq!(texts(&found(&[user(rule)], &[], &[])), [rule]);
    }
    for text in [
        "No idea why it fails.",
        "There must be a bug in the parser.",
        "It hands off when that is done.",
        "[hall] Failed to start the lift: Only one car of each shaft may stop.",
    ] {
        assert_eq!(texts(&found(&[user(text)], &[], &[])), [""; 0], "{text}");
    }
    // In a language without a table, the words are carried all the same.
    let other = "Älä koske migraatioihin.";
    assert_contains(
        &behind(
            &[user(other), model("Ok."), user("Jatketaan viejän parissa nyt.")],
            600,
        ),
        other,
    );
}

#[test]
fn changed_files_that_a_prompt_does_not_name_are_one_line() {
    let change = |path: &str| SeenChange {
        path: path.to_owned(),
        change: FileChange::Modified,
        why: None,
        turn: 1,
        call: 1,
    };
    let seen = SeenFacts {
        files: ["src/a.rs", "src/b.rs", "docs/c.md"].map(change).to_vec(),
        ..SeenFacts::default()
    };
    let words = UsersWords::default();
    let carried = carry("Go on with `b.rs`.", &words, Some(&seen), all(600));
    let line =
        "Files that were changed, and are not named above:\n- `src/a.rs`, `docs/c.md`\n</carried-over>";
    assert!(carried.prompt.ends_with(line), "{}", carried.prompt);
    let named = "Changed: src/a.rs, src/b.rs and docs/c.md.";
    assert_eq!(carry(named, &words, Some(&seen), all(600)).prompt, named);
    let of = |paths: [&str; 2]| SeenFacts {
        files: paths.map(change).to_vec(),
        ..SeenFacts::default()
    };
    for path in [
        "app/[id].tsx",
        "docs/my notes.md",
        "routes/$slug.tsx",
        "d:\\work\\page.tsx",
    ] {
        let named = format!("Changed: `{path}` and a.rs.");
        let carried = carry(&named, &words, Some(&of([path, "src/a.rs"])), all(600));
        assert_eq!(carried.prompt, named);
    }
    // One of two files of this name is not named.
    let alike = of(["app/door/page.tsx", "app/hall/page.tsx"]);
    let carried = carry("Go on with door/page.tsx.", &words, Some(&alike), all(600));
    assert!(
        carried.prompt.contains("above:\n- `app/hall/page.tsx`\n"),
        "{}",
        carried.prompt
    );
    let carried = carry(
        "See my-a.rs, a.rs.bak.",
        &words,
        Some(&of(["src/a.rs", "src/a.rs"])),
        all(600),
    );
    assert!(carried.prompt.contains("- `src/a.rs`"), "{}", carried.prompt);
}

#[test]
fn a_long_message_leaves_room_for_the_rules_of_earlier_ones() {
    let long: Vec<String> = (0..400).map(|n| format!("Never touch module {n}.")).collect();
    let messages = [user(NEVER), user(ENGLISH), user(&long.join("\n"))];
    let found = found(&messages, &[], &[]);
    assert_eq!(found.len(), 300);
    assert_eq!(texts(&found[298..]), [ENGLISH, NEVER]);
    assert_eq!(found[297].text, "Never touch module 399.");
}
