//! Model names as metric labels. The agent chooses the name, so the number of labels is bounded.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::sync::locked;

/// Maximum number of models with their own label: more than one user needs, few enough for a dashboard.
const MODELS: usize = 64;
/// Maximum length of a model name in a label.
const CHARS: usize = 64;
/// Label of all other models.
const OTHER: &str = "other";

/// The models that have their own label.
#[derive(Debug, Default)]
pub(super) struct LabelledModels(Mutex<HashSet<String>>);

impl LabelledModels {
    /// Returns the label of a model: its name, while there are few.
    ///
    /// A name counts only once a request with it has succeeded, so that typos and probes do not use up the
    /// labels.
    pub(super) fn label(&self, model: &str, status: u16) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@".contains(c);
        if model.is_empty() || model.len() > CHARS || !model.chars().all(plain) {
            return OTHER.to_owned();
        }
        let mut models = locked(&self.0);
        if !models.contains(model) {
            if models.len() >= MODELS || !(200..300).contains(&status) {
                return OTHER.to_owned();
            }
            models.insert(model.to_owned());
        }
        model.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_few_plain_and_have_worked() {
        let models = LabelledModels::default();
        assert_eq!(models.label("typing-error", 404), OTHER);
        for i in 0..MODELS {
            assert_eq!(models.label(&format!("m{i}"), 200), format!("m{i}"));
        }
        assert_eq!(models.label("one-more", 200), OTHER);
        assert_eq!(models.label("m0", 500), "m0");
        let long = "m".repeat(CHARS + 1);
        for odd in ["", "evil\"} 1\n", long.as_str()] {
            assert_eq!(LabelledModels::default().label(odd, 200), OTHER);
        }
    }
}
