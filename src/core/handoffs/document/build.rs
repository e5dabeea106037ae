//! Builds a document from a handoff and the observed facts, with its risks, the worst first.

use std::collections::HashSet;

use serde_json::Value;

use super::prompt::{PromptSection, SENTENCE, item, listed, merged, next_action, sections};
use super::value::HandoffSource;
use super::{
    FailedAttempt, HandoffDocument, HandoffKind, HandoffSize, Prerequisite, PrerequisiteKind, Risk, Severity,
    VERSION, VerdictPointer,
};
use crate::agents::commands::CommandPurpose;
use crate::handoffs::{carry, draft};
use crate::limits::BYTES_PER_TOKEN;
use crate::record::{HandoffStatus, LOCAL};
use crate::redact::Redactor;
use crate::text::date::rfc3339;
use crate::text::prose::{list_item, one_line};
use crate::work::{self, SeenFacts};

/// Number of last commands that are reported whatever their result.
const LAST_COMMANDS: usize = 5;

/// Number of reported commands above which the successful ones without changes are dropped.
const MOST_COMMANDS: usize = 30;

/// Maximum number of files to read first.
const MOST_FILES: usize = 20;

/// Maximum number of the prompt's sentences that are reported as assumptions.
const MOST_ASSUMED: usize = 40;

/// Maximum size of the summary in bytes.
const SUMMARY: usize = 700;

impl HandoffDocument {
    /// Builds the document of a handoff, with the status active.
    pub fn from_source(source: &HandoffSource<'_>) -> Self {
        Self::composed(source).redacted(source.clean)
    }

    fn composed(source: &HandoffSource<'_>) -> Self {
        let (handoff, seen) = (source.handoff, source.seen);
        let whole = (source.clean)(&handoff.prompt);
        let prompt = carry::prompt_alone(&whole);
        // Steps in the words that a draft quotes may be done, or of other work.
        let own = draft::without_quotes(prompt);
        let (own_sections, sections) = (sections(&own), sections(prompt));
        let goal = draft::goal_of(prompt);
        // Without any of these, this is a status report. In a draft that was composed here, only the list of steps names one.
        let is_composed = draft::is_done(prompt).is_some();
        let next = next_action(if is_composed { "" } else { &own }, &own_sections)
            .or_else(|| goal.map(str::to_owned))
            .or_else(|| seen.next_todo().map(|todo| todo.text.clone()))
            .or_else(|| carry::unanswered(handoff).map(str::to_owned))
            .map(|step| one_line(&step, SENTENCE))
            .filter(|step| !step.is_empty());
        let mut claims = seen.claims(&draft::without_earlier(prompt));
        // A goal claims nothing: the next session has yet to reach it.
        claims.retain(|claim| {
            let text = list_item(&claim.text).unwrap_or(&claim.text);
            goal.is_none_or(|goal| !goal.contains(text.trim_end_matches('…')))
        });
        let (commands_run, commands_left_out) = commands(seen);
        let about = |words: &[&str]| listed(&sections, words);
        let mut questions = about(&["question"]);
        // A section on questions may list answers as well.
        questions.retain(|text| text.ends_with('?'));
        Self {
            version: VERSION,
            id: handoff.id,
            kind: HandoffKind::from_next_action(next.as_deref()),
            status: HandoffStatus::Active,
            created_at: rfc3339(handoff.created_ms / 1000),
            summary: goal.map_or_else(|| summary(&own_sections), |goal| one_line(goal, SUMMARY)),
            changed_files: seen.files.clone(),
            doubtful_files: seen.doubtful_files.clone(),
            commands_run,
            commands_left_out,
            failed_attempts: attempts(seen),
            open_risks: open_risks(source, &sections, &claims),
            verdict_pointer: pointers(seen),
            verification: seen.verification.iter().map(verification).collect(),
            todo: seen.todos.clone(),
            decisions: merged(&seen.decisions, about(&["decision"])),
            assumptions_to_validate: merged(&seen.assumptions, assumed(source, &sections, prompt)),
            questions_for_human: merged(&seen.questions, questions),
            prerequisites: prerequisites(source, prompt),
            repository: repository(source),
            branch: branch(source),
            topic: source.topic.unwrap_or(&handoff.conversation).to_owned(),
            last_known_good_commit: good_commit(source),
            parent: handoff.parent,
            origin: handoff.origin.name().to_owned(),
            wire: handoff.wire.name().to_owned(),
            model: handoff.model.as_deref().map(source.clean),
            conversation: handoff.conversation.clone(),
            client: Some(handoff.principal.clone()).filter(|name| *name != LOCAL),
            exchange: source.exchange.map(str::to_owned),
            turns: seen.turns,
            context: source.context,
            tokens: HandoffSize {
                before: source.bytes.before / BYTES_PER_TOKEN,
                after: source.bytes.after / BYTES_PER_TOKEN,
            },
            bytes: source.bytes,
            claims,
            next_action: next,
            prompt: whole,
        }
    }
}

impl HandoffDocument {
    /// Redacts all strings, since some come from the repository and not from the transcript.
    fn redacted(self, clean: &dyn Fn(&str) -> String) -> Self {
        let mut value = serde_json::to_value(&self).unwrap_or_default();
        redact(&mut value, clean);
        serde_json::from_value(value).unwrap_or(self)
    }
}

/// Redacts the strings of a document, except for its keys, and for strings that are redacted already.
fn redact(value: &mut Value, clean: &dyn Fn(&str) -> String) {
    const KEPT: [&str; 8] = [
        "id",
        "parent",
        "exchange",
        "conversation",
        "topic",
        "created_at",
        "repository",
        "prompt",
    ];
    match value {
        Value::String(text) => *text = clean(text),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, clean)),
        Value::Object(members) => {
            let members = members
                .iter_mut()
                .filter(|(name, _)| !KEPT.contains(&name.as_str()));
            members.for_each(|(_, value)| redact(value, clean));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The first non-empty paragraph. Sections on goal, context or state precede others.
fn summary(sections: &[PromptSection<'_>]) -> String {
    const FIRST: [&str; 5] = ["summary", "goal", "context", "state", "task"];
    let named = FIRST
        .iter()
        .flat_map(|word| sections.iter().filter(move |section| section.is_about(&[word])));
    let mut all = sections.first().into_iter().chain(named).chain(sections);
    let stated = all.find_map(|section| Some(section.paragraph()).filter(|text| !text.is_empty()));
    one_line(&stated.unwrap_or_default(), SUMMARY)
}

/// A run for the document; `passed` is only kept if there is no exit code.
fn verification(run: &work::SeenVerification) -> work::SeenVerification {
    work::SeenVerification {
        passed: run.passed.filter(|_| run.exit.is_none()),
        ..run.clone()
    }
}

/// Commands to report, and the number of omitted ones.
///
/// Reports the last commands, the user's, and those that failed or changed something.
fn commands(seen: &SeenFacts) -> (Vec<work::SeenCommand>, usize) {
    let all = &seen.commands;
    let stays =
        |ran: &work::SeenCommand| ran.by_user || ran.changes || ran.exit.is_some_and(|code| code != 0);
    let from = all.len().saturating_sub(LAST_COMMANDS);
    let (earlier, last) = all.split_at(from);
    let mut kept: Vec<&work::SeenCommand> = earlier.iter().filter(|ran| stays(ran)).chain(last).collect();
    // If there are too many, the last commands get no exception, and the oldest are dropped.
    if kept.len() > MOST_COMMANDS {
        kept.retain(|ran| stays(ran));
        kept.drain(..kept.len().saturating_sub(MOST_COMMANDS));
    }
    let left_out = all.len() - kept.len();
    let kept = kept.into_iter().map(|ran| work::SeenCommand {
        // Other evidence of the end only matters without a code.
        ended: ran.ended.filter(|_| ran.exit.is_none()),
        ..ran.clone()
    });
    (kept.collect(), left_out)
}

fn attempts(seen: &SeenFacts) -> Vec<FailedAttempt> {
    let commands = seen.failed().map(|failed| FailedAttempt {
        tried: failed.command.clone(),
        why: one_line(&failed.lines.join("; "), SENTENCE),
        turn: failed.turn,
        call: failed.call,
    });
    let listed = seen.attempts.iter().map(|stated| FailedAttempt {
        tried: stated.text.clone(),
        why: String::new(),
        turn: stated.turn,
        call: 0,
    });
    commands.chain(listed).collect()
}

fn pointers(seen: &SeenFacts) -> VerdictPointer {
    let last = |review: bool| {
        let mut verdicts = seen.verdicts.iter();
        verdicts
            .rfind(|verdict| is_review(&verdict.path) == review)
            .cloned()
    };
    VerdictPointer {
        verification: last(false),
        review: last(true),
    }
}

/// Assumptions of the prompt: items below such a heading, and sentences that state one.
fn assumed(source: &HandoffSource<'_>, sections: &[PromptSection<'_>], prompt: &str) -> Vec<String> {
    let mut all = listed(sections, &["assum", "taken for granted"]);
    let sentences = crate::work::assumptions(prompt, source.assumptions).into_iter();
    // Headings are skipped. An item below one is read as in a list, so that it is not reported twice.
    let sentences = sentences.filter(|sentence| !sentence.ends_with(':'));
    let sentences = sentences.map(|sentence| one_line(item(&sentence).unwrap_or(&sentence), SENTENCE));
    all.extend(sentences.take(MOST_ASSUMED));
    all
}

/// The previous handoff, files that the prompt names, started processes, and files with credentials.
fn prerequisites(source: &HandoffSource<'_>, prompt: &str) -> Vec<Prerequisite> {
    let one = |kind: PrerequisiteKind, what: &str| Prerequisite {
        kind,
        what: what.to_owned(),
    };
    let seen = source.seen;
    let parent = source.handoff.parent.iter();
    let mut all: Vec<_> = parent
        .map(|id| one(PrerequisiteKind::Handoff, &id.to_string()))
        .collect();
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '@' | '+' | '~');
    let words: HashSet<&str> = prompt
        .split(|c: char| !is_path(c))
        .map(|word| word.trim_end_matches('.').trim_start_matches("./"))
        .collect();
    // A deleted file cannot be read first.
    let gone = crate::agents::files::FileChange::Deleted;
    let there = seen
        .files
        .iter()
        .filter(|file| file.change != gone)
        .map(|file| &file.path);
    let mut known = HashSet::new();
    let there = there
        .chain(seen.read.iter().map(|read| &read.text))
        .filter(|path| words.contains(path.as_str()));
    let named = there.filter(|path| known.insert(path.as_str())).take(MOST_FILES);
    all.extend(named.map(|path| one(PrerequisiteKind::File, path)));
    for (kind, stated) in [
        (PrerequisiteKind::Service, &seen.services),
        (PrerequisiteKind::Credentials, &seen.secrets),
    ] {
        all.extend(stated.iter().map(|stated| one(kind, &stated.text)));
    }
    all
}

/// The directory of the session, without credentials.
fn repository(source: &HandoffSource<'_>) -> String {
    let directory = source.directory.unwrap_or_default();
    Redactor::default().text(directory).into_owned()
}

fn branch(source: &HandoffSource<'_>) -> String {
    let checkout = source.checkout.map(|checkout| &checkout.branch);
    let branch = checkout.filter(|branch| !branch.is_empty());
    branch
        .or(source.seen.branch.as_ref())
        .cloned()
        .unwrap_or_default()
}

/// The clean commit at the last verification that passed.
///
/// The checkout's head if nothing changed since that run; otherwise the commit that git reported in the transcript.
fn good_commit(source: &HandoffSource<'_>) -> String {
    // Only an unchanged checkout is the state that the run verified.
    let now = source.checkout.filter(|checkout| {
        let last = source.seen.verification.last();
        checkout.changed.is_empty()
            && last.is_some_and(|run| run.passed == Some(true) && run.stale == Some(false))
    });
    let now = now.map(|checkout| &checkout.head);
    now.or(source.seen.good_commit.as_ref())
        .cloned()
        .unwrap_or_default()
}

/// Maximum number of files or runs that a risk names.
const NAMED: usize = 8;

/// Minimum score of a good review, in tenths. A review below it is a risk.
const GOOD_REVIEW: u32 = 70;

/// Risks without duplicates.
#[derive(Default)]
struct Risks(Vec<Risk>);

impl Risks {
    fn add(&mut self, severity: Severity, detail: String) {
        if !self.0.iter().any(|risk| risk.detail == detail) {
            self.0.push(Risk { severity, detail });
        }
    }
}

fn open_risks(
    source: &HandoffSource<'_>,
    sections: &[PromptSection<'_>],
    claims: &[work::SeenClaim],
) -> Vec<Risk> {
    let seen = source.seen;
    let mut risks = Risks::default();
    checks_that_failed(seen, &mut risks);
    for stated in merged(&seen.blockers, listed(sections, &["blocker", "blocked"])) {
        risks.add(Severity::Warn, stated.text);
    }
    uncommitted(source, &mut risks);
    poor_reviews(seen, &mut risks);
    let contradicted = work::ClaimStatus::Contradicted;
    for claim in claims.iter().filter(|claim| claim.status == contradicted) {
        let detail = format!("claimed, and contradicted: {}", claim.text);
        risks.add(Severity::Warn, detail);
    }
    other_failures(seen, &mut risks);
    stale_checks(seen, &mut risks);
    // A stable sort: risks of one severity keep the order above.
    risks.0.sort_by_key(|risk| risk.severity);
    risks.0
}

fn checks_that_failed(seen: &SeenFacts, risks: &mut Risks) {
    for run in seen.verification.iter().filter(|run| run.passed == Some(false)) {
        let since = match run.stale {
            Some(true) => "; files changed after it",
            _ => "",
        };
        risks.add(
            Severity::Block,
            format!("`{}` {}{since}", run.command, run.failure()),
        );
    }
}

/// Adds uncommitted files as git reports them, or else as the transcript shows them.
fn uncommitted(source: &HandoffSource<'_>, risks: &mut Risks) {
    if source.is_unread {
        let detail = "the state of the repository was not looked at";
        risks.add(Severity::Warn, detail.to_owned());
    }
    let (changed, what) = match source.checkout {
        Some(checkout) => (&checkout.changed, "not committed"),
        None => (
            &source.seen.uncommitted,
            "changed after the last commit that was seen",
        ),
    };
    if !changed.is_empty() {
        let named = changed[..changed.len().min(NAMED)].join(", ");
        let more = if changed.len() > NAMED { ", …" } else { "" };
        let detail = format!("{what}: {named}{more} ({} in all)", changed.len());
        risks.add(Severity::Warn, detail);
    }
}

fn poor_reviews(seen: &SeenFacts, risks: &mut Risks) {
    for verdict in seen.verdicts.iter().filter(|verdict| is_review(&verdict.path)) {
        if let Some(score) = verdict.score.filter(|score| *score < GOOD_REVIEW) {
            let (whole, tenth) = (score / 10, score % 10);
            let detail = format!("the review {} gives {whole}.{tenth} of 10", verdict.path);
            risks.add(Severity::Warn, detail);
        }
    }
}

/// Failed commands that are not listed as checks.
fn other_failures(seen: &SeenFacts, risks: &mut Risks) {
    let is_listed = |failed: &work::SeenFailure| {
        let mut runs = seen.verification.iter();
        runs.any(|run| {
            // The command of a run begins with its directory, unless that is the work's.
            let is_same = failed.command.contains(&run.command) || run.command.ends_with(&failed.command);
            run.turn == failed.turn && run.exit == failed.exit && is_same
        })
    };
    // Later calls may have settled it, or did not show it again.
    let is_told = |failed: &&work::SeenFailure| {
        failed.is_run && (failed.unknown_since.is_some() || failed.is_certain || failed.leaves_work())
    };
    for failed in seen.failures.iter().filter(is_told) {
        let is_known = failed.unknown_since.is_none();
        let severity = match failed.purpose {
            _ if is_known && is_listed(failed) => continue,
            purpose if is_known && purpose.verifies() => Severity::Block,
            CommandPurpose::Git if is_known => Severity::Warn,
            _ => Severity::Info,
        };
        risks.add(severity, format!("failed: {}", failed.line(0)));
    }
}

/// Checks that passed before files changed: a single risk, the newest first.
fn stale_checks(seen: &SeenFacts, risks: &mut Risks) {
    let runs = seen.verification.iter().rev();
    let stale = runs.filter(|run| run.passed == Some(true) && run.stale == Some(true));
    let stale = stale.map(|run| format!("`{}` passed in turn {}", run.command, run.turn));
    let stale: Vec<String> = stale.collect();
    if !stale.is_empty() {
        let named = stale[..stale.len().min(NAMED)].join(", ");
        let more = match stale.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        risks.add(Severity::Info, format!("files changed after {named}{more}"));
    }
}

pub(super) fn is_review(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.to_ascii_lowercase().contains("review")
}
