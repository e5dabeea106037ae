use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::gather::GitRunner;
use super::super::now;
use super::file;
use baton_core::handoffs::yaml::time::Time;

fn git(dir: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=t", "-c", "user.email=t@t"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

fn repository(dir: &Path) {
    git(dir, &["init", "-q", "-b", "main"]);
    for name in ["kept.rs", "changed.rs", "gone.rs"] {
        fs::write(dir.join(name), "1").unwrap();
    }
    git(dir, &["add", "."]);
    git(dir, &["commit", "-q", "-m", "the first one"]);
}

fn asker(dir: &Path) -> GitRunner<'_> {
    GitRunner {
        dir,
        until: Instant::now() + Duration::from_secs(60),
    }
}

#[test]
fn git_lists_changed_new_and_deleted_files_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_eq!(asker(dir).git_state(), None);
    git(dir, &["init", "-q", "-b", "main"]);
    let empty = asker(dir).git_state().unwrap();
    assert_eq!((empty.branch.as_str(), empty.commits.len()), ("main", 0));
    repository(dir);
    fs::write(dir.join("changed.rs"), "2").unwrap();
    fs::remove_file(dir.join("gone.rs")).unwrap();
    fs::write(dir.join("with \"quotes\" ü.rs"), "1").unwrap();
    fs::write(dir.join("added.rs"), "1").unwrap();
    git(dir, &["add", "added.rs"]);
    let mut written = file("api", "x");
    written.files.modified = vec!["changed.rs".to_owned(), "kept.rs".to_owned()];
    written
        .findings
        .insert("git_branch".to_owned(), "given".to_owned());
    asker(dir).git_state().unwrap().add_to(&mut written);
    assert_eq!(written.files.modified, ["changed.rs", "kept.rs"]);
    assert_eq!(written.files.created, ["added.rs", "with \"quotes\" ü.rs"]);
    assert_eq!(written.files.deleted, ["gone.rs"]);
    assert_eq!(written.findings["git_branch"], "given");
    assert!(written.findings["recent_commits"].ends_with(" the first one"));
    // Without remaining time nothing is queried.
    let late = GitRunner {
        dir,
        until: Instant::now(),
    };
    assert_eq!(late.git_state(), None);
}

#[test]
fn drift_is_what_changed_since_and_a_commit_alone_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    repository(dir);
    let mut written = file("api", "x");
    written.files.modified = ["kept.rs", "changed.rs", "gone.rs"].map(str::to_owned).to_vec();
    written
        .findings
        .insert("git_branch".to_owned(), "main".to_owned());
    fs::write(dir.join("kept.rs"), "2").unwrap();
    let earlier = Time::of_seconds(now().seconds - 3600);
    let old = std::time::SystemTime::now() - Duration::from_secs(7200);
    for name in ["kept.rs", "changed.rs", "gone.rs"] {
        let file = fs::File::options().write(true).open(dir.join(name)).unwrap();
        file.set_modified(old).unwrap();
    }
    written.prepare(earlier);
    // The change existed when the file was written, and was committed since.
    git(dir, &["commit", "-q", "-a", "-m", "second"]);
    let drift = |written: &_| asker(dir).since(written);
    let same = drift(&written);
    assert!(!same.is_drift(), "{same:?}");
    assert!(same.commits >= 1, "{same:?}");
    fs::write(dir.join("changed.rs"), "3").unwrap();
    fs::remove_file(dir.join("gone.rs")).unwrap();
    git(dir, &["switch", "-q", "-c", "next"]);
    let moved = drift(&written);
    assert!(moved.is_drift());
    assert_eq!(moved.changed, ["changed.rs"]);
    assert_eq!(moved.gone, ["gone.rs"]);
    assert_eq!(moved.branch, Some(("main".to_owned(), "next".to_owned())));
    // Touched without a change, as in a fresh clone.
    let mut fresh = written.clone();
    fresh.files.modified = vec!["kept.rs".to_owned()];
    fresh.findings.clear();
    fs::write(dir.join("kept.rs"), "2").unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    fresh.prepare(now());
    std::thread::sleep(Duration::from_millis(1100));
    fs::write(dir.join("kept.rs"), "2").unwrap();
    assert!(!drift(&fresh).is_drift());
    let outside = tempfile::tempdir().unwrap();
    assert!(!asker(outside.path()).since(&written).compared);
}
