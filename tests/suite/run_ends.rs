//! The text of a result shows how a run ended if no flag does, on every wire and for tools of any name.

use baton_core::record::WireId;
use baton_core::wire::WIRES;
use baton_core::work::SeenFacts;
use serde_json::json;

use crate::drafts::sessions::{Event, Session, Tool};
use crate::seen::seen;

const COMMAND: &str = "cargo test --workspace";
const FAILED: &str = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured";
const PASSED: &str = "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured";

/// The shell of the wire's agent, and tools that no table lists.
fn tools(command: &str) -> Vec<Tool> {
    let named = |name: &str| Tool::Named(name.to_owned(), json!({"command": command}));
    vec![
        Tool::Shell(command.to_owned()),
        named("run_thing"),
        named("mcp__x__exec"),
        named("execute_command"),
    ]
}

fn told(wire: WireId, tool: Tool, output: &str) -> SeenFacts {
    let session = Session {
        events: vec![
            Event::User("Test it.".to_owned()),
            Event::Plain(tool, output.to_owned(), false),
        ],
        kept: Vec::new(),
        finished: Vec::new(),
        open: String::new(),
        secrets: Vec::new(),
    };
    seen(wire, session.body(wire))
}

/// Checks the stated result of the single run, as passed flag and exit code, for each wire and tool.
fn each(command: &str, output: &str, check: impl Fn(Option<(Option<bool>, Option<i32>)>, String)) {
    for wire in WIRES {
        for (at, tool) in tools(command).into_iter().enumerate() {
            let seen = told(wire.id(), tool, output);
            let run = seen.verification.first().map(|run| (run.passed, run.exit));
            let claims = seen.claims("All tests pass.");
            check(
                run,
                format!("{} {at} {command}: {output:?}: {claims:?}", wire.id().name()),
            );
        }
    }
}

#[test]
fn a_run_is_not_passed_against_its_own_text() {
    for output in [
        format!("Exit code 101\n{FAILED}"),
        format!("{FAILED}\n[exit code: 101]"),
        format!("{FAILED}\nExit Code: 101"),
        format!("{FAILED}\nexit status 101"),
        format!("{FAILED}\nCommand 'cargo' returned non-zero exit status 101."),
    ] {
        each(COMMAND, &output, |run, about| {
            assert_eq!(run, Some((Some(false), Some(101))), "{about}");
            assert!(about.contains("ended with 101"), "{about}");
        });
    }
    // Only a runner's summary, and only a compiler's error.
    for output in [
        FAILED,
        "error[E0277]: `Rc` is not Send\nerror: could not compile `a` (lib)",
    ] {
        each(COMMAND, output, |run, about| {
            assert_eq!(run, Some((Some(false), None)), "{about}");
        });
        for piped in [
            "cargo test 2>&1 | tail -5",
            "cargo test || true",
            "cargo test; echo done",
        ] {
            each(piped, output, |run, about| {
                assert_eq!(run, Some((Some(false), None)), "{about}");
            });
        }
    }
    for output in [
        format!("{FAILED}\n[exit code: 0]"),
        format!("{PASSED}\n[exit code: 101]"),
    ] {
        each(COMMAND, &output, |run, about| {
            assert_eq!(run.map(|run| run.0), Some(None), "contradicted: {about}");
        });
    }
}

#[test]
fn plain_exit_codes_are_read_on_every_wire() {
    for (form, code) in [
        ("[exit code: 101]", 101),
        ("Exit Code: 101", 101),
        ("exit status 101", 101),
        ("Command 'cargo' returned non-zero exit status 101.", 101),
        ("[exit code: 0]", 0),
        ("Exit Code: 0", 0),
    ] {
        for wire in WIRES {
            // The first tool is the agent's shell. Some agents' shells print nothing if the code is zero.
            for tool in tools(COMMAND).into_iter().skip(1) {
                let seen = told(wire.id(), tool, &format!("running\n{form}"));
                let runs: Vec<_> = seen.verification.iter().map(|run| run.exit).collect();
                assert_eq!(runs, [Some(code)], "{} {form}", wire.id().name());
                let commands: Vec<_> = seen.commands.iter().map(|ran| ran.exit).collect();
                assert_eq!(commands, [Some(code)], "{} {form}", wire.id().name());
                assert_eq!(
                    seen.failed().count(),
                    usize::from(code != 0),
                    "{} {form}",
                    wire.id().name()
                );
            }
        }
    }
}

#[test]
fn a_run_that_closes_with_success_passed() {
    each(
        COMMAND,
        &format!("running 5 tests\n\n{PASSED}\n"),
        |run, about| {
            assert_eq!(run.map(|run| run.0), Some(Some(true)), "{about}");
        },
    );
}

#[test]
fn a_text_that_mentions_a_run_is_none() {
    let log = format!("Exit code 101\n{FAILED}\n[exit code: 101]");
    for line in [
        "cat ci.log",
        "grep -rn FAILED .",
        "git diff",
        "tail -40 ci.log",
        "cat README.md",
    ] {
        for wire in WIRES {
            for tool in tools(line) {
                let seen = told(wire.id(), tool, &log);
                assert!(
                    seen.verification.is_empty() && seen.failed().next().is_none(),
                    "{line}"
                );
                assert!(
                    seen.commands
                        .iter()
                        .all(|ran| ran.exit.is_none_or(|code| code == 0)),
                    "{line}"
                );
            }
        }
    }
    for wire in WIRES {
        let read = Tool::Read("ci.log".to_owned());
        let seen = told(wire.id(), read, &log);
        assert!(seen.verification.is_empty() && seen.failed().next().is_none());
        let fetch = Tool::Named("get_job_log".to_owned(), json!({"job": 3}));
        assert!(told(wire.id(), fetch, &log).failed().next().is_none());
    }
}
