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

/// A directory that a command runs in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ShellPlace {
    /// Relative to the working directory; empty for that directory itself.
    Known(String),
    /// A directory relative to the unknown one that the shell was in after this number of moves.
    Unknown(usize, String),
}

impl Default for ShellPlace {
    fn default() -> Self {
        Self::Known(String::new())
    }
}

impl ShellPlace {
    /// Whether both are the same directory; `None` if unknown.
    pub(crate) fn is(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Self::Known(_), Self::Known(_)) => Some(self == other),
            (Self::Unknown(moves, _), Self::Unknown(others, _)) if moves == others => Some(self == other),
            _ => None,
        }
    }

    /// A directory that is named relative to this one.
    pub(crate) fn join(&self, path: &str, whereabouts: &Whereabouts) -> Self {
        match self {
            Self::Unknown(moves, here) if !surroundings::is_absolute(path) => {
                Self::Unknown(*moves, commands::joined(here, path))
            }
            Self::Known(here) => Self::Known(whereabouts.inside(&commands::joined(here, path))),
            Self::Unknown(..) => Self::Known(whereabouts.inside(path)),
        }
    }
}

/// The directory of the agent's shell at one point of the transcript.
#[derive(Debug, Default)]
pub(crate) struct ShellDirectory {
    here: ShellPlace,
    /// Number of moves to unknown directories.
    moves: usize,
}

impl ShellDirectory {
    /// The directory that a call begins in.
    pub(crate) fn before(&self, call: &IndexedCall, whereabouts: &Whereabouts) -> ShellPlace {
        match (&call.directory, call.stays) {
            (Some(directory), _) => ShellPlace::Known(whereabouts.inside(directory)),
            (None, true) => self.here.clone(),
            // These agents begin each call in the working directory.
            (None, false) => ShellPlace::default(),
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
            self.here = ShellPlace::Known(whereabouts.inside(path));
        } else if call.stays && !ends.is_empty() && exit.is_none_or(|code| code == 0) {
            // A failed line leaves the shell where it was. After any other line the shell may have moved, or was moved
            // back unreported. A line that only moves shows that the agent's shell stays, and none leaves the work's
            // directory.
            let to = self.here.join(&ends, whereabouts);
            let is_named = !ends.starts_with(['~', '-']) && !ends.contains('$');
            let only_moves = || call.command.as_deref().is_some_and(commands::only_moves);
            self.here = match is_named && (to == ShellPlace::default() || only_moves()) {
                true => to,
                false => {
                    self.moves += 1;
                    ShellPlace::Unknown(self.moves, String::new())
                }
            };
        }
    }
}
