//! What the readers of files give.

use serde_json::Value as Json;

/// What was read of a file besides its entries.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct FileRead {
    pub(super) entries: usize,
    /// Lines that are no JSON object, or too long.
    pub(super) damaged: usize,
    /// Something that the person should know.
    pub(super) note: Option<&'static str>,
}

/// Takes one entry.
pub(super) type TakeEntry<'t> = &'t mut dyn FnMut(&Json);
