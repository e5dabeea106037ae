//! Stems of English words, so that `expires` matches `expired` and `expiry`.
//!
//! Deliberately coarse: words with the same stem need not be forms of one word, because users see the excerpt
//! and not the stem.

/// Minimum length of a stem, in letters.
const LEAST: usize = 3;

/// Endings replaced by `y`.
const Y_ENDINGS: [&str; 2] = ["ied", "ies"];

/// Endings to remove, longest first.
const ENDINGS: [&str; 35] = [
    "izations", "ization", "izing", "izers", "ations", "ation", "itions", "ments", "ition", "ators", "ment",
    "ness", "izer", "ized", "izes", "able", "ible", "ance", "ence", "ator", "ings", "ions", "ated", "ates",
    "ize", "ing", "ion", "ate", "ity", "ers", "age", "ed", "er", "ly", "es",
];

/// Stem of a lower-case word. Words with characters other than a to z are returned unchanged.
pub fn stem(word: &str) -> String {
    if word.len() <= LEAST || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let mut stem = cut(word);
    // A final `e` or `y` varies between forms: expire, expiry, expiring.
    while stem.len() > LEAST && stem.ends_with(['e', 'y', 'i']) {
        stem.pop();
    }
    let bytes = stem.as_bytes();
    if let [.., a, b] = bytes
        && a == b
        && stem.len() > LEAST
    {
        // Doubled consonants: running, stopped.
        stem.pop();
    }
    stem
}

fn cut(word: &str) -> String {
    let endings = Y_ENDINGS
        .map(|ending| (ending, "y"))
        .into_iter()
        .chain(ENDINGS.map(|ending| (ending, "")));
    let last = |text: &str| text.bytes().next_back();
    for (ending, with) in endings.filter(|(ending, _)| last(ending) == last(word)) {
        // A stem without a vowel would not be a word: `string` is not a form of `str`.
        if let Some(stem) = word.strip_suffix(ending)
            && stem.len() + with.len() >= LEAST
            && stem.bytes().any(|b| b"aeiouy".contains(&b))
        {
            return format!("{stem}{with}");
        }
    }
    match word.strip_suffix('s') {
        Some(stem) if !stem.ends_with(['s', 'u', 'i']) => stem.to_owned(),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            &["expire", "expires", "expired", "expiry", "expiring", "expiration"][..],
            &["retry", "retries", "retried", "retrying"],
            &["deploy", "deploys", "deployment", "deployed"],
            &["configure", "configured", "configuration", "configurable"],
            &["limit", "limits", "limited", "limiting"],
            &["authenticate", "authentication", "authenticated"],
            &["stop", "stopped", "stopping"],
            &["cache", "caches", "cached", "caching"],
            &["serialize", "serializer", "serialization", "serialized"],
            &["delete", "deletes", "deleted", "deletion"],
        ] {
            let stems: Vec<_> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.iter().all(|s| *s == stems[0]), "{forms:?}: {stems:?}");
        }
        for word in ["is", "x86", "größe", "bus", "class", "a_b"] {
            assert!(word.starts_with(&stem(word)), "{word}");
        }
        assert_ne!(stem("port"), stem("portal"));
    }
}
