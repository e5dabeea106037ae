use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::super::{FileNaming, HandoffDirectory, read_file};
use super::{at, directory, empty, file, names, write};
use crate::disk::AT_STAGES;
use crate::files::yaml_files::directory::ARCHIVE;

/// Variables for a child: its directory, its number, and the step at which it is killed.
const DIR: &str = "BATON_TEST_HANDOFF_DIR";
const WHICH: &str = "BATON_TEST_HANDOFF_CHILD";
const STEP: &str = "BATON_TEST_HANDOFF_STEP";
const EACH: &str = "BATON_TEST_HANDOFF_EACH";

const STEPS: [&str; 7] = [
    "locked", "rotated", "opened", "filled", "flushed", "named", "recorded",
];

const CHILDREN: usize = 8;

fn child(name: &str, dir: &Path, which: usize, given: (&str, usize)) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            &format!("files::yaml_files::tests::processes::{name}"),
            "--exact",
            "--ignored",
        ])
        .env(DIR, dir)
        .env(WHICH, which.to_string())
        .env(given.0, given.1.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[ignore = "run by the test below"]
fn child_that_writes() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let directory = directory(Path::new(&dir));
    let which = number(WHICH).unwrap();
    for n in 0..number(EACH).unwrap() {
        write(&directory, "api", &format!("child {which} file {n}"), at(0));
    }
}

#[test]
fn writes_of_eight_processes_lose_nothing() {
    lose_nothing(25);
}

#[test]
#[ignore = "takes minutes: .ci/full long"]
fn long() {
    lose_nothing(250);
}

/// Eight processes write this many files each.
fn lose_nothing(each: usize) {
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..CHILDREN)
        .map(|which| child("child_that_writes", dir.path(), which, (EACH, each)))
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let api = dir.path().join("handoffs/api");
    let mut goals = HashSet::new();
    for dir in [api.clone(), api.join(ARCHIVE)] {
        for name in names(&dir) {
            let found = read_file(&dir.join(name)).unwrap();
            assert!(found.errors.is_empty());
            assert!(goals.insert(found.file.goal));
        }
    }
    assert_eq!(goals.len(), CHILDREN * each);
    assert_eq!(names(&api).len(), 50);
    let ledger = fs::read_to_string(dir.path().join("ledgers/CONTINUITY_api.md")).unwrap();
    let entries = ledger.split("\n\n").filter(|entry| !entry.trim().is_empty());
    let is_entry = |entry: &str| entry.starts_with("## ") && entry.contains("\n- goal: child ");
    assert!(entries.clone().all(is_entry), "{ledger}");
    assert_eq!(entries.count(), CHILDREN * each);
}

#[test]
#[ignore = "run by the test below"]
fn child_that_is_killed() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let directory: HandoffDirectory = directory(Path::new(&dir));
    let last = STEPS[number(STEP).unwrap()];
    let naming = FileNaming::Manual("killed".to_owned());
    let kill = Box::new(move |stage: &str| {
        if stage == last {
            std::process::abort();
        }
    });
    assert!(AT_STAGES.set(kill).is_ok());
    let _ = directory.write(&mut file("api", "killed"), &naming, at(6000));
}

#[test]
fn a_process_that_is_killed_at_any_step_leaves_whole_files_and_no_lock() {
    for (index, step) in STEPS.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(dir.path());
        for n in 0..50 {
            write(&directory, "api", &format!("n{n}"), at(n * 60));
        }
        let killed = child("child_that_is_killed", dir.path(), 0, (STEP, index))
            .wait()
            .unwrap();
        assert!(!killed.success(), "{step:?}");
        let api = dir.path().join("handoffs/api");
        let is_there = names(&api).iter().any(|name| name.contains("killed"));
        assert_eq!(is_there, ["named", "recorded"].contains(&step), "{step:?}");
        let all: Vec<_> = [api.clone(), api.join(ARCHIVE)]
            .iter()
            .flat_map(|dir| names(dir).into_iter().map(move |name| dir.join(name)))
            .collect();
        for path in &all {
            assert!(
                read_file(path).unwrap().errors.is_empty(),
                "{step:?} {}",
                path.display()
            );
        }
        assert_eq!(all.len(), 50 + usize::from(is_there), "{step:?}");
        // The killed process left nothing that counts as a file, and the next process continues.
        let next = write(&directory, "api", "next", at(7000));
        assert!(next.warnings.is_empty(), "{step:?}");
        assert_eq!(
            directory.latest(Some("api")).unwrap().found.unwrap().file.goal,
            "next"
        );
    }
}

#[test]
fn what_a_killed_process_left_is_deleted_when_it_is_old() {
    let (dir, directory) = empty();
    write(&directory, "api", "one", at(0));
    let api = dir.path().join("handoffs/api");
    let (old, new) = (api.join(".handoff-old.tmp"), api.join(".handoff-new.tmp"));
    for path in [&old, &new] {
        fs::write(path, "half").unwrap();
    }
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let file = fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(hour_ago).unwrap();
    write(&directory, "api", "two", at(60));
    assert!(!old.exists() && new.exists());
}
