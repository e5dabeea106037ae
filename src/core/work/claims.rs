//! Checks claims of success against the recorded runs.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::excerpt::{one_line, sentences};
use super::words::WORDS;
use super::{SeenFacts, SeenVerification};
use crate::agents::commands::CommandPurpose;
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
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct ClaimRow {
    purpose: Option<CommandPurpose>,
    words: Vec<&'static str>,
}

static CLAIMS: LazyLock<Vec<ClaimRow>> = LazyLock::new(|| table::rows(include_str!("claims.toml")));

impl SeenFacts {
    /// The claims of success in `text` that no run proves, or whose files changed after the run.
    pub fn claims(&self, text: &str) -> Vec<SeenClaim> {
        let mut found: Vec<SeenClaim> = Vec::new();
        for sentence in sentences(text) {
            let small = sentence.to_lowercase();
            let claimed = CLAIMS
                .iter()
                .find(|row| row.words.iter().any(|word| claims(&small, word)));
            let Some(row) = claimed else { continue };
            let Some((status, why)) = self.status_of(row.purpose) else {
                continue;
            };
            let text = one_line(sentence, SENTENCE);
            if found.len() < MAX_CLAIMS && !found.iter().any(|claim| claim.text == text) {
                found.push(SeenClaim { text, status, why });
            }
        }
        found
    }

    /// The status of a claim of success; `None` if it is proven.
    fn status_of(&self, purpose: Option<CommandPurpose>) -> Option<(ClaimStatus, String)> {
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
    let Some(at) = sentence.find(words) else {
        return false;
    };
    if sentence.trim_end().ends_with('?') {
        return false;
    }
    let before = sentence[..at].split(|c: char| !(c.is_alphanumeric() || c == '\''));
    // `tests pass once …` and `all green except …` state a condition.
    let after = sentence[at + words.len()..].split_whitespace().take(3);
    let takes_back = |word: &str| WORDS.no_claim.contains(&word) || word.ends_with("n't");
    !before.into_iter().any(takes_back)
        && !after
            .into_iter()
            .any(|word| matches!(word, "if" | "once" | "when" | "except" | "but"))
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
}
