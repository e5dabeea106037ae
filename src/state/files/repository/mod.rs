//! The state of a git repository, as text for a draft and as values for a document.

pub(crate) mod child;
mod guarded;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use self::guarded::GuardedRepository;
pub use self::guarded::NotLookedAt;
use super::runs;
use crate::config::Config;
use baton_core::handoffs::document::Checkout;
use baton_core::record::LOCAL;
use baton_core::work::Whereabouts;

/// The queries to git: the command shown to the reader, and the arguments that run.
///
/// Submodules are ignored, because each has a configuration that git would read.
const QUERIES: [(&str, &[&str]); 3] = [
    ("status -sb", &["status", "-s", "--ignore-submodules=all"]),
    (
        "diff --stat",
        &[
            "diff",
            "--stat",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=all",
        ],
    ),
    ("log -5 --oneline", &["log", "-5", "--oneline", "--no-decorate"]),
];

/// Replaces the state of a repository that cannot be read safely or in time.
const NOT_LOOKED_AT: &str = "The repository was not looked at.";

/// Time limit for each query.
const LIMIT: Duration = Duration::from_secs(2);

/// Returns a session's directory if baton may read it.
///
/// The directory must be below the one where `baton run` was started. If that is unknown, a known agent must
/// have stated the directory.
pub fn of_session(whereabouts: &Whereabouts, root: Option<&Path>) -> Option<PathBuf> {
    let directory = Path::new(whereabouts.directory.as_deref()?);
    let may_be_read = match root {
        Some(root) => is_below(directory, root),
        None => whereabouts.is_stated,
    };
    (may_be_read && directory.is_absolute() && directory.is_dir()).then(|| directory.to_owned())
}

fn is_below(dir: &Path, root: &Path) -> bool {
    // Both are resolved, so that a symbolic link cannot lead out of the root.
    let [dir, root] = [dir, root].map(std::fs::canonicalize);
    dir.is_ok_and(|dir| root.is_ok_and(|root| dir.starts_with(root)))
}

/// Returns the output of `git status -sb`, `git diff --stat` and `git log -5 --oneline` in a directory.
///
/// Empty outside of a repository. If git is missing or too slow, the output states that the repository was
/// not read. Neither is an error.
pub fn state(dir: &Path) -> String {
    let repository = match GuardedRepository::open(dir) {
        Ok(Some(repository)) => repository,
        Ok(None) => return String::new(),
        Err(NotLookedAt) => return NOT_LOOKED_AT.to_owned(),
    };
    // A failed query adds nothing. The first query always has output, at least the branch line.
    let outputs = QUERIES.iter().enumerate().filter_map(|(at, (shown, query))| {
        let output = repository.git(query, LIMIT)?;
        let first = if at == 0 {
            repository.branch_line()
        } else {
            String::new()
        };
        let output = [first, output.trim_end().to_owned()].concat();
        (!output.is_empty()).then(|| format!("$ git {shown}\n{}", output.trim_end()))
    });
    let outputs: Vec<_> = outputs.collect();
    match outputs.is_empty() {
        true => NOT_LOOKED_AT.to_owned(),
        false => outputs.join("\n"),
    }
}

/// Returns the state of the repository that a draft describes.
///
/// This is the repository of the session's directory, if baton may read it. The configured directory is used only
/// if the session names none. The result is empty if there is no directory to read.
pub fn draft_state(config: &Config, principal: &str, run: Option<&str>, whereabouts: &Whereabouts) -> String {
    let dir = match whereabouts.directory {
        // A client's directory is on the client's machine.
        Some(_) if principal != LOCAL => None,
        Some(_) => {
            let root = run.and_then(|run| runs::directory(&config.state_dir, run));
            of_session(whereabouts, root.as_deref())
        }
        None => config.draft.git_dir.clone(),
    };
    dir.map_or(String::new(), |dir| state(&dir))
}

/// Returns the branch, commit and uncommitted files of a directory. Returns `None` outside of a repository.
///
/// # Errors
/// Returns an error if the repository cannot be read safely or in time.
pub fn checkout(dir: &Path) -> Result<Option<Checkout>, NotLookedAt> {
    let Some(repository) = GuardedRepository::open(dir)? else {
        return Ok(None);
    };
    // Without renames git need not read file contents from objects, which a partial clone may lack.
    let query = [
        "status",
        "--porcelain",
        "-z",
        "--no-renames",
        "--ignore-submodules=all",
    ];
    let status = repository.git(&query, LIMIT).ok_or(NotLookedAt)?;
    Ok(Some(Checkout {
        changed: changed_paths(&status),
        branch: repository.branch,
        head: repository.head,
    }))
}

/// Parses the paths of `git status --porcelain -z`: two letters, a space and the path, each entry ended by a
/// NUL.
fn changed_paths(status: &str) -> Vec<String> {
    let entries = status.split_terminator('\0').filter_map(|entry| entry.get(3..));
    entries.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn run(program: &str, dir: &Path, arguments: &[&str], limit: Duration) -> Option<String> {
        child::output(child::command(program, dir).args(arguments), limit)
    }

    #[test]
    fn a_repository_is_described_and_without_one_there_is_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        assert_eq!(state(dir), "");
        assert_eq!(checkout(dir), Ok(None));
        assert_eq!(run("no-such-program-here", dir, &["status"], LIMIT), None);
        let git = |arguments: &[&str]| run("git", dir, arguments, LIMIT);
        if git(&["init", "-q", "-b", "main"]).is_none() {
            return; // There is no git here.
        }
        std::fs::write(dir.join("new.txt"), "x").unwrap();
        let received = state(dir);
        assert!(
            received.contains("$ git status -sb\n## No commits yet on main\n")
                && received.contains("?? new.txt"),
            "{received}"
        );
        let known = checkout(dir).unwrap().unwrap();
        assert_eq!((known.branch.as_str(), known.head.as_str()), ("main", ""));
        assert_eq!(known.changed, ["new.txt"]);
        // Without a commit `git log` fails.
        assert!(!received.contains("git log"), "{received}");
    }

    #[test]
    fn changed_paths_are_the_names_of_the_files() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        let git = |arguments: &[&str]| {
            let who = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
            run("git", dir, &[&who[..], arguments].concat(), LIMIT)
        };
        if git(&["init", "-q", "-b", "main"]).is_none() {
            return; // There is no git here.
        }
        let names = ["kept name.txt", "é.txt", "a -> b.txt", "old.txt", "say \"x\".txt"];
        for name in names {
            std::fs::write(dir.join(name), format!("{name}\n").repeat(20)).unwrap();
        }
        git(&["add", "."]).unwrap();
        git(&["commit", "-q", "-m", "x"]).unwrap();
        assert_eq!(checkout(dir).unwrap().unwrap().changed, [""; 0]);
        git(&["mv", "old.txt", "new.txt"]).unwrap();
        for name in ["é.txt", "a -> b.txt", "say \"x\".txt", "line\nbreak.txt"] {
            std::fs::write(dir.join(name), "y").unwrap();
        }
        let mut changed = checkout(dir).unwrap().unwrap().changed;
        changed.sort();
        let mut expected = [
            "é.txt",
            "a -> b.txt",
            "say \"x\".txt",
            "line\nbreak.txt",
            "new.txt",
            "old.txt",
        ];
        expected.sort();
        assert_eq!(changed, expected);
    }

    #[test]
    fn a_program_gets_nothing_of_the_proxys_environment() {
        let directory = tempfile::tempdir().unwrap();
        let received = run("env", directory.path(), &[], LIMIT).unwrap();
        let names: Vec<_> = received.lines().filter_map(|line| line.split_once('=')).collect();
        assert!(names.iter().any(|(name, _)| *name == "PATH"), "{received}");
        let is_known = |(name, _): &(&str, &str)| ["PATH", "HOME", "LANG"].contains(name);
        assert!(names.iter().all(is_known), "{received}");
    }

    #[test]
    fn what_a_program_started_ends_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let script = "sleep 300 & echo $! > pid; wait";
        let limit = Duration::from_millis(500);
        assert_eq!(run("sh", directory.path(), &["-c", script], limit), None);
        let pid = std::fs::read_to_string(directory.path().join("pid")).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        let began = Instant::now();
        // A zombie process remains until its parent waits for it.
        let is_running = || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            status.is_ok_and(|status| !status.contains(") Z "))
        };
        while is_running() {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn what_takes_too_long_is_stopped() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("slow");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 60\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let began = Instant::now();
        let (program, limit) = (program.to_str().unwrap(), Duration::from_millis(100));
        assert_eq!(run(program, directory.path(), &[], limit), None);
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}
