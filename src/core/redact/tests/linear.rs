//! Work grows at most linearly with the size, for any input.

use super::*;
use crate::text::cost::{at_sizes, up_to_1_mb};

at_sizes! {
    hostile_texts_cost_their_size
    private_keys_without_an_end_cost_their_size
}

/// Inputs that made a search restart at each of their parts, or could.
fn hostile() -> Vec<(&'static str, String)> {
    let mut all = hostile_by_hand();
    for rule in &scan::KEYWORDS.rules {
        for word in &rule.keywords {
            all.push((rule.name, (*word).to_owned()));
            all.push((rule.name, format!("{word} = \"")));
        }
    }
    all
}

/// Inputs for the hand-written walks, which unlike rules have no limit of bytes per hit.
fn hostile_by_hand() -> Vec<(&'static str, String)> {
    let begin = |what: &str| format!("-----{} PRIVATE KEY-----", what);
    vec![
        ("begins", begin("BEGIN")),
        ("begins and blanks", begin("BEGIN") + " "),
        ("ends", begin("END")),
        (
            "begins with base64",
            begin("BEGIN") + "\nMIIEowIBAAKCAQEAMIIEowIBAAKCAQEA\n",
        ),
        ("begins with a quote", begin("BEGIN") + "\""),
        ("dashes", "-".to_owned()),
        ("headers of tokens", "-eyJhbGciOiJI".to_owned()),
        ("headers of tokens, with dots", "-eyJhbGciOiJI.".to_owned()),
        ("tokens", "eyJhbGciOiJIUzI.eyJzdWIiOiIx.".to_owned()),
        ("names", "password=".to_owned()),
        ("names, joined", "password_".to_owned()),
        ("names and quotes", "api_key=\"".to_owned()),
        ("names and backslashes", "\\\"token\\\": \\\"".to_owned()),
        ("cookies", "Cookie: ".to_owned()),
        ("schemes", "Bearer Bearer ".to_owned()),
        ("urls", "http://a".to_owned()),
        ("urls with users", "://a:b".to_owned()),
        ("users", "curl -u a".to_owned()),
        ("base64 of keys", "LS0tLS1CRUdJTi".to_owned()),
        ("one letter", "a".to_owned()),
        ("escapes", "\\\\".to_owned()),
        ("lists", "key=[\"a\",\"b\",".to_owned()),
        ("lists that are open", "key: ['".to_owned()),
        ("phrases", "\npassphrase: a b c".to_owned()),
        ("seeds", "seed phrase seed ".to_owned()),
        ("escape sequences", "\u{1b}[1m".to_owned()),
        ("titles without an end", "\u{1b}]0;".to_owned()),
        ("spelled letters", "\\u5bc6".to_owned()),
        ("backslashes of spelled letters", "\\u5bc6\\\\\\".to_owned()),
        ("headers of tables", "password,token,".to_owned()),
        ("tables", "\na|password\n-|-\n".to_owned()),
        ("rows of tables", "user,password\n".to_owned()),
        ("names before blocks", "password\" { ".to_owned()),
        ("links", "password of the ".to_owned()),
    ]
}

fn work(run: impl FnOnce()) -> usize {
    cost::of(run).0 as usize
}

/// Asserts that the work at several sizes is proportional to the size, within a constant factor.
fn assert_straight(name: &str, sizes: &[usize], work: impl Fn(usize) -> usize) {
    let mut least = f64::MAX;
    for size in sizes {
        let work = work(*size);
        assert!(work <= 3_000 * size + 100_000, "{name}: {work} for {size} bytes");
        let each = (work + 10_000) as f64 / *size as f64;
        assert!(
            each <= 1.5 * least,
            "{name}: {work} for {size} bytes, {each} and {least} each"
        );
        least = each;
    }
}

fn repeated(part: &str, size: usize) -> String {
    part.repeat(size / part.len() + 1)
}

#[test]
fn hostile_texts_of_every_kind_cost_their_size() {
    let redactor = redactor();
    for (name, part) in hostile() {
        assert_straight(&format!("{name} {part:?}"), &[3_000, 9_000, 27_000], |size| {
            let text = repeated(&part, size);
            work(|| drop(redactor.text(&text).into_owned()))
        });
    }
}

fn hostile_texts_cost_their_size(sizes: &[usize]) {
    let redactor = redactor();
    for (name, part) in hostile_by_hand() {
        assert_straight(name, up_to_1_mb(sizes), |size| {
            let text = repeated(&part, size);
            work(|| drop(redactor.text(&text).into_owned()))
        });
    }
}

/// Token headers in one run of letters, with an invalid payload, and with a payload of the same length.
#[test]
fn one_header_that_begins_everywhere_costs_its_size() {
    let redactor = redactor();
    for payload in [".x", ".eyJ", ".eyJhbGciOiJI.", "!"] {
        for long in [false, true] {
            assert_straight(payload, &[10_000, 40_000, 160_000], |size| {
                let tail = if long {
                    repeated("-eyJ", size)
                } else {
                    String::new()
                };
                let text = format!("{}{payload}{tail}", repeated("-eyJ", size));
                let body = json::quote(&text);
                work(|| {
                    drop(redactor.text(&text).into_owned());
                    drop(redactor.json(body.as_bytes()).into_owned());
                    drop(redactor.path(&format!("/{text}")).into_owned());
                })
            });
        }
    }
}

fn private_keys_without_an_end_cost_their_size(sizes: &[usize]) {
    let redactor = redactor();
    for (n, (name, part)) in hostile().iter().take(6).enumerate() {
        // Only one of them is measured at the largest size.
        let sizes = if n == 0 { sizes } else { up_to_1_mb(sizes) };
        assert_straight(name, sizes, |size| {
            let text = repeated(part, size);
            let body = format!("{{\"t\":{}}}", json::quote(&text));
            let stream = format!("data: {body}\n\n");
            work(|| {
                assert!(redactor.text(&text).len() <= text.len() + 64);
                drop(redactor.json(body.as_bytes()).into_owned());
                drop(redactor.stream(stream.as_bytes()).into_owned());
            })
        });
    }
}

#[test]
fn streams_with_many_names_cost_their_size() {
    let redactor = redactor();
    assert_straight("names", &[10_000, 100_000, 500_000], |size| {
        let members = (0..size / 16).map(|i| format!("\"k{i}\":\"token x{i}\""));
        let text = format!("data: {{{}}}\n\n", members.collect::<Vec<_>>().join(","));
        work(|| drop(redactor.stream(text.as_bytes()).into_owned()))
    });
}
