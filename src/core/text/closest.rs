//! The known word that a mistyped one stands for.

/// Returns the closest candidate if it is close enough to have been meant.
pub fn closest_name<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong: enough for a slip, and not enough for an unrelated word.
    let allowed = (word.chars().count() / 3).max(1);
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&word, &c.to_lowercase()), c))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_an_unrelated_word_is_not() {
        assert_eq!(closest_name("listne", ["listen", "token"]), Some("listen"));
        assert_eq!(closest_name("colour", ["listen", "token"]), None);
    }
}
