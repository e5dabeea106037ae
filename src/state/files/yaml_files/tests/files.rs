use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use super::super::{FileError, read_file, write_to};
use super::{at, directory, empty, file, names, write, write_automatic};
use baton_core::handoffs::yaml::HandoffFile;

#[test]
fn a_file_has_name_mode_and_ledger() {
    let (dir, directory) = empty();
    let written = write(&directory, "api", "Login_works now!", at(0));
    let handoffs = dir.path().join("handoffs");
    let named = handoffs.join("api/2026-11-22_18-05_login-works-now.yaml");
    assert_eq!(written.path, named);
    assert!(written.warnings.is_empty(), "{:?}", written.warnings);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    // The parent may have been there before, open to everybody.
    let ledger = dir.path().join("ledgers/CONTINUITY_api.md");
    for (path, expected) in [
        (&*written.path, 0o600),
        (written.path.parent().unwrap(), 0o700),
        (handoffs.as_path(), 0o700),
        (ledger.as_path(), 0o600),
        (ledger.parent().unwrap(), 0o700),
    ] {
        assert_eq!(mode(path), expected, "{}", path.display());
    }
    let found = read_file(&written.path).unwrap();
    assert!(found.errors.is_empty());
    assert_eq!(found.file.created_at, "2026-11-22T18:05:48Z");
    let ledger = fs::read_to_string(dir.path().join("ledgers/CONTINUITY_api.md")).unwrap();
    let entry = "## 2026-11-22T18:05:48Z (manual)\n- file: 2026-11-22_18-05_login-works-now.yaml\n";
    assert!(ledger.starts_with(entry));
    let written = write_automatic(&directory, "", "x", at(1)).unwrap();
    let named = handoffs.join("general/auto-handoff-2026-11-22T18-05-49.yaml");
    assert_eq!(written.path, named);
    let ledger = fs::read_to_string(directory.ledger("")).unwrap();
    assert!(ledger.contains("(auto)"));
    assert_eq!(directory.sessions().unwrap(), ["api", "general"]);
}

#[test]
fn a_taken_name_gets_a_number() {
    let (dir, directory) = empty();
    for _ in 0..3 {
        write(&directory, "api", "same", at(0));
    }
    let dir = dir.path().join("handoffs/api");
    assert_eq!(
        names(&dir),
        [
            "2026-11-22_18-05_same-2.yaml",
            "2026-11-22_18-05_same-3.yaml",
            "2026-11-22_18-05_same.yaml"
        ]
    );
    // An archived file's name counts as taken as well.
    let first = dir.join("2026-11-22_18-05_same.yaml");
    directory.archive(&first).unwrap();
    let fourth = write(&directory, "api", "same", at(0));
    assert!(fourth.path.ends_with("2026-11-22_18-05_same-4.yaml"));
}

#[test]
fn what_breaks_a_rule_is_not_written() {
    let (dir, directory) = empty();
    let error = write_automatic(&directory, "a/b", "", at(0)).unwrap_err();
    let FileError::Invalid(errors) = error else {
        panic!("{error}")
    };
    assert_eq!(errors.len(), 2);
    assert!(!dir.path().join("handoffs").exists());
    let path = dir.path().join("there.yaml");
    assert!(write_to(&mut HandoffFile::default(), &path, at(0)).is_err() && !path.exists());
    write_to(&mut file("", "x"), &path, at(0)).unwrap();
    let mut again = read_file(&path).unwrap().file;
    write_to(&mut again, &path, at(60)).unwrap();
    assert_eq!(again.created_at, "2026-11-22T18:05:48Z");
    assert_eq!(again.updated_at, "2026-11-22T18:06:48Z");
}

#[test]
fn the_newest_is_by_the_time_in_the_name_in_both_shapes() {
    let (_dir, directory) = empty();
    write_automatic(&directory, "api", "automatic", at(0)).unwrap();
    // Sorted by name, the automatic file would be the newest for ever.
    write(&directory, "api", "manual", at(120));
    let latest = |session| {
        let found = directory.latest(session).unwrap().found;
        found.map(|found| found.file.goal)
    };
    assert_eq!(latest(Some("api")).as_deref(), Some("manual"));
    write_automatic(&directory, "api", "later", at(240)).unwrap();
    assert_eq!(latest(Some("api")).as_deref(), Some("later"));
    // If two files have the same minute, the one written last is newer.
    write(&directory, "api", "b first", at(600));
    std::thread::sleep(Duration::from_millis(20));
    write(&directory, "api", "a second", at(601));
    assert_eq!(latest(Some("api")).as_deref(), Some("a second"));
    write(&directory, "api", "a second", at(602));
    let listed = directory.list(Some("api"), 0, false).unwrap().found;
    let goals: Vec<_> = listed.iter().map(|one| one.goal.as_str()).collect();
    assert_eq!(
        goals,
        ["a second", "a second", "b first", "later", "manual", "automatic"]
    );
    assert!(listed[0].path.ends_with("2026-11-22_18-15_a-second-2.yaml"));
    assert!(listed[5].is_auto && !listed[0].is_auto);
    assert_eq!(listed[0].date, at(602).rfc3339());
    assert_eq!(latest(None).as_deref(), Some("a second"));
    write(&directory, "other", "elsewhere", at(9000));
    assert_eq!(latest(None).as_deref(), Some("elsewhere"));
    assert_eq!(latest(Some("nobody")), None);
    assert_eq!(directory.list(None, 2, false).unwrap().found[0].goal, "elsewhere");
    assert_eq!(directory.list(None, 2, false).unwrap().found.len(), 2);
}

#[test]
fn what_cannot_be_read_is_passed_over_with_a_warning() {
    let (dir, directory) = empty();
    write(&directory, "api", "good", at(0));
    let api = dir.path().join("handoffs/api");
    fs::write(api.join("2026-11-23_00-00_broken.yaml"), "goal: \"open").unwrap();
    fs::write(api.join("2026-11-23_00-01_binary.yaml"), [0xff, 0xfe]).unwrap();
    fs::write(api.join("2026-11-23_00-02_huge.yaml"), vec![b' '; 2 << 20]).unwrap();
    fs::write(api.join(".hidden.yaml"), "goal: hidden\nnow: x").unwrap();
    fs::create_dir(api.join("2026-11-23_00-03_folder.yaml")).unwrap();
    symlink("/etc/hostname", api.join("2026-11-23_00-04_link.yaml")).unwrap();
    let listing = directory.latest(Some("api")).unwrap();
    assert_eq!(listing.found.unwrap().file.goal, "good");
    assert_eq!(listing.warnings.len(), 3);
    // Invalid but readable.
    let invalid = api.join("2026-11-23_00-05_invalid.yaml");
    fs::write(invalid, "goal: half\nstatus: done").unwrap();
    let found = directory.latest(Some("api")).unwrap().found.unwrap();
    assert_eq!((found.file.goal.as_str(), found.errors.len()), ("half", 2));
    // Neither directories with a leading dot nor those of other programs are sessions.
    fs::create_dir(dir.path().join("handoffs/.x")).unwrap();
    fs::write(dir.path().join("handoffs/.x/a.yaml"), "goal: x").unwrap();
    fs::create_dir(dir.path().join("handoffs/empty")).unwrap();
    assert_eq!(directory.sessions().unwrap(), ["api"]);
    let nowhere = super::directory(&dir.path().join("nowhere"));
    assert!(nowhere.latest(None).unwrap().found.is_none());
}

#[test]
fn the_oldest_go_into_the_archive_from_fifty_on() {
    let (dir, directory) = empty();
    write_automatic(&directory, "api", "automatic", at(-60)).unwrap();
    for n in 0..60 {
        write(&directory, "api", &format!("n{n}"), at(n * 60));
    }
    let api = dir.path().join("handoffs/api");
    assert_eq!(names(&api).len(), 51);
    let archived = names(&api.join(".archive"));
    assert_eq!(archived.len(), 10);
    assert!(archived.iter().any(|name| name.ends_with("_n9.yaml")) && names(&api)[0].ends_with("_n10.yaml"));
    // Automatic files displace each other, but never a user's files.
    for n in 1..=60 {
        write_automatic(&directory, "api", "automatic", at(n * 60)).unwrap();
    }
    let automatic_files = |dir: &std::path::Path| {
        let all = names(dir).into_iter();
        all.filter(|name| name.starts_with("auto-handoff")).count()
    };
    assert_eq!((names(&api).len(), automatic_files(&api)), (100, 50));
    assert_eq!(names(&api.join(".archive")).len(), 21);
    assert_eq!(automatic_files(&api.join(".archive")), 11);
    // The config sets another number.
    let few = directory.clone().keeping(3);
    write(&few, "web", "a", at(0));
    for n in 1..5 {
        write(&few, "web", "a", at(n * 60));
    }
    assert_eq!(names(&dir.path().join("handoffs/web")).len(), 3);
    // A failing rotation does not stop the write.
    fs::remove_dir_all(api.join(".archive")).unwrap();
    symlink("/tmp", api.join(".archive")).unwrap();
    let written = write(&directory, "api", "still", at(99_999));
    assert_eq!(written.warnings.len(), 1);
    assert_eq!(names(&api).len(), 101);
}

#[test]
fn links_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let base = dir.path().join("handoffs");
    fs::create_dir(&base).unwrap();
    symlink(elsewhere.path(), base.join("api")).unwrap();
    let directory = directory(dir.path());
    let error = write_automatic(&directory, "api", "x", at(0)).unwrap_err();
    assert!(matches!(error, FileError::Refused(..)), "{error}");
    assert!(directory.latest(Some("api")).is_err());
    assert_eq!(names(elsewhere.path()), Vec::<String>::new());
    // The directory itself, or one above it.
    let real = dir.path().join("real");
    fs::create_dir(&real).unwrap();
    symlink(&real, dir.path().join("linked")).unwrap();
    let linked = super::directory(&dir.path().join("linked"));
    assert!(write_automatic(&linked, "api", "x", at(0)).is_err());
    // A ledger that leads elsewhere is not written to. The file is still written.
    fs::create_dir(dir.path().join("ledgers")).unwrap();
    let target = elsewhere.path().join("target");
    fs::write(&target, "").unwrap();
    symlink(&target, dir.path().join("ledgers/CONTINUITY_b.md")).unwrap();
    let written = write(&directory, "b", "x", at(0));
    assert_eq!(written.warnings.len(), 1);
    assert_eq!(fs::read_to_string(&target).unwrap(), "");
}

#[test]
fn archive_delete_and_clean_touch_our_files_alone() {
    let (dir, directory) = empty();
    let first = write(&directory, "api", "first", at(0)).path;
    let second = write(&directory, "api", "second", at(60)).path;
    let archived = directory.archive(&first).unwrap();
    assert!(
        archived.ends_with(".archive/2026-11-22_18-05_first.yaml") && archived.is_file() && !first.exists()
    );
    let again = directory.archive(&archived).unwrap_err();
    assert!(again.to_string().contains("already"));
    assert!(matches!(directory.archive(&first), Err(FileError::Missing(_))));
    let outside = dir.path().join("outside.yaml");
    fs::write(&outside, "goal: x").unwrap();
    let base = directory.dir().to_owned();
    fs::write(base.join("api/notes.txt"), "x").unwrap();
    symlink(&outside, base.join("api/link.yaml")).unwrap();
    for path in [
        outside.clone(),
        base.join("api/../../outside.yaml"),
        base.join("api/notes.txt"),
        base.join("api/link.yaml"),
        base.join("api"),
        base.join("api/.hidden.yaml"),
        base.join("api/.archive/x/y.yaml"),
    ] {
        assert!(directory.delete(&path).is_err(), "{}", path.display());
        assert!(directory.archive(&path).is_err(), "{}", path.display());
    }
    assert!(outside.exists());
    directory.delete(&second).unwrap();
    assert!(!second.exists());
    // The time in the name counts.
    write(&directory, "api", "old", at(-40 * 86_400));
    write(&directory, "api", "new", at(0));
    let month_ago = at(-30 * 86_400).seconds;
    let would = directory.clean(month_ago, false, true).unwrap();
    assert_eq!(would.len(), 1);
    assert!(would[0].exists());
    assert_eq!(directory.clean(month_ago, false, false).unwrap(), would);
    assert!(!would[0].exists());
    // Archived files are included and other files are not. The newest file stays.
    assert_eq!(
        directory.clean(at(3540).seconds, false, false).unwrap(),
        [archived]
    );
    assert!(base.join("api/notes.txt").exists() && base.join("api/link.yaml").exists());
}

#[test]
fn cleaning_the_archive_leaves_live_files_and_the_newest_of_each_session() {
    let (_dir, directory) = empty();
    for (session, description, days) in [
        ("api", "a", 90),
        ("api", "b", 80),
        ("api", "c", 70),
        ("web", "d", 90),
    ] {
        write(&directory, session, description, at(-days * 86_400));
    }
    let names_of = |session: &str| {
        let base = directory.dir().join(session);
        let all = [names(&base), names(&base.join(".archive"))].concat();
        let kept = all.iter().filter_map(|name| name.strip_suffix(".yaml"));
        kept.map(|name| name.rsplit('_').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    for (session, description) in [("api", "a"), ("web", "d")] {
        let stem = baton_core::handoffs::yaml::names::manual(at(-90 * 86_400), description);
        let path = directory.dir().join(session).join(format!("{stem}.yaml"));
        directory.archive(&path).unwrap();
    }
    let month_ago = at(-30 * 86_400).seconds;
    assert_eq!(directory.clean(month_ago, true, false).unwrap().len(), 1);
    // The archived file of `web` is the only file of that session.
    assert_eq!(
        (names_of("api"), names_of("web")),
        (vec!["b".into(), "c".into()], vec!["d".to_owned()])
    );
    // An inactive session keeps its newest file.
    assert_eq!(directory.clean(month_ago, false, false).unwrap().len(), 1);
    assert_eq!(
        (names_of("api"), names_of("web")),
        (vec!["c".to_owned()], vec!["d".to_owned()])
    );
}

#[test]
fn the_line_is_of_the_newest_file_that_states_something() {
    let (_dir, directory) = empty();
    assert_eq!(directory.line(None).unwrap(), None);
    let path = write(&directory, "api", "one", at(0)).path;
    let goal = |session| directory.line(session).unwrap().unwrap().goal;
    assert_eq!(goal(None), "one");
    let later = write(&directory, "api", "two", at(60)).path;
    assert_eq!(goal(None), "two");
    fs::write(&later, "outcome: FAILED\n").unwrap();
    assert_eq!(goal(None), "one");
    // Of several sessions, the file with the latest stated creation time.
    write(&directory, "other", "older", at(-60));
    let text = format!("goal: five\nnow: x\ncreated_at: {}\n", at(0).rfc3339());
    fs::write(&path, text).unwrap();
    assert_eq!(
        (goal(None), goal(Some("other"))),
        ("five".to_owned(), "older".to_owned())
    );
}

#[test]
fn a_file_without_a_time_has_that_of_its_name() {
    let (dir, _) = empty();
    for (name, expected) in [
        ("2026-11-30_12-05_x.yaml", "2026-11-30T12:05:00Z"),
        ("auto-handoff-2026-11-30T12-05-09.yaml", "2026-11-30T12:05:09Z"),
        ("notes.yaml", "2026-11-30T00:00:00Z"),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, "goal: a\nnow: b\ndate: 2026-11-30\n").unwrap();
        let at = read_file(&path).unwrap().file.written_at().unwrap();
        assert_eq!(at.rfc3339(), expected, "{name}");
    }
}

#[test]
fn a_document_gets_one_file() {
    let (dir, directory) = empty();
    let document = |id: &str| {
        let mut document: serde_json::Value =
            serde_json::from_str(include_str!("../../../../../tests/golden/document.json")).unwrap();
        document["id"] = id.into();
        baton_core::handoffs::document::HandoffDocument::read(&document.to_string()).unwrap()
    };
    let first = document("0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11");
    let path = directory.write_document(&first, None).unwrap().path;
    let named = "handoffs/shop-app/auto-handoff-2026-11-22T18-05-48.yaml";
    assert_eq!(path, dir.path().join(named));
    let bytes = fs::read(&path).unwrap();
    assert_eq!(directory.write_document(&first, None).unwrap().path, path);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let second = document("0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e12");
    let second = directory.write_document(&second, None).unwrap();
    assert!(second.path.ends_with("auto-handoff-2026-11-22T18-05-48-2.yaml"));
    assert_eq!(directory.write_document(&first, None).unwrap().path, path);
}
