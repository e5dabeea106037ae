//! Words that mark a sentence as a constraint, a decision or another class to keep: `markers.toml`.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde::Deserialize;

use super::excerpt::{names, one_line, sentences, words};
pub(crate) use super::replaced::SENTENCE;
use super::words::{WORDS, has_word};
use crate::text::phrases::Phrases;
use crate::text::prose::ends_with_question;
use crate::text::table;

/// The class of a kept sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SentenceClass {
    Constraint,
    /// A value that the user gave: a deadline, a region, a code name.
    Fact,
    /// A decision that was made.
    Decision,
    Blocker,
    /// Work that remains to be done.
    Later,
    /// A known failure that was left open.
    LeftOpen,
    /// A failed attempt.
    DeadEnd,
    Assumption,
    /// A request of the user.
    Asked,
    /// A statement of the user that lifts an earlier rule.
    Lift,
    /// Another statement of the user.
    Said,
}

impl SentenceClass {
    /// Short name of the class.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Constraint => "constraint",
            Self::Fact => "fact",
            Self::Decision => "decision",
            Self::Blocker => "blocker",
            Self::Later => "later",
            Self::LeftOpen => "left open",
            Self::DeadEnd => "tried",
            Self::Assumption => "assumed",
            Self::Asked => "asked",
            Self::Lift | Self::Said => "said",
        }
    }
}

/// Words that mark sentences of a class.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct MarkerRow {
    class: SentenceClass,
    /// Whether the words mark the user's sentences as well as the model's.
    #[serde(default)]
    users: bool,
    words: Phrases,
}

/// Rows in search order; the first match decides the class.
static MARKERS: LazyLock<Vec<MarkerRow>> = LazyLock::new(|| table::rows(include_str!("markers.toml")));

/// Number of words after one of `leaves` that are searched for one of `as_it_is`.
const NEAR: usize = 5;

/// Maximum size of the previous sentence, in bytes, that is kept with a sentence which refers to it.
const BEFORE: usize = 140;

/// A sentence that is kept because of a word in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnchoredSentence {
    pub(crate) class: SentenceClass,
    /// Whether the user said it.
    pub(crate) by_user: bool,
    /// The sentence, on one line.
    pub(crate) text: String,
}

/// The model's sentences that have a marker word.
///
/// `constraints` and `assumptions` are configured words in lower case.
pub(crate) fn anchors(text: &str, constraints: &[String], assumptions: &[String]) -> Vec<AnchoredSentence> {
    let mut seen = HashSet::new();
    let mut before: Option<&str> = None;
    let found = sentences(text).filter_map(|sentence| {
        let before = before.replace(sentence);
        let class = class(sentence, constraints, assumptions).filter(|_| !is_label(sentence))?;
        let text = match before.filter(|_| class == SentenceClass::LeftOpen && points(sentence)) {
            Some(before) => format!("{} {}", one_line(before, BEFORE), one_line(sentence, SENTENCE)),
            None => one_line(sentence, SENTENCE),
        };
        let by_user = false;
        Some(AnchoredSentence { class, by_user, text })
    });
    found.filter(|anchor| seen.insert(anchor.text.clone())).collect()
}

/// Whether a line is a label above other text or a row of a table, and so states nothing by itself.
fn is_label(sentence: &str) -> bool {
    let bare = sentence.trim_end_matches(['*', '_', ' ']);
    bare.ends_with(':') || sentence.starts_with('|')
}

fn class(sentence: &str, constraints: &[String], assumptions: &[String]) -> Option<SentenceClass> {
    let small = sentence.to_lowercase();
    let has = |words: &[String]| words.iter().any(|word| has_word(&small, word));
    // Built-in markers take precedence over configured words.
    let mut rows = MARKERS.iter().filter(|row| row.words.occur_in(&small));
    // A model's decision names the choice or its reason; `Decision: accepted` may be the text of a tool.
    let known = rows.find(|row| {
        is_stated(row.class, &small)
            && (row.class != SentenceClass::Decision || WORDS.reasons.occur_in(&small))
    });
    known
        .map(|row| row.class)
        .or_else(|| is_left(&small).then_some(SentenceClass::LeftOpen))
        .or_else(|| has(constraints).then_some(SentenceClass::Constraint))
        .or_else(|| (!is_incomplete(&small) && has(assumptions)).then_some(SentenceClass::Assumption))
}

/// Whether a lower-case sentence means nothing without the one before it, because its first word refers to that: `It should be
/// targeted`, `Should be fatal`.
fn is_incomplete(small: &str) -> bool {
    let first = words(small).next().unwrap_or_default();
    let first = first.strip_suffix("'s").unwrap_or(first);
    first == "should" || WORDS.pointing.contains(&first)
}

/// The class of a user's sentence by its words.
pub(super) fn users_class(sentence: &str) -> Option<SentenceClass> {
    let small = sentence.to_lowercase();
    let mut rows = MARKERS.iter().filter(|row| row.users);
    let row = rows.find(|row| row.words.occur_in(&small) && is_stated(row.class, &small));
    Some(row?.class)
}

/// Whether a lower-case sentence states that something is decided or blocked, and does not ask.
fn is_stated(class: SentenceClass, small: &str) -> bool {
    let asks = || ends_with_question(small);
    match class {
        SentenceClass::Decision => !asks() && !WORDS.undecided.occur_in(small),
        SentenceClass::Blocker => !asks(),
        // The sentence announces that the model will look for it.
        SentenceClass::LeftOpen => !small.trim_start().starts_with("let me"),
        // `New todo: a.md` reports that it was written down.
        SentenceClass::Later => !small.contains("new todo"),
        // A sentence about one case, or about the next step in that case, reports no attempt.
        SentenceClass::DeadEnd => {
            const CASES: [&str; 7] = ["if", "unless", "case", "would", "might", "could", "should"];
            let split = |all: &[&str]| all.iter().find_map(|words| small.split_once(words));
            let is_case = |text| words(text).any(|word| CASES.contains(&word));
            let now = split(&["doesn't work", "does not work"]);
            let is_general = now.is_some_and(|(_, after)| {
                matches!(words(after).next(), Some("if" | "when" | "unless" | "for"))
            });
            let told = split(&["did not work", "didn't work", "dead end", "failed because"]);
            !is_general && !now.or(told).is_some_and(|(before, _)| is_case(before))
        }
        _ => true,
    }
}

/// Whether a lower-case sentence states that something is left failing.
fn is_left(sentence: &str) -> bool {
    let words: Vec<&str> = words(sentence).collect();
    let leaves = |at: &usize| WORDS.leaves.contains(&words[*at]);
    let as_it_is = |at: usize| {
        words[at..]
            .iter()
            .take(NEAR + 1)
            .any(|word| WORDS.as_it_is.contains(word))
    };
    (0..words.len()).filter(leaves).any(as_it_is)
}

/// Whether a sentence refers to the previous one: by its first word, or because it names nothing itself.
fn points(sentence: &str) -> bool {
    let small = sentence.to_lowercase();
    let first = words(&small).next().unwrap_or_default();
    WORDS.pointing.contains(&first) || names(sentence).next().is_none()
}

/// Whether the model's text reports a fix of something that a sentence left open, which it must name.
pub(crate) fn mends(text: &str, left_open: &str) -> bool {
    sentences(text).any(|sentence| {
        let small = sentence.to_lowercase();
        let is_mended =
            WORDS.mended.occur_in(&small) && !WORDS.not_mended.occur_in(&small) && !is_left(&small);
        // `Fixed.` may be about anything, so the same name must occur in both.
        is_mended && names(left_open).any(|name| names(sentence).any(|other| other == name))
    })
}

/// The model's sentences that state an assumption.
pub fn assumptions(text: &str, words: &[String]) -> Vec<String> {
    let found = anchors(text, &[], words).into_iter();
    let assumed = found.filter(|anchor| anchor.class == SentenceClass::Assumption);
    assumed.map(|anchor| anchor.text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_no_failed_attempt() {
        let classes = |text: &str| {
            anchors(text, &[], &[])
                .into_iter()
                .map(|anchor| anchor.class)
                .collect::<Vec<_>>()
        };
        for text in [
            "If that doesn't work, restart the shop.",
            "The offer does not work when the shop is closed.",
            "A slow cache doesn't work for large carts.",
            "If the build failed because of the lock, remove it.",
        ] {
            assert_eq!(classes(text), [], "{text}");
        }
        for text in [
            "A slow cache doesn't work.",
            "It didn't work when I tried it.",
            "The cache did not work.",
        ] {
            assert_eq!(classes(text), [SentenceClass::DeadEnd], "{text}");
        }
    }

    #[test]
    fn an_assumption_is_the_models_by_words_that_may_be_named() {
        let words: Vec<String> = WORDS.assumptions.iter().map(|word| (*word).to_owned()).collect();
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
        for text in [
            "Should be red.",
            "It should be pretty narrow.",
            "That's probably the best place.",
        ] {
            assert_eq!(assumptions(text, &words), [""; 0], "{text}");
        }
        assert_eq!(assumptions(text, &["port".to_owned()]).len(), 1);
        assert_eq!(assumptions(text, &[]), [""; 0]);
    }

    #[test]
    fn what_is_left_open_is_kept_with_what_it_points_at_and_mended_by_name() {
        let left = |text: &str| -> Vec<String> {
            let all = anchors(text, &[], &[]).into_iter();
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
            "There is only one unresolved comment.",
            "Let me see whether it is still open.",
            "**New todo:** `shelf/hall.md`",
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
    fn a_decision_names_its_choice_and_a_blocker_its_cause() {
        use SentenceClass::{Blocker, Decision};
        let of_model = |text: &str| anchors(text, &[], &[]).first().map(|anchor| anchor.class);
        for (text, class) in [
            ("I chose SQLite because it is one file.", Some(Decision)),
            ("We decided to keep the old reader.", Some(Decision)),
            ("Going with tabs rather than spaces.", Some(Decision)),
            ("The upload is blocked by a missing key.", Some(Blocker)),
            ("I cannot proceed without the key.", Some(Blocker)),
            ("Keep going with more chapters?", None),
            ("User decision: **accepted**", None),
            ("One last decision is needed: the license.", None),
            ("It is not yet decided because the key is missing.", None),
            ("Blocked rows: shown in gray.", None),
            ("The guard blocked me twice today.", None),
            ("Set a flag if direct entries are blocked.", None),
            ("Is it blocked by the guard?", None),
        ] {
            assert_eq!(of_model(text), class, "{text}");
        }
        assert_eq!(users_class("We agreed on two replicas."), Some(Decision));
        assert_eq!(users_class("Once a decision is made, update the page."), None);
        assert_eq!(users_class("Was it decided?"), None);
    }

    #[test]
    fn a_models_must_is_prose_and_a_users_is_a_constraint() {
        use crate::work::said;
        let text = "The port must be 8080. Fine.";
        assert_eq!(said::anchors(text, &[])[0].text, "The port must be 8080.");
        assert!(anchors(text, &[], &[]).is_empty());
        let decided = anchors("Decided to use SQLite because it is one file.", &[], &[]);
        assert_eq!(decided[0].class, SentenceClass::Decision);
        let of_user = |text: &str| -> Vec<SentenceClass> {
            let own = ["wichtig".to_owned()];
            let all = said::anchors(text, &own).into_iter();
            all.map(|anchor| anchor.class).collect()
        };
        for (text, class) in [
            ("The mustard is undecided.", SentenceClass::Said),
            ("The deadline is 2027-05-19.", SentenceClass::Fact),
            ("Is the port 8080?", SentenceClass::Asked),
            ("Fix issue 12.", SentenceClass::Asked),
            ("2. Shelf: Add 50 rows to shelf_rows.", SentenceClass::Asked),
            ("1. File: Create shelf/hall_2.ts.", SentenceClass::Asked),
            ("The check of shelf 185 is failing.", SentenceClass::Said),
            ("Also please mend the reader.", SentenceClass::Asked),
            ("That works, add a page.", SentenceClass::Asked),
            ("So now will the page be shown", SentenceClass::Asked),
            ("The release is meant to have a page.", SentenceClass::Said),
            ("This test fails.", SentenceClass::Said),
            ("Agora adicione uma página.", SentenceClass::Asked),
            ("这个标题这样写对吗", SentenceClass::Asked),
            ("Let's report it without a toast.", SentenceClass::Said),
            ("We agreed on two replicas.", SentenceClass::Decision),
            ("Let's keep it simple for now.", SentenceClass::Said),
            (
                "Is there a way to avoid one build for each file?",
                SentenceClass::Said,
            ),
            ("For each page, can you add a title?", SentenceClass::Constraint),
            ("You may touch the migrations now.", SentenceClass::Lift),
            ("Integrate the second printer.", SentenceClass::Asked),
            ("Build fails on the printer.", SentenceClass::Said),
            ("Release is late this month.", SentenceClass::Said),
            ("Export only the index.", SentenceClass::Said),
            // A word of a reply may begin a request.
            ("Go through the pages and look for errors.", SentenceClass::Asked),
            ("Continue with the second chapter.", SentenceClass::Asked),
            ("Kan du tilføje en side?", SentenceClass::Asked),
            ("Проверь вторую страницу.", SentenceClass::Asked),
            ("帮我看一下", SentenceClass::Asked),
            ("标题改成蓝色", SentenceClass::Asked),
            // Requests that say how a thing is to be hold when they are done.
            ("Change the date format to ISO.", SentenceClass::Said),
            ("Can we sort it by author and not by title?", SentenceClass::Said),
            (
                "Using the same template, can we print the index?",
                SentenceClass::Said,
            ),
            ("Please add a rule about titles.", SentenceClass::Said),
            ("Check for BOOK_PRINTER_NAME.", SentenceClass::Said),
            ("Read BOOK_PLAN.md and begin.", SentenceClass::Asked),
            ("Schreib alles auf Deutsch.", SentenceClass::Said),
            ("Schreib alles auf.", SentenceClass::Asked),
            (
                "Let's make it so that the index is at the end.",
                SentenceClass::Said,
            ),
            ("这些功能可以慢慢加上", SentenceClass::Said),
            ("Du må ikke ændre registeret.", SentenceClass::Constraint),
            ("Zorg dat elke pagina een titel heeft.", SentenceClass::Constraint),
            ("Wichtig: Port 8080.", SentenceClass::Constraint),
        ] {
            assert_eq!(of_user(text)[..1], [class], "{text}");
        }
        let both = said::anchors(
            "Could you rename it and make sure that every page has a title?",
            &[],
        );
        assert_eq!(both[1].text, "make sure that every page has a title");
        assert_eq!(
            (both[0].class, both[1].class),
            (SentenceClass::Asked, SentenceClass::Constraint)
        );
        assert_eq!(both[0].text, "Could you rename it");
        assert_eq!(said::anchors("Ok, go on.", &[]), []);
        for text in [
            "The index has no entry for the hall.",
            "Please log the shelf and also make sure to memorize its place.",
            "帮我总结下，这个图书馆在二楼的书架和灯。",
        ] {
            // Such questions mean nothing without the sentence before them.
            let all = said::anchors(&format!("{text} Why? Am I reading this correctly?"), &[]);
            assert_eq!((all.len(), all[0].text.as_str()), (1, text));
        }
    }
}
