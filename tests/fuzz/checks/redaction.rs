//! Redaction: a known secret never passes, and JSON stays JSON.

use std::sync::LazyLock;

use super::is_json;
use baton_core::redact::Redactor;

const SECRET: &str = "hunter2-hunter2";

pub static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(&[]).knowing([SECRET]));

pub fn holds_secret(text: &[u8]) -> bool {
    memchr::memmem::find(text, SECRET.as_bytes()).is_some()
}

pub fn check(input: &[u8]) {
    let [way, text @ ..] = input else { return };
    let redact = |text: &[u8]| match way % 3 {
        0 => REDACTOR.json(text).into_owned(),
        1 => REDACTOR.stream(text).into_owned(),
        _ => REDACTOR.raw(text).into_owned(),
    };
    let clean = redact(text);
    assert!(!holds_secret(&clean), "{}", String::from_utf8_lossy(&clean));
    assert!(
        way % 3 != 0 || !is_json(text) || is_json(&clean),
        "{}",
        String::from_utf8_lossy(&clean)
    );
}
