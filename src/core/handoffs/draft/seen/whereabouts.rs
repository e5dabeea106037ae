//! The working directory and branch, as the agent describes them to its model.

use crate::agents::surroundings;
use crate::transcript::{Transcript, TranscriptPartKind};
use crate::wire::Role;

/// The folder and the branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whereabouts {
    /// The folder that the agent works in.
    pub folder: Option<String>,
    /// The branch that was checked out when the session began.
    pub branch: Option<String>,
}

impl Whereabouts {
    /// What the system prompt and the texts of the harness say: it speaks in the first turns, and some in the last
    /// ones.
    pub fn of(transcript: &Transcript<'_>) -> Self {
        const FIRST: usize = 6;
        const LAST: usize = 4;
        let mut found = Self::default();
        for text in transcript.system_texts() {
            found.read(&text.get());
        }
        let len = transcript.len();
        let places = (0..len.min(FIRST)).chain(len.saturating_sub(LAST).max(FIRST)..len);
        for turn in places.filter_map(|at| transcript.turn(at)) {
            if turn.role != Role::User {
                continue;
            }
            for part in turn.parts() {
                if let TranscriptPartKind::Text(text) = part.kind {
                    let text = text.get();
                    if text.trim_start().starts_with('<') {
                        found.read(&text);
                    }
                }
            }
        }
        found
    }

    fn read(&mut self, text: &str) {
        if self.folder.is_none() {
            self.folder = surroundings::folder(text).map(str::to_owned);
        }
        if self.branch.is_none() {
            self.branch = surroundings::branch(text).map(str::to_owned);
        }
    }

    /// The path of a folder from the folder that the work is in; empty for that one itself.
    pub(super) fn inside(&self, path: &str) -> String {
        let path = path.trim_end_matches('/');
        match self.folder.as_deref() == Some(path) || path == "." {
            true => String::new(),
            false => self.relative(path),
        }
    }

    /// A path from the folder, where it lies in it.
    pub(super) fn relative(&self, path: &str) -> String {
        let inside = self.folder.as_deref().and_then(|folder| {
            let rest = path.strip_prefix(folder)?;
            rest.strip_prefix(['/', '\\'])
        });
        let path = inside.unwrap_or(path);
        path.strip_prefix("./").unwrap_or(path).to_owned()
    }
}
