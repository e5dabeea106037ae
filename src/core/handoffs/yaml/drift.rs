//! Whether a file is up to date: compares the repository with the file.

use super::model::HandoffFile;
use super::text::listed;
use super::time::Time;
use crate::text::words::plural;

/// Files that the line names.
const NAMED: usize = 3;

/// The drift of the repository since a file was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Drift {
    /// Age in seconds; `None` where it is unknown.
    pub age_seconds: Option<i64>,
    /// Commits since.
    pub commits: usize,
    /// The named files that were changed since, in a commit or not.
    pub changed: Vec<String>,
    /// Of the files that it names as there, those that are gone.
    pub gone: Vec<String>,
    /// The branch then and now, where it is another one.
    pub branch: Option<(String, String)>,
    /// Whether the file was compared with a repository; otherwise only its age is known.
    #[serde(skip)]
    pub compared: bool,
}

impl Drift {
    /// The age of a file and its branch, compared with the one that is checked out: empty where none is, `None` without a
    /// repository.
    pub fn new(file: &HandoffFile, branch: Option<&str>, now: Time) -> Self {
        let then = file.findings.get("git_branch").map_or("", String::as_str);
        let other = branch.filter(|now| !then.is_empty() && !now.is_empty() && then != *now);
        Self {
            age_seconds: file.written_at().map(|at| now.since(at).max(0)),
            branch: other.map(|now| (then.to_owned(), now.to_owned())),
            compared: branch.is_some(),
            ..Self::default()
        }
    }

    /// Whether something has moved. Age alone is none, and neither are commits that touch nothing the file names.
    pub fn is_drift(&self) -> bool {
        !self.changed.is_empty() || !self.gone.is_empty() || self.branch.is_some()
    }

    /// One line for the model, with the request to pass it on where something has moved.
    pub fn for_the_model(&self) -> String {
        let then = match self.is_drift() {
            true => {
                " Look at these again before you rely on what the handoff says of them, and tell the user in one line."
            }
            false => "",
        };
        format!(
            "<since-handoff>\nThis comes from the session's proxy, not from the user. The handoff was compared with the repository. {}.{then}\n\
             </since-handoff>",
            self.line()
        )
    }

    /// When the file was written, in words.
    pub fn age(&self) -> Option<String> {
        self.age_seconds
            .map(|age| format!("written {} ago", format_age(age)))
    }

    /// One line for the user and the model.
    pub fn line(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.age());
        if self.commits > 0 {
            parts.push(plural(self.commits as u64, "commit") + " since");
        }
        if let Some((then, now)) = &self.branch {
            parts.push(format!("branch was {then}, is {now}"));
        }
        for (files, what) in [(&self.changed, "changed since"), (&self.gone, "gone")] {
            if !files.is_empty() {
                parts.push(format!("{what}: {}", listed(files, NAMED, usize::MAX)));
            }
        }
        let word = if self.is_drift() { "Drift" } else { "Still true" };
        match parts.is_empty() {
            true => format!("{word}: nothing is known of its age"),
            false => format!("{word}: {}", parts.join("; ")),
        }
    }
}

/// `12m`, `3h`, `5d`.
fn format_age(seconds: i64) -> String {
    match seconds {
        ..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::full;
    use super::*;

    #[test]
    fn drift_is_described_in_one_line() {
        let file = full();
        let now = Time::of_seconds(Time::parse(&file.updated_at).unwrap().seconds + 7200);
        let mut none = Drift::new(&file, Some("main"), now);
        none.commits = 1;
        assert!(!none.is_drift() && none.compared);
        assert_eq!(none.line(), "Still true: written 2h ago; 1 commit since");
        let drift = Drift {
            commits: 3,
            changed: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            gone: vec!["e".to_owned()],
            ..Drift::new(&file, Some("next"), now)
        };
        assert!(drift.is_drift());
        assert_eq!(
            drift.line(),
            "Drift: written 2h ago; 3 commits since; branch was main, is next; changed since: a, b, c +1 more; gone: e"
        );
        assert_eq!(Drift::new(&file, None, now).line(), "Still true: written 2h ago");
        assert_eq!(
            Drift::new(&HandoffFile::default(), None, now).line(),
            "Still true: nothing is known of its age"
        );
    }
}
