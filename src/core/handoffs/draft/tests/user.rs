//! Commands that the user ran, in the requests of each agent: recorded bodies with other commands.

use super::*;

const MIGRATED: &str = "make migrate";
const PRINTED: &str = "applied migration 0042_users";
const FAILED: &str = "cargo test -q";
const ERROR: &str = "error: test failed, to rerun pass `-p importer`";

struct Sent {
    agent: &'static str,
    wire: WireId,
    body: Value,
    /// The exit code of the failed command, if the agent states it.
    exit: Option<i32>,
    /// Whether the agent shows that a command succeeded or failed.
    end_known: bool,
}

fn sent() -> Vec<Sent> {
    let text = |text: String| json!({"type": "text", "text": text});
    let row = |agent, wire, body, exit, end_known| Sent {
        agent,
        wire,
        body,
        exit,
        end_known,
    };
    let codex = |command: &str, code: i32, printed: &str| {
        let text = format!(
            "<user_shell_command>\n<command>\n{command}\n</command>\n<result>\nExit code: {code}\nDuration: 0.0154 \
             seconds\nOutput:\n{printed}\n\n</result>\n</user_shell_command>"
        );
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    };
    let fenced = |command: &str, printed: &str| {
        format!(
            "I ran the following shell command:\n```sh\n{command}\n```\n\nThis produced the following result:\n```\n{printed}\n```"
        )
    };
    let escaped = ERROR.replace('`', "\\`");
    let pi = |text: String| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    let opencode = |id: &str, command: &str| json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "bash", "input": {"command": command}}]});
    let by_user = "The following tool was executed by the user";
    vec![
        row(
            "You are Claude Code, Anthropic's official CLI for Claude.",
            WireId::Anthropic,
            json!([
                {"role": "user", "content": [
                    text("<system-reminder>\n# gitStatus\n</system-reminder>\n".into()),
                    text(format!("<bash-input>{MIGRATED}</bash-input>\n")),
                    text(format!("<bash-stdout>{PRINTED}</bash-stdout><bash-stderr></bash-stderr>")),
                ]},
                {"role": "assistant", "content": [text("Migrated.".into())]},
                {"role": "user", "content": [
                    text(format!("<bash-input>{FAILED}</bash-input>\n")),
                    text(format!("<bash-stdout></bash-stdout><bash-stderr>{ERROR}\n</bash-stderr>")),
                ]},
                {"role": "assistant", "content": [text("It fails.".into())]},
                {"role": "user", "content": [text("Mend the importer.".into())]},
            ]),
            None,
            true,
        ),
        row(
            "You are Codex, an agent based on GPT-6.",
            WireId::OpenaiResponses,
            json!([
                codex(MIGRATED, 0, PRINTED),
                codex(FAILED, 101, ERROR),
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>\n</environment_context>"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Mend the importer."}]},
            ]),
            Some(101),
            true,
        ),
        row(
            "",
            WireId::Gemini,
            json!([{"role": "user", "parts": [
                {"text": "<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\n</session_context>"},
                {"text": fenced(MIGRATED, PRINTED)},
                {"text": fenced(FAILED, &format!("Command exited with code 101.\n{escaped}"))},
                {"text": "Mend the importer."},
            ]}]),
            Some(101),
            true,
        ),
        row(
            "You are Qwen Code, an interactive CLI agent.",
            WireId::OpenaiChat,
            json!([{"role": "user", "content": [
                text(fenced(MIGRATED, PRINTED)),
                text(fenced(FAILED, &format!("Command exited with code 101.\n{ERROR}"))),
                text("Mend the importer.".into()),
            ]}]),
            Some(101),
            true,
        ),
        row(
            "You are an expert coding assistant operating inside pi, a coding agent harness.",
            WireId::Anthropic,
            json!([
                pi(format!("Ran `{MIGRATED}`\n```\n{PRINTED}\n\n```")),
                pi(format!(
                    "Ran `{FAILED}`\n```\n{ERROR}\n\n```\n\nCommand exited with code 101"
                )),
                pi("Mend the importer.".into()),
            ]),
            Some(101),
            true,
        ),
        row(
            "You are OpenCode, the best coding agent.",
            WireId::Anthropic,
            json!([
                {"role": "user", "content": [text(by_user.into())]},
                opencode("1", MIGRATED),
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": PRINTED},
                    text(by_user.into()),
                ]},
                opencode("2", FAILED),
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "2", "content": ERROR},
                    text("Mend the importer.".into()),
                ]},
            ]),
            None,
            false,
        ),
        row(
            "You are a helpful assistant.",
            WireId::Ollama,
            json!([
                {"role": "user", "content": format!("I ran this command:\n\n{MIGRATED}\n\nAnd got this output:\n\n{PRINTED}\n")},
                {"role": "assistant", "content": "Ok."},
                {"role": "user", "content": format!("I ran this command:\n\n{FAILED}\n\nAnd got this output:\n\n{ERROR}\n")},
                {"role": "assistant", "content": "Ok."},
                {"role": "user", "content": "Mend the importer."},
            ]),
            None,
            false,
        ),
    ]
}

fn index_of(sent: &Sent) -> DraftIndex {
    let (system, messages) = (sent.agent, &sent.body);
    let body = match sent.wire {
        WireId::Anthropic => json!({"model": "m", "system": system, "messages": messages}),
        WireId::OpenaiResponses => json!({"model": "m", "instructions": system, "input": messages}),
        WireId::Gemini => json!({"contents": messages}),
        WireId::OpenaiChat | WireId::Ollama => {
            let mut all = vec![json!({"role": "system", "content": system})];
            all.extend(messages.as_array().unwrap().iter().cloned());
            json!({"model": "m", "messages": all})
        }
    };
    let view = wire::wire(sent.wire).read(&body.to_string().into(), Operation::Generate);
    DraftIndex::from_transcript(settings(), &Transcript::from_view(&view.unwrap()))
}

#[test]
fn commands_of_the_user_are_in_everything_that_is_made_of_the_index() {
    for sent in sent() {
        let (index, agent) = (index_of(&sent), sent.agent);
        assert_eq!(
            crate::work::turns::of(&index.messages).len(),
            1,
            "{agent}: the user's commands are no requests"
        );
        let end = sent.exit.map_or(String::new(), |code| format!(" (exit {code})"));
        let went = if sent.end_known {
            "exit 0"
        } else {
            "exit code unknown"
        };
        let local = index.local(&request(4000)).unwrap();
        for line in [
            format!("- `{MIGRATED}`: {went}, run by the user (turn 1)\n  > {PRINTED}"),
            format!("- `{FAILED}`{end}, run by the user (turn 1)\n    > {ERROR}"),
            "Goal (the last open request): Mend the importer.".to_owned(),
        ] {
            assert!(local.contains(&line), "{agent}: {line}\n{local}");
        }
        let bundle = index.bundle(&request(8000)).unwrap();
        for line in [
            format!("{MIGRATED}\n  {PRINTED}"),
            format!("{FAILED} (failed)\n  {ERROR}"),
        ] {
            let ran = bundle.lines().filter(|line| line.starts_with("the user ran "));
            assert!(
                bundle.contains(&line) && ran.count() == 2,
                "{agent}: {line}\n{bundle}"
            );
        }
        let runs = document(&index).commands_run;
        let runs: Vec<_> = runs
            .iter()
            .map(|run| (run.command.as_str(), run.exit, run.by_user, run.output.as_slice()))
            .collect();
        let good = sent.end_known.then_some(0);
        assert_eq!(
            runs,
            [
                (MIGRATED, good, true, &[PRINTED.to_owned()][..]),
                (FAILED, sent.exit, true, &[ERROR.to_owned()][..]),
            ],
            "{agent}"
        );
    }
}

#[test]
fn a_command_of_the_user_leaves_an_answered_request_answered() {
    let pi = |text: &str| user(&format!("Ran `{FAILED}`\n```\n{text}\n```"));
    let index = indexed(&[
        user("Port the exporter."),
        model("Done, all is ported."),
        pi("ok"),
        user("Now the importer."),
    ]);
    let local = index.local(&request(4000)).unwrap();
    assert_contains(&local, "Goal (the last open request): Now the importer.");
    let alone = indexed(&[pi("ok")]).local(&request(4000)).unwrap();
    assert!(
        alone.contains("- `cargo test -q`: exit 0, run by the user (turn 1)"),
        "{alone}"
    );
}
