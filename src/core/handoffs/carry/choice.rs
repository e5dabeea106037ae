//! The user's choices and answers, with the words of the model that they refer to.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::phrases::{Phrases, Wordings};
use crate::text::prose::{lower, one_line, sentences};
use crate::text::table;
use crate::work::requests;

/// The lists of `choices.toml`, which explains each.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct ChoiceWords {
    labels: Vec<&'static str>,
    beside: HashSet<&'static str>,
    ordinals: Vec<Vec<&'static str>>,
    last: Vec<&'static str>,
    ordinals_within: Vec<Vec<&'static str>>,
    last_within: Vec<&'static str>,
    declines: Vec<&'static str>,
    proposes: Phrases,
    proposes_within: Wordings,
    alternatives: Phrases,
}

static WORDS: LazyLock<ChoiceWords> = LazyLock::new(|| table::read(include_str!("choices.toml")));

/// Maximum size of the model's words in bytes.
const MAX_REFERENT_BYTES: usize = 100;

/// Maximum number of lines of a message with answers.
const MAX_ANSWERS: usize = 20;

/// A sentence that refers to words of the model.
struct Reference<'t> {
    sentence: &'t str,
    /// The letter or number of these words, in lower case: `2`, `a`.
    label: String,
    /// Whether they are a question.
    asks: bool,
}

/// A choice that a message begins with.
#[derive(Debug, PartialEq, Eq)]
enum Pick {
    /// `B`, `2 please`
    Label(String),
    /// Index of `the second one`.
    Place(usize),
    /// `The latter`
    Last,
    /// `No`
    Declines,
    /// Words that may be those of an alternative: `Postgres`
    Words(Vec<String>),
}

/// The sentences of a message that choose an option, decline a proposal or answer a numbered question, each with the model's
/// words.
///
/// Examples: `Option A sounds good`, `2. Only the newest`, `b`, `The second one`, `No`. `answer` gives the model's last text.
pub(super) fn choices(typed: &str, answer: impl FnOnce() -> String) -> HashMap<String, String> {
    let picked = picked(typed);
    let references: Vec<Reference<'_>> = match typed.lines().nth(MAX_ANSWERS) {
        Some(_) => Vec::new(),
        None => typed.lines().flat_map(references).collect(),
    };
    if references.is_empty() && picked.is_none() {
        return HashMap::new();
    }
    let answer = answer();
    let lines: Vec<&str> = answer.lines().collect();
    let found = references.into_iter().filter_map(|one| {
        let words = match one.asks {
            true => numbered_question(&lines, &one.label),
            false => labeled(&lines, &one.label, true),
        };
        Some((one.sentence.trim().to_owned(), words?))
    });
    let mut found: HashMap<String, String> = found.collect();
    if let Some((sentence, pick)) = picked
        && let Some(words) = pick.referent(&answer, &lines)
    {
        found.entry(sentence.to_owned()).or_insert(words);
    }
    found
}

/// The first sentence of a message, if it chooses: it is short, and has no words but those of a choice.
fn picked(typed: &str) -> Option<(&str, Pick)> {
    /// Maximum size in bytes of a sentence with a choice, and of a message that may repeat the words of an alternative.
    const MAX_PICK_BYTES: usize = 400;
    const MAX_WORDS_BYTES: usize = 60;
    /// Number of clauses that may choose.
    const MAX_CLAUSES: usize = 2;
    let line = typed.trim().lines().next()?.trim();
    // A sentence of the prose has no fewer than four bytes.
    let sentence = sentences(line)
        .next()
        .filter(|first| line.starts_with(*first))
        .unwrap_or(line);
    let small = lower(sentence);
    let is_item = number(line).is_some_and(|number| line.len() > number.len() + 1);
    if is_item || sentence.len() > MAX_PICK_BYTES || requests::is_question(&small) {
        return None;
    }
    let clauses: Vec<&str> = clauses(&small).take(MAX_CLAUSES).collect();
    let is_only = clauses.len() == 1 && sentence.len() == typed.trim().len();
    let choice = clauses
        .iter()
        .find_map(|clause| chosen(clause, clauses.len() == 1));
    let declines = || {
        let mut words = words_of(clauses.first()?);
        let first = words.next()?;
        let is_short = WORDS.declines.contains(&first) && words.all(|word| is_beside(word) || word == first);
        is_short.then_some(Pick::Declines)
    };
    let words = || {
        let left = words_of(&small).filter(|word| !is_beside(word));
        let left: Vec<String> = left.map(str::to_owned).collect();
        (!left.is_empty()).then_some(Pick::Words(left))
    };
    let words = || (is_only && small.len() <= MAX_WORDS_BYTES).then(words).flatten();
    Some((sentence, choice.or_else(declines).or_else(words)?))
}

/// The clauses of a lower-case sentence.
fn clauses(small: &str) -> impl Iterator<Item = &str> {
    let parts = small.split([',', ';', '!', ':', '，', '。', '、', '—']);
    let parts = parts
        .flat_map(|part| part.split(". "))
        .flat_map(|part| part.split(" and "));
    let parts = parts.flat_map(|part| part.split(" but ")).map(str::trim);
    parts.filter(|part| part.contains(char::is_alphanumeric))
}

/// The option that a clause chooses. The bare word `first` may also begin a request.
fn chosen(clause: &str, is_alone: bool) -> Option<Pick> {
    /// Maximum number of characters of a choice in a language without spaces.
    const MAX_CHARS: usize = 10;
    let words = words_of(clause);
    let mut left = words.clone().filter(|word| !is_beside(word) || is_ordinal(word));
    let (word, others) = (left.next(), left.next());
    if let Some(word) = word.filter(|_| others.is_none()) {
        let may_count = is_alone || words.clone().nth(1).is_some();
        let place = WORDS.ordinals.iter().position(|all| all.contains(&word));
        match place {
            Some(place) if may_count => return Some(Pick::Place(place)),
            _ if WORDS.last.contains(&word) && may_count => return Some(Pick::Last),
            _ if is_label(word) => return Some(Pick::Label(word.to_owned())),
            _ => {}
        }
    }
    if clause.is_ascii() || clause.chars().count() > MAX_CHARS {
        return None;
    }
    let has = |all: &Vec<&str>| all.iter().any(|word| clause.contains(word));
    let mut latin = clause
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty());
    let label = latin
        .next()
        .filter(|label| is_label(label) && latin.next().is_none());
    let is_foreign = clause.contains(|c| c > '\u{2e80}');
    match WORDS.ordinals_within.iter().position(has) {
        Some(place) => Some(Pick::Place(place)),
        None if has(&WORDS.last_within) => Some(Pick::Last),
        None => label
            .filter(|_| is_foreign)
            .map(|label| Pick::Label(label.to_owned())),
    }
}

fn words_of(small: &str) -> impl Iterator<Item = &str> + Clone {
    let words = small.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '-')));
    words.filter(|word| word.contains(char::is_alphanumeric))
}

fn is_ordinal(word: &str) -> bool {
    WORDS.last.contains(&word) || WORDS.ordinals.iter().any(|all| all.contains(&word))
}

/// Whether a word only introduces or approves a choice: `take`, `option`, `please`.
fn is_beside(word: &str) -> bool {
    WORDS.beside.contains(word) || WORDS.labels.contains(&word) || requests::is_reply(word) && !is_label(word)
}

impl Pick {
    /// The model's words that this refers to.
    fn referent(&self, answer: &str, lines: &[&str]) -> Option<String> {
        let question = || requests::last_question(answer);
        let between = || question().filter(|asked| WORDS.alternatives.occur_in(&lower(asked)));
        let named = |words: &[String]| {
            let asked = between()?;
            let small = lower(asked);
            let known: Vec<&str> = words_of(&small).collect();
            let is_known = |word: &String| known.contains(&&**word);
            words.iter().all(is_known).then(|| shown(asked))
        };
        match self {
            Self::Label(label) => labeled(lines, label, false).or_else(|| named(std::slice::from_ref(label))),
            Self::Place(place) => option_at(lines, |count| Some(*place).filter(|at| *at < count))
                .or_else(|| between().map(shown)),
            Self::Last => option_at(lines, |count| count.checked_sub(1)).or_else(|| between().map(shown)),
            Self::Declines => {
                let proposes = |asked: &&str| {
                    WORDS.proposes.occur_in(&lower(asked)) || WORDS.proposes_within.occur_in(asked)
                };
                question().filter(proposes).map(shown)
            }
            Self::Words(words) => named(words),
        }
    }
}

fn shown(words: &str) -> String {
    one_line(&unformatted(words), MAX_REFERENT_BYTES)
}

/// The sentences of a line that name an option, and its first one if the line has a number.
fn references(line: &str) -> Vec<Reference<'_>> {
    let numbered = number(line).and_then(|label| Some((sentences(line).next()?, label)));
    let numbered = numbered.map(|(sentence, label)| Reference {
        sentence,
        label,
        asks: true,
    });
    let named = sentences(line).filter_map(|sentence| {
        let label = option(sentence).filter(|_| !requests::is_question(sentence))?;
        Some(Reference {
            sentence,
            label,
            asks: false,
        })
    });
    numbered.into_iter().chain(named).collect()
}

/// The letter or number of the option that a sentence names, in lower case: `a`.
fn option(sentence: &str) -> Option<String> {
    let small = lower(sentence);
    let labels = WORDS.labels.iter().filter(|label| small.contains(**label));
    let mut named = labels.filter_map(|label| {
        let after = small.split_once(label)?.1.trim_start();
        let end = after
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(after.len());
        is_label(&after[..end]).then(|| after[..end].to_owned())
    });
    named.next()
}

/// Whether a word is a letter, or a number of at most two digits.
fn is_label(word: &str) -> bool {
    let is_number = word.bytes().all(|b| b.is_ascii_digit());
    word.is_ascii()
        && (word.len() == 1 || word.len() == 2 && is_number)
        && word.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The number that a line begins with: `2. Only the newest`.
fn number(line: &str) -> Option<String> {
    let after = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &line[..line.len() - after.len()];
    (is_label(number) && after.starts_with(['.', ')', '、'])).then(|| number.to_owned())
}

/// A line without its formatting.
fn unformatted(line: &str) -> String {
    let line = line.replace("**", "");
    line.trim_start_matches(['#', '-', '*', '•', '|', ' ']).to_owned()
}

/// The label of a line that describes an option, in lower case, and whether a word names it: `Option A:`, `方案1：`, `b)`.
fn label_of(line: &str) -> Option<(String, bool)> {
    let small = lower(&unformatted(line));
    let named = WORDS.labels.iter().find_map(|label| small.strip_prefix(label));
    let rest = named.map_or(&*small, str::trim_start);
    let rest = rest.strip_prefix(['(', '[']).unwrap_or(rest);
    let end = rest
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(rest.len());
    let (label, after) = rest.split_at(end);
    let is_number = |after: &str| after.starts_with(|c: char| c.is_ascii_digit());
    let is_end = match after.strip_prefix('.') {
        Some(after) => !is_number(after),
        None => {
            after.starts_with([')', ']', ':', '：', '、', '—']) || after.starts_with([' ']) && named.is_some()
        }
    };
    let is_dash = || [" - ", " – ", " — "].iter().any(|dash| after.starts_with(dash));
    (is_label(label) && (is_end || is_dash())).then(|| (label.to_owned(), named.is_some()))
}

/// The last line of the model that describes an option with this label, one that a word names before others if the user named
/// it so.
fn labeled(lines: &[&str], label: &str, named_first: bool) -> Option<String> {
    let described = lines.iter().filter_map(|line| Some((line, label_of(line)?)));
    let described = described.filter(|(_, (own, _))| own == label);
    let (first, others): (Vec<_>, Vec<_>) =
        described.partition(|(_, (_, is_named))| *is_named == named_first);
    let (line, _) = first.last().or_else(|| others.last())?;
    Some(shown(line))
}

/// An option of the model's last list of them, by the index that `choose` makes of their number.
fn option_at(lines: &[&str], choose: impl FnOnce(usize) -> Option<usize>) -> Option<String> {
    let described = lines.iter().filter_map(|line| Some((line, label_of(line)?.0)));
    let mut options: Vec<&str> = Vec::new();
    for (line, label) in described {
        // A list begins anew.
        if matches!(&*label, "a" | "1") {
            options.clear();
        }
        options.push(line);
    }
    let options = options.get(..).filter(|options| options.len() > 1)?;
    Some(shown(options[choose(options.len())?]))
}

/// The last question of the model with a number, with the indented lines and the items below it.
fn numbered_question(lines: &[&str], label: &str) -> Option<String> {
    let is_labeled = |line: &&str| number(&unformatted(line)).is_some_and(|number| number == label);
    let begins = |line: &&str| {
        number(&unformatted(line)).is_some() || line.starts_with('#') || option(&unformatted(line)).is_some()
    };
    let places = lines
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, line)| is_labeled(line));
    let mut blocks = places.map(|(at, first)| {
        let is_below = |line: &&&str| line.is_empty() || line.starts_with([' ', '\t', '-', '*', '•']);
        let below = lines[at + 1..].iter().take_while(is_below);
        let below = below.take_while(|line| !begins(line));
        let block = std::iter::once(first).chain(below).map(|line| unformatted(line));
        block.collect::<Vec<_>>().join(" ")
    });
    let block = blocks.find(|block| block.contains(['?', '？']))?;
    Some(one_line(&block, MAX_REFERENT_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(typed: &str, answer: &str) -> Vec<(String, String)> {
        let mut all: Vec<_> = choices(typed, || answer.to_owned()).into_iter().collect();
        all.sort();
        all
    }

    #[test]
    fn a_choice_has_the_words_of_its_option() {
        let answer = "Which one?\n- **Option A**: One table for all halls\n- **Option B**: A table for each\n\n1. Paint\n2. Sell\n";
        let of = |text: &str, words: &str| vec![(text.to_owned(), words.to_owned())];
        for (text, words) in [
            ("Option A sounds good.", "Option A: One table for all halls"),
            ("1. go with option b", "Option B: A table for each"),
            ("2", "2. Sell"),
        ] {
            assert_eq!(chosen(text, answer), of(text, words), "{text}");
        }
        assert_eq!(
            chosen("实现方案1", "方案1：一张表\n方案2：多张表"),
            of("实现方案1", "方案1：一张表")
        );
        for text in [
            "Option C sounds good.",
            "1. Paint the hall",
            "No option is good.",
            "Is option A good?",
            "ok",
        ] {
            assert_eq!(chosen(text, answer), [], "{text}");
        }
    }

    #[test]
    fn an_answer_has_its_numbered_question() {
        let answer = "1. **Size:**\n   - How many doors?\n2. Which color?\n3. Done.\n";
        let found = chosen("1. Two. And a lamp.\n2) red\n3. Good.", answer);
        let found: Vec<(&str, &str)> = found.iter().map(|(text, words)| (&**text, &**words)).collect();
        assert_eq!(
            found,
            [
                ("1. Two.", "1. Size: How many doors?"),
                ("2) red", "2. Which color?")
            ]
        );
    }

    #[test]
    fn a_short_choice_has_the_words_of_its_option() {
        let letters = "Two ways:\nA) keep the old door\nB) drop it\nI recommend A.";
        let numbers =
            "1. Oil\n2. Paint\n\nI found these:\n\n1. **Wood**\n2. **Stone**\n\nWhich do you prefer?";
        let first = |text: &str, answer: &str| choices(text, || answer.to_owned()).into_iter().next();
        for (text, answer, words) in [
            ("B", letters, "B) drop it"),
            ("b)", letters, "B) drop it"),
            ("B please", letters, "B) drop it"),
            ("Let's go with B, and paint it.", letters, "B) drop it"),
            ("B. And please remember the lamp.", letters, "B) drop it"),
            ("Option B sounds good", letters, "B) drop it"),
            ("The second one", letters, "B) drop it"),
            ("no, the second", letters, "B) drop it"),
            ("the latter", letters, "B) drop it"),
            ("2", numbers, "2. Stone"),
            ("2 bitte", numbers, "2. Stone"),
            ("I'd take the first one", numbers, "1. Wood"),
            ("Die zweite", numbers, "2. Stone"),
            ("la deuxième", numbers, "2. Stone"),
            ("el segundo", numbers, "2. Stone"),
            ("второй вариант", numbers, "2. Stone"),
            ("第二个", numbers, "2. Stone"),
            ("2番目で", numbers, "2. Stone"),
            ("选B", letters, "B) drop it"),
            (
                "no",
                "It is old. Shall I drop the door?",
                "Shall I drop the door?",
            ),
            ("no thanks", "Shall I drop the door?", "Shall I drop the door?"),
            (
                "no, never drop that one",
                "Shall I drop the door?",
                "Shall I drop the door?",
            ),
            (
                "Nein",
                "Soll ich die Tür streichen?",
                "Soll ich die Tür streichen?",
            ),
            ("不用", "要我删掉旧门吗？", "要我删掉旧门吗？"),
            (
                "stone",
                "Shall I use wood or stone?",
                "Shall I use wood or stone?",
            ),
            (
                "the first one",
                "Shall I use wood or stone?",
                "Shall I use wood or stone?",
            ),
        ] {
            let found = first(text, answer).map_or(String::new(), |(_, words)| words);
            assert_eq!(found, words, "{text}");
        }
        for (text, answer) in [
            ("B", "I painted the door."),
            ("c", letters),
            ("A test of the door would be good.", letters),
            ("First, paint the door.", numbers),
            ("2 more lamps", numbers),
            ("1.5 is the width.", numbers),
            ("Is it B?", letters),
            ("no", "Anything else? What is the width of the door?"),
            ("no lamps please", "Shall I drop the door?"),
            ("yes", "Shall I drop the door?"),
            ("go on", "Shall I drop the door?"),
            ("glass", "Shall I use wood or stone?"),
            ("stone", "Shall I use stone?"),
        ] {
            assert_eq!(first(text, answer), None, "{text}");
        }
    }
}
