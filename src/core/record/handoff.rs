//! The record of a handoff, and of what its prompt was compared with.

use super::ids::{HandoffId, Principal, WireId};
use super::insertion::Position;
use serde::{Deserialize, Serialize};

named! {
    /// Who began a handoff.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum HandoffOrigin {
        /// The model, by calling the tool.
        #[default]
        Model = "model",
        /// A user, by a command: the model was asked once more after its history.
        Oneshot = "oneshot",
        /// A user, by a command: a model was asked with a selection from the transcript.
        Bundle = "bundle",
        /// A user, by a command: composed from the transcript without a model.
        Local = "local",
        /// A document that a user brought.
        User = "person",
        /// A threshold.
        Auto = "auto",
        /// A call of the API.
        Api = "api",
    }
}

/// A handoff that fired: written before its sentinel's first byte is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// Its id, as the sentinel carries it.
    pub id: HandoffId,
    /// Who may resume it.
    pub principal: Principal,
    /// Key of the conversation in which it fired.
    pub conversation: String,
    /// The wire it fired on. On another wire `head` is built again.
    pub wire: WireId,
    /// The carry-over prompt, normalised.
    pub prompt: String,
    /// The model's reason for the handoff, where it gave one.
    pub reason: Option<String>,
    /// Elements between the leading system messages and the work after the cut. Preamble and carry-over prompt as JSON
    /// message elements of `wire`, comma-separated, byte for byte as sent.
    pub head: String,
    /// The handoff that was active when this one fired.
    pub parent: Option<HandoffId>,
    /// Model that made the call, as the request named it.
    pub model: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Size in bytes of the agent's request in which it fired.
    pub history_bytes: u64,
    /// Who began it.
    pub origin: HandoffOrigin,
    /// Whether the requests that are cut at it have the tool that searches what was cut: decided at the cut, since the
    /// list of tools is part of the prefix.
    pub recall: bool,
    /// Archived by a user: its sentinel still resumes it, but it is no longer listed as open.
    pub archived: bool,
    /// Whether its sentinel was shown with its prompt; `None` where none was shown, as of a handoff that a command made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spelled_out: Option<bool>,
    /// The model, of the same wire, to which requests that are cut at it go. `None`: the requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routed: Option<String>,
    /// The rules, to-dos and claims that its prompt was checked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<CarriedItem>,
    /// The part of the agent's transcript that stays in the model's view, of a handoff whose draft was reviewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptTurns>,
}

/// What came between a reviewed draft and its acceptance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTurns {
    /// Where the draft was made.
    pub from: Position,
    /// Turns from there to the sentinel; zero while the draft waits.
    pub turns: usize,
}

/// Characters of a handoff's distinctive line that a user is shown.
const ABOUT: usize = 80;

impl Handoff {
    /// What it is about, in brackets; nothing where its prompt is empty.
    pub fn about(&self) -> String {
        let line: String = distinctive_line(&self.prompt).chars().take(ABOUT).collect();
        match line.is_empty() {
            true => String::new(),
            false => format!(" ({})", line.replace("[[", "[ [")),
        }
    }
}

/// The first line of a carry-over prompt that distinguishes it from others, without Markdown syntax: not a heading,
/// which all of them begin with, unless there is nothing else.
pub fn distinctive_line(prompt: &str) -> &str {
    let shown = |line: &&str| line.chars().any(char::is_alphanumeric);
    let mut lines = prompt.lines().map(str::trim).filter(shown);
    let is_heading = |line: &str| {
        // Headings, and tags around a document.
        line.starts_with('#')
            || line.starts_with('<') && line.ends_with('>')
            || line.ends_with(':')
            || line.starts_with("**") && line.ends_with("**")
    };
    let first = lines.next().unwrap_or_default();
    let line = match is_heading(first) {
        true => lines.find(|line| !is_heading(line)).unwrap_or(first),
        false => first,
    };
    line.trim_start_matches(['#', '>', '-', '*', ' '])
        .trim_end_matches('*')
}

named! {
    /// What is carried over a cut.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CarriedKind {
        /// The user's newest message, with what it answers.
        Newest = "newest",
        /// A rule of the user.
        Rule = "rule",
        /// Anything else that the user said: what is carried of one message.
        Said = "said",
        /// An open item of the to-do list.
        Todo = "todo",
        /// A claim of the prompt that the evidence contradicts.
        Claim = "claim",
    }
}

named! {
    /// Where it is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CarriedState {
        /// The prompt has it.
        InPrompt = "in_prompt",
        /// It was put behind the prompt.
        Added = "added",
        /// It did not fit.
        LeftOut = "left_out",
    }
}

/// A text that is carried over a cut, or should have been.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedItem {
    pub kind: CarriedKind,
    pub state: CarriedState,
    /// Word for word, redacted.
    pub text: String,
}

named! {
    /// Whether a document is the newest of its repository, branch and topic.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum HandoffStatus {
        #[default]
        Active = "active",
        /// Superseded by a later one.
        Superseded = "superseded",
        /// Undone in the chat.
        Undone = "undone",
        /// Archived by a user.
        Archived = "archived",
    }
}

/// A document as the store keeps it. At most one of a principal's documents with the same repository, branch and topic
/// is active. As JSON it is without principal and status, which change by themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentRecord {
    pub handoff: HandoffId,
    /// The role of its speaker.
    #[serde(skip)]
    pub principal: Principal,
    /// The directory of the work; empty where it is unknown.
    pub repository: String,
    /// The branch; empty where it is unknown.
    pub branch: String,
    /// What it is about.
    pub topic: String,
    /// Which of these it is; this counts, and not what the document says.
    #[serde(skip)]
    pub status: HandoffStatus,
    /// When the handoff was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// The directory with its files.
    pub directory: String,
    /// The JSON document.
    pub document: String,
}

#[cfg(test)]
mod tests {
    use super::distinctive_line;

    #[test]
    fn a_handoff_is_named_by_what_it_says() {
        for (prompt, line) in [
            (
                "# Goal\n\nTake linkshort off its file.\n",
                "Take linkshort off its file.",
            ),
            ("**Goal**\n- Port the tests", "Port the tests"),
            ("Goal:\nMend it", "Mend it"),
            ("Goal: mend it\nmore", "Goal: mend it"),
            ("---\n## Only a heading", "Only a heading"),
            ("<handoff-context>\n## Context\nUnder way: it", "Under way: it"),
            ("", ""),
        ] {
            assert_eq!(distinctive_line(prompt), line, "{prompt}");
        }
    }
}
