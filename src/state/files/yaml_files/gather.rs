//! Queries git, and the issue tracker beads, about a directory.
//!
//! Each query has a time limit, and so do all of them together. A tool that is missing, fails or is too slow
//! adds nothing, which is not an error.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::directory::HandoffDirectory;
use super::error::FileResult;
use super::newest::time_of;
use super::read::read_file;
use super::write::{FileNaming, WrittenFile};
use super::{newest, now};
use crate::files::repository::{GuardedRepository, child};
use baton_core::handoffs::document::HandoffDocument;
use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{self, Drift, HandoffFile, names};

/// Time limit for a query to git.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for a query to beads.
const BEADS: Duration = Duration::from_secs(10);

/// Number of commits listed in a file.
const COMMITS: &str = "-5";

/// Maximum number of files that git may add to each list. `git status` shows the rest.
const FILES: usize = 50;

/// Maximum number of files compared by name, since the names are part of git's command line.
const COMPARED: usize = 1000;

/// The Git state of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitState {
    /// Branch that is checked out. Empty if none is.
    pub branch: String,
    /// Last commits, newest first, each as short id and subject.
    pub commits: Vec<String>,
    /// New files, whether or not in the index.
    pub created: Vec<String>,
    /// Changed files.
    pub modified: Vec<String>,
    /// Deleted files.
    pub deleted: Vec<String>,
}

/// Runs queries until a deadline.
#[derive(Debug, Clone, Copy)]
pub struct GitRunner<'d> {
    /// Directory of the queries.
    pub dir: &'d Path,
    /// Deadline for all queries.
    pub until: Instant,
}

impl GitRunner<'_> {
    /// Opens the repository for queries until the deadline. Returns `None` outside of one, or if it must not
    /// be read.
    fn repository(&self) -> Option<RepositoryRunner> {
        let has_time = Instant::now() < self.until;
        let repository = has_time.then(|| GuardedRepository::open(self.dir).ok().flatten())??;
        Some(RepositoryRunner {
            repository,
            until: self.until,
        })
    }

    /// Reads the Git state. Returns `None` outside of a repository.
    pub fn git_state(&self) -> Option<GitState> {
        let git = self.repository()?;
        let mut state = GitState {
            branch: git.repository.branch.clone(),
            ..GitState::default()
        };
        let diff = [
            "diff",
            "--name-status",
            "-z",
            "--no-renames",
            "--no-ext-diff",
            "--ignore-submodules=all",
            "--relative",
            "HEAD",
        ];
        let diff = git.run(&diff, GIT_TIMEOUT).unwrap_or_default();
        let mut fields = diff.split('\0');
        while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
            let list = match status {
                "A" => &mut state.created,
                "D" => &mut state.deleted,
                // Includes changed types and unmerged files.
                _ => &mut state.modified,
            };
            list.push(path.to_owned());
        }
        let new = git.run(&["ls-files", "--others", "--exclude-standard", "-z"], GIT_TIMEOUT);
        let new = new.unwrap_or_default();
        state
            .created
            .extend(new.split('\0').filter(|path| !path.is_empty()).map(str::to_owned));
        let log = git.run(&["log", COMMITS, "--oneline", "--no-decorate"], GIT_TIMEOUT);
        state.commits = log.unwrap_or_default().lines().map(str::to_owned).collect();
        Some(state)
    }

    /// Lists the beads tasks in progress, of one agent or of all.
    pub fn beads(&self, assignee: Option<&str>) -> Vec<String> {
        let mut arguments = vec!["list", "--status", "in_progress", "--format", "json"];
        if let Some(name) = assignee {
            arguments.extend(["--assignee", name]);
        }
        let limit = BEADS.min(self.until.saturating_duration_since(Instant::now()));
        let answer = child::output(child::command("br", self.dir).args(&arguments), limit);
        answer.map_or(Vec::new(), |answer| yaml::beads(&answer))
    }

    /// Returns how the repository has drifted since an earlier file was written.
    pub fn since(&self, file: &HandoffFile) -> Drift {
        let git = self.repository();
        let branch = git.as_ref().map(|git| git.repository.branch.as_str());
        let mut drift = Drift::new(file, branch, now());
        let written = file.written_at().filter(|_| drift.compared);
        let (Some(written), Some(git)) = (written, git) else {
            return drift;
        };
        // Git includes commits of the given second, while a commit of the same second as the file precedes
        // it.
        let since = format!("--since=@{}", written.seconds.saturating_add(1));
        let count = git.run(&["rev-list", "--count", &since, "HEAD"], GIT_TIMEOUT);
        let count = count.and_then(|count| count.trim().parse().ok());
        drift.commits = count.unwrap_or_default();
        // A file that the handoff lists as deleted is expected to be missing.
        let deleted: HashSet<_> = file.files.deleted.iter().map(String::as_str).collect();
        let mut paths = file.paths();
        paths.retain(|path| !deleted.contains(path));
        // Only paths inside the directory: a single one outside would fail git's whole query.
        let inside =
            |path: &&str| !path.starts_with(['/', '\\']) && !path.split('/').any(|part| part == "..");
        let queried: Vec<_> = paths.iter().copied().filter(inside).take(COMPARED).collect();
        let touched = git.touched(&since, &queried);
        for path in paths {
            match fs::metadata(self.dir.join(path)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    drift.gone.push(path.to_owned())
                }
                // A file counts as changed only if its time and git agree. A commit does not change the
                // file, and a fresh clone changes every time but no content.
                Ok(found) => {
                    let later = |at| time_of(at).seconds > written.seconds;
                    if found.modified().is_ok_and(later) && touched.contains(path) {
                        drift.changed.push(path.to_owned());
                    }
                }
                Err(_) => {}
            }
        }
        drift
    }
}

/// Runs git in a repository until a deadline.
struct RepositoryRunner {
    repository: GuardedRepository,
    until: Instant,
}

impl RepositoryRunner {
    fn run(&self, arguments: &[&str], limit: Duration) -> Option<String> {
        let limit = limit.min(self.until.saturating_duration_since(Instant::now()));
        self.repository.git(arguments, limit)
    }

    /// Returns which of these files were committed since then or have uncommitted changes.
    fn touched(&self, since: &str, paths: &[&str]) -> HashSet<String> {
        if paths.is_empty() {
            return HashSet::new();
        }
        let log = ["log", since, "--name-only", "--format=", "-z", "--relative", "--"];
        let status = "diff --name-only -z --no-ext-diff --ignore-submodules=all --relative HEAD --";
        let status: Vec<_> = status.split(' ').collect();
        let commands = [&log[..], &status, &["ls-files", "--others", "-z", "--"]];
        let answers = commands.map(|command| self.run(&[command, paths].concat(), GIT_TIMEOUT));
        let answers = answers.iter().flatten();
        let named = answers.flat_map(|answer| answer.split(['\0', '\n']));
        named.filter(|path| !path.is_empty()).map(str::to_owned).collect()
    }
}

impl GitState {
    /// Adds the paths, the branch and the commits that a file does not state yet.
    pub fn add_to(&self, file: &mut HandoffFile) {
        let files = &mut file.files;
        let named = files.created.iter().chain(&files.modified).chain(&files.deleted);
        let named: HashSet<String> = named.cloned().collect();
        for (new, list) in [
            (&self.created, &mut files.created),
            (&self.modified, &mut files.modified),
            (&self.deleted, &mut files.deleted),
        ] {
            let room = FILES.saturating_sub(list.len());
            let new = new.iter().filter(|path| !named.contains(*path));
            list.extend(new.take(room).cloned());
        }
        let mut finding = |name: &str, text: String| {
            if !text.is_empty() {
                file.findings.entry(name.to_owned()).or_insert(text);
            }
        };
        finding("git_branch", self.branch.clone());
        finding("recent_commits", self.commits.join("; "));
    }
}

/// Returns the drift of a file relative to the repository in a directory, within a time limit.
pub fn compared(file: &HandoffFile, dir: Option<&Path>, limit: Duration) -> Drift {
    let until = Instant::now() + limit;
    dir.map_or_else(
        || Drift::new(file, None, now()),
        |dir| GitRunner { dir, until }.since(file),
    )
}

impl HandoffDirectory {
    /// Writes the file of a document, unless the document already has one.
    ///
    /// The time of the handoff names the file. Files of different clients are kept in different sessions.
    ///
    /// # Errors
    /// Fails like [`HandoffDirectory::write`].
    pub fn write_document(
        &self,
        document: &HandoffDocument,
        client: Option<&str>,
    ) -> FileResult<WrittenFile> {
        let mut file = HandoffFile::of_document(document);
        if let Some(client) = client {
            file.session = names::of_client(client, &file.session);
        }
        let at = Time::parse(&document.created_at).unwrap_or_else(now);
        let stem = names::automatic(at);
        let dir = self.session_dir(&file.session)?;
        let id = document.id.to_string();
        // Names have only seconds, so the finding `handoff` tells which of the files with this time belongs
        // to the document.
        for name in newest::sort(&dir, self.files(&file.session)?) {
            if !name.starts_with(&stem) {
                continue;
            }
            let path = dir.join(name);
            let is_its = read_file(&path).is_ok_and(|found| found.file.findings.get("handoff") == Some(&id));
            if is_its {
                return Ok(WrittenFile {
                    path,
                    warnings: Vec::new(),
                });
            }
        }
        self.write(&mut file, &FileNaming::Automatic, at)
    }
}
