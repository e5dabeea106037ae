//! A handoff's document is read from JSON, rendered, and read again as the same.

use baton_core::handoffs::document::HandoffDocument;
use baton_core::handoffs::yaml::HandoffFile;

pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Ok(document) = HandoffDocument::read(text) else {
        return;
    };
    document.markdown();
    HandoffFile::of_document(&document);
    HandoffFile::of_whole_document(&document);
    let again = HandoffDocument::read(&document.json());
    assert_eq!(again.as_ref(), Ok(&document));
}
