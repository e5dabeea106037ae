//! Keys by the names that they had in the version before.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn the_keys_of_the_version_before_are_read_and_named() {
    let config = load(
        "[packets]\nenabled = false\ntopic = \"importer\"\n",
        &[],
        &Flags::default(),
    )
    .unwrap();
    assert!(!config.documents.enabled);
    assert_eq!(config.documents.topic.as_deref(), Some("importer"));
    let named: Vec<_> = config.old_keys.iter().map(ToString::to_string).collect();
    assert_eq!(
        named,
        [
            "my.toml:2:1: `packets.enabled` is `handoff.documents` now; the old name will be removed in the next version",
            "my.toml:3:1: `packets.topic` is `handoff.topic` now; the old name will be removed in the next version",
        ]
    );
    let env = [("BATON_PACKETS__TOPIC", "b")];
    let config = load("handoff.topic = \"a\"\n", &env, &Flags::default()).unwrap();
    assert_eq!(
        config.documents.topic.as_deref(),
        Some("b"),
        "a variable comes after the file"
    );
    assert!(config.old_keys[0].to_string().contains("BATON_PACKETS__TOPIC"));
}

#[test]
fn keys_of_what_is_an_example_now_name_it() {
    let text = "[handoff]\nagent_mail_agents = { A = { env = \"NOT_SET\" } }\ntopic = \"a\"\n[packets]\nagent_mail_url = 3\n";
    let config = load(text, &[], &Flags::default()).unwrap();
    assert_eq!(config.documents.topic.as_deref(), Some("a"));
    let named: Vec<_> = config.old_keys.iter().map(|key| key.new.as_str()).collect();
    assert_eq!(
        named,
        [
            "handoff.agent_mail_url",
            "AGENT_MAIL_AGENTS (examples/agent-mail)",
            "AGENT_MAIL_URL (examples/agent-mail)"
        ]
    );
}

#[test]
fn a_key_under_both_names_is_an_error_that_names_both() {
    let text = "[handoff]\ndocuments = true\n[packets]\nenabled = false\n";
    let problems = load(text, &[], &Flags::default()).unwrap_err();
    let text = problems[0].to_string();
    assert!(
        text.contains("my.toml:4:1: packets.enabled")
            && text.contains("`handoff.documents` is set too (my.toml:2:1)"),
        "{text}"
    );
    let problems = load("[packets]\nfolder = 1\n", &[], &Flags::default()).unwrap_err();
    assert!(problems[0].contains("there is no key `folder`"), "{problems:?}");
}
