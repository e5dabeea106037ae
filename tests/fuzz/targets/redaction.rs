//! Redaction: a known secret never passes, and JSON stays JSON.
#![no_main]

use std::sync::LazyLock;

use baton_core::redact::Redactor;
use baton_fuzz::is_json;
use libfuzzer_sys::fuzz_target;

const SECRET: &str = "hunter2-hunter2";

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(&[]).knowing([SECRET]));

fn holds_secret(text: &[u8]) -> bool {
    memchr::memmem::find(text, SECRET.as_bytes()).is_some()
}

fuzz_target!(|input: &[u8]| {
    let [way, text @ ..] = input else { return };
    let redact = |text: &[u8]| match way % 3 {
        0 => REDACTOR.json(text).into_owned(),
        1 => REDACTOR.stream(text).into_owned(),
        _ => REDACTOR.raw(text).into_owned(),
    };
    let clean = redact(text);
    assert!(!holds_secret(&clean), "{}", String::from_utf8_lossy(&clean));
    assert!(way % 3 != 0 || !is_json(text) || is_json(&clean), "{}", String::from_utf8_lossy(&clean));
});
