//! `baton try` over sessions in the shape that strangers' have: subagents in files of their own, a compaction whose request is recorded, a
//! change of the model, skills and pasted files in a user's place.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use baton_strict::{Autopilot, Options, Strict};
use serde_json::{Value, json};

use crate::harness::anthropic::Anthropic;
use crate::harness::program::{self, Program, config_for};
use crate::harness::texts::{assert_lacks, assert_members};
use crate::harness::{AgentWire, post, temp};

const ID: &str = "5f3c9d1e-2b7a-4c60-9a51-0c2d4e6f8a11";
const OPUS: &str = "claude-opus-4-6";
const HAIKU: &str = "claude-haiku-4-5-20251001";
const WIDTH: usize = 80;

/// 2026-02-11, noon.
const NOON: u64 = 1_770_811_200;

/// A transcript of Claude Code's while it is written.
#[derive(Default)]
struct Transcript {
    lines: Vec<Value>,
    seconds: u64,
    calls: u64,
    side: Option<&'static str>,
}

impl Transcript {
    fn line(&mut self, mut line: Value) {
        self.seconds += 9;
        let at = NOON + self.seconds;
        line["timestamp"] = json!(format!(
            "2026-02-11T{:02}:{:02}:{:02}.000Z",
            at / 3600 % 24,
            at / 60 % 60,
            at % 60
        ));
        line["sessionId"] = json!(ID);
        line["uuid"] = json!(format!("{}-{}", self.side.unwrap_or("main"), self.lines.len()));
        line["cwd"] = json!("/home/dev/project");
        if let Some(agent) = self.side {
            line["isSidechain"] = json!(true);
            line["agentId"] = json!(agent);
        }
        self.lines.push(line);
    }

    fn user(&mut self, content: &Value) {
        self.line(json!({"type": "user", "message": {"role": "user", "content": content}}));
    }

    /// An answer, written twice as it grows. Counts: from the cache, written to it, output.
    fn answer(&mut self, model: &str, [read, write, output]: [u64; 3], content: &Value) {
        self.calls += 1;
        let id = format!("msg_{}{}", self.side.unwrap_or("main"), self.calls);
        for output in [1, output] {
            self.line(json!({"type": "assistant", "requestId": format!("req_{id}"), "message": {"id": id, "role": "assistant", "model": model,
                "content": content, "usage": {"input_tokens": 3, "cache_creation_input_tokens": write, "cache_read_input_tokens": read,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": write}, "output_tokens": output}}}));
        }
    }

    /// Calls that read a file each, while the history grows by `step`. Returns its tokens.
    fn work(&mut self, model: &str, mut whole: u64, step: u64, calls: u64) -> u64 {
        for n in 0..calls {
            let id = format!("toolu_{}_{}", self.lines.len(), n);
            let path = format!("/home/dev/project/src/part{}.rs", n % 7);
            self.answer(
                model,
                [whole, step, 300],
                &json!([{"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": path}}]),
            );
            whole += step + 3;
            let text = "let parts = read(path)?;\n".repeat(60);
            self.user(&json!([{"type": "tool_result", "tool_use_id": id, "content": text}]));
        }
        whole
    }

    fn write(&self, path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let lines: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(path, lines).unwrap();
    }
}

/// A home with one long session: a compaction, three subagents, a time with another model.
fn home() -> tempfile::TempDir {
    let dir = temp();
    let project = dir.path().join(".claude/projects/-home-dev-work");
    let mut main = Transcript::default();
    main.user(&json!(
        "Split the importer into parts. Never touch the generated files."
    ));
    main.answer(
        OPUS,
        [17_000, 8_000, 40],
        &json!([{"type": "tool_use", "id": "s", "name": "Skill", "input": {"skill": "review"}}]),
    );
    main.user(&json!([{"type": "tool_result", "tool_use_id": "s", "content": "Launching skill: review"},
        {"type": "text", "text": "Base directory for this skill: /home/dev/.claude/skills/review\n\nAlways list the findings first."}]));
    let mut whole = main.work(OPUS, 25_003, 2_500, 30);
    whole = main.work(HAIKU, whole, 900, 12);
    // What stands before the messages changed: all but the system prompt is stored again.
    main.answer(
        OPUS,
        [17_000, whole - 16_000, 90],
        &json!([{"type": "text", "text": "Now the writer."}]),
    );
    main.user(&json!("Use tabs in the writer, not spaces."));
    whole = main.work(OPUS, whole + 1_003, 2_500, 14);
    let mut summary = Transcript {
        side: Some("acompact-5e1d0a"),
        seconds: main.seconds,
        ..Transcript::default()
    };
    summary.user(&json!(
        "Your task is to create a detailed summary of the conversation so far."
    ));
    summary.answer(
        OPUS,
        [whole, 2_400, 2_000],
        &json!([{"type": "text", "text": "<summary>\n1. Parts.\n</summary>"}]),
    );
    main.seconds = summary.seconds;
    main.line(json!({"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto", "preTokens": whole}}));
    main.line(json!({"type": "user", "isCompactSummary": true, "message": {"role": "user", "content": "This session is being continued"}}));
    main.answer(
        OPUS,
        [17_000, 14_000, 90],
        &json!([{"type": "text", "text": "Going on."}]),
    );
    main.work(OPUS, 31_003, 2_000, 12);
    main.write(&project.join(format!("{ID}.jsonl")));
    let subagents = project.join(ID).join("subagents");
    summary.write(&subagents.join("agent-acompact-5e1d0a.jsonl"));
    for (name, first) in [("a1b2c3d", 0), ("ae99f01", 9_000)] {
        let mut side = Transcript {
            side: Some(name),
            seconds: 300,
            ..Transcript::default()
        };
        side.user(&json!("Find where the parts are read."));
        side.answer(
            HAIKU,
            [first, 12_000 - first, 80],
            &json!([{"type": "text", "text": "In reader.rs."}]),
        );
        side.work(HAIKU, 12_003, 3_000, 3);
        side.write(&subagents.join(format!("agent-{name}.jsonl")));
    }
    dir
}

fn run(home: &Path, words: &[&str]) -> Output {
    let words = [&["try"], words].concat();
    let mut command = program::baton(home, &words);
    command.env("COLUMNS", "80").output().unwrap()
}

fn printed(home: &Path, words: &[&str]) -> String {
    let text = program::printed(run(home, words));
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > WIDTH).collect();
    let is_json = ["--json", "--csv", "--session"]
        .iter()
        .any(|word| words.contains(word));
    assert!(is_json || wide.is_empty(), "wider than a terminal: {wide:?}");
    text
}

fn json_of(home: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&printed(home, &[words, &["--json"]].concat())).unwrap()
}

/// One session, two subagents, and a compaction that is the session's; each call under the model that answered it.
#[test]
fn a_session_and_its_subagents_are_told_apart_and_each_call_is_priced_by_its_model() {
    let home = home();
    let tried = json_of(home.path(), &[]);
    let report = &tried["report"];
    assert_members(report, &json!({"sessions": 1, "subagents": 2, "calls": 80}));
    assert_eq!(report["groups"].as_array().unwrap().len(), 2);
    assert_members(&report["groups"][0], &json!({"model": OPUS, "calls": 60}));
    assert_members(&report["groups"][1], &json!({"model": HAIKU, "calls": 20}));
    let sessions = tried["sessions"].as_array().unwrap();
    for one in sessions {
        let [paid, none] = [&one["paid"], &one["arms"][0]["cost"]].map(|value| value.as_f64().unwrap());
        assert!((none / paid - 1.0).abs() < 1e-4, "{paid} and {none}");
    }
    let main = sessions.iter().find(|one| one["id"] == ID).unwrap();
    let title = "Split the importer into parts. Never touch the generated…";
    assert_members(main, &json!({"title": title, "calls": 72}));
    assert_eq!(main["lost"].as_array().unwrap().len(), 2);
    assert_members(&main["lost"][0], &json!({"cause": "model_switch", "calls": 1}));
    assert_members(&main["lost"][1], &json!({"cause": "compaction", "calls": 1}));
}

/// First the defaults with their error, then the best setting by name, then the bound, which says that it is hindsight. All are shares of
/// what was paid.
#[test]
fn the_verdict_begins_with_the_defaults_and_marks_hindsight() {
    let home = home();
    let screen = printed(home.path(), &[]);
    let tried = json_of(home.path(), &[]);
    let lines = [
        "With the defaults: ",
        "Without knowing the future, at best: ",
        "In hindsight, with every cut at its best moment: ",
    ];
    let at = lines.map(|line| screen.find(line).unwrap_or_else(|| panic!("{line}: {screen}")));
    assert!(at.is_sorted(), "{screen}");
    let paid = format!("of ${:.2}", tried["report"]["paid"].as_f64().unwrap());
    assert_eq!(screen[at[0]..].matches(&paid).count(), 3, "{screen}");
    assert!(screen[at[0]..at[1]].contains(" ± $"), "{screen}");
    for part in [
        "results masked",
        "handoff at task ends (default)",
        "only when the cache is cold",
        "best moment (hindsight)",
        "1 session and 2 subagents",
        "(UTC)",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let verdict = &tried["report"]["verdict"];
    assert_ne!(verdict["best"]["arm"], "hindsight");
    let arms = tried["report"]["arms"].as_array().unwrap();
    let saved = |arm: &Value| arm["saved"].as_f64().unwrap();
    let bound = saved(arms.iter().find(|arm| arm["arm"] == "hindsight").unwrap());
    assert!(arms.iter().all(|arm| saved(arm) <= bound + 1e-9), "{arms:?}");
    // A model that never follows hands over nowhere.
    let ignored = json_of(home.path(), &["--follow-share", "0"]);
    let default = |tried: &Value| tried["report"]["arms"][2]["saved"].as_f64().unwrap();
    assert!(default(&ignored) < 0.0 && default(&tried) > default(&ignored));
    assert_eq!(run(home.path(), &["--follow-share", "2"]).status.code(), Some(64));
}

#[test]
fn a_session_opens_by_every_id_that_is_printed_or_written() {
    let home = home();
    let beginning = &ID[..8];
    for (id, shown) in [
        (ID.to_owned(), ID.to_owned()),
        (beginning.to_owned(), ID.to_owned()),
        (format!("{ID}/ae99f01"), format!("{ID}/ae99f01")),
        (format!("{beginning}/a1b2c3d"), format!("{ID}/a1b2c3d")),
        (format!("{beginning}/agent-a1b2c3d"), format!("{ID}/a1b2c3d")),
        ("agent-a1b2c3d".to_owned(), format!("{ID}/a1b2c3d")),
        (format!("{beginning}…"), ID.to_owned()),
    ] {
        let opened = json_of(home.path(), &["--session", &id]);
        assert_eq!(opened["id"], *shown, "{id}");
    }
    let text = printed(home.path(), &["--session", ID]);
    assert!(text.contains(&format!("{beginning}/a1b2c3d (4 calls)")), "{text}");
    let of_claude = json_of(home.path(), &["--agent", "claude"]);
    assert_eq!(of_claude["report"]["sessions"], 1);
    assert_eq!(run(home.path(), &["--agent", "clod"]).status.code(), Some(64));
}

/// Each cut with what would have been carried, by which policy, and what a reader would have missed. A skill is not the user's word.
#[test]
fn a_session_in_detail_answers_whether_the_work_would_have_gone_on() {
    let home = home();
    let text = printed(home.path(), &["--session", ID]);
    for part in [
        "Cut before call ",
        ", by handoff at task ends (default)",
        "what would have been carried:",
        "what a reader would have missed:",
        "Never touch the generated files",
        "sent (UTC)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A skill's text.
    assert_lacks(&text, "list the findings first");
}

#[test]
fn a_subscription_shows_no_dollars_and_an_empty_span_says_what_lies_outside() {
    let home = home();
    let screen = printed(home.path(), &["--subscription"]);
    assert!(
        !screen.contains('$') && screen.contains("With the defaults: ") && screen.contains("tokens"),
        "{screen}"
    );
    let outside = "1 session ended before that, from 2026-02-11 to 2026-02-11";
    let empty = run(home.path(), &["--since", "1h"]);
    program::refused(&empty, 66, &[outside, "baton try --since 2026-02-11"]);
}

#[test]
fn the_plot_has_a_heading_to_post_with_dates_a_total_and_a_legend() {
    let home = home();
    let plot = home.path().join("plot.svg");
    printed(home.path(), &["--plot", plot.to_str().unwrap()]);
    let svg = fs::read_to_string(&plot).unwrap();
    let report = &json_of(home.path(), &[])["report"];
    let lengths = report["lengths"].as_array().unwrap();
    let paid = lengths.iter().map(|length| length["paid"].as_f64().unwrap());
    let paid: f64 = paid.sum();
    assert!((paid - report["paid"].as_f64().unwrap()).abs() < 0.01, "{report}");
    let title = svg.split("<title>").nth(1).unwrap().split('<').next().unwrap();
    assert!(
        title.starts_with("1 session, 1 day: ") && !title.contains('`'),
        "{title}"
    );
    for part in ["2026-02-11", "Total paid: $", "Grey: paid", " % less"] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
}

/// The journal knows a session that went through the proxy, even if its record has no handoff.
#[tokio::test]
async fn a_session_that_went_through_the_proxy_is_left_out() {
    let home = home();
    assert_eq!(json_of(home.path(), &[])["report"]["behind_baton"], 0);
    let provider = Strict::start(Autopilot, Options::default()).await.unwrap();
    let config = config_for(&provider, home.path(), "");
    let program = Program::start(&config, &home.path().join(".local/state/baton"));
    let asked = json!({"role": "user", "content": "Split the importer."});
    let body = Anthropic.body(&[asked], false);
    let headers = [Anthropic.headers(), &[("x-claude-code-session-id", ID)]].concat();
    let url = format!("{}/v1/messages", program.data);
    let body = body.to_string().into();
    assert_eq!(post(&url, &headers, body).await.status, 200);
    let mut report = Value::Null;
    for _ in 0..100 {
        report = json_of(home.path(), &[])["report"].take();
        if report["behind_baton"] != 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_members(&report, &json!({"behind_baton": 1, "sessions": 0}));
}
