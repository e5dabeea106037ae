//! The working directory and branch as the agent describes them to its model, and the directory of its shell.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::message::{IndexedCall, IndexedItem, IndexedMessage, IndexedResult};
use crate::agents::tools::ToolKind;
use crate::agents::{commands, surroundings};
use crate::transcript::{AgentKind, Transcript, TranscriptPartKind};
use crate::wire::Role;

/// The working directory and the branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whereabouts {
    /// The directory that the agent works in.
    pub directory: Option<String>,
    /// The branch that was checked out when the session began.
    pub branch: Option<String>,
    /// Whether a recognized agent stated the directory in its own place and wording, and nothing contradicts it.
    ///
    /// Otherwise only the directory's name may be used, because a file may have named it.
    pub is_stated: bool,
}

impl Whereabouts {
    /// Reads the system prompt and the harness text, which is in the first turns, and for some agents in the last.
    pub fn from_transcript(transcript: &Transcript<'_>) -> Self {
        const FIRST: usize = 6;
        const LAST: usize = 4;
        let mut found = Self::default();
        let agent = transcript.agent().map_or("", AgentKind::name);
        let mut stated = Vec::new();
        let mut state = |text: &str, is_system: bool| {
            let directories = surroundings::stated(agent, text, is_system).into_iter();
            stated.extend(directories.map(|directory| directory.trim_end_matches('/').to_owned()));
        };
        for text in transcript.system_texts() {
            state(&text.get(), true);
            found.read(&text.get());
        }
        let len = transcript.len();
        let places = (0..len.min(FIRST)).chain(len.saturating_sub(LAST).max(FIRST)..len);
        let turns = places.filter_map(|at| transcript.turn(at));
        for part in turns
            .filter(|turn| turn.role == Role::User)
            .flat_map(|turn| turn.parts())
        {
            if let TranscriptPartKind::Text(text) = part.kind
                // Agents put their environment into tags. Other text in a user turn may name any directory.
                && text.get().trim_start().starts_with('<')
            {
                state(&text.get(), false);
                found.read(&text.get());
            }
        }
        // Statements that contradict each other prove nothing.
        if let Some(directory) = stated.first()
            && stated.iter().all(|other| other == directory)
        {
            found.directory = Some(if directory.is_empty() { "/" } else { directory }.to_owned());
            found.is_stated = true;
        }
        found
    }

    /// Falls back to the directory that most shell calls name, if the agent names none.
    #[must_use]
    pub(super) fn or_of_calls(mut self, messages: &[IndexedMessage]) -> Self {
        if self.directory.is_none() {
            self.directory = directory_of_calls(messages);
        }
        self
    }

    fn read(&mut self, text: &str) {
        if self.directory.is_none() {
            self.directory = surroundings::directory(text).map(str::to_owned);
        }
        if self.branch.is_none() {
            self.branch = surroundings::branch(text).map(str::to_owned);
        }
    }

    /// The path of a directory relative to the working directory; empty for that directory itself.
    pub(crate) fn inside(&self, path: &str) -> String {
        let path = path.trim_end_matches('/');
        match self.directory.as_deref() == Some(path) || path == "." {
            true => String::new(),
            false => self.relative(path),
        }
    }

    /// A path relative to the working directory, if it lies inside.
    pub(crate) fn relative(&self, path: &str) -> String {
        let inside = self.directory.as_deref().and_then(|directory| {
            let rest = path.strip_prefix(directory)?;
            rest.strip_prefix(['/', '\\'])
        });
        let path = inside.unwrap_or(path);
        path.strip_prefix("./").unwrap_or(path).to_owned()
    }
}

/// The directory that most shell calls run in or change to; on a tie the earlier one.
fn directory_of_calls(messages: &[IndexedMessage]) -> Option<String> {
    let items = messages.iter().flat_map(|message| &message.items);
    let named = items.filter_map(|item| match item {
        IndexedItem::Call(call) if call.kind == ToolKind::Shell => {
            let changed_to = || call.command.as_deref().map(commands::ends_in);
            let directory = call.directory.clone().or_else(changed_to)?;
            let directory = directory.trim_end_matches('/');
            surroundings::is_absolute(directory).then(|| directory.to_owned())
        }
        _ => None,
    });
    let mut counts: HashMap<String, (usize, Reverse<usize>)> = HashMap::new();
    for (at, directory) in named.enumerate() {
        counts.entry(directory).or_insert((0, Reverse(at))).0 += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(directory, _)| directory)
}

/// The directory of the agent's shell at one point of the transcript, relative to the working directory.
#[derive(Debug)]
pub(crate) struct ShellDirectory(Option<String>);

impl Default for ShellDirectory {
    fn default() -> Self {
        Self(Some(String::new()))
    }
}

impl ShellDirectory {
    /// The directory that a call begins in; `None` if unknown.
    pub(crate) fn before(&self, call: &IndexedCall, whereabouts: &Whereabouts) -> Option<String> {
        match (&call.directory, call.stays) {
            (Some(directory), _) => Some(whereabouts.inside(directory)),
            (None, true) => self.0.clone(),
            // These agents begin each call in the working directory.
            (None, false) => Some(String::new()),
        }
    }

    /// Updates the directory after a call was answered.
    pub(crate) fn advance(
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
            // A failed line leaves the shell where it was. After any other line the shell may have moved, which some
            // agents do not report. Only a move back to the work's directory is certain, because all of them stay there.
            let ends = whereabouts.inside(&ends);
            self.0 = ends.is_empty().then_some(ends);
        }
    }
}
