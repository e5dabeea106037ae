//! `baton show --curl` prints a command line that repeats the request. Requires a shell and curl.

use std::process::Command;

use baton_llm::state::journal::{BodySide, JournalReader};
use baton_strict::Reply;
use pretty_assertions::assert_eq;

use crate::harness::texts::{assert_begins, assert_contains};
use crate::matrix::fixture::{fresh, handoff};
use crate::matrix::journaled::Journaled;
use crate::matrix::variants::{ANTHROPIC, GEMINI};
use crate::savings::bill;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_for_a_shell_names_no_credential_and_works() {
    for variant in [ANTHROPIC, GEMINI] {
        let run = Journaled::new(variant, [handoff(), fresh()]).await;
        run.fixture.ask(&run.fixture.history(), true).await;
        let id = bill(&run, 1).await.remove(0).id;
        let words = ["show", &id, "--curl", "--leg", "2", "--state-dir"];
        let mut show = crate::harness::program::baton(run.dir.path(), &words);
        let output = tokio::task::block_in_place(|| show.arg(run.dir.path()).output()).unwrap();
        assert!(output.status.success(), "{output:?}");
        let line = String::from_utf8(output.stdout).unwrap();
        assert_contains(&line, "_API_KEY\"");
        assert_begins(&line, "baton show ");
        assert_contains(
            &line,
            &format!(" --leg 2 --state-dir {} | ", run.dir.path().display()),
        );

        let journal = JournalReader::open(run.dir.path()).unwrap().unwrap();
        let sent = journal.body(&id, BodySide::Sent(1)).unwrap().unwrap();
        std::fs::write(run.dir.path().join("body"), sent).unwrap();
        run.fixture.script.push((variant.style)(Reply::text("By curl.")));
        let (_, curl) = line.split_once(" | ").unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{} < body", curl.trim())])
            .current_dir(run.dir.path());
        shell.env("ANTHROPIC_API_KEY", "k").env("GEMINI_API_KEY", "k");
        let answer = tokio::task::block_in_place(|| shell.output()).unwrap();
        if answer.status.code() == Some(127) {
            return; // There is no curl.
        }
        let text = String::from_utf8_lossy(&answer.stdout);
        assert!(text.contains("By curl."), "{answer:?}");
        let received = run.fixture.provider.generations();
        assert_eq!(received[1].body, received[2].body);
        assert_eq!(run.fixture.provider.complaints(), []);
    }
}
