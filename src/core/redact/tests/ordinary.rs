//! Secrets in ordinary configurations and requests: words, lists, numbers, brackets.

use super::*;

fn json_of(text: &str) -> String {
    String::from_utf8(Redactor::new(&[]).json(text.as_bytes()).into_owned()).unwrap()
}

#[test]
fn members_of_ordinary_shapes_lose_their_secrets() {
    let secrets = [
        (
            r#"{"mcp_servers":[{"authorization_token":"my-shared-team-token","name":"docs"}]}"#,
            "shared",
        ),
        (r#"{"authorization":"word"}"#, "word"),
        (r#"{"passphrase":"correct horse battery staple"}"#, "horse"),
        (r#"{"password":"correct horse battery staple"}"#, "horse"),
        (r#"{"mnemonic":"abandon ability able about above"}"#, "ability"),
        (r#"{"seed phrase":"abandon ability able about above"}"#, "ability"),
        (r#"{"headers":{"X-Api-Key":["s3cr3t-value-1"]}}"#, "s3cr3t"),
        (
            r#"{"headers":{"X-Api-Key":["first-one", "second-one"]}}"#,
            "second",
        ),
        (r#"{"cookies":["theme=dark","sid=Zq81kdPw02"]}"#, "Zq81"),
        (r#"{"password":"[abc9!x"}"#, "abc9"),
        (r#"{"password":"{abc9!x"}"#, "abc9"),
        (r#"{"password":"<abc9!x"}"#, "abc9"),
        (r#"{"password":"Tr0<ub4d"}"#, "ub4d"),
        (r#"{"password":"ab->c1::d"}"#, "c1"),
        (r#"{"password":12345678}"#, "345"),
        (r#"{"password" : 12345678 , "a": 1}"#, "345"),
    ];
    for (text, secret) in secrets {
        let clean = json_of(text);
        assert!(!clean.contains(secret), "{clean}");
        serde_json::from_str::<serde_json::Value>(&clean).unwrap();
    }
    let listed =
        json_of(r#"{"headers":{"X-Api-Key":["s3cr3t-value-1"],"Accept":["text/plain"]},"a":["plain"]}"#);
    assert_ends(&listed, r#""Accept":["text/plain"]},"a":["plain"]}"#);
}

#[test]
fn texts_of_ordinary_shapes_lose_their_secrets() {
    let redactor = Redactor::new(&[]);
    let secrets = [
        ("ssh:\n  passphrase: correct horse battery staple\n", "staple"),
        ("password: correct horse battery staple # mine\n", "staple"),
        ("mnemonic: abandon ability able about above\n", "above"),
        ("seed phrase: abandon ability able about above", "above"),
        ("MNEMONIC=\"abandon ability able about above\"", "above"),
        ("{'X-Api-Key': ['s3cr3t-value-1', 's3cr3t-value-2']}", "s3cr3t"),
        (r#"{\"headers\":{\"X-Api-Key\":[\"s3cr3t-value-1\"]}}"#, "s3cr3t"),
        ("password: \"[abc9!x\"", "abc9"),
        ("password = \"Tr0<ub4d\"", "ub4d"),
    ];
    for (text, secret) in secrets {
        let clean = redactor.text(text);
        assert!(!clean.contains(secret), "{clean}");
    }
    let yaml = redactor
        .text("password: correct horse # mine\nuser: jane\n")
        .into_owned();
    assert_eq!(yaml, "password: [redacted:password] # mine\nuser: jane\n");
}

#[test]
fn of_two_keys_that_overlap_nothing_stays() {
    for keys in [
        ["team-key", "team-key-of-ours"],
        ["team-key-of-ours", "ours-and-yours"],
    ] {
        let knowing = Redactor::new(&[]).knowing(keys);
        let text = "a team-key-of-ours-and-yours b";
        let clean = knowing.text(text);
        assert!(!clean.contains("of-ours"), "{clean}");
    }
}

#[test]
fn what_only_looks_like_it_stays() {
    for text in [
        // A value called `headers` opens nothing in the next event.
        "data: {\"max_tokens\":1,\"headers\":\"x\"}\n\ndata: {\"a\":\"text\"}\n\n",
        r#"{"max_tokens":1,"headers":"x","b":{"a":"text"}}"#,
        r#"{"pass":120,"password":null,"token":1234567}"#,
        r#"{"required":["password","token"],"a":["authorization","secret"]}"#,
        r#"{"password":"<your password>","secret":"[none]","token":"{{ token }}"}"#,
        r#"{"headers":{"type":"object","required":["accept","host-name"]}}"#,
        r#"{"auth":[{"name":"docs and more","kind":"plain words"}]}"#,
    ] {
        assert_eq!(json_of(text), text);
    }
    let redactor = Redactor::new(&[]);
    for text in [
        "passphrase: The passphrase of the key, if it has one",
        "mnemonic: \"The mnemonic of an instruction\"",
        "the seed phrase is written on paper",
        "if secret_len < other > x { passwords[\"a\"] }",
    ] {
        assert_eq!(redactor.text(text), text);
    }
}
