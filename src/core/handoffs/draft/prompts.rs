//! The prompts that ask a model for a draft. The built-in ones are files; configured ones replace them.

use std::convert::Infallible;

use super::request::{DraftSpec, Preset};

/// The parts of the prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompts {
    /// Describes the document: its sections and their content.
    pub document: String,
    /// Text before `document`, for a model with its own history.
    pub oneshot: String,
    /// Text between `document` and a bundle.
    pub bundle: String,
}

impl Prompts {
    /// The built-in parts, each replaced by the value that `given` has under its file name.
    ///
    /// # Errors
    /// The first error of `given`.
    pub fn with<E>(given: impl Fn(&str) -> Result<Option<String>, E>) -> Result<Self, E> {
        let text = |name: &str, built_in: &str| Ok(given(name)?.unwrap_or_else(|| built_in.to_owned()));
        Ok(Self {
            document: text("document.md", include_str!("document.md"))?,
            oneshot: text("oneshot.md", include_str!("oneshot.md"))?,
            bundle: text("bundle.md", include_str!("bundle.md"))?,
        })
    }

    /// The prompt after a model's own history.
    pub fn after_history(&self, spec: &DraftSpec<'_>) -> String {
        let repository = match spec.repository.trim() {
            "" => String::new(),
            state => format!("\n\nThe repository now, as git reports it:\n```\n{state}\n```"),
        };
        let document = self.document.trim_end();
        format!("{}{document}{repository}{}", self.oneshot, wishes(spec))
    }

    /// The prompt with a bundle.
    pub(super) fn with_bundle(&self, bundle: &str, spec: &DraftSpec<'_>) -> String {
        let document = self.document.trim_end();
        format!("{document}{}\n\n{}\n{bundle}", wishes(spec), self.bundle)
    }
}

impl Default for Prompts {
    fn default() -> Self {
        let Ok(prompts) = Self::with(|_| Ok::<_, Infallible>(None));
        prompts
    }
}

/// The user's options in words, with the goal last.
fn wishes(spec: &DraftSpec<'_>) -> String {
    let purpose = match spec.preset {
        Preset::Implement => {
            "The session that goes on writes code: be most exact about files, symbols and next steps."
        }
        Preset::Docs => {
            "The session that goes on writes documentation: be most exact about decisions with their reasons and \
             about what was done."
        }
        Preset::Debug => {
            "The session that goes on looks for a fault: be most exact about what was run, what failed with which \
             error, and what was tried."
        }
    };
    let left_out = [
        (
            spec.git,
            " Leave out the state of the repository: branches, commits, uncommitted files.",
        ),
        (spec.commands, " Leave out commands and what they returned."),
        (spec.why, " Name changed files without the reason of the change."),
    ];
    let left_out: String = left_out
        .iter()
        .filter(|(has, _)| !has)
        .map(|(_, words)| *words)
        .collect();
    let goal = match spec.focus.trim() {
        "" => String::new(),
        goal => format!("\n\n{GOAL}\n\n{goal}"),
    };
    format!("\n\n{purpose}{left_out}{goal}")
}

/// Text before the user's goal.
const GOAL: &str = "The user has set the goal of the session that goes on. It is put above what you write, word for word, so \
do not repeat it. The next steps lead to it, in their order. What was requested before is background: say what of it is \
done and what is open. The goal:";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::text::testing::{assert_begins, assert_contains, assert_ends};

    #[test]
    fn each_text_can_be_replaced_and_the_others_stay() {
        let document = || "Write.\n\n## One\n## Two \n".to_owned();
        let own = Prompts::with(|name| Ok::<_, ()>((name == "document.md").then(document))).unwrap();
        assert_eq!(
            Prompts::with(|name| Err(name.to_owned())),
            Err("document.md".to_owned())
        );
        assert_eq!(own.bundle, Prompts::default().bundle);
        let prompt = own.after_history(&DraftSpec::default());
        assert_begins(&prompt, "Stop here");
        assert_contains(&prompt, "## Two\n\n");
        assert_ends(&own.with_bundle("[turn 1]", &DraftSpec::default()), "\n[turn 1]");
    }

    /// Checks that every option affects the request to the model.
    #[test]
    fn every_option_changes_the_request_and_the_goal_stands_last() {
        let plain = DraftSpec::default();
        let rows = [
            plain,
            DraftSpec {
                preset: Preset::Docs,
                ..plain
            },
            DraftSpec {
                preset: Preset::Debug,
                ..plain
            },
            DraftSpec { git: false, ..plain },
            DraftSpec {
                commands: false,
                ..plain
            },
            DraftSpec { why: false, ..plain },
            DraftSpec {
                repository: "## main\n M a.rs\n",
                ..plain
            },
            DraftSpec {
                focus: " the parser\nand its tests ",
                ..plain
            },
        ];
        let prompts = Prompts::default();
        let requests: HashSet<String> = rows.iter().map(|spec| prompts.after_history(spec)).collect();
        assert_eq!(requests.len(), rows.len());
        let with_goal = prompts.after_history(&rows[7]);
        assert_ends(&with_goal, "The goal:\n\nthe parser\nand its tests");
        assert_contains(&prompts.after_history(&rows[6]), "```\n## main\n M a.rs\n```");
    }
}
