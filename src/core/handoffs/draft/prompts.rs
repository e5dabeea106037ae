//! The prompts that ask a model for a draft. The built-in ones are files, and a config may have its own in their place.

/// The texts that prompts are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompts {
    /// What the document is: its sections, and what belongs in each.
    pub document: String,
    /// Comes before `document` where a model is asked after its own history.
    pub oneshot: String,
    /// Comes between `document` and a bundle.
    pub bundle: String,
}

impl Prompts {
    /// The files' names and the built-in texts.
    pub const FILES: [(&'static str, &'static str); 3] = [
        (
            "document.md",
            include_str!("../../../../config/prompts/document.md"),
        ),
        (
            "oneshot.md",
            include_str!("../../../../config/prompts/oneshot.md"),
        ),
        ("bundle.md", include_str!("../../../../config/prompts/bundle.md")),
    ];

    /// The built-in texts, and in place of each what `given` has under its file's name.
    pub fn with(mut given: impl FnMut(&str) -> Option<String>) -> Self {
        let [document, oneshot, bundle] =
            Self::FILES.map(|(name, text)| given(name).unwrap_or_else(|| text.to_owned()));
        Self {
            document,
            oneshot,
            bundle,
        }
    }

    /// The prompt after a model's own history.
    pub fn after_history(&self, focus: &str) -> String {
        format!("{}{}{}", self.oneshot, self.document.trim_end(), about(focus))
    }

    /// The prompt around a bundle.
    pub fn with_bundle(&self, bundle: &str, focus: &str) -> String {
        let (document, task) = (self.document.trim_end(), about(focus));
        format!("{document}{task}\n\n{}\n{bundle}", self.bundle)
    }

    /// The document's sections: headings of the second level.
    pub fn headings(&self) -> Vec<&str> {
        let lines = self.document.lines();
        let headings = lines.filter_map(|line| line.strip_prefix("## "));
        headings.map(str::trim).collect()
    }
}

impl Default for Prompts {
    fn default() -> Self {
        Self::with(|_| None)
    }
}

fn about(focus: &str) -> String {
    match focus.trim() {
        "" => String::new(),
        focus => format!("\n\nThe person wants it to be about: {focus}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_can_be_replaced_and_the_others_stay() {
        let own =
            Prompts::with(|name| (name == "document.md").then(|| "Write.\n\n## One\n## Two \n".to_owned()));
        assert_eq!(own.headings(), ["One", "Two"]);
        assert_eq!(own.bundle, Prompts::default().bundle);
        let prompt = own.after_history(" the parser ");
        assert!(
            prompt.starts_with("Stop here") && prompt.ends_with("about: the parser"),
            "{prompt}"
        );
        assert!(Prompts::default().after_history("").ends_with("there is none."));
        assert!(own.with_bundle("[turn 1]", "").ends_with("\n[turn 1]"));
    }
}
