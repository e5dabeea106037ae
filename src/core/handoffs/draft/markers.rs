//! Words by which a sentence is a constraint, a decision, or something else that must not be lost.

use std::collections::HashSet;

use super::excerpt::{one_line, sentences};

/// The class of a kept sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum SentenceClass {
    /// A constraint.
    Constraint,
    /// What was decided.
    Decision,
    /// A blocker.
    Blocker,
    /// What is still to be done.
    Later,
    /// A known failure that was left open.
    LeftOpen,
    /// A failed attempt.
    DeadEnd,
    /// An assumption.
    Assumption,
}

/// The speaker whose sentences a word marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkerSpeaker {
    /// Anybody's.
    Any,
    /// The person's: in a model's prose it means little.
    Person,
    /// The model's.
    Model,
}

/// Words in the order in which they are looked for; small letters. A word ends where letters end.
const WORDS: &[(SentenceClass, MarkerSpeaker, &str)] = &[
    (SentenceClass::Decision, MarkerSpeaker::Any, "decided"),
    (SentenceClass::Decision, MarkerSpeaker::Any, "decision"),
    (SentenceClass::Decision, MarkerSpeaker::Any, "we agreed"),
    (SentenceClass::Decision, MarkerSpeaker::Model, "chose"),
    (SentenceClass::Decision, MarkerSpeaker::Model, "going with"),
    (SentenceClass::Blocker, MarkerSpeaker::Any, "blocked"),
    (SentenceClass::Blocker, MarkerSpeaker::Any, "blocker"),
    (SentenceClass::Blocker, MarkerSpeaker::Any, "cannot proceed"),
    (SentenceClass::Constraint, MarkerSpeaker::Any, "constraint"),
    (SentenceClass::Constraint, MarkerSpeaker::Any, "requirement"),
    (SentenceClass::Constraint, MarkerSpeaker::Person, "must"),
    (SentenceClass::Constraint, MarkerSpeaker::Person, "never"),
    (SentenceClass::Constraint, MarkerSpeaker::Person, "always"),
    (SentenceClass::Constraint, MarkerSpeaker::Person, "do not"),
    (SentenceClass::Constraint, MarkerSpeaker::Person, "don't"),
    (SentenceClass::Constraint, MarkerSpeaker::Person, "at most"),
    (SentenceClass::Constraint, MarkerSpeaker::Person, "no more than"),
    (SentenceClass::Constraint, MarkerSpeaker::Person, "make sure"),
    (SentenceClass::Constraint, MarkerSpeaker::Person, "prefer"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "still fails"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "still fail"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "still failing"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "still broken"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "still open"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "still red"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "keeps failing"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "fails and i"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "unresolved"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "unsolved"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "unfixed"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "not fixed"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "not resolved"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "not solved"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "could not fix"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "couldn't fix"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "cannot fix"),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "can't fix"),
    (
        SentenceClass::LeftOpen,
        MarkerSpeaker::Model,
        "was not able to fix",
    ),
    (SentenceClass::LeftOpen, MarkerSpeaker::Model, "known failure"),
    (SentenceClass::DeadEnd, MarkerSpeaker::Model, "did not work"),
    (SentenceClass::DeadEnd, MarkerSpeaker::Model, "didn't work"),
    (SentenceClass::DeadEnd, MarkerSpeaker::Model, "does not work"),
    (SentenceClass::DeadEnd, MarkerSpeaker::Model, "doesn't work"),
    (SentenceClass::DeadEnd, MarkerSpeaker::Model, "dead end"),
    (SentenceClass::DeadEnd, MarkerSpeaker::Model, "failed because"),
    (SentenceClass::Later, MarkerSpeaker::Any, "todo"),
    (SentenceClass::Later, MarkerSpeaker::Any, "fixme"),
    (SentenceClass::Later, MarkerSpeaker::Model, "follow-up"),
];

/// Words with which something is left as it is, and words for how it is then, at most so many words after them.
const LEAVES: [&str; 11] = [
    "leave", "leaves", "leaving", "left", "keep", "keeping", "kept", "remain", "remains", "stay", "stays",
];
const AS_IT_IS: [&str; 6] = ["open", "failing", "broken", "red", "unfinished", "failed"];
const NEAR: usize = 5;

/// Words that take what follows them for the sentence before theirs.
const POINTING: [&str; 6] = ["this", "that", "it", "these", "those", "both"];

/// Bytes of the sentence before that a pointing one is kept with.
const BEFORE: usize = 140;

/// Words by which something that failed is mended.
const MENDED: [&str; 12] = [
    "fixed",
    "resolved",
    "solved",
    "repaired",
    "passes",
    "pass",
    "works",
    "succeeds",
    "no longer fails",
    "green",
    "closed",
    "mended",
];

/// Words that say that it is not.
const NOT_MENDED: [&str; 7] = ["not", "n't", "still", "un", "never", "should", "to be"];

/// Words by which a sentence of the model's is an assumption, where nobody names others (`packets.assumption_words`).
pub(super) const ASSUMPTIONS: [&str; 9] = [
    "assume",
    "assumes",
    "assumed",
    "assuming",
    "assumption",
    "presumably",
    "probably",
    "should be",
    "should work",
];

/// Words of the config, in small letters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConfiguredMarkers<'w> {
    /// Those that make a constraint, whoever says them.
    pub(super) constraints: &'w [String],
    /// Those that make an assumption of the model's.
    pub(super) assumptions: &'w [String],
}

/// Bytes of a sentence that are kept.
const SENTENCE: usize = 280;

/// A sentence that is kept for a word in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnchoredSentence {
    /// The class of the sentence.
    pub(super) class: SentenceClass,
    /// Whether it is the person's.
    pub(super) by_person: bool,
    /// The sentence, on one line.
    pub(super) text: String,
}

/// The sentences of a text that have such a word.
pub(super) fn anchors(text: &str, by_person: bool, more: ConfiguredMarkers<'_>) -> Vec<AnchoredSentence> {
    let mut seen = HashSet::new();
    let mut before: Option<&str> = None;
    let found = sentences(text).filter_map(|sentence| {
        let before = before.replace(sentence);
        let class = class(sentence, by_person, more)?;
        let text = match before.filter(|_| class == SentenceClass::LeftOpen && points(sentence)) {
            Some(before) => format!("{} {}", one_line(before, BEFORE), one_line(sentence, SENTENCE)),
            None => one_line(sentence, SENTENCE),
        };
        Some(AnchoredSentence {
            class,
            by_person,
            text,
        })
    });
    found.filter(|anchor| seen.insert(anchor.text.clone())).collect()
}

fn class(sentence: &str, by_person: bool, more: ConfiguredMarkers<'_>) -> Option<SentenceClass> {
    let small = sentence.to_lowercase();
    let mine = |whose: MarkerSpeaker| match whose {
        MarkerSpeaker::Any => true,
        MarkerSpeaker::Person => by_person,
        MarkerSpeaker::Model => !by_person,
    };
    let known = WORDS
        .iter()
        .find(|(_, whose, word)| mine(*whose) && has_word(&small, word));
    let known = known.map(|(class, ..)| *class);
    let known = known.or_else(|| (!by_person && is_left(&small)).then_some(SentenceClass::LeftOpen));
    let has = |words: &[String]| words.iter().any(|word| has_word(&small, word));
    known
        .or_else(|| has(more.constraints).then_some(SentenceClass::Constraint))
        .or_else(|| (!by_person && has(more.assumptions)).then_some(SentenceClass::Assumption))
}

/// Whether a sentence in small letters says that something is left failing.
fn is_left(sentence: &str) -> bool {
    let words: Vec<&str> = words(sentence).collect();
    let leaves = |at: &usize| LEAVES.contains(&words[*at]);
    let as_it_is = |at: usize| {
        words[at..]
            .iter()
            .take(NEAR + 1)
            .any(|word| AS_IT_IS.contains(word))
    };
    (0..words.len()).filter(leaves).any(as_it_is)
}

/// Whether a sentence refers to the previous one.
fn points(sentence: &str) -> bool {
    let small = sentence.to_lowercase();
    let first = words(&small).next().unwrap_or_default();
    POINTING.contains(&first) || names(sentence).next().is_none()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let cut = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '\''));
    text.split(cut).filter(|word| !word.is_empty())
}

/// The words of a text that name something: identifiers, paths, numbers.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let cut = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':'));
    let all = text
        .split(cut)
        .map(|word| word.trim_matches(['.', '-', '/', ':']));
    all.filter(|word| word.len() > 2 && word.contains(|c: char| !c.is_alphabetic()))
}

/// Whether a text of the model's says that what a sentence left open is mended: it names the same thing.
pub(super) fn mends(text: &str, left_open: &str) -> bool {
    sentences(text).any(|sentence| {
        let small = sentence.to_lowercase();
        let is_mended = MENDED.iter().any(|word| has_word(&small, word))
            && !NOT_MENDED.iter().any(|word| has_word(&small, word))
            && !is_left(&small);
        is_mended && names(left_open).any(|name| names(sentence).any(|other| other == name))
    })
}

/// The sentences of a text of the model's that take something for granted.
pub fn assumptions(text: &str, words: &[String]) -> Vec<String> {
    let more = ConfiguredMarkers {
        assumptions: words,
        ..ConfiguredMarkers::default()
    };
    let found = anchors(text, false, more).into_iter();
    let assumed = found.filter(|anchor| anchor.class == SentenceClass::Assumption);
    assumed.map(|anchor| anchor.text).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_letter) && !text[at + word.len()..].starts_with(is_letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: ConfiguredMarkers<'_> = ConfiguredMarkers {
        constraints: &[],
        assumptions: &[],
    };

    #[test]
    fn an_assumption_is_the_models_by_words_that_may_be_named() {
        let words = ASSUMPTIONS.map(str::to_owned);
        let text = "The cache should be warm. I assume that the port is free. Presumably it works. It is done. \
            We must hold it, assuming nothing.";
        let found = assumptions(text, &words);
        assert_eq!(
            found,
            [
                "The cache should be warm.",
                "I assume that the port is free.",
                "Presumably it works.",
                "We must hold it, assuming nothing."
            ]
        );
        assert_eq!(assumptions(text, &["port".to_owned()]).len(), 1);
        assert_eq!(assumptions(text, &[]), [""; 0]);
        let configured = ConfiguredMarkers {
            assumptions: &words,
            ..NONE
        };
        assert!(
            anchors("It should be quick.", true, configured).is_empty(),
            "a wish"
        );
    }

    #[test]
    fn what_is_left_open_is_kept_with_what_it_points_at_and_mended_by_name() {
        let left = |text: &str| -> Vec<String> {
            let all = anchors(text, false, NONE).into_iter();
            all.filter(|anchor| anchor.class == SentenceClass::LeftOpen)
                .map(|anchor| anchor.text)
                .collect()
        };
        assert_eq!(
            left("I ran it twice. `merge_legs` panics. This fails and I leave it open. Next is b."),
            ["`merge_legs` panics. This fails and I leave it open."]
        );
        for text in [
            "The check of merge_legs still fails.",
            "I could not fix merge_legs.",
            "Leaving merge_legs failing for now.",
            "merge_legs remains open.",
        ] {
            assert_eq!(left(text), [text], "{text}");
        }
        for text in [
            "I leave the file as it is.",
            "The port stays 8080.",
            "It opens the left pane.",
        ] {
            assert_eq!(left(text), [""; 0], "{text}");
        }
        let open = "The check of merge_legs still fails.";
        assert!(mends("Fixed merge_legs: it passes.", open));
        assert!(!mends("merge_legs is not fixed.", open));
        assert!(!mends("Fixed the reader.", open), "another thing");
    }

    #[test]
    fn a_models_must_is_prose_and_a_persons_is_a_constraint() {
        let text = "The port must be 8080. Fine.";
        assert_eq!(anchors(text, true, NONE)[0].text, "The port must be 8080.");
        assert!(anchors(text, false, NONE).is_empty());
        let decided = anchors("Decided to use SQLite because it is one file.", false, NONE);
        assert_eq!(decided[0].class, SentenceClass::Decision);
        assert!(anchors("The mustard is undecided.", true, NONE).is_empty());
        let own = ["wichtig".to_owned()];
        let configured = ConfiguredMarkers {
            constraints: &own,
            ..NONE
        };
        assert_eq!(
            anchors("Wichtig: Port 8080.", true, configured)[0].class,
            SentenceClass::Constraint
        );
    }
}
