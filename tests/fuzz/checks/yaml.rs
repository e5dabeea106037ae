//! A handoff file that is read without an error is written, and read again as the same.

use baton_core::handoffs::yaml::{goal_and_now, read};

pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    goal_and_now(text);
    let Ok(parsed) = read(text) else { return };
    parsed.errors();
    if !parsed.mistyped.is_empty() {
        return;
    }
    parsed.file.to_markdown();
    let written = parsed.file.to_yaml();
    let again = read(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again.file, parsed.file, "{written}");
}
