//! The working directory of a persistent shell.

use super::Whereabouts;
use crate::agents::commands;
use crate::handoffs::draft::message::{IndexedCall, IndexedResult};

/// Where the agent's shell is, from the folder that the agent works in, as it is known at one place of the transcript.
#[derive(Debug)]
pub(super) struct ShellFolder(Option<String>);

impl Default for ShellFolder {
    fn default() -> Self {
        Self(Some(String::new()))
    }
}

impl ShellFolder {
    /// The folder that a call begins in; `None` where it is unknown.
    pub(super) fn before(&self, call: &IndexedCall, whereabouts: &Whereabouts) -> Option<String> {
        match (&call.folder, call.stays) {
            (Some(folder), _) => Some(whereabouts.inside(folder)),
            (None, true) => self.0.clone(),
            (None, false) => Some(String::new()),
        }
    }

    /// A call was answered.
    pub(super) fn advance(
        &mut self,
        call: &IndexedCall,
        outcome: &IndexedResult,
        exit: Option<i32>,
        whereabouts: &Whereabouts,
    ) {
        let ends = call.command.as_deref().map(commands::ends_in).unwrap_or_default();
        if let Some(path) = &outcome.moved_to {
            self.0 = Some(whereabouts.inside(path));
        } else if call.stays && !ends.is_empty() && exit.is_none_or(|code| code == 0) {
            // A line that fails leaves the shell where it was. Another one may have moved it, and some agents do not
            // report that; all of them stay in the folder of the work.
            let ends = whereabouts.inside(&ends);
            self.0 = ends.is_empty().then_some(ends);
        }
    }
}
