//! Values and their later corrections, as a table of sentences with verdicts.
//!
//! The newest value is always in the draft. The earlier one is omitted, or marked if two things may be meant.

use super::*;

/// Expected fate of the earlier sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The sentence is omitted.
    Gone,
    /// The sentence is included with a mark.
    Marked,
    /// The sentence holds as before.
    Both,
}
use Verdict::{Both, Gone, Marked};

/// An earlier sentence, a later one, the values of each, and the fate of the earlier one.
#[rustfmt::skip]
const ROWS: &[(&str, &str, &str, &str, Verdict)] = &[
    // The same sentence with another value.
    ("The API listens on port 9001.", "The API listens on port 9002.", "9001", "9002", Gone),
    ("Budget cap is $480 total.", "Budget cap is $730 total.", "$480", "$730", Gone),
    ("FACT: The project codename is MIRA-114 and the deadline is 2027-03-04.", "FACT: The project codename is MIRA-114 and the deadline is 2027-05-19.", "2027-03-04", "2027-05-19", Gone),
    ("The production database runs in region eu-west-1.", "The production database runs in region us-east-2.", "eu-west-1", "us-east-2", Gone),
    ("The staging base URL is https://one.internal/v2.", "The staging base URL is https://two.internal/v2.", "one.internal", "two.internal", Gone),
    ("Only Priya Natarajan may approve production deploys.", "Only Jonas Weber may approve production deploys.", "Priya Natarajan", "Jonas Weber", Gone),
    ("We must report all times in Zone/Lisbon.", "We must report all times in Zone/Oslo.", "Lisbon", "Oslo", Gone),
    ("Use PostgreSQL for the event storage.", "Use SQLite for the event storage.", "PostgreSQL", "SQLite", Gone),
    // A correction in its own words.
    ("Use port 9001.", "Actually use 9002.", "9001", "9002", Marked),
    ("Use port 9001 for the exporter.", "Use port 9002 for the exporter instead.", "9001", "9002", Gone),
    ("The deadline is Thursday.", "The deadline is now Friday.", "Thursday", "Friday", Gone),
    ("The region is eu-west-1.", "The region changed to us-east-2.", "eu-west-1", "us-east-2", Gone),
    ("Deploy to eu-west-1.", "Deploy to us-east-2 instead of eu-west-1.", "Deploy to eu-west-1.", "us-east-2", Gone),
    ("The cache lives in Redis.", "The cache no longer lives in Redis but in Memcached.", "The cache lives in Redis.", "Memcached", Gone),
    ("The retry limit is 3.", "Correction: the retry limit is 5.", "is 3", "is 5", Gone),
    ("The codename is MIRA-114.", "We renamed it: the codename is VEGA-207 from now on.", "MIRA-114", "VEGA-207", Gone),
    ("The next step is the rollback plan.", "The next step is now the audit log.", "rollback plan", "audit log", Gone),
    ("Use port 9001 and write the log to stdout.", "Actually use port 9002.", "9001", "9002", Marked),
    ("Total spending is capped at $480; exceeding it needs approval.", "Budget cap is $730 total.", "$480", "$730", Marked),
    ("The weekly report goes out on Monday.", "Send the weekly report on Friday from now on.", "Monday", "Friday", Marked),
    ("The server must listen on port 9001.", "Change the port to 9002.", "9001", "9002", Marked),
    // An order of what was forbidden.
    ("Don't push anything yet.", "Now commit and push.", "anything yet", "commit and push", Gone),
    ("Do not push the branch.", "Now push the branch.", "Do not push", "Now push", Marked),
    ("Don't push anything yet.", "Commit and push after I reviewed.", "anything yet", "after I reviewed", Both),
    ("Don't push to main without my review.", "Push to main.", "without my review", "Push to main", Both),
    // Keys and tables.
    ("REGION=eu-west-1", "REGION=us-east-2", "eu-west-1", "us-east-2", Gone),
    ("export API_PORT=9001", "export API_PORT=9002", "9001", "9002", Gone),
    ("region: eu-west-1", "region: us-east-2", "eu-west-1", "us-east-2", Gone),
    ("| key | value |\n| --- | --- |\n| REGION | eu-west-1 |\n| TIER | gold |", "| REGION | us-east-2 |", "eu-west-1", "us-east-2", Marked),
    ("```\nREGION=eu-west-1\n```", "```\nREGION=us-east-2\n```", "eu-west-1", "us-east-2", Gone),
    ("REGION=eu-west-1", "The region is now us-east-2.", "eu-west-1", "us-east-2", Gone),
    ("Start it with these settings:\nPORT=9001", "For the admin service:\nPORT=9002", "9001", "9002", Marked),
    // Two different things.
    ("The project budget cap is $480.", "The travel budget cap is $730.", "$480", "$730", Both),
    ("Never disclose the vault code KILO-12.", "Never disclose the vault code LIMA-77.", "KILO-12", "LIMA-77", Marked),
    ("Do not touch src/reader.rs.", "Do not touch src/writer.rs.", "reader.rs", "writer.rs", Both),
    ("Fix issue 12 in the parser.", "Fix issue 14 in the parser.", "12", "14", Both),
    ("Add tests for src/reader.rs.", "Add tests for src/writer.rs.", "reader.rs", "writer.rs", Both),
    ("Always run cargo test before a commit.", "Always run cargo clippy before a commit.", "test", "clippy", Both),
    ("The limit of queue 3 is 50 items.", "The limit of queue 4 is 60 items.", "queue 3 is 50", "queue 4 is 60", Both),
    ("The limit of part 3 must stay at 3 bytes.", "The limit of part 4 must stay at 4 bytes.", "part 3", "part 4", Both),
    ("The limit_qx81 must stay at 30 days.", "The limit_rk27 must stay at 45 days.", "limit_qx81", "limit_rk27", Both),
    ("We decided to keep the order: key_8 first, then a58a752143c1.", "We decided to keep the order: key_16 first, then f98c8df597c4.", "key_8", "key_16", Both),
    ("Branch topic/intake-60 is based on the old base and must stay unpushed.", "We rebased onto topic/ledger-56; next step is writing the script.", "topic/intake-60", "topic/ledger-56", Marked),
    ("Now move on to the Intake Review.", "Add a rule to docs/intake-review.md so that a file is made each time we move into the review.", "Intake Review.", "docs/intake-review.md", Both),
    ("The test parse_bom is red on main.", "The test parse_crlf is red on main.", "parse_bom", "parse_crlf", Both),
    ("Rewrite the loader so that each row is saved in a transaction of its own, failures go into the report, and port 9001 stays open for the monitor.", "Actually open port 9002 for the nightly summary.", "9001", "9002", Both),
    ("Use Redis for the cache.", "Also use Memcached for the cache.", "Redis", "Memcached", Both),
    ("The production database runs in region eu-west-1.", "The deadline is 2027-05-19.", "eu-west-1", "2027-05-19", Both),
    ("Only Priya Natarajan may approve production deploys.", "The on-call owner is Jonas Weber.", "Priya Natarajan", "Jonas Weber", Both),
    ("The port is 9001.", "The port is 9001, as I said.", "9001", "9001", Both),
];

fn session(before: &str, after: &str) -> Vec<Value> {
    let noted = || model("Noted.");
    vec![
        user("Walk through the queue of the workers."),
        noted(),
        user(before),
        noted(),
        user("Notes on pagination follow later."),
        noted(),
        user(after),
        noted(),
        user("Pair on the flaky checks."),
        noted(),
    ]
}

/// The fate of the earlier value in a document.
fn verdict(text: &str, old: &str) -> Verdict {
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(old)).collect();
    match lines.as_slice() {
        [] => Gone,
        lines if lines.iter().all(|line| line.contains("[replaced in turn 4")) => Marked,
        _ => Both,
    }
}

#[test]
fn an_earlier_value_is_left_out_or_marked_and_the_newest_is_there() {
    let mut wrong = Vec::new();
    for (before, after, old, new, expected) in ROWS {
        let index = indexed(&session(before, after));
        for (name, text) in [
            ("local", index.local(&request(4000)).unwrap()),
            ("bundle", index.bundle(&request(4000)).unwrap()),
        ] {
            assert!(text.contains(new), "{name}: {after}\n{text}");
            let found = verdict(&text, old);
            if found != *expected {
                wrong.push(format!(
                    "{name}: {before} | {after}: {found:?}, expected {expected:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_rule_that_is_replaced_leaves_its_place_to_the_newer_words() {
    // "Must" is kept with any budget; the newer sentence has no such word.
    let index = indexed(&session(
        "The exporter port must be 9001.",
        "The exporter port is 9002 now.",
    ));
    for tokens in [4000, 600] {
        let text = index.local(&request(tokens)).unwrap();
        assert_contains(&text, "The exporter port is 9002 now.");
        assert_lacks(&text, "9001");
    }
}

#[test]
fn the_users_own_words_are_kept_and_marked() {
    let messages = [
        user("Build the exporter. Use port 9001 for the exporter. It must keep the API."),
        model("Done."),
        user("Use port 9002 for the exporter instead."),
    ];
    let index = indexed(&messages);
    for text in [
        index.local(&request(4000)).unwrap(),
        index.bundle(&request(4000)).unwrap(),
    ] {
        let part = "Use port 9001 for the exporter. [replaced in turn 2] It must keep the API.";
        assert_contains(&text, part);
        assert!(text.contains("9002"), "{text}");
    }
}

#[test]
fn of_a_chain_the_newest_stands_and_a_value_may_come_back() {
    let said = |ports: &[&str]| -> Vec<Value> {
        let turns = ports
            .iter()
            .flat_map(|port| [user(&format!("The metrics port is {port}.")), model("Noted.")]);
        [user("Begin."), model("Yes.")]
            .into_iter()
            .chain(turns)
            .chain([user("Go on with the checks."), model("Noted.")])
            .collect()
    };
    let text = indexed(&said(&["9001", "9002", "9003"]))
        .local(&request(4000))
        .unwrap();
    assert_contains(&text, "9003");
    assert_lacks(&text, "9001");
    assert_lacks(&text, "9002");
    let text = indexed(&said(&["9001", "9002", "9001"]))
        .local(&request(4000))
        .unwrap();
    assert_contains(&text, "9001");
    assert_lacks(&text, "9002");
    assert_lacks(&text, "replaced");
}

#[test]
fn a_models_words_replace_the_models_and_never_the_users() {
    let talk = |first: Value, second: Value| {
        [
            user("Begin."),
            first,
            user("Go on."),
            second,
            user("And now?"),
            model("Well."),
        ]
    };
    let ours = model("Decided to use port 9001 for the exporter.");
    let theirs = model("Decided to use port 9002 for the exporter.");
    let text = indexed(&talk(ours.clone(), theirs.clone()))
        .local(&request(4000))
        .unwrap();
    assert!(text.contains("9002") && !text.contains("9001"), "{text}");
    let mut messages = talk(model("Yes."), theirs).to_vec();
    messages[0] = user("Begin. You must use port 9001 for the exporter.");
    let text = indexed(&messages).local(&request(4000)).unwrap();
    assert_contains(&text, "9001");
    assert_contains(&text, "9002");
    assert_lacks(&text, "replaced");
}

#[test]
fn a_summary_is_marked_where_the_user_corrected_it_later() {
    let carried = super::super::carried("## Facts\nThe exporter port is 9001.");
    let settings = DraftIndexSettings {
        carry_overs: vec![carried.clone()],
        ..DraftIndexSettings::default()
    };
    let messages = [
        user(&carried),
        model("Noted."),
        user("The exporter port is now 9002."),
        model("Noted."),
    ];
    let index = DraftIndex::from_transcript(settings, &Transcript::from_view(&view(&messages)));
    let text = index.local(&request(4000)).unwrap();
    assert_contains(&text, "The exporter port is 9001. [replaced in turn 2]");
}

#[test]
fn facts_that_the_user_gave_are_in_every_draft_however_much_was_done() {
    const FACTS: [(&str, &str); 8] = [
        ("The project codename is MIRA-114.", "MIRA-114"),
        ("The launch deadline is 2027-05-19.", "2027-05-19"),
        ("The production database runs in region us-east-2.", "us-east-2"),
        (
            "Our staging base URL is https://two.internal/v2.",
            "two.internal/v2",
        ),
        ("The on-call owner this week is Jonas Weber.", "Jonas Weber"),
        (
            "Look at the plan first. It has many parts, and I will go through all of them with you in the next days, one after the \
          other, as we always do with such plans. The retry limit is 7.",
            "limit is 7",
        ),
        ("RELEASE_TRAIN=amber-9", "amber-9"),
        ("Use port 9002 for the metrics of the exporter.", "9002"),
    ];
    let mut messages = vec![user("Begin with the exporter."), model("Yes.")];
    for (at, (fact, _)) in FACTS.iter().enumerate() {
        messages.extend([user(fact), model("Noted.")]);
        messages.push(user(&format!("Go on with part {at}.")));
        for n in at * 40..at * 40 + 40 {
            messages.extend(ran(
                &format!("./scripts/gen{n}.sh --all && cargo test -p part{n}"),
                &format!("created part {n}\n12 passed"),
            ));
            messages.extend(called(
                "Edit",
                json!({"file_path": format!("src/module{n}/reader.rs")}),
                "ok",
            ));
        }
        messages.push(model("All of it is done."));
    }
    messages.push(user("Now the changelog."));
    let index = indexed(&messages);
    for (name, text) in [
        ("local", index.local(&request(3000)).unwrap()),
        ("bundle", index.bundle(&request(8000)).unwrap()),
    ] {
        let lost: Vec<_> = FACTS.iter().filter(|(_, value)| !text.contains(value)).collect();
        assert!(lost.is_empty(), "{name}: {lost:?}\n{text}");
        assert!(!text.contains("user: The project codename"), "said once: {text}");
    }
}

/// Facts only take a part of a draft, so a session with nothing else still gets one with the newest facts.
#[test]
fn many_facts_leave_room() {
    let facts = (0..400).flat_map(|n| {
        [
            user(&format!("The limit of queue {n} is {} items.", n + 1000)),
            model("Noted."),
        ]
    });
    let index = indexed(&facts.chain([user("Go on."), model("Yes.")]).collect::<Vec<_>>());
    let text = index.local(&request(1000)).unwrap();
    assert!(text.contains("queue 399 is 1399"), "{text}");
}
