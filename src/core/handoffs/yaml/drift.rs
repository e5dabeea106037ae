//! Compares a file with the repository, to tell whether it is up to date.

use super::model::HandoffFile;
use super::text::listed;
use super::time::Time;
use crate::marker::tags;
use crate::redact::{self, Redactor};
use crate::text::units::ago;
use crate::text::words::plural;

/// Maximum number of files named in the line.
const NAMED: usize = 3;

/// The drift of the repository since a file was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Drift {
    /// Age in seconds; `None` if unknown.
    pub age_seconds: Option<i64>,
    /// Number of commits since the file was written.
    pub commits: usize,
    /// Files named in the handoff file that changed since then, committed or not.
    pub changed: Vec<String>,
    /// The files that no longer exist, although the handoff file lists them as existing.
    pub gone: Vec<String>,
    /// The branch then and now, if they differ.
    pub branch: Option<(String, String)>,
    /// Whether the file was compared with a repository; otherwise only its age is set.
    #[serde(skip)]
    pub compared: bool,
}

impl Drift {
    /// Compares a file's branch with the checked-out one, and computes its age.
    ///
    /// `branch` is empty if none is checked out, and `None` without a repository.
    pub fn new(file: &HandoffFile, branch: Option<&str>, now: Time) -> Self {
        let then = file.findings.get("git_branch").map_or("", String::as_str);
        let is_known = !then.is_empty() && !redact::is_marked(then);
        let other = branch.filter(|now| is_known && !now.is_empty() && then != *now);
        Self {
            age_seconds: file.written_at().map(|at| now.since(at).max(0)),
            branch: other.map(|now| (then.to_owned(), Redactor::default().text(now).into_owned())),
            compared: branch.is_some(),
            ..Self::default()
        }
    }

    /// Whether named files changed or are gone, or the branch is another. Neither age nor other commits count.
    pub fn is_drift(&self) -> bool {
        !self.changed.is_empty() || !self.gone.is_empty() || self.branch.is_some()
    }

    /// A line for the model. In case of drift, it asks the model to tell the user.
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
            tags::break_up(&self.line())
        )
    }

    /// When the file was written, in words.
    pub fn age(&self) -> Option<String> {
        let age = self.age_seconds?;
        Some(format!("written {}", ago(age.unsigned_abs())))
    }

    /// A line for the user and the model.
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
        let word = if self.is_drift() { "Drift" } else { "Up to date" };
        match parts.is_empty() {
            true => format!("{word}: nothing is known of its age"),
            false => format!("{word}: {}", parts.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::full;
    use super::*;

    #[test]
    fn a_redacted_branch_is_no_drift() {
        let mut file = full();
        let branch = ["b/gh", "p_", &"a1B2".repeat(9)].concat();
        file.findings.insert("git_branch".to_owned(), branch.clone());
        file.redact(&Redactor::default());
        assert_eq!(file.findings["git_branch"], "b/[redacted:github-token]");
        let now = Time::parse(&file.updated_at).unwrap();
        assert!(!Drift::new(&file, Some(&branch), now).is_drift());
    }

    #[test]
    fn drift_is_described_in_one_line() {
        let file = full();
        let now = Time::of_seconds(Time::parse(&file.updated_at).unwrap().seconds + 7200);
        let mut none = Drift::new(&file, Some("main"), now);
        none.commits = 1;
        assert!(!none.is_drift() && none.compared);
        assert_eq!(none.line(), "Up to date: written 2h ago; 1 commit since");
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
        assert_eq!(Drift::new(&file, None, now).line(), "Up to date: written 2h ago");
        assert_eq!(
            Drift::new(&HandoffFile::default(), None, now).line(),
            "Up to date: nothing is known of its age"
        );
    }
}
