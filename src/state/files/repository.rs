//! Programs that are run in a folder, and the state of a git repository as text for a draft.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

use baton_core::handoffs::document::Checkout;

/// The queries to git.
const QUESTIONS: [&[&str]; 3] = [
    &["status", "-sb"],
    &["diff", "--stat", "--no-ext-diff"],
    &["log", "-5", "--oneline"],
];

/// Time for each.
const LIMIT: Duration = Duration::from_secs(2);

/// Pause between two looks at a child.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes of an answer that are read.
const MOST: u64 = 64 * 1024;

/// `git status -sb`, `git diff --stat` and `git log -5 --oneline` of a folder. Without git, outside of a repository and
/// where git takes too long, there is nothing, and that is no error.
pub fn state(dir: &Path) -> String {
    let answers = QUESTIONS.iter().filter_map(|question| {
        let answer = run_program("git", dir, question, LIMIT)?;
        let answer = answer.trim_end().to_owned();
        (!answer.is_empty()).then(|| {
            format!(
                "$ git {}\n{answer}",
                question.join(" ").replace(" --no-ext-diff", "")
            )
        })
    });
    answers.collect::<Vec<_>>().join("\n")
}

/// The same from within the runtime; nothing without a folder.
pub async fn state_of(dir: Option<PathBuf>) -> String {
    match dir {
        Some(dir) => spawn_blocking(move || state(&dir)).await.unwrap_or_default(),
        None => String::new(),
    }
}

/// Branch, commit and uncommitted files of a folder; `None` without git or outside of a repository.
pub fn checkout(dir: &Path) -> Option<Checkout> {
    let git = |question: &[&str]| run_program("git", dir, question, LIMIT);
    let status = git(&["status", "--porcelain", "-z"])?;
    let line = |text: Option<String>| text.map(|text| text.trim().to_owned()).unwrap_or_default();
    Some(Checkout {
        branch: line(git(&["branch", "--show-current"])),
        // Without a commit there is none.
        head: line(git(&["rev-parse", "--verify", "HEAD"])),
        changed: changed_paths(&status),
    })
}

/// The paths of `git status --porcelain -z` as they are: two letters, a space and the path, each ended by a NUL. A rename
/// or a copy is followed by the path that it came from, which is changed, too, where it is gone.
fn changed_paths(status: &str) -> Vec<String> {
    let mut fields = status.split_terminator('\0');
    let mut paths = Vec::new();
    while let Some(entry) = fields.next() {
        let (Some(letters), Some(path)) = (entry.get(..2), entry.get(3..)) else {
            continue;
        };
        paths.push(path.to_owned());
        if letters.contains(['R', 'C']) {
            let from = fields.next().filter(|_| letters.contains('R'));
            paths.extend(from.map(str::to_owned));
        }
    }
    paths
}

/// The output of a program that is run in a folder, if it succeeds in time; a long output is truncated.
pub(crate) fn run_program(program: &str, dir: &Path, arguments: &[&str], limit: Duration) -> Option<String> {
    let mut child = Command::new(program)
        .current_dir(dir)
        .args(arguments)
        // No lock that would disturb a person's own git, no prompts, no pager.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_PAGER", "cat")
        // A folder that an agent names runs no program of its own.
        .envs([
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
            ("GIT_CONFIG_VALUE_0", "false"),
        ])
        // A name with a star or brackets in it is a name.
        .env("GIT_LITERAL_PATHSPECS", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdout = child.stdout.take()?;
    let (sender, received) = mpsc::channel();
    // A thread of its own, since a full pipe would stop the child; it ends with the pipe.
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.by_ref().take(MOST).read_to_end(&mut text);
        // A closed pipe would end the child with a failure.
        let _ = std::io::copy(&mut stdout, &mut std::io::sink());
        let _ = sender.send(text);
    });
    let until = Instant::now() + limit;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until => thread::sleep(LOOK),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    ended.filter(|status| status.success())?;
    let text = received.recv_timeout(LIMIT).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_described_and_without_one_there_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        assert_eq!(state(dir), "");
        assert_eq!(checkout(dir), None);
        assert_eq!(run_program("no-such-program-here", dir, &["status"], LIMIT), None);
        let git = |arguments: &[&str]| run_program("git", dir, arguments, LIMIT);
        if git(&["init", "-q", "-b", "main"]).is_none() {
            return; // There is no git here.
        }
        std::fs::write(dir.join("new.txt"), "x").unwrap();
        let received = state(dir);
        assert!(
            received.contains("$ git status -sb\n") && received.contains("?? new.txt"),
            "{received}"
        );
        let known = checkout(dir).unwrap();
        assert_eq!((known.branch.as_str(), known.head.as_str()), ("main", ""));
        assert_eq!(known.changed, ["new.txt"]);
        // There is no commit yet, so that the log fails.
        assert!(!received.contains("git log"), "{received}");
    }

    #[test]
    fn changed_paths_are_the_names_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let git = |arguments: &[&str]| {
            let who = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
            run_program("git", dir, &[&who[..], arguments].concat(), LIMIT)
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
        assert_eq!(checkout(dir).unwrap().changed, [""; 0]);
        git(&["mv", "old.txt", "new.txt"]).unwrap();
        for name in ["é.txt", "a -> b.txt", "say \"x\".txt", "line\nbreak.txt"] {
            std::fs::write(dir.join(name), "y").unwrap();
        }
        let mut changed = checkout(dir).unwrap().changed;
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

    #[cfg(unix)]
    #[test]
    fn what_takes_too_long_is_stopped() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("slow");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 60\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let began = Instant::now();
        let received = run_program(
            program.to_str().unwrap(),
            folder.path(),
            &[],
            Duration::from_millis(100),
        );
        assert_eq!(received, None);
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}
