//! Assertions about texts. A failure names the part and shows the whole text.

#[track_caller]
pub(crate) fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is missing: {text}");
}

#[track_caller]
pub(crate) fn assert_lacks(text: &str, part: &str) {
    assert!(!text.contains(part), "{part:?} is there: {text}");
}

#[track_caller]
pub(crate) fn assert_begins(text: &str, part: &str) {
    assert!(text.starts_with(part), "{part:?} is not at the start: {text}");
}

#[track_caller]
pub(crate) fn assert_ends(text: &str, part: &str) {
    assert!(text.ends_with(part), "{part:?} is not at the end: {text}");
}
