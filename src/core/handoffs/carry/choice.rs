//! The user's choices and answers, with the words of the model that they refer to.

use std::collections::HashMap;

use crate::text::prose::{lower, one_line, sentences};
use crate::work::requests;

/// Words before the letter or number of an option.
const LABELS: [&str; 9] = [
    "option", "approach", "variant", "choice", "opción", "variante", "opção", "方案", "选项",
];

/// Maximum size of the model's words in bytes.
const MAX_REFERENT_BYTES: usize = 100;

/// Maximum number of lines of a message with answers.
const MAX_ANSWERS: usize = 20;

/// A sentence that refers to words of the model.
struct Reference<'t> {
    sentence: &'t str,
    /// The label of these words, in lower case: `2`, `option a`.
    label: String,
    /// Whether they are a question.
    asks: bool,
}

/// The sentences of a message that choose an option or answer a numbered question, each with the model's words.
///
/// Examples: `Option A sounds good`, `2. Only the newest`, `b`. `answer` gives the model's last text.
pub(super) fn choices(typed: &str, answer: impl FnOnce() -> String) -> HashMap<String, String> {
    let label = lower(typed.trim().trim_end_matches(['.', ')']));
    let sentence = typed.trim();
    let references: Vec<Reference<'_>> = match is_label(&label) {
        true => vec![Reference {
            sentence,
            label,
            asks: false,
        }],
        false if typed.lines().nth(MAX_ANSWERS).is_some() => Vec::new(),
        false => typed.lines().flat_map(references).collect(),
    };
    if references.is_empty() {
        return HashMap::new();
    }
    let answer = answer();
    let lines: Vec<&str> = answer.lines().collect();
    let found = references.into_iter().filter_map(|one| {
        let words = referent(&lines, &one)?;
        Some((one.sentence.trim().to_owned(), words))
    });
    found.collect()
}

/// The sentences of a line that name an option, and its first one if the line has a number.
fn references(line: &str) -> Vec<Reference<'_>> {
    let numbered = sentences(line).next().zip(number(line));
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

/// The option that a sentence names, in lower case: `option a`.
fn option(sentence: &str) -> Option<String> {
    let small = lower(sentence);
    let mut named = LABELS.iter().filter_map(|label| {
        let after = small.split_once(label)?.1.trim_start();
        let end = after
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(after.len());
        is_label(&after[..end]).then(|| format!("{label} {}", &after[..end]))
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

/// The last line of the model with a label. That of a question includes the indented lines and the items below it.
fn referent(lines: &[&str], to: &Reference<'_>) -> Option<String> {
    let Reference { label, asks, .. } = to;
    let plain = |line: &str| {
        let line = line.replace("**", "");
        line.trim_start_matches(['#', '-', '*', '•', '|', ' ']).to_owned()
    };
    // `Option A:` and `方案1：`
    let tight = label.replace(' ', "");
    let is_labeled = |line: &&str| {
        let small = lower(&plain(line));
        let after = small
            .strip_prefix(&**label)
            .or_else(|| small.strip_prefix(&tight));
        after.is_some_and(|after| after.starts_with(['.', ')', ':', '：', '、', ' ', '—']))
    };
    let begins = |line: &&str| {
        number(&plain(line)).is_some() || line.starts_with('#') || option(&plain(line)).is_some()
    };
    let places = lines
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, line)| is_labeled(line));
    let mut blocks = places.map(|(at, first)| {
        let is_below = |line: &&&str| line.is_empty() || line.starts_with([' ', '\t', '-', '*', '•']);
        let below = lines[at + 1..].iter().take_while(is_below);
        let below = below.take_while(|line| *asks && !begins(line));
        let block = std::iter::once(first).chain(below).map(|line| plain(line));
        block.collect::<Vec<_>>().join(" ")
    });
    let block = blocks.find(|block| !*asks || block.contains(['?', '？']))?;
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
}
