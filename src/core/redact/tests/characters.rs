//! Multi-byte characters at every limit of the search: a match never divides one.

use super::*;

/// Contexts that make a value a credential.
const PLACES: [&str; 15] = [
    "curl -u user:{}",
    "wget --user=user:{} http://h",
    "https://user:{}@h/",
    "https://{}@h/",
    "password={}",
    "password: {}",
    "passphrase: {} b c",
    "api_key = \"{}\"",
    "secrets = [\"{}\", '{}']",
    "Authorization: Bearer {}",
    "Authorization: Basic {}",
    "Cookie: sid={}; a=b",
    "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
    "eyJhbGciOiJI{}.eyJzdWIiOiIx{}",
    "LS0tLS1CRUdJTi{}",
];

/// Includes the replacement character, a character whose length changes with its case, one without width, and
/// a line separator.
const CHARACTERS: [&str; 8] = [
    "\u{fffd}", "é", "İ", "ß", "🔑", "\u{200b}", "\u{2028}", "e\u{301}",
];

/// Longer than any number of bytes that a hit examines.
const LONG: usize = 2200;

/// Values that make a limit fall on every byte of the character.
fn values(character: &str) -> impl Iterator<Item = String> {
    let repeated = character.repeat(LONG / character.len());
    (0..character.len()).map(move |shift| format!("a1B2{}{repeated}9", "x".repeat(shift)))
}

/// Splits text into events of this many bytes, even inside characters.
fn streamed(text: &str, bytes: usize) -> Vec<u8> {
    let quoted = json::quote(text);
    let inside = &quoted.as_bytes()[1..quoted.len() - 1];
    let events = inside
        .chunks(bytes)
        .map(|piece| [b"data: {\"text\":\"", piece, b"\"}\n\n"].concat());
    events.collect::<Vec<_>>().concat()
}

fn redacted_everywhere(redactor: &Redactor, text: &str) {
    redactor.text(text);
    redactor.path(text);
    redactor.address(text);
    redactor.json(text.as_bytes());
    redactor.json(json::quote(text).as_bytes());
    redactor.stream(&streamed(text, 333));
    // The bytes between literals, including invalid UTF-8.
    redactor.json(&[&b"\"\xff"[..], b"\" \xc3", text.as_bytes(), b"\xf0\x9f"].concat());
}

#[test]
fn no_limit_divides_a_character_at_any_place() {
    let redactor = Redactor::new(&["a1.{9}".to_owned()]).knowing(["a1B2\u{fffd}", "é9"]);
    for character in CHARACTERS {
        for value in values(character) {
            for place in PLACES {
                redacted_everywhere(&redactor, &place.replace("{}", &value));
            }
        }
    }
}

#[test]
fn no_limit_divides_a_character_in_any_rule() {
    let redactor = redactor();
    for rule in &scan::KEYWORDS.rules {
        for word in &rule.keywords {
            for value in values("\u{fffd}") {
                redactor.text(&format!("{value}{word}{value}"));
                redactor.text(&format!("{word} = \"{value}"));
            }
        }
    }
}

#[test]
fn a_password_of_broken_characters_in_joined_texts_is_redacted() {
    let text = format!("curl -u user:{}", "\u{fffd}7".repeat(100));
    let clean = redactor().stream(&streamed(&text, 100)).into_owned();
    let clean = String::from_utf8(clean).unwrap();
    assert_eq!(clean.matches("[redacted:password]").count(), 1, "{clean}");
    assert_contains(&clean, r#"{"text":"curl -u user:[redacted:password]"}"#);
}

#[test]
fn a_long_password_of_a_command_is_redacted_to_its_end() {
    let token = format!("ya.{}", "a1B2-c3_D4.".repeat(90));
    let clean = redactor()
        .text(&format!("curl -u user:{token} https://h"))
        .into_owned();
    assert_eq!(clean, "curl -u user:[redacted:password] https://h");
}
