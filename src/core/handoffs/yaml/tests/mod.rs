mod documents;
mod linear;
mod lines;
mod reading;
mod round_trip;
mod rules;
mod sessions;

use super::time::Time;
use super::{CompletedTask, HandoffFile};

/// A file with every member.
pub(super) fn full() -> HandoffFile {
    let at = Time::parse("2026-11-22T18:05:48Z").unwrap();
    let own = String::from;
    let mut file = HandoffFile {
        session: own("my_app-2"),
        ..HandoffFile::default()
    };
    file.prepare(at);
    file.status = own("partial");
    file.outcome = own("PARTIAL_PLUS");
    file.goal = own("Login works: \"remember me\" too");
    file.now = own("Run the tests, then read src/auth.rs");
    file.test = own("cargo test auth");
    file.done_this_session = vec![
        CompletedTask {
            files: vec![own("src/auth.rs")],
            ..CompletedTask::new("the form")
        },
        CompletedTask::new("the session cookie"),
    ];
    file.blockers = vec![own("no key for the mail server")];
    file.questions = vec![own("keep the old cookie?")];
    file.decisions = [("cookie", "signed, since no store is there"), ("a", "b")]
        .map(|(k, v)| (own(k), own(v)))
        .into();
    file.findings = [("git_branch", "main")].map(|(k, v)| (own(k), own(v))).into();
    file.worked = vec![own("small steps")];
    file.failed = vec![own("a global lock")];
    file.next = vec![own("logout"), own("docs")];
    file.files.created = vec![own("src/auth.rs")];
    file.files.modified = vec![own("src/lib.rs")];
    file.files.deleted = vec![own("src/old.rs")];
    file.active_beads = vec![own("bd-1: auth")];
    file.agent_mail_threads = vec![own("[T-1] review (from: BlueLake)")];
    file.cm_memories = vec![own("tests need a key")];
    file.agent_id = own("GreenCastle");
    file.agent_type = own("cc");
    file.pane_id = own("%2");
    file.set_tokens(150_000, 200_000);
    file
}
