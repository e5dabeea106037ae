//! What the scan knows of a body is what the walk finds in it.

use baton_core::text::json;
use baton_core::text::prescan::Prescanner;

const WORD: &[u8] = b"handoff-";

pub fn check(input: &[u8]) {
    let [length, text @ ..] = input else { return };
    let mut scanner = Prescanner::seeking(WORD);
    let step = 1 + usize::from(*length);
    for end in (step..=text.len()).step_by(step) {
        scanner.read(&text[..end]);
    }
    let scan = scanner.done(text);
    // The scan guarantees its result only for JSON.
    let Ok(whole) = json::whole(text) else { return };
    assert_eq!(
        scan.word_count(text, WORD),
        memchr::memmem::find_iter(text, WORD).count()
    );
    let starts = json::elements(text, whole)
        .into_iter()
        .chain(json::members(text, whole).into_iter().map(|(_, value)| value));
    for value in starts.chain([whole]) {
        assert_eq!(
            scan.value_end(text, value.start),
            json::value_end(text, value.start)
        );
    }
}
