//! A small general table of synonyms in software.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::text::stem::stem;

/// Rows of words that different users choose for the same thing.
///
/// The words are general or belong to programming; none belongs to a single project.
const ALIKE: &str = include_str!("meanings.txt");

/// Stems of words that mean much the same as the word with this stem.
pub(super) fn like(of: &str) -> impl Iterator<Item = &'static str> {
    static ROWS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
        let mut rows: HashMap<String, Vec<String>> = HashMap::new();
        for row in ALIKE.lines() {
            let stems: Vec<String> = row.split_whitespace().map(stem).collect();
            for stem in &stems {
                let others = rows.entry(stem.clone()).or_default();
                others.extend(stems.iter().filter(|other| *other != stem).cloned());
            }
        }
        rows.values_mut().for_each(|others| {
            // Sorted, so that the same question always gives the same order.
            others.sort();
            others.dedup();
        });
        rows
    });
    ROWS.get(of).into_iter().flatten().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings_are_found_by_any_form_of_a_word() {
        let all: Vec<_> = like(&stem("expires")).collect();
        assert!(all.contains(&stem("timeout").as_str()), "{all:?}");
        assert_eq!(like("xyzzy").count(), 0);
    }
}
