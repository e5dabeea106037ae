//! The quoted part of a passage: redacted, and in a long passage the lines around the question's words.

use std::ops::Range;

use super::rank::TermWeights;
use crate::handoffs::draft::tokens;
use crate::redact::{Redactor, unnamed};
use crate::text::cut::floor;
use crate::text::words;

/// Bytes before and after a passage that are searched for credentials.
///
/// A private key is only recognized by its first line, which may precede the passage.
const AROUND: usize = 8 * 1024;

/// Redacts a range of `text`.
pub(super) fn clean(text: &str, range: &Range<usize>, redactor: &Redactor) -> String {
    // Redacted with its surroundings, because a passage may begin inside of a credential.
    let window = floor(text, range.start.saturating_sub(AROUND))..floor(text, range.end + AROUND);
    let inside = range.start - window.start..range.end - window.start;
    let marked = redactor.find(&text[window]).marked(&inside, true);
    let out = marked.as_deref().unwrap_or(&text[range.clone()]);
    unnamed::redacted(out).into_owned()
}

/// At most this many tokens of `text`: the lines with the greatest weight, and their neighbors.
pub(super) fn excerpt(text: &str, weights: &TermWeights, most: usize) -> String {
    let text = text.trim_matches(['\n', '\r']).trim_end();
    if tokens(text) <= most {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    let costs: Vec<usize> = lines.iter().map(|line| tokens(line) + 1).collect();
    let line_weights: Vec<f32> = lines.iter().map(|line| line_weight(line, weights)).collect();
    let Some(best) =
        // The first of equal lines.
        (0..lines.len()).max_by(|a, b| line_weights[*a].total_cmp(&line_weights[*b]).then(b.cmp(a)))
    else {
        return String::new();
    };
    if costs[best] > most {
        return within(lines[best], weights, most);
    }
    let (mut from, mut to, mut used) = (best, best + 1, costs[best]);
    loop {
        let before = from.checked_sub(1).filter(|at| used + costs[*at] <= most);
        let after = Some(to).filter(|at| *at < lines.len() && used + costs[*at] <= most);
        match (before, after) {
            (Some(at), Some(next)) if line_weights[at] > line_weights[next] => {
                (from, used) = (at, used + costs[at])
            }
            // Between equal neighbors, the line after comes first.
            (_, Some(next)) => (to, used) = (next + 1, used + costs[next]),
            (Some(at), None) => (from, used) = (at, used + costs[at]),
            (None, None) => break,
        }
    }
    let mark = |cut: bool| if cut { "[…]\n" } else { "" };
    let end = if to < lines.len() { "\n[…]" } else { "" };
    format!("{}{}{end}", mark(from > 0), lines[from..to].join("\n"))
}

/// The weight of the question's words in a line.
fn line_weight(line: &str, weights: &TermWeights) -> f32 {
    let mut sum = 0.0;
    words::each(line, &mut |_, word| {
        sum += weights.get(&words::hash(word)).copied().unwrap_or_default()
    });
    sum
}

/// Part of a line around its word with the greatest weight.
fn within(line: &str, weights: &TermWeights, most: usize) -> String {
    let mut best = (0.0, 0);
    words::each(line, &mut |_, word| {
        let line_weights = weights.get(&words::hash(word)).copied().unwrap_or_default();
        let at = word.as_ptr() as usize - line.as_ptr() as usize;
        if line_weights > best.0 {
            best = (line_weights, at);
        }
    });
    // In nearly any text a token has more than three bytes, so this length usually fits without the loop below.
    let bytes = most * 3;
    let from = floor(line, best.1.saturating_sub(bytes / 3));
    let mut to = floor(line, from + bytes);
    while tokens(&line[from..to]) > most && to > from {
        to = floor(line, from + (to - from) * 9 / 10);
    }
    let dots = |cut: bool| if cut { "…" } else { "" };
    format!(
        "{}{}{}",
        dots(from > 0),
        line[from..to].trim(),
        dots(to < line.len())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_quoted_around_the_words_of_the_question() {
        let mut lines: Vec<String> = (0..200).map(|n| format!("line {n} of a log")).collect();
        lines[120] = "error: the port is taken".to_owned();
        let weights = TermWeights::from([(words::hash("port"), 2.0)]);
        let shown = excerpt(&lines.join("\n"), &weights, 60);
        assert!(
            shown.contains("port is taken") && shown.contains("line 121"),
            "{shown}"
        );
        assert!(
            shown.starts_with("[…]\n") && shown.ends_with("\n[…]") && tokens(&shown) <= 70,
            "{shown}"
        );
        let one = format!("{} the port is 7 {}", "ä".repeat(900), "b c ".repeat(900));
        let shown = excerpt(&one, &weights, 40);
        assert!(shown.contains("port is 7") && tokens(&shown) <= 45, "{shown}");
        assert_eq!(excerpt("\nshort\n", &weights, 40), "short");
    }

    #[test]
    fn a_credential_goes_though_only_its_end_is_quoted() {
        let key = format!(
            "-----BEGIN {0} KEY-----\n{1}\n-----END {0} KEY-----\nrest",
            "PRIVATE",
            "QUJD".repeat(60)
        );
        let redactor = Redactor::new(&[]);
        let shown = clean(&key, &(200..key.len()), &redactor);
        assert!(!shown.contains("QUJD") && shown.ends_with("rest"), "{shown}");
        assert_eq!(clean("a plain text", &(2..7), &redactor), "plain");
    }
}
