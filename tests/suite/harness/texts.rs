//! Assertions about texts and JSON. A failure names the part and shows the whole.

use serde_json::Value;

/// Asserts that a text contains a part.
#[track_caller]
pub fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is missing: {text}");
}

/// Asserts that a text does not contain a part.
#[track_caller]
pub fn assert_lacks(text: &str, part: &str) {
    assert!(!text.contains(part), "{part:?} is there: {text}");
}

/// Asserts that a text begins with a part.
#[track_caller]
pub fn assert_begins(text: &str, part: &str) {
    assert!(text.starts_with(part), "{part:?} is not at the start: {text}");
}

/// Asserts that a text ends with a part.
#[track_caller]
pub fn assert_ends(text: &str, part: &str) {
    assert!(text.ends_with(part), "{part:?} is not at the end: {text}");
}

/// Asserts that a JSON object has these members, whatever else it has.
#[track_caller]
pub fn assert_members(object: &Value, members: &Value) {
    for (name, value) in members.as_object().unwrap() {
        assert_eq!(&object[name], value, "{name} of {object}");
    }
}
