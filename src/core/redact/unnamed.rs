//! Secrets without a name or a known form: words that look random.
//!
//! Meant for text derived from transcripts, where losing a word costs little. A journal keeps such words,
//! because most of them are ids and hashes.

use std::borrow::Cow;

use super::{mark, values};

/// Minimum and maximum length of such a word, in bytes.
const MIN_WORD_BYTES: usize = 24;
const MAX_WORD_BYTES: usize = 512;

/// Minimum entropy in bits per byte. Random letters and digits of this length have more, words of a language
/// less.
const ENTROPY: f32 = 3.9;

/// Minimum number of changes between letters and digits, or between upper and lower case, per ten bytes.
const CHANGES: usize = 3;

/// Removes words that look random. Hexadecimal hashes, UUIDs, paths and names stay.
pub fn redacted(text: &str) -> Cow<'_, str> {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+' | b'=');
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut kept, mut at) = (0, 0);
    while at < bytes.len() {
        if !is_word(bytes[at]) {
            at += 1;
            continue;
        }
        let len = bytes[at..].iter().take_while(|b| is_word(**b)).count();
        if (MIN_WORD_BYTES..=MAX_WORD_BYTES).contains(&len) && looks_random(&text[at..at + len]) {
            out.push_str(&text[kept..at]);
            out.push_str(&mark("entropy"));
            kept = at + len;
        }
        at += len;
    }
    match kept {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(out + &text[kept..]),
    }
}

fn looks_random(word: &str) -> bool {
    let bytes = word.as_bytes();
    let has = |is: fn(&u8) -> bool| bytes.iter().any(is);
    let all = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit);
    let class = |b: u8| (b.is_ascii_digit(), b.is_ascii_uppercase());
    let neighbours = bytes.windows(2);
    let changes = neighbours.filter(|two| class(two[0]) != class(two[1])).count();
    // Names have one or two numbers, and in a single place.
    let runs = bytes.split(|b| !b.is_ascii_digit());
    let numbers = runs.filter(|run| !run.is_empty()).count();
    all && numbers > 1 && changes * 10 >= bytes.len() * CHANGES && values::entropy(bytes) >= ENTROPY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_words_go_and_hashes_names_and_paths_stay() {
        let random = ["q7RkT2vXz9LmB4nW8sYd3FgH", "hV3_kQ9zR-pL2mX8wT5nB7cJ4dF6"];
        for word in random {
            assert_eq!(
                redacted(&format!("use {word}, please")),
                "use [redacted:entropy], please",
                "{word}"
            );
        }
        for text in [
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11",
            "StreamMergeTestsOfTwoLegsWithPairs2",
            "src/exchange/prepare_and_send_everything.rs",
            "toolu_exchange_of_two_2",
            "VERY_LONG_NAME_OF_AN_ENVIRONMENT_VARIABLE_2",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "Grüße an alle",
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
