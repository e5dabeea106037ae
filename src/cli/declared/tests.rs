use super::*;
use crate::cli::agents;

#[test]
fn places_are_compared_by_host_and_port() {
    assert_eq!(place("https://API.example/v1?x"), "api.example");
    assert_eq!(place("http://localhost:8787/v1"), place("127.0.0.1:8787"));
    assert_ne!(place("http://127.0.0.1:8787"), place("http://127.0.0.1:8788"));
}

const PROXY: &str = "http://127.0.0.1:8787";

/// The bypassing settings in an agent's file with this content.
fn bypasses(agent: &str, content: &Value) -> Vec<String> {
    let rows = &agents::find(agent).unwrap().overriding;
    let values = overriding_in(rows, "FILE", content).into_iter();
    let bypassing = values.filter(|value| value.bypasses(PROXY));
    bypassing
        .map(|value| format!("{} is {}", value.setting, value.value))
        .collect()
}

#[test]
fn settings_that_lead_past_the_proxy_are_found() {
    let claude = |name: &str, value: Value| bypasses("claude", &json!({"env": {name: value}}));
    let url = "ANTHROPIC_BASE_URL";
    for elsewhere in ["http://127.0.0.1:1", "https://127.0.0.1:8787.example/", "", "x"] {
        let setting = format!("env.ANTHROPIC_BASE_URL in FILE is {elsewhere}");
        assert_eq!(claude(url, elsewhere.into()), [setting]);
    }
    assert_eq!(claude(url, "http://localhost:8787/u/other".into()), [""; 0]);
    for on in [json!("1"), json!(" Yes"), json!(true), json!(1)] {
        assert_eq!(claude("CLAUDE_CODE_USE_VERTEX", on.clone()).len(), 1, "{on}");
    }
    for off in [json!("0"), json!(""), json!(false), json!({}), Value::Null] {
        assert_eq!(claude("CLAUDE_CODE_USE_BEDROCK", off), [""; 0]);
    }
    let opencode = json!({"provider": {"openai": {"options": {"baseURL": "https://gateway.example"}}}});
    assert_eq!(bypasses("opencode", &opencode).len(), 1);
    assert_eq!(bypasses("codex", &opencode), [""; 0]);
}

#[test]
fn settings_are_read_with_comments_and_trailing_commas() {
    let text = r#"{
        // "baseURL": "http://a"
        "url": "http://b//c", /* , */
        "list": [1, 2,],
    }"#;
    let expected = json!({"url": "http://b//c", "list": [1, 2]});
    assert_eq!(json(text.to_owned()), Some(expected));
    for broken in ["", "{", "{/*", "{\"a\": }"] {
        assert_eq!(json(broken.to_owned()), None, "{broken}");
    }
}

#[test]
fn an_option_is_found_in_both_forms_before_the_prompt() {
    let found = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        option_values("--settings", &words).collect::<Vec<_>>()
    };
    assert_eq!(
        found(&["-p", "--settings", "a.json", "--settings={}"]),
        ["a.json", "{}"]
    );
    for none in [&["--settings"][..], &["--settings-x=1"], &["--", "--settings=a"]] {
        assert_eq!(found(none), [""; 0]);
    }
}

#[test]
fn numbers_are_found_at_their_keys_with_the_models_names() {
    let codex = "model = \"gpt-6\"\nmodel_context_window = 400_000\n[profiles.big]\nmodel_context_window = 5";
    let codex: Value = toml::from_str(codex).unwrap();
    assert_eq!(found(&codex, &["model_context_window"], ""), ["400000"]);
    let opencode = json!({"provider": {
        "anthropic": {"models": {"claude-opus-5-5": {"limit": {"context": 300_000, "output": 1}}, "x": {}}},
        "openai": {"models": {"mine/gpt-6": {"limit": {"context": 200_000}}}, "options": 1},
    }});
    let keys = ["provider", ANY, "models", ANY, "limit", "context"];
    assert_eq!(
        found(&opencode, &keys, ""),
        ["claude-opus-5-5=300000", "gpt-6=200000"]
    );
    for wrong in [json!({}), json!([1]), json!({"provider": 3}), Value::Null] {
        assert_eq!(found(&wrong, &keys, ""), [""; 0]);
    }
}

#[test]
fn the_url_has_the_windows_that_make_sense() {
    let url = |all: &[&str]| with_windows("http://h:1", all.iter().map(|&one| one.to_owned()));
    assert_eq!(url(&[]), "http://h:1");
    assert_eq!(url(&["400000"]), "http://h:1/w/400000");
    assert_eq!(url(&["a=5000", "b=6000"]), "http://h:1/w/b=6000,a=5000");
    assert_eq!(url(&["12", "x y=5000", "a/b=5000", "-1", "é=5000"]), "http://h:1");
    let many: Vec<String> = (0..1_000).map(|n| format!("model-{n}=5000")).collect();
    assert_eq!(
        with_windows("http://h:1", many.into_iter()),
        "http://h:1",
        "too long"
    );
}

/// The choice of a sign-in past the proxy, for an agent that reads `file` and is started with these words.
fn choice(row: &UnreachedSignIn, words: &[&str]) -> Option<String> {
    let words: Vec<_> = words.iter().map(OsString::from).collect();
    row.choice(&words, PROXY)
}

/// A row like Codex's, whose files are in `home`.
fn codex(home: &Path) -> UnreachedSignIn {
    let text = format!(
        r#"
        sign_in = "another provider"
        settings = [
            {{ assignments = ["-c", "--config"], keys = ["model_provider"] }},
            {{ options = ["--profile", "-p"], home = "{home}", file = "{{}}.config.toml", keys = ["model_provider"] }},
            {{ home = "{home}", file = "config.toml", keys = ["model_provider"] }},
        ]
        unless = "openai"
        url_keys = ["model_providers", "*", "base_url"]
        help = "none"
        "#,
        home = home.display()
    );
    toml::from_str(&text).unwrap()
}

#[test]
fn a_provider_past_the_proxy_is_found_by_its_base_url() {
    let home = tempfile::tempdir().unwrap();
    let row = codex(home.path());
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    let providers = format!(
        "[model_providers.near]\nbase_url = \"{PROXY}/v1\"\n[model_providers.far]\nbase_url = \"https://far.example/v1\"\n"
    );
    let by = |source: &str| {
        Some(format!(
            "model_provider in {source} selects another provider, which does not go through baton"
        ))
    };
    let file = |name: &str| by(&home.path().join(name).display().to_string());
    assert_eq!(choice(&row, &[]), None);
    for (set, expected) in [
        ("", None),
        ("model_provider = \"openai\"\n", None),
        ("model_provider = \"near\"\n", None),
        ("model_provider = \"far\"\n", file("config.toml")),
        ("model_provider = \"unknown\"\n", file("config.toml")),
    ] {
        write("config.toml", &format!("{set}{providers}"));
        assert_eq!(choice(&row, &[]), expected, "{set}");
    }
    write("config.toml", &providers);
    write("work.config.toml", "model_provider = \"far\"");
    for words in [
        &["exec", "--profile", "work"][..],
        &["--profile=work"],
        &["-pwork"],
    ] {
        assert_eq!(choice(&row, words), file("work.config.toml"), "{words:?}");
    }
    for (words, expected) in [
        (&["-c", "model_provider=far"][..], by("`-c`")),
        (&["--config=model_provider=\"far\""], by("`--config`")),
        (&["-cmodel_provider = 'far'"], by("`-c`")),
        (&["-p", "work", "-c", "model_provider=near"], None),
        (&["-c", "model_provider=far", "-c", "model_provider=openai"], None),
        (
            &[
                "-c",
                "model_provider=far",
                "-c",
                "model_providers.far.base_url=http://localhost:8787/v1",
            ],
            None,
        ),
        (&["-c", "model=far", "--", "-c", "model_provider=far"], None),
    ] {
        assert_eq!(choice(&row, words), expected, "{words:?}");
    }
}
