//! Queries git and beads about a directory. Each query has a time limit and all together have one; a tool that is missing,
//! fails or takes too long adds nothing, which is not an error.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::directory::HandoffDirectory;
use super::error::FileError;
use super::newest::time_of;
use super::read::read_file;
use super::write::{FileNaming, WrittenFile};
use super::{newest, now};
use crate::files::repository::{GuardedRepository, child};
use baton_core::handoffs::document::HandoffDocument;
use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{self, Drift, HandoffFile, names};

/// Time for a query to git.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for beads.
const BEADS: Duration = Duration::from_secs(10);

/// Commits that a file names.
const COMMITS: &str = "-5";

/// Files of a kind that git may add: `git status` shows the rest.
const FILES: usize = 50;

/// Files that git is asked about by name: they are in its command line.
const COMPARED: usize = 1000;

/// The Git state of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitState {
    /// The branch that is checked out; empty where none is.
    pub branch: String,
    /// The last commits, newest first: short id and subject.
    pub commits: Vec<String>,
    /// New files, in the index or not.
    pub created: Vec<String>,
    /// Changed files.
    pub modified: Vec<String>,
    /// Files that are gone.
    pub deleted: Vec<String>,
}

/// Queries programs until a deadline.
#[derive(Debug, Clone, Copy)]
pub struct GitRunner<'d> {
    /// The directory that they run in.
    pub dir: &'d Path,
    /// When all of it has to be done.
    pub until: Instant,
}

impl GitRunner<'_> {
    /// The repository, and git in it until the deadline; `None` outside of one, and if it is not looked at.
    fn repository(&self) -> Option<RepositoryRunner> {
        let has_time = Instant::now() < self.until;
        let repository = has_time.then(|| GuardedRepository::open(self.dir).ok().flatten())??;
        Some(RepositoryRunner {
            repository,
            until: self.until,
        })
    }

    /// Reads the Git state; `None` outside of a repository.
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

    /// Tasks of beads in progress, of one agent or of all.
    pub fn beads(&self, assignee: Option<&str>) -> Vec<String> {
        let mut arguments = vec!["list", "--status", "in_progress", "--format", "json"];
        if let Some(name) = assignee {
            arguments.extend(["--assignee", name]);
        }
        let limit = BEADS.min(self.until.saturating_duration_since(Instant::now()));
        let answer = child::output(child::command("br", self.dir).args(&arguments), limit);
        answer.map_or(Vec::new(), |answer| yaml::beads(&answer))
    }

    /// The drift of the repository since an earlier file was written.
    pub fn since(&self, file: &HandoffFile) -> Drift {
        let git = self.repository();
        let branch = git.as_ref().map(|git| git.repository.branch.as_str());
        let mut drift = Drift::new(file, branch, now());
        let written = file.written_at().filter(|_| drift.compared);
        let (Some(written), Some(git)) = (written, git) else {
            return drift;
        };
        let since = format!("--since=@{}", written.seconds.saturating_add(1));
        let count = git.run(&["rev-list", "--count", &since, "HEAD"], GIT_TIMEOUT);
        drift.commits = count
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or_default();
        let deleted: HashSet<_> = file.files.deleted.iter().map(String::as_str).collect();
        let paths: Vec<_> = file
            .paths()
            .into_iter()
            .filter(|path| !deleted.contains(path))
            .collect();
        // Git is asked about its own files alone: one outside would fail the whole query.
        let inside =
            |path: &&str| !path.starts_with(['/', '\\']) && !path.split('/').any(|part| part == "..");
        let queried: Vec<_> = paths.iter().copied().filter(inside).take(COMPARED).collect();
        let touched = git.touched(&since, &queried);
        for path in paths {
            match fs::metadata(self.dir.join(path)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    drift.gone.push(path.to_owned())
                }
                // A commit alone does not change a file, and a fresh copy of the repository changes no content.
                Ok(found) => {
                    let later = found
                        .modified()
                        .is_ok_and(|at| time_of(at).seconds > written.seconds);
                    if later && touched.contains(path) {
                        drift.changed.push(path.to_owned());
                    }
                }
                Err(_) => {}
            }
        }
        drift
    }
}

/// A repository that git is asked about until a deadline.
struct RepositoryRunner {
    repository: GuardedRepository,
    until: Instant,
}

impl RepositoryRunner {
    fn run(&self, arguments: &[&str], limit: Duration) -> Option<String> {
        let limit = limit.min(self.until.saturating_duration_since(Instant::now()));
        self.repository.git(arguments, limit)
    }

    /// Of these files, those that were committed since, and those with uncommitted changes.
    fn touched(&self, since: &str, paths: &[&str]) -> HashSet<String> {
        if paths.is_empty() {
            return HashSet::new();
        }
        let mut log = vec!["log", since, "--name-only", "--format=", "-z", "--relative", "--"];
        let mut status = vec![
            "diff",
            "--name-only",
            "-z",
            "--no-ext-diff",
            "--ignore-submodules=all",
            "--relative",
            "HEAD",
            "--",
        ];
        log.extend(paths);
        status.extend(paths);
        let mut new = vec!["ls-files", "--others", "-z", "--"];
        new.extend(paths);
        let answers = [
            self.run(&log, GIT_TIMEOUT),
            self.run(&status, GIT_TIMEOUT),
            self.run(&new, GIT_TIMEOUT),
        ];
        answers
            .iter()
            .flatten()
            .flat_map(|answer| answer.split(['\0', '\n']))
            .filter(|path| !path.is_empty())
            .map(str::to_owned)
            .collect()
    }
}

impl GitState {
    /// Adds to a file what git reports and it does not state yet.
    pub fn add_to(&self, file: &mut HandoffFile) {
        let named: HashSet<String> = {
            let files = &file.files;
            let all = files.created.iter().chain(&files.modified).chain(&files.deleted);
            all.cloned().collect()
        };
        let files = &mut file.files;
        for (new, list) in [
            (&self.created, &mut files.created),
            (&self.modified, &mut files.modified),
            (&self.deleted, &mut files.deleted),
        ] {
            let room = FILES.saturating_sub(list.len());
            list.extend(
                new.iter()
                    .filter(|path| !named.contains(*path))
                    .take(room)
                    .cloned(),
            );
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

/// The drift of a file: compared with the repository in a directory, within a time.
pub fn compared(file: &HandoffFile, dir: Option<&Path>, limit: Duration) -> Drift {
    let until = Instant::now() + limit;
    dir.map_or_else(
        || Drift::new(file, None, now()),
        |dir| GitRunner { dir, until }.since(file),
    )
}

impl HandoffDirectory {
    /// Writes the file of a document, once: a document that has its file already gets no second one. It is named by
    /// when the handoff was made. Each client's files are by themselves.
    ///
    /// # Errors
    /// As [`HandoffDirectory::write`].
    pub fn write_document(
        &self,
        document: &HandoffDocument,
        client: Option<&str>,
    ) -> Result<WrittenFile, FileError> {
        let mut file = HandoffFile::of_document(document);
        if let Some(client) = client {
            file.session = names::of_client(client, &file.session);
        }
        let at = Time::parse(&document.created_at).unwrap_or_else(now);
        let stem = names::automatic(at);
        let dir = self.session_dir(&file.session)?;
        let id = document.id.to_string();
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
