//! Checks claims of success against the recorded runs.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::excerpt::{one_line, sentences};
use super::words::{WORDS, has_word};
use super::{SeenCommand, SeenEffect, SeenFacts, SeenVerification};
use crate::agents::commands::{CommandPurpose, name_of, without_git_directories};
use crate::text::prose::{ends_with_question, is_unspaced, lower};
use crate::text::table;

named! {
    /// The status of a claim.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ClaimStatus {
        /// The last run contradicts the claim.
        Contradicted = "contradicted",
        /// Files changed after the last run that proves the claim.
        Stale = "stale",
        /// No run proves the claim.
        Unverified = "unverified",
    }
}

/// A claim that is not proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenClaim {
    /// The sentence with the claim, on one line.
    #[serde(rename = "claim")]
    pub text: String,
    #[serde(rename = "verdict")]
    pub status: ClaimStatus,
    /// The reason for the status, in words.
    pub why: String,
}

/// Maximum size of a sentence in bytes.
const SENTENCE: usize = 200;

/// Maximum number of reported claims; the first ones are kept.
const MAX_CLAIMS: usize = 12;

/// Words that claim success. Without a purpose, any verifying run proves the claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimRow {
    purpose: Option<CommandPurpose>,
    /// The subcommand of git that the words report.
    git: Option<&'static str>,
    words: Vec<&'static str>,
}

static CLAIMS: LazyLock<Vec<ClaimRow>> = LazyLock::new(|| table::rows(include_str!("claims.toml")));

/// A status of a claim and its reason, in words.
type JudgedClaim = (ClaimStatus, String);

impl SeenFacts {
    /// The claims of success in `text` that no run proves, or whose files changed after the run.
    pub fn claims(&self, text: &str) -> Vec<SeenClaim> {
        let mut found: Vec<SeenClaim> = Vec::new();
        for sentence in sentences(text) {
            let small = lower(sentence);
            // A sentence may claim more than one success: `Committed and pushed.`
            let claimed = CLAIMS
                .iter()
                .filter(|row| row.words.iter().any(|word| claims(&small, word)));
            let judged = claimed.filter_map(|row| match row.git {
                Some(name) => self.status_of_git(name, &small),
                None => self.status_of(row.purpose),
            });
            let Some((status, why)) = judged.min_by_key(|(status, _)| *status != ClaimStatus::Contradicted)
            else {
                continue;
            };
            let text = one_line(sentence, SENTENCE);
            if found.len() < MAX_CLAIMS && !found.iter().any(|claim| claim.text == text) {
                found.push(SeenClaim { text, status, why });
            }
        }
        found
    }

    /// The status of a claim that a git command succeeded; `None` if its last run does not contradict it.
    ///
    /// Nothing else follows from the transcript: the commit may be older, or by another program.
    fn status_of_git(&self, name: &str, claim: &str) -> Option<JudgedClaim> {
        let parts = |effect: &'_ SeenEffect| {
            let (directory, command) = effect
                .command
                .rsplit_once(" && ")
                .unwrap_or(("", &effect.command));
            let plain = without_git_directories(command);
            let directory = if plain == command { directory } else { command };
            (directory.to_owned(), name_of(&plain))
        };
        let command = format!("git {name}");
        let is_it = |effect: &&SeenEffect| has_word(&parts(effect).1, &command);
        let last = self.effects.iter().rfind(is_it)?;
        let is_open = last.passed == Some(false) && !last.is_idle && last.turn + 1 >= self.turns;
        // The claim may mean a success before it, or in another repository.
        let (directory, _) = parts(last);
        let is_other = |effect: &SeenEffect| parts(effect).0 != directory;
        let is_universal = WORDS.everything.iter().any(|word| contains(claim, word));
        let may_be_meant =
            |effect: &SeenEffect| effect.passed != Some(false) && (is_other(effect) || !is_universal);
        // Later lines may run the command unrecognized.
        let is_later = |line: &SeenCommand| {
            (line.turn, line.call) > (last.turn, last.call) && line.command.contains(name)
        };
        (is_open
            && !self.effects.iter().filter(is_it).any(may_be_meant)
            && !self.commands.iter().any(is_later))
        .then(|| {
            let why = format!("the last run of `{command}` failed in turn {}", last.turn);
            (ClaimStatus::Contradicted, why)
        })
    }

    /// The status of a claim of success; `None` if it is proven.
    fn status_of(&self, purpose: Option<CommandPurpose>) -> Option<JudgedClaim> {
        let of = |run: &&SeenVerification| purpose.is_none_or(|purpose| run.purpose == purpose);
        let runs: Vec<&SeenVerification> = self.verification.iter().filter(of).collect();
        // A failed check outweighs passed ones: the claim covers all checks of its purpose.
        let failed = runs.iter().rev().find(|run| run.passed == Some(false));
        if let Some(run) = failed {
            let why = format!("the last run of `{}` {}", run.command, run.failure());
            return Some((ClaimStatus::Contradicted, why));
        }
        let passed: Vec<&&SeenVerification> = runs.iter().filter(|run| run.passed == Some(true)).collect();
        // A single passed run without later changes proves the claim.
        if passed.iter().any(|run| run.stale == Some(false)) {
            return None;
        }
        let Some(run) = passed.last().copied().or(runs.last()) else {
            return Some((ClaimStatus::Unverified, "no run of it was seen".to_owned()));
        };
        let (command, turn) = (&run.command, run.turn);
        let passed = format!("after `{command}` passed in turn {turn}");
        Some(match (run.passed, run.stale) {
            (Some(true), Some(true)) => (ClaimStatus::Stale, format!("files changed {passed}")),
            (Some(true), _) => (
                ClaimStatus::Unverified,
                format!("files may have changed {passed}"),
            ),
            _ => (
                ClaimStatus::Unverified,
                format!("how `{command}` ended in turn {turn} is not known"),
            ),
        })
    }
}

/// Whether a lower-case sentence states `words` as a fact. Questions and negated sentences do not.
fn claims(sentence: &str, words: &str) -> bool {
    let Some(at) = position(sentence, words) else {
        return false;
    };
    // In a language without spaces, the words that take a claim back may stand anywhere.
    let is_foreign = !words.is_ascii() && WORDS.no_claim_within.iter().any(|word| sentence.contains(word));
    if is_foreign || ends_with_question(sentence.trim_end()) {
        return false;
    }
    let before = sentence[..at].split(|c: char| !(c.is_alphanumeric() || c == '\''));
    // `tests pass once …` and `all green except …` state a condition.
    let after = sentence[at + words.len()..].split(|c: char| !c.is_alphanumeric());
    let mut after = after.filter(|word| !word.is_empty()).take(3);
    let takes_back = |word: &str| WORDS.no_claim.contains(&word) || word.ends_with("n't");
    !before.into_iter().any(takes_back) && !after.any(|word| WORDS.no_claim_after.contains(&word))
}

fn contains(text: &str, words: &str) -> bool {
    position(text, words).is_some()
}

/// Position of `words` that are not a part of longer ones. Scripts without spaces do not show such parts.
fn position(text: &str, words: &str) -> Option<usize> {
    let is_letter = |c: char| c.is_alphanumeric() && !is_unspaced(c);
    let (begins, ends) = (words.starts_with(is_letter), words.ends_with(is_letter));
    let mut found = text.match_indices(words).map(|(at, _)| at);
    found.find(|at| {
        let (before, after) = (&text[..*at], &text[at + words.len()..]);
        !(begins && before.ends_with(is_letter) || ends && after.starts_with(is_letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(purpose: CommandPurpose, exit: Option<i32>, stale: Option<bool>) -> SeenVerification {
        SeenVerification {
            purpose,
            command: "cargo test".to_owned(),
            exit,
            passed: exit.map(|code| code == 0),
            turn: 3,
            call: 0,
            is_running: false,
            directory_unknown: false,
            stale,
        }
    }

    fn unproven(verification: Vec<SeenVerification>, text: &str) -> Vec<(ClaimStatus, String)> {
        let seen = SeenFacts {
            verification,
            ..SeenFacts::default()
        };
        seen.claims(text)
            .into_iter()
            .map(|claim| (claim.status, claim.text))
            .collect()
    }

    #[test]
    fn a_claim_is_checked_against_the_last_run() {
        let claim = "Done: all tests pass.";
        let one = |status: ClaimStatus| vec![(status, claim.to_owned())];
        let test = CommandPurpose::Test;
        assert_eq!(unproven(vec![], claim), one(ClaimStatus::Unverified));
        assert_eq!(unproven(vec![run(test, Some(0), Some(false))], claim), []);
        assert_eq!(
            unproven(vec![run(test, Some(0), Some(true))], claim),
            one(ClaimStatus::Stale)
        );
        assert_eq!(
            unproven(vec![run(test, Some(0), None)], claim),
            one(ClaimStatus::Unverified)
        );
        assert_eq!(
            unproven(vec![run(test, None, Some(false))], claim),
            one(ClaimStatus::Unverified)
        );
        assert_eq!(
            unproven(vec![run(test, Some(101), Some(false))], claim),
            one(ClaimStatus::Contradicted)
        );
        assert_eq!(
            unproven(vec![run(CommandPurpose::Lint, Some(0), Some(false))], claim),
            one(ClaimStatus::Unverified)
        );
    }

    #[test]
    fn a_wish_and_a_denial_are_no_claims() {
        for text in [
            "Make sure all tests pass.",
            "Two tests don't work, so not all tests pass.",
            "Run it until the tests pass.",
            "Do the tests pass?",
            "Next: fix it so the tests pass.",
            "The tests should be green: tests are green is the goal.",
            "The parser is done.",
        ] {
            assert_eq!(unproven(vec![], text), [], "{text}");
        }
        for text in [
            "The build passes and clippy is clean.",
            "I ran it: everything works.",
        ] {
            assert_eq!(unproven(vec![], text).len(), 1, "{text}");
        }
    }

    #[test]
    fn claims_are_recognized_in_every_language_and_their_denials_are_not() {
        let failed = |text: &str| unproven(vec![run(CommandPurpose::Test, Some(101), Some(false))], text);
        for text in [
            "Erledigt: alle Tests sind grün.",
            "Alle Tests laufen durch.",
            "Tous les tests passent.",
            "Todas las pruebas pasan.",
            "Todos os testes passaram.",
            "Tutti i test passano.",
            "Alle tests slagen.",
            "Alle tests består.",
            "Alla tester går igenom.",
            "Wszystkie testy przechodzą.",
            "Все тесты проходят.",
            "Усі тести проходять.",
            "Tüm testler geçiyor.",
            "Tất cả test đều đạt.",
            "Semua tes lulus.",
            "所有测试都通过了。",
            "すべてのテストが通りました。",
            "모든 테스트가 통과했습니다.",
        ] {
            assert_eq!(failed(text), [(ClaimStatus::Contradicted, text.to_owned())]);
        }
        for text in [
            "Noch nicht: alle Tests sind grün.",
            "Fertig ist es, wenn alle Tests grün sind.",
            "Die Tests laufen nicht durch.",
            "Les tests ne passent pas.",
            "Arregla el lexer hasta que las pruebas pasan.",
            "Alle Tests sind grün, außer dem des Lexers.",
            "Тесты не проходят.",
            "测试通过之后再提交。",
            "不是所有测试都通过了。",
            "所有测试都通过了吗？",
            "テストが通りませんでした。",
            "테스트가 통과하지 않습니다.",
        ] {
            assert_eq!(failed(text), [], "{text}");
        }
        let build = || vec![run(CommandPurpose::Build, Some(2), Some(false))];
        for text in ["The build works.", "Der Build läuft durch.", "构建成功。"] {
            let end = unproven(build(), text);
            assert_eq!(end, [(ClaimStatus::Contradicted, text.to_owned())]);
        }
        assert_eq!(unproven(build(), "The user rebuilds cleanly-named pages."), []);
    }

    fn effect(command: &str, turn: usize, passed: Option<bool>) -> SeenEffect {
        SeenEffect {
            purpose: CommandPurpose::Git,
            command: command.to_owned(),
            turn,
            call: turn,
            passed,
            is_running: false,
            may_have_ended: false,
            is_idle: false,
            hides_failure: false,
            lines: Vec::new(),
            by_user: false,
        }
    }

    #[test]
    fn a_commit_or_a_push_is_contradicted_only_by_the_failure_of_its_last_run() {
        let check = |effects: &[SeenEffect], lines: &[&str], text: &str| {
            let line = |(at, line): (usize, &&str)| SeenCommand {
                command: (*line).to_owned(),
                exit: Some(0),
                turn: 4,
                call: 10 + at,
                by_user: false,
                changes: false,
                ended: None,
                output: Vec::new(),
            };
            let seen = SeenFacts {
                turns: 4,
                effects: effects.to_vec(),
                commands: lines.iter().enumerate().map(line).collect(),
                ..SeenFacts::default()
            };
            let claims = seen.claims(text).into_iter();
            claims.map(|claim| (claim.status, claim.why)).collect::<Vec<_>>()
        };
        let contradicted = |why: &str| vec![(ClaimStatus::Contradicted, why.to_owned())];
        let commit = effect("git commit -m x", 4, Some(false));
        let push = effect("git push origin main", 4, Some(false));
        for text in [
            "Everything is committed.",
            "Alles ist committet.",
            "Всё закоммичено.",
            "已提交。",
            "コミットしました。",
        ] {
            let end = check(std::slice::from_ref(&commit), &[], text);
            assert_eq!(
                end,
                contradicted("the last run of `git commit` failed in turn 4"),
                "{text}"
            );
        }
        for text in ["Committed and pushed to origin.", "Ist gepusht.", "已推送。"] {
            let end = check(
                &[effect("git commit -m x", 4, Some(true)), push.clone()],
                &[],
                text,
            );
            assert_eq!(
                end,
                contradicted("the last run of `git push` failed in turn 4"),
                "{text}"
            );
        }
        for text in [
            "Not committed yet.",
            "Uncommitted changes remain.",
            "It must be committed.",
            "Noch nicht committet.",
            "尚未提交，不要说已提交。",
        ] {
            assert_eq!(check(std::slice::from_ref(&commit), &[], text), [], "{text}");
        }
        let claim = "The parser is committed.";
        let earlier = effect("git commit -m y", 3, Some(true));
        for effects in [
            vec![],
            // A commit before it may be meant, unless everything is claimed.
            vec![earlier.clone(), commit.clone()],
            vec![
                effect("cd other && git commit -m y", 3, Some(true)),
                commit.clone(),
            ],
            vec![effect("git -C other commit -m y", 3, Some(true)), commit.clone()],
            vec![commit.clone(), effect("git commit -m y", 5, Some(true))],
            vec![effect("git commit -m x", 4, None)],
            vec![effect("git commit -m x", 1, Some(false))],
            vec![SeenEffect {
                is_idle: true,
                ..commit.clone()
            }],
        ] {
            assert_eq!(check(&effects, &[], claim), [], "{effects:?}");
        }
        assert_eq!(
            check(
                std::slice::from_ref(&commit),
                &["for d in a b; do git commit; done"],
                claim
            ),
            []
        );
        assert_eq!(
            check(&[earlier, commit], &[], "Everything is committed.").len(),
            1
        );
    }
}
