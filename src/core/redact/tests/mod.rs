//! Matches, non-matches, and cost.

mod characters;
mod forms;
mod harmless;
mod linear;
mod ordinary;
mod prose;
mod shapes;

use super::*;
use crate::text::testing::{assert_begins, assert_contains, assert_ends, assert_lacks};

fn header(name: &str, value: &[u8]) -> String {
    redactor()
        .header_value(is_credential_header(name), value)
        .into_owned()
}

fn redactor() -> Redactor {
    Redactor::new(&["hunter[0-9]".to_owned()])
}

/// Invented credentials in real formats.
fn seeds() -> Vec<String> {
    vec![
        format!("sk-ant-api03-{}", "aB3_".repeat(20)),
        format!("sk-proj-{}", "Zz9-".repeat(12)),
        format!("ghp_{}", "a1B2".repeat(9)),
        format!("AKIA{}", "ABCD1234EFGH5678"),
        format!("AIza{}", "Sy0_".repeat(9)),
        format!("xoxb-{}", "123456789012-abcdef"),
        format!("eyJ{}.eyJ{}.{}", "hbGciOiJI", "zdWIiOiIx", "c2lnbmF0dXJl"),
        format!(
            "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
            "MIIEowIBAAKCAQEA".repeat(4)
        ),
        "hunter2".to_owned(),
    ]
}

#[test]
fn every_rule_compiles_and_is_found_by_its_keyword() {
    let rules = &scan::KEYWORDS.rules;
    assert!(rules.len() > 230, "{}", rules.len());
    for rule in rules {
        assert!(rule.regex().is_some(), "{}", rule.name);
        assert!(rule.keywords.iter().all(|word| word.len() >= 2), "{}", rule.name);
    }
}

#[test]
fn no_seed_survives_between_the_literals_of_what_is_not_quite_json() {
    for seed in seeds().iter().filter(|seed| !seed.contains(char::is_whitespace)) {
        // Plain text in an event, an unclosed literal, and invalid UTF-8.
        for text in [
            format!("data: no such key {seed}\n\ndata: {{\"a\": 1}}\n\n"),
            format!("{{\"a\": \"b\", \"c\" {seed}, \"d\": 2}}"),
            format!("{seed} \" a {seed}"),
            format!("\"a\" {seed},{seed}"),
        ] {
            for clean in [
                redactor().json(text.as_bytes()),
                redactor().stream(text.as_bytes()),
            ] {
                let clean = String::from_utf8(clean.into_owned()).unwrap();
                assert!(!clean.contains(&seed[4..]), "{text}\n{clean}");
            }
        }
        let bytes = [&b"{\"a\": \xff"[..], seed.as_bytes(), b"\xff}"].concat();
        let clean = redactor().json(&bytes).into_owned();
        assert!(!clean.windows(seed.len()).any(|w| w == seed.as_bytes()), "{seed}");
    }
}

#[test]
fn a_number_that_an_expression_matches_leaves_json() {
    let cards = Redactor::new(&["4[0-9]{6,15}".to_owned()]);
    let clean = cards.json(br#"{"card": -41111111111.5, "b": [41111111111, true], "password": 41111111111}"#);
    let mark = r#""[redacted:custom]""#;
    let expected = format!(r#"{{"card": {mark}, "b": [{mark}, true], "password": "[redacted:password]"}}"#);
    assert_eq!(String::from_utf8_lossy(&clean), expected);
}

#[test]
fn no_seed_survives_in_json_and_json_stays_json() {
    for seed in seeds() {
        let body = serde_json::json!({"a": [format!("export K={seed} # ok"), {"args": serde_json::json!({"env": seed}).to_string()}], "n": 12.5});
        let body = body.to_string();
        let clean = redactor().json(body.as_bytes()).into_owned();
        let text = String::from_utf8(clean).unwrap();
        assert!(text.contains("[redacted:"), "{seed}\n{text}");
        assert_lacks(&text, &seed[4..]);
        assert_lacks(&text, &json::quote(&seed)[5..]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(text.contains("12.5") && value["a"][0].as_str().unwrap().ends_with(" # ok"));
        serde_json::from_str::<serde_json::Value>(value["a"][1]["args"].as_str().unwrap()).unwrap();
    }
}

#[test]
fn a_letter_spelled_out_hides_nothing() {
    let plain = Redactor::new(&[]);
    for seed in seeds().iter().filter(|seed| !seed.starts_with("hunter")) {
        let hidden = format!("\\u{:04x}{}", seed.as_bytes()[0], &seed[1..]);
        let text = format!(r#"{{"a":"{}"}}"#, hidden.replace('\n', "\\n"));
        let clean = String::from_utf8(plain.json(text.as_bytes()).into_owned()).unwrap();
        assert!(clean.contains("[redacted:"), "{clean}");
    }
}

#[test]
fn a_key_cut_off_is_redacted_to_its_last_letter() {
    let text = r#"{"t":"-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA"#;
    let clean = redactor().json(text.as_bytes()).into_owned();
    assert_eq!(clean, br#"{"t":"[redacted:private-key]""#);
}

#[test]
fn streams_are_searched_across_events_at_every_split() {
    for seed in seeds() {
        for cut in 1..seed.len() {
            let event = |text: &str| {
                format!(
                    "data: {}\n\n",
                    serde_json::json!({"type": "delta", "delta": {"text": text}})
                )
            };
            let stream = event(&format!("A {}", &seed[..cut])) + &event(&format!("{} Z", &seed[cut..]));
            let clean = String::from_utf8(redactor().stream(stream.as_bytes()).into_owned()).unwrap();
            let texts: Vec<_> = clean
                .lines()
                .filter_map(|l| l.strip_prefix("data: "))
                .map(|d| {
                    serde_json::from_str::<serde_json::Value>(d).unwrap()["delta"]["text"]
                        .as_str()
                        .unwrap()
                        .to_owned()
                })
                .collect();
            assert_eq!(texts.len(), 2);
            let joined = texts.concat();
            assert_begins(&joined, "A [redacted:");
            assert_ends(&joined, "] Z");
        }
    }
}

#[test]
fn what_was_redacted_stays_as_it_is() {
    for seed in seeds() {
        let once = redactor().text(&format!("password = \"{seed}\"")).into_owned();
        assert_eq!(redactor().text(&once), once);
    }
}

#[test]
fn what_is_no_credential_stays_byte_for_byte() {
    let text = br#"{"a":"sk-1 \u00e4 task-specific-and-rather-long-name AKIA", "b" :1.0e5}"#;
    assert!(matches!(redactor().json(text), Cow::Borrowed(_)));
    let stream = b"event: x\ndata: {\"text\":\"a\\u0041\"}\n\n";
    assert!(matches!(redactor().stream(stream), Cow::Borrowed(_)));
    assert!(matches!(
        redactor().text("no task-force in Zürich asks for \u{1F511}"),
        Cow::Borrowed(_)
    ));
}

#[test]
fn credential_headers_are_replaced_and_others_kept() {
    for name in [
        "authorization",
        "x-api-key",
        "x-team-token",
        "cookie",
        "x-amz-security-token",
        "ocp-apim-subscription-key",
        "X-Any-Key",
        "x-csrf",
        "X-CSRFToken",
        "x-xsrf-token",
        "x-session",
        "x-session-id",
        "x-db-pass",
        "x-proxy-pw",
        "x-access",
        "x-access-id",
        "x-client-cert",
        "x-forwarded-client-cert",
    ] {
        assert_eq!(header(name, b"abc"), "[redacted:credential]", "{name}");
    }
    for (name, value) in [
        ("anthropic-ratelimit-tokens-limit", "4000"),
        ("anthropic-version", "2023-06-01"),
        ("x-baton-exchange", "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11"),
        ("x-claude-code-session-id", "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11"),
        ("access-control-allow-origin", "*"),
        ("x-compass", "north"),
    ] {
        assert_eq!(header(name, value.as_bytes()), value);
    }
    let key = format!("AIza{}", "Sy0_".repeat(9));
    assert_eq!(
        header("x-note", format!("key {key} end").as_bytes()),
        "key [redacted:google-key] end"
    );
}

#[test]
fn known_secrets_are_found_wherever_they_stand() {
    let knowing = redactor().knowing(["ours \"quoted\"", "plainsecret", "abc"]);
    assert_eq!(
        knowing.text("a plainsecretary abc"),
        "a [redacted:own-key]ary abc"
    );
    let body = br#"{"a":"say ours \"quoted\" now","b":"abc"}"#;
    assert_eq!(
        &*knowing.json(body),
        br#"{"a":"say [redacted:own-key] now","b":"abc"}"#
    );
}

#[test]
fn headers_lose_the_parameters_that_name_a_secret() {
    for (value, expected) in [
        ("http://l/?key=plainword", "http://l/?key=[redacted:parameter]"),
        (
            "/x?a=1&api_key=plainword&b=2",
            "/x?a=1&api_key=[redacted:parameter]&b=2",
        ),
        (
            "<https://p.example/l?page=2&access_token=plainword>; rel=next",
            "<https://p.example/l?page=2&access_token=[redacted:parameter]>; rel=next",
        ),
        ("/x?max_tokens=5&q=word", "/x?max_tokens=5&q=word"),
        ("key=plainword", "key=plainword"),
    ] {
        assert_eq!(header("referer", value.as_bytes()), expected);
    }
}

#[test]
fn paths_lose_the_segments_that_are_credentials() {
    let secret = "q7Rt2LmX9vB4nK8sW3zH6pYd";
    let redactor = redactor().knowing(["our+own/key"]);
    let path = |text: &str| redactor.path(text).into_owned();
    let clean = path(&format!("POST /u/{secret}/v1/messages?key={secret}"));
    assert_lacks(&clean, secret);
    assert_ends(&clean, "?key=[redacted:segment]");
    for kept in [
        "POST /v1/messages",
        "POST /v1beta/models/gemini-2.5-pro-preview-05-06:streamGenerateContent",
        "GET /v1/responses/resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
        "GET /v1/files/file-abc123DEF456ghi789JKL",
        "DELETE /v1/things/0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11",
    ] {
        assert_eq!(path(kept), kept);
    }
    for own in ["our+own/key", "our%2Bown%2Fkey", "our%2bown%2fkey"] {
        assert_eq!(path(&format!("GET /k/{own}/v1")), "GET /k/[redacted:own-key]/v1");
    }
}
