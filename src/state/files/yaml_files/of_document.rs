//! The file of a handoff in the store.

use super::error::FileError;
use super::folder::HandoffFolder;
use super::newest;
use super::now;
use super::read::read_file;
use super::write::{FileNaming, WrittenFile};
use baton_core::handoffs::document::fields::HandoffDocument;
use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{HandoffFile, names};

impl HandoffFolder {
    /// Writes the file of a document, once: a document that has its file already gets no second one. It is named by
    /// when the handoff was made.
    ///
    /// # Errors
    /// As [`HandoffFolder::write`].
    pub fn write_document(&self, document: &HandoffDocument) -> Result<WrittenFile, FileError> {
        let mut file = HandoffFile::of_document(document);
        let at = Time::parse(&document.created_at).unwrap_or_else(now);
        let stem = names::automatic(at);
        let dir = self.session_dir(&file.session)?;
        let id = document.id.to_string();
        for name in newest::sort(&dir, self.files(&file.session)?) {
            if !name.starts_with(&stem) {
                continue;
            }
            let path = dir.join(name);
            let is_its = read_file(&path).is_ok_and(|found| found.file.findings.get("handoff") == Some(&id));
            if is_its {
                return Ok(WrittenFile {
                    path,
                    warnings: Vec::new(),
                });
            }
        }
        self.write(&mut file, &FileNaming::Automatic, at)
    }
}
