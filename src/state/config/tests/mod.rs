mod documented;
mod team;

use std::path::Path;
use std::time::Duration;

use pretty_assertions::assert_eq;

use super::*;

fn load(text: &str, env: &[(&str, &str)], flags: &Flags) -> Result<Config, Vec<String>> {
    let env = env.iter().copied().collect();
    Config::from_text(Some(("my.toml", text)), &env, flags)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn problems(text: &str) -> Vec<String> {
    load(text, &[], &Flags::default()).expect_err("problems")
}

fn is_key_line(line: &str) -> bool {
    line.split_once(" = ").is_some_and(|(key, _)| {
        key.chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    })
}

#[test]
fn what_holds_until_a_restart_is_kept_and_named() {
    let running = Config::default_for_tests();
    assert_eq!(running.clone().keep_fixed(&running), [""; 0]);
    let mut new = running.clone();
    new.log.level = "trace";
    new.admin.token = Some(Secret::new("another"));
    new.store.kind = StoreKind::Sqlite;
    new.handoff.max_chain += 1;
    let named = new.keep_fixed(&running);
    assert_eq!(named, ["admin.token", "store.kind", "log.level"]);
    assert_eq!(new.keep_fixed(&running), [""; 0]);
    assert_eq!(new.handoff.max_chain, running.handoff.max_chain + 1, "reloaded");
}

#[test]
fn a_directory_that_cannot_be_used_is_reported_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(at("file"), "").unwrap();
    let found = |text: &str| {
        let config = load(text, &[("BATON_STATE__DIR", &at("state"))], &Flags::default()).unwrap();
        let problems = config.directory_problems().into_iter();
        problems.map(|problem| problem.to_string()).collect::<Vec<_>>()
    };
    let sound = format!(
        "[handoff]\ndir = '{0}'\nsave_dir = '{0}/a/b'\ngit_dir = '{0}'\n",
        at("")
    );
    assert_eq!(found(&sound), [""; 0]);
    let (file, below, none) = (at("file"), at("file/x"), at("none"));
    let text = format!("[handoff]\nsave_dir = '{file}'\ngit_dir = '{none}'\n[draft]\ngit_dir = '{file}'");
    let help = "correct the path; relative ones start at the working directory";
    assert_eq!(
        found(&text),
        [
            format!(
                "my.toml:2:12: handoff.save_dir: {file} is not a directory, or below a file\n    help: {help}"
            ),
            format!("my.toml:3:11: handoff.git_dir: {none} is not a directory\n    help: {help}"),
            format!("my.toml:5:11: draft.git_dir: {file} is not a directory\n    help: {help}"),
        ]
    );
    let config = load("", &[("BATON_STATE__DIR", &below)], &Flags::default()).unwrap();
    let problem = config.directory_problems()[0].to_string();
    assert!(
        problem.starts_with(&format!(
            "environment variable BATON_STATE__DIR: state.dir: {below}"
        )),
        "{problem}"
    );
}

#[test]
fn the_default_holds_with_its_optional_keys_too() {
    let apart = [
        "tls_",
        "ca_file",
        "clients_dir",
        "key_sha256",
        "prices",
        "seal_key_dir",
        "url = \"http",
    ];
    let text: String = DEFAULT_TEXT
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            // Keys that require another key to be present, or to be absent.
            Some(bare) if apart.iter().any(|begins| bare.starts_with(begins)) => line,
            Some(bare) if is_key_line(bare) => bare,
            Some(bare) if bare == "[[clients]]" => bare,
            _ => line,
        })
        .fold(String::new(), |text, line| text + line + "\n");
    let keys = [
        "ADMIN_TOKEN",
        "READ_TOKEN",
        "METRICS_TOKEN",
        "GATEWAY_KEY",
        "ANTHROPIC_API_KEY",
        "LAPTOP_KEY",
        "SEAL_KEY",
    ];
    // Each has a value of its own, because tokens must differ.
    let env = keys.map(|name| (name, format!("{name}-0123456789abcdef0123456789abcdef")));
    let env: Vec<_> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let config = load(&text, &env, &Flags::default()).expect("loads");
    let defaults = Config::default_for_tests();
    let documented = &config.upstreams["anthropic"];
    assert_eq!(documented.connect, defaults.upstreams["anthropic"].connect);
    assert_eq!(documented.idle, defaults.upstreams["anthropic"].idle);
    assert_eq!(config.clients[0].name, "laptop");
    assert_eq!(
        config.documents.assumption_words,
        baton_core::work::DraftIndexSettings::default().assumptions
    );
    assert!(!format!("{config:?}").contains("0123456789"));
}

#[test]
fn every_file_of_the_directory_loads() {
    let keys = [
        "ADMIN_TOKEN",
        "ANTHROPIC_API_KEY",
        "ADA_KEY",
        "GRACE_KEY",
        "SEAL_KEY",
    ];
    let env = keys
        .iter()
        .map(|name| (*name, format!("{name}-0123456789-0123456789-0123456789")))
        .chain([("STORE_URL", "redis://valkey:6379".to_owned())])
        .collect();
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let directories = ["config", "examples/compose"]
        .map(|directory| std::fs::read_dir(root.join(directory)).expect("folder"));
    let mut seen = 0;
    for file in directories.into_iter().flatten() {
        let path = file.expect("entry").path();
        let is_config = path
            .file_name()
            .is_some_and(|name| name != "prices.toml" && name != "agents.toml");
        if is_config && path.extension().is_some_and(|extension| extension == "toml") {
            let loaded = Config::load(Some(&path), &env, &Flags::default());
            assert!(loaded.is_ok(), "{}: {loaded:?}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 4);
}

#[test]
fn all_problems_come_at_once_with_their_places() {
    let found = problems(
        "[server]\nlistne = \"127.0.0.1:1\"\n\n[handoff]\nmode = \"contine\"\nretries = \"three\"\n[handof]\n[limits]\nbody_bytes = 1\n",
    );
    assert_eq!(
        found,
        [
            "my.toml:2:1: server.listne: there is no key `listne`\n    help: did you mean `server.listen`?",
            "my.toml:5:8: handoff.mode: \"contine\" is not a known value\n    help: did you mean \"continue\"? (one of \"continue\", \"stop\")",
            "my.toml:6:11: handoff.retries: expected a number, found text\n    help: write a whole number from 0 to 10, without quotes",
            "my.toml:7:2: handof: there is no section `handof`\n    help: did you mean `handoff`?",
            "my.toml:9:14: limits.body_bytes: 1 is not a whole number in range\n    help: write a whole number from 1024 to 1073741824, without quotes",
        ]
    );
}

#[test]
fn a_syntax_error_does_not_hide_the_rest() {
    let found = problems(
        "[server]\nlisten = \"x\"\nlisten = \"127.0.0.1:1\"\n[log]\nlevel = \n[store]\nkind = \"sqlit\"\n",
    );
    let lines: Vec<_> = found.iter().map(|p| p.split(':').nth(1).unwrap()).collect();
    assert!(
        ["2", "3", "5", "7"].iter().all(|line| lines.contains(line)),
        "{found:#?}"
    );
    assert!(found[1].ends_with("`listen` occurs twice\n    help: keep one and delete the other"));
}

#[test]
fn a_broken_section_header_is_the_only_problem() {
    let found = problems("[server\nlisten = \"127.0.0.1:1\"\n");
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("my.toml:1:"), "{found:?}");
    let found = problems("[sever]\n[log\nlevel = \"warn\"\n");
    assert_eq!(
        found.len(),
        2,
        "what is above the broken line is reported: {found:#?}"
    );
}

#[test]
fn later_layers_win() {
    let text = "[server]\nlisten = \"127.0.0.1:1\"\n[log]\nlevel = \"warn\"\n[handoff]\nmode = \"stop\"\n[upstreams.my-box]\nbase_url = \"http://a/\"";
    let env = [
        ("BATON_SERVER__LISTEN", "127.0.0.1:2"),
        ("BATON_LOG__LEVEL", "debug"),
        ("BATON_UPSTREAMS__ANTHROPIC__BASE_URL", "http://127.0.0.1:9/x/"),
        ("BATON_UPSTREAMS__MY_BOX__HEADERS", "{ x-a = \"b\" }"),
        ("BATON_UPSTREAMS__NEW__BASE_URL", "http://new"),
        ("BATON_HANDOFF__KEEPALIVE_SECS", "0.5"),
        ("BATON_HANDOFF__PREAMBLE_TAGS", "[\"<mine>\"]"),
        ("BATON_CLIENTS", "[{ name = \"ci\", key = \"0123456789abcdef\" }]"),
        ("BATON_PORT_8787_TCP", "an orchestrator's"),
    ];
    let flags = Flags {
        listen: Some("localhost:3".into()),
        ..Flags::default()
    };
    let config = load(text, &env, &flags).expect("loads");
    assert_eq!(config.server.at.listen.to_string(), "127.0.0.1:3");
    assert_eq!(config.log.level, "debug");
    assert_eq!(config.handoff.mode, HandoffMode::Stop);
    assert_eq!(config.handoff.keepalive, Duration::from_millis(500));
    assert_eq!(config.handoff.preamble_tags, ["<mine>"]);
    assert_eq!(config.upstreams["anthropic"].base_url, "http://127.0.0.1:9/x");
    assert_eq!(config.upstreams["my-box"].headers[0].0, "x-a");
    assert_eq!(config.upstreams["my-box"].base_url, "http://a");
    assert_eq!(config.upstreams.len(), 7);
    assert_eq!(config.clients[0].name, "ci");
}

#[test]
fn sign_ins_need_no_config() {
    let config = load("", &[], &Flags::default()).expect("loads");
    let place = |name: &str| config.upstreams[name].base_url.as_str();
    assert_eq!(place("chatgpt"), "https://chatgpt.com");
    assert_eq!(place("codeassist"), "https://cloudcode-pa.googleapis.com");
    let mut upstreams = config.upstreams.values();
    assert!(upstreams.all(|upstream| upstream.api_key.is_none()));
}

#[test]
fn problems_name_the_variable_or_the_flag() {
    let env = [
        ("BATON_SERVER__LISTNE", "x"),
        ("BATON_HANDOFF__RETRIES", "99"),
        ("BATON_LOG_LEVEL", "debug"),
    ];
    let flags = Flags {
        log_level: Some("inof".into()),
        ..Flags::default()
    };
    let found = load("", &env, &flags).expect_err("problems").join("\n");
    for part in [
        "environment variable BATON_SERVER__LISTNE: server.listne: there is no key `listne`\n    help: did you mean `BATON_SERVER__LISTEN`?",
        "environment variable BATON_HANDOFF__RETRIES: handoff.retries: 99 is not",
        "environment variable BATON_LOG_LEVEL: log.level: a section and its key are separated by two underscores",
        "flag --log-level: log.level: \"inof\" is not a known value\n    help: did you mean \"info\"?",
    ] {
        assert!(found.contains(part), "{part}\nnot in\n{found}");
    }
}

#[test]
fn an_open_listener_asks_for_clients_and_a_token() {
    let text = "server.listen = \"0.0.0.0:1\"\nadmin.listen = \"[::]:2\"\nupstreams.openai.api_key = \"sk-very-secret\"\n";
    let found = problems(text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("my.toml:1:17: server.listen: 0.0.0.0:1 is not loopback"));
    assert!(found[1].starts_with("my.toml:2:16: admin.listen: [::]:2 is not loopback"));
    assert!(!found.join("").contains("very-secret"));
    let text = text.replace("api_key = ", "headers.authorization = ");
    assert_eq!(problems(&text).len(), 2);
    assert!(load("server.listen = \"0.0.0.0:1\"", &[], &Flags::default()).is_ok());
}

#[test]
fn secrets_come_from_the_environment_and_are_never_shown() {
    let text =
        "admin.token = { env = \"TOK\" }\n[upstreams.openai]\nbase_url = \"https://user:hunter2@host\"\n";
    let found = problems(text);
    assert!(found[0].contains("TOK, which is not set"), "{found:?}");
    assert!(!found.join("").contains("hunter2"));
    // The variable has the name of a key, but the file references it.
    let config = load(
        "admin.token = { env = \"BATON_ADMIN_TOKEN\" }",
        &[("BATON_ADMIN_TOKEN", "0123456789abcdef")],
        &Flags::default(),
    );
    let token = config.expect("loads").admin.token.expect("token");
    assert_eq!(token.reveal(), "0123456789abcdef");
}

#[test]
fn a_collector_is_a_url_or_nothing() {
    let endpoint = |text: &str| {
        let text = format!("telemetry.otlp_endpoint = {text:?}");
        load(&text, &[], &Flags::default()).map(|config| config.telemetry.otlp_endpoint)
    };
    assert_eq!(endpoint(""), Ok(None));
    for text in ["http://c:4318", "http://c:4318/", "http://c:4318/v1/traces"] {
        assert_eq!(endpoint(text), Ok(Some("http://c:4318".to_owned())), "{text}");
    }
    let wrong = endpoint("http://me:password@c:4318").unwrap_err().concat();
    assert!(
        wrong.contains("OTEL_EXPORTER_OTLP_HEADERS") && !wrong.contains("password"),
        "{wrong}"
    );
    assert!(endpoint("c:4318").is_err());
}

#[test]
fn what_is_wrong_or_does_not_go_together_is_one_problem_that_says_so() {
    let number = "write \"break-even\", or a number without quotes";
    let openai = "upstreams.openai.base_url = \"https://api.openai.com/v1\"";
    let chatgpt = "upstreams.chatgpt.base_url = \"https://chatgpt.com/backend-api/codex\"";
    let two_keys = format!(
        "handoff.seal_key = '{}'\nhandoff.seal_key_dir = '/keys'",
        "a".repeat(32)
    );
    for (text, part) in [
        ("store.kind = \"redis\"", "needs `store.url`"),
        (
            "[upstreams.x]\nwire = \"gemini\"",
            "the upstream has no `base_url`",
        ),
        (openai, "write \"https://api.openai.com\""),
        (chatgpt, "write \"https://chatgpt.com\""),
        ("[upstreams.Bad]\nbase_url = \"http://h\"", "lower-case"),
        (
            "upstreams.openai.headers = { host = \"x\" }",
            "set by the proxy itself",
        ),
        ("upstreams.openai.paths = ['v1/files']", "is not a path"),
        ("server.upstreams = ['opnai']", "there is no upstream \"opnai\""),
        (
            "server.tls_cert = \"Cargo.toml\"",
            "it needs `server.tls_key` as well",
        ),
        ("server.listen = \"127.0.0.1:8788\"", "too"),
        ("server.max_chain = 3", "did you mean `handoff.max_chain`?"),
        ("limits.body_bytes = 1073741824", "write 2147483648 or more"),
        ("server.hosts = [\"http://a\"]", "is not a host name"),
        ("server.hosts = [\"a:80\"]", "is not a host name"),
        ("server.origins = [\"localhost:3000\"]", "is not the origin"),
        ("server.origins = [\"null\"]", "is not the origin"),
        ("[[clients]]\nname = \"a\"", "the client has no `key`"),
        ("clients = 3", "expected a list of tables"),
        ("server = 3", "expected a table"),
        ("server.listen = \"8787\"", "\"127.0.0.1:8787\""),
        ("handoff.retries = 1.5", "1.5 is not a whole number"),
        ("handoff.preamble_tags = [\"<a>\", \"\"]", "the value is empty"),
        ("handoff.nudge_at = \"break_even\"", number),
        ("handoff.nudge_at = \"pay\"", number),
        ("handoff.nudge_tokens = \"break_even\"", number),
        ("handoff.nudge_tokens = \"pay\"", number),
        ("handoff.nudge_at = \"0.5\"", "expected a number, found text"),
        ("handoff.seal_key = []", "empty"),
        ("handoff.seal_key = ['short']", "too short"),
        ("handoff.seal_key = 7", "expected a secret"),
        (&two_keys, "`handoff.seal_key` as well"),
        ("admin.token = \"short\"", "too short"),
        ("log.requests = \"yes\"", "without quotes"),
        ("log.level = 1979-05-27", "a date or time"),
    ] {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{text}: {found:#?}");
        assert!(found[0].contains(part), "{text}: {found:#?}");
    }
}

#[test]
fn a_seal_key_is_one_or_a_list_or_in_a_directory() {
    let [a, b] = ["a".repeat(32), "b".repeat(32)];
    let keys = |value: &str| {
        let config = load(&format!("handoff.seal_key = {value}"), &[], &Flags::default());
        let keys = config.unwrap().handoff.seal_keys;
        keys.iter().map(|key| key.reveal().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&format!("'{a}'")), std::slice::from_ref(&a));
    assert_eq!(keys(&format!("['{a}', '{b}']")), [a, b]);
    let shared = "store = { kind = 'redis', url = 'redis://h' }\nhandoff.seal_key_dir = '/keys'";
    let config = load(shared, &[], &Flags::default()).unwrap();
    assert_eq!(config.seal_key_dir(), Path::new("/keys"));
}

/// Values of every type, in and out of range.
const VALUES: [&str; 14] = [
    "0",
    "-1",
    "1.5",
    "9223372036854775807",
    "true",
    "\"\"",
    "\"on\"",
    "\"é\\u0000\"",
    "[]",
    "[1]",
    "[\"a\"]",
    "{}",
    "{ a = 1 }",
    "2026-11-24",
];

/// Returns a changed line of the default.
fn changed_line(line: &str, change: usize) -> String {
    let key = line
        .strip_prefix("# ")
        .unwrap_or(line)
        .split(" = ")
        .next()
        .unwrap_or_default();
    match change.checked_sub(VALUES.len()) {
        None => format!("{key} = {}", VALUES[change]),
        Some(0) => String::new(),
        Some(1) => line.trim_start_matches("# ").to_owned(),
        Some(2) => format!("{line}\n{line}"),
        Some(3) => line.chars().rev().collect(),
        Some(_) => line.chars().take(line.chars().count() / 2).collect(),
    }
}

proptest::proptest! {
    /// Any change of the default is accepted, or rejected with its location. Nothing panics.
    #[test]
    fn a_changed_default_is_read_or_refused_with_its_place(
        changes in proptest::collection::vec((0..DEFAULT_TEXT.lines().count(), 0..VALUES.len() + 5), 1..6),
    ) {
        let mut lines: Vec<String> = DEFAULT_TEXT.lines().map(str::to_owned).collect();
        for (at, change) in changes {
            lines[at] = changed_line(&lines[at], change);
        }
        let text = lines.join("\n");
        let environment = Environment::default();
        if let Err(problems) = Config::from_text(Some(("my.toml", &text)), &environment, &Flags::default()) {
            proptest::prop_assert!(!problems.is_empty());
            for problem in problems {
                proptest::prop_assert!(!problem.message.is_empty(), "{problem:?}\n{text}");
            }
        }
    }
}

/// A listener for other machines is a way out only to the hosts that its operator chose.
#[test]
fn only_chosen_upstreams_exist_beyond_loopback() {
    let names = |text: &str| {
        let config = load(text, &[], &Flags::default()).unwrap();
        config.upstreams.into_keys().collect::<Vec<_>>().join(" ")
    };
    let all = "anthropic chatgpt codeassist gemini openai";
    assert_eq!(names("[upstreams.anthropic]\nconnect_secs = 5\n"), all);
    let open = "server.listen = '0.0.0.0:1'\n";
    assert_eq!(names(open), all, "none is chosen");
    assert_eq!(
        names(&format!("{open}[upstreams.anthropic]\nconnect_secs = 5\n")),
        "anthropic"
    );
    assert_eq!(
        names(&format!("{open}[upstreams.openai]\n[upstreams.gemini]\n")),
        "gemini openai"
    );
    assert_eq!(names("server.upstreams = ['openai']\n"), "openai");
}
