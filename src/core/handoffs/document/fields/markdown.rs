//! Renders a document as Markdown, from its fields alone.

use std::fmt::Write as _;

use super::{HandoffDocument, HandoffSize, HandoffStatement, NO_NEXT_ACTION, Verification};

/// Everything above the carry-over prompt, which comes last since it may contain anything.
pub(super) const PROMPT: &str = "## Carry-over prompt";

pub(super) fn of(packet: &HandoffDocument) -> String {
    let mut out = String::new();
    head(packet, &mut out);
    section("Summary", [line(&packet.summary)], &mut out);
    match &packet.next_action {
        Some(next) => section("Next action", [line(next)], &mut out),
        None => section("Next action", [format!("**{NO_NEXT_ACTION}**")], &mut out),
    }
    section("Open risks", risks(packet), &mut out);
    section("Verification", verification(packet), &mut out);
    section("Claims that nothing proves", claims(packet), &mut out);
    section("Changed files", files(packet), &mut out);
    section("Commands", commands(packet), &mut out);
    section("Failed attempts", attempts(packet), &mut out);
    let todo = packet
        .todo
        .iter()
        .map(|todo| format!("- [{}] {}", todo.state, line(&todo.text)));
    section("To do", todo, &mut out);
    section("Decisions", stated(&packet.decisions), &mut out);
    section(
        "Assumptions to validate",
        stated(&packet.assumptions_to_validate),
        &mut out,
    );
    section(
        "Questions for a human",
        stated(&packet.questions_for_human),
        &mut out,
    );
    section("Prerequisites", prerequisites(packet), &mut out);
    section("Verdicts", verdicts(packet), &mut out);
    section("Origin", origin(packet), &mut out);
    prompt(packet, &mut out);
    out
}

fn head(packet: &HandoffDocument, out: &mut String) {
    let what = match packet.next_action {
        Some(_) => "Handoff",
        None => "Status report",
    };
    let _ = writeln!(out, "# {what} {}\n", packet.id);
    let _ = writeln!(out, "{}, made {}.", packet.status.name(), packet.created_at);
}

fn section(heading: &str, lines: impl IntoIterator<Item = String>, out: &mut String) {
    let lines: Vec<String> = lines.into_iter().collect();
    if !lines.is_empty() {
        let _ = write!(out, "\n## {heading}\n\n{}\n", lines.join("\n"));
    }
}

fn risks(packet: &HandoffDocument) -> Vec<String> {
    let risks = packet.open_risks.iter();
    risks
        .map(|risk| format!("- **{}** {}", risk.severity.name(), line(&risk.detail)))
        .collect()
}

fn verification(packet: &HandoffDocument) -> Vec<String> {
    let runs = packet.verification.iter();
    runs.map(|run| {
        let since = match run.stale {
            Some(true) => "; files changed after it",
            Some(false) => "",
            None => "; files may have changed after it",
        };
        format!(
            "- {}: {} (turn {}){since}",
            code(&run.command),
            verified(run),
            run.turn
        )
    })
    .collect()
}

fn claims(packet: &HandoffDocument) -> Vec<String> {
    let claims = packet.claims.iter();
    claims
        .map(|claim| {
            format!(
                "- **{}** {} ({})",
                claim.verdict,
                line(&claim.claim),
                line(&claim.why)
            )
        })
        .collect()
}

fn files(packet: &HandoffDocument) -> Vec<String> {
    let files = packet.changed_files.iter();
    files
        .map(|file| {
            let why = file.why.as_ref().map(|why| format!(": {}", line(why)));
            format!(
                "- {} {}{}",
                code(&file.path),
                file.change,
                why.unwrap_or_default()
            )
        })
        .collect()
}

fn commands(packet: &HandoffDocument) -> Vec<String> {
    let mut lines = Vec::new();
    for run in &packet.commands_run {
        lines.push(format!(
            "- {}: {} (turn {})",
            code(&run.command),
            ended(run.exit),
            run.turn
        ));
        // Indented, so that nothing in it is read as Markdown.
        lines.extend(run.output.iter().map(|output| format!("      {}", line(output))));
    }
    if packet.commands_left_out > 0 {
        lines.push(format!("- {} more are in the journal", packet.commands_left_out));
    }
    lines
}

fn verified(run: &Verification) -> String {
    match (run.has_passed(), run.exit) {
        (Some(true), _) => "passed".to_owned(),
        (Some(false), None) => "**failed**, exit code unknown".to_owned(),
        (_, exit) => ended(exit),
    }
}

/// Exit code of a whole line: zero does not prove that each of its commands passed.
fn ended(exit: Option<i32>) -> String {
    match exit {
        Some(0) => "exit 0".to_owned(),
        Some(code) => format!("**exit {code}**"),
        None => "exit code unknown".to_owned(),
    }
}

fn attempts(packet: &HandoffDocument) -> Vec<String> {
    let attempts = packet.failed_attempts.iter();
    attempts
        .map(|attempt| match attempt.why.is_empty() {
            true => format!("- {}", line(&attempt.tried)),
            false => format!("- {}: {}", code(&attempt.tried), line(&attempt.why)),
        })
        .collect()
}

fn stated(all: &[HandoffStatement]) -> Vec<String> {
    let shown = |stated: &HandoffStatement| match stated.turn {
        0 => format!("- {}", line(&stated.text)),
        turn => format!("- {} (turn {turn})", line(&stated.text)),
    };
    all.iter().map(shown).collect()
}

fn prerequisites(packet: &HandoffDocument) -> Vec<String> {
    let all = packet.prerequisites.iter();
    all.map(|one| format!("- {} {}", one.kind.name(), code(&one.what)))
        .collect()
}

fn verdicts(packet: &HandoffDocument) -> Vec<String> {
    let pointer = &packet.verdict_pointer;
    let all = [
        ("verification", &pointer.verification),
        ("review", &pointer.review),
    ];
    let there = all
        .into_iter()
        .filter_map(|(name, pointer)| Some((name, pointer.as_ref()?)));
    there
        .map(|(name, pointer)| {
            let missing = if pointer.missing { " (missing)" } else { "" };
            format!("- {name}: {}{missing}", code(&pointer.path))
        })
        .collect()
}

fn origin(packet: &HandoffDocument) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("- {name}: {}", line(value)));
        }
    };
    add("repository", &packet.repository);
    add("branch", &packet.branch);
    add("last known good commit", &packet.last_known_good_commit);
    add("topic", &packet.topic);
    add("conversation", &packet.conversation);
    add(
        "parent",
        &packet.parent.map(|id| id.to_string()).unwrap_or_default(),
    );
    add("exchange", packet.exchange.as_deref().unwrap_or_default());
    add("begun by", &packet.origin);
    add("wire", &packet.wire);
    add("model", packet.model.as_deref().unwrap_or_default());
    add("turns", &packet.turns.to_string());
    add("tokens (estimated)", &sizes(packet.tokens));
    add("bytes", &sizes(packet.bytes));
    add("format", &packet.version.to_string());
    lines
}

fn sizes(size: HandoffSize) -> String {
    format!("{} before, {} after", size.before, size.after)
}

fn prompt(packet: &HandoffDocument, out: &mut String) {
    // A fence that is longer than any in the prompt.
    let longest = packet
        .prompt
        .split(|c: char| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = write!(out, "\n{PROMPT}\n\n{fence}\n{}\n{fence}\n", packet.prompt);
}

/// A text on one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text as code on one line.
fn code(text: &str) -> String {
    let text = line(text);
    let longest = text
        .split(|c: char| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    match longest {
        0 => format!("`{text}`"),
        longest => {
            let fence = "`".repeat(longest + 1);
            format!("{fence} {text} {fence}")
        }
    }
}
