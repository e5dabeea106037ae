//! Secrets that users state in sentences: "the password of the database is …", "mot de passe : …", "密码是…", "our API key …".

use super::matches::Matches;
use super::names::SecretName;
use super::values;
use super::words::WORDS;
use crate::text::cut::{ceil, floor};

/// Maximum number of bytes from a word for a secret to the word that states it, and of a value.
const BETWEEN: usize = 96;
const VALUE: usize = 256;

/// Maximum number of words between the two: "le mot de passe de la base de données de production est".
const MAX_WORDS: usize = 8;

/// How a value follows the word for its secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Statement {
    /// Directly: `password abc123xyz`.
    Adjacent,
    /// After a word or sign that states it and that follows the word for the secret, or its purpose:
    /// `password of the database is`.
    Stated,
    /// After other words and one that states it.
    Far,
}

/// Matches the value that follows the word from `start` to `end`.
pub(super) fn at(start: usize, end: usize, name: SecretName, found: &mut Matches<'_>) {
    let text = found.text();
    if begins_inside(text, start) {
        return;
    }
    let Some((from, statement)) = value_start(text, end) else {
        return;
    };
    let quoted = &text[from..floor(text, from + VALUE)];
    let rest = quoted
        .strip_prefix(|c| "\"'`“”‘’«「".contains(c))
        .unwrap_or(quoted);
    let skipped = quoted.len() - rest.len();
    let ends = |c: char| c.is_whitespace() || !c.is_ascii() || "\"'`<>()[]{},;|\\".contains(c);
    let value = rest.split(ends).next().unwrap_or_default();
    let value = value.trim_end_matches(['.', ':', '?', ',']);
    super::worked(BETWEEN + value.len());
    let is_code = rest[value.len()..].starts_with(['(', '[', '{', '<']);
    let phrase = rest
        .split(['"', '\'', '`', '”', '’', '»', '」', '\n'])
        .next()
        .unwrap_or_default();
    let is_phrase = name == SecretName::Phrase && skipped > 0 && values::is_phrase(phrase.as_bytes());
    let value = if is_phrase { phrase } else { value };
    if is_phrase || !is_code && is_stated(value.as_bytes(), name, statement, skipped > 0) {
        let from = from + skipped;
        let kind = match name {
            SecretName::Password | SecretName::Phrase => "password",
            _ => "key",
        };
        found.push(from..from + value.len(), kind);
    }
}

/// Whether a message may be a secret that the model asked for: a word, or a few with digits or signs.
pub fn may_be_asked_for(text: &str) -> bool {
    const MAX_WORDS: usize = 4;
    let words: Vec<&str> = text.split_whitespace().take(MAX_WORDS + 1).collect();
    let is_mixed = |word: &&str| word.contains(|c: char| c.is_ascii_digit() || "!@#$%^&*+=".contains(c));
    match words[..] {
        [word] => (3..=VALUE).contains(&word.len()) && !word.contains(['/', '\\']) && !word.ends_with('?'),
        [_, _, ..] => words.len() <= MAX_WORDS && words.iter().any(is_mixed),
        [] => false,
    }
}

/// Whether a message is the secret that the model asked for with its last words.
pub fn is_asked_for(text: &str, asked: &str) -> bool {
    const MAX_ASKED: usize = 400;
    if !may_be_asked_for(text) {
        return false;
    }
    let small = asked[ceil(asked, asked.len().saturating_sub(MAX_ASKED))..].to_lowercase();
    let asks = |part: &str| {
        let part = part.trim_matches(|c: char| c.is_whitespace() || "*`_".contains(c));
        let tables = [&WORDS.asked_names, &WORDS.passwords, &WORDS.keys];
        let names = |name: &&str| part.match_indices(*name).any(|(at, _)| is_noun(part, at, name));
        let is_asking =
            || part.ends_with(['?', '？', ':', '：']) || WORDS.asks.iter().any(|word| part.contains(word));
        tables.into_iter().flatten().any(names) && is_asking()
    };
    let mut lines = small.split(['\n', '。']);
    lines.any(|line| line.split(". ").any(asks))
}

/// Whether the name in a part of a sentence is that of a secret: `Which file has the code?` and `the token limit` have none.
fn is_noun(part: &str, start: usize, name: &str) -> bool {
    let (before, rest) = (&part[..start], &part[start + name.len()..]);
    let after = rest.split_whitespace().next().unwrap_or_default();
    let is_end = !after.starts_with(|c: char| c.is_ascii_alphabetic()) || WORDS.after_asked.contains(&after);
    let is_code = || {
        WORDS
            .secret_codes
            .iter()
            .any(|word| before.trim_end().ends_with(word))
    };
    let is_whole = !before.ends_with(|c: char| c.is_ascii_alphabetic())
        && !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    is_whole && is_end && (name != "code" || is_code())
}

/// Whether the word for the secret is a part of a longer one.
fn begins_inside(text: &str, start: usize) -> bool {
    text[..start].ends_with(|c: char| c.is_ascii_alphanumeric() || "_-./$\\".contains(c))
}

/// The start of a value, and how it follows the word that ends at `end`.
fn value_start(text: &str, end: usize) -> Option<(usize, Statement)> {
    let near = &text[end..floor(text, end + BETWEEN)];
    // Languages without blanks join the word and the value.
    let is_joined = text[..end].ends_with(|c: char| !c.is_ascii());
    if !(is_joined || near.starts_with(|c: char| c.is_whitespace() || "：:=".contains(c))) {
        return None;
    }
    let near = near.split(['\n', '.', '!', '?', ';', '。', '，']).next()?;
    let place = |rest: &str| end + near.len() - rest.len();
    let mut rest = near.trim_start();
    let is_linked = begins_with_link(rest);
    for words in 0..=MAX_WORDS {
        let statement = if words == 0 || is_linked {
            Statement::Stated
        } else {
            Statement::Far
        };
        if let Some(after) = stated(rest, &WORDS.states) {
            return Some((place(stated(after, &WORDS.states).unwrap_or(after)), statement));
        }
        let weak = stated(rest, &WORDS.weak_states).filter(|after| !begins_with_word(after));
        if let Some(after) = weak {
            let is_close = words > 0 && is_linked;
            let statement = if is_close {
                Statement::Stated
            } else {
                Statement::Far
            };
            return Some((place(after), statement));
        }
        // The next word may be the value, or stand between.
        let word = rest.split_whitespace().next()?;
        let after = &rest[word.len()..];
        let named = word.strip_suffix([':', '：']).filter(|_| words > 0);
        if named.is_some_and(|named| named.chars().all(char::is_alphabetic)) {
            return Some(match is_linked {
                true => (place(after.trim_start()), Statement::Stated),
                false => (place(after), Statement::Far),
            });
        }
        if !word.chars().all(|c| c.is_alphabetic() || "'’-".contains(c)) {
            return (words == 0).then_some((place(rest), Statement::Adjacent));
        }
        rest = after.trim_start();
    }
    None
}

/// Whether the text begins with a word that joins a secret with its purpose: `of`, `für`, `d'`.
fn begins_with_link(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    let word = word.to_lowercase().replace('’', "'");
    let is_link = |link: &&str| word == **link || link.ends_with('\'') && word.starts_with(*link);
    WORDS.links.iter().any(is_link)
}

/// Whether the text begins with a word of letters, which is seldom a secret.
fn begins_with_word(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.trim_matches(|c: char| c.is_ascii_punctuation())
        .chars()
        .all(char::is_alphabetic)
}

/// The text after the word or sign at its start that states a value.
fn stated<'t>(text: &'t str, states: &[&str]) -> Option<&'t str> {
    let found = states.iter().filter_map(|word| {
        let rest = text.strip_prefix(word)?;
        let is_word = word.chars().all(|c| c.is_ascii_alphabetic() || "éèä".contains(c));
        (!is_word || rest.starts_with(|c: char| c.is_whitespace() || c == ':')).then_some(rest)
    });
    found.min_by_key(|rest| rest.len()).map(str::trim_start)
}

/// Whether a value is a secret, by its form and by how it is stated.
fn is_stated(value: &[u8], name: SecretName, statement: Statement, is_quoted: bool) -> bool {
    let count = |kind: fn(&u8) -> bool| value.iter().filter(|b| kind(b)).count();
    let (digits, letters) = (count(u8::is_ascii_digit), count(u8::is_ascii_alphabetic));
    let signs = count(|b| b"!@#$%^&*+~?=".contains(b));
    let mixed = count(u8::is_ascii_lowercase) > 0 && count(u8::is_ascii_uppercase) > 0;
    if values::is_unlikely(value) || is_mail(value) {
        return false;
    }
    if !matches!(name, SecretName::Password | SecretName::Phrase) {
        let is_long = value.len() >= 16 || statement == Statement::Stated;
        return values::is_uuid(value) || is_long && values::is_token(value);
    }
    let is_close = statement != Statement::Far;
    match (letters, digits, signs) {
        // A number: `the PIN is 4711`.
        (0, 4.., 0) => statement == Statement::Stated && value.len() <= 12,
        (1.., 1.., _) | (1.., _, 1..) if value.len() >= 6 && statement == Statement::Stated => {
            signs > 0 || !values::is_identifier(value)
        }
        (3.., 2.., 0) => {
            value.len() >= 8 && !value.iter().any(|b| b"./:".contains(b)) && !values::is_identifier(value)
        }
        (3.., 1.., 1..) => value.len() >= 8 && (is_close || mixed),
        // Words in quotes are one only if they are stated: the password is "swordfish".
        (6.., 0, 0) => {
            let is_letter = |b: &u8| b.is_ascii_alphabetic() || *b == b'-';
            is_quoted && statement == Statement::Stated && value.iter().all(is_letter)
        }
        _ => false,
    }
}

/// Whether a value is the address of a mailbox.
fn is_mail(value: &[u8]) -> bool {
    let host = value
        .splitn(2, |b| *b == b'@')
        .nth(1)
        .filter(|_| value[0] != b'@');
    let is_host = |host: &[u8]| {
        host.iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(b))
    };
    host.is_some_and(|host| host.contains(&b'.') && is_host(host))
}
