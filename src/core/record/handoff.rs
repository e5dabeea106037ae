//! Record of a handoff, and of the items that its prompt should carry.

use super::ids::{HandoffId, Principal, WireId};
use super::insertion::Position;
use serde::{Deserialize, Serialize};

named! {
    /// Initiator of a handoff.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum HandoffOrigin {
        /// The model, by calling the tool.
        #[default]
        Model = "model",
        /// The user, by a command: an extra request asked the model after its full history.
        Oneshot = "oneshot",
        /// The user, by a command: an extra request gave a model a selection from the transcript.
        Bundle = "bundle",
        /// The user, by a command: composed from the transcript without a model.
        Local = "local",
        /// A document supplied by the user.
        User = "person",
        /// A threshold.
        Auto = "auto",
        /// An API call.
        Api = "api",
    }
}

/// A handoff that took effect. Written before the first byte of its sentinel is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// Id in the sentinel.
    pub id: HandoffId,
    /// Principal that may resume the handoff.
    pub principal: Principal,
    /// Key of the conversation of the handoff.
    pub conversation: String,
    /// Wire of that conversation. For another wire, `head` is built again.
    pub wire: WireId,
    /// Carry-over prompt, normalized.
    pub prompt: String,
    /// Reason in the words of whoever started the handoff, if given.
    pub reason: Option<String>,
    /// Elements between the leading system messages and the work after the cut.
    ///
    /// Contains preamble and carry-over prompt as JSON message elements of `wire`, separated by commas, byte
    /// for byte as sent.
    pub head: String,
    /// Previously active handoff.
    pub parent: Option<HandoffId>,
    /// Model of the request that led to the handoff, as the agent named it.
    pub model: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Size of the agent's request that led to the handoff, in bytes.
    pub history_bytes: u64,
    /// Initiator.
    pub origin: HandoffOrigin,
    /// Whether requests cut at this handoff have the tool that searches the removed history. Decided at the
    /// cut, because the list of tools is part of the prefix.
    pub recall: bool,
    /// Archived by the user. The sentinel still resumes the handoff, but lists of open handoffs omit it.
    pub archived: bool,
    /// Whether the sentinel was shown with the prompt. `None` if no sentinel was shown, as for a handoff made
    /// by a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spelled_out: Option<bool>,
    /// Model, on the same wire, for requests cut at this handoff. `None` means the requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routed: Option<String>,
    /// Rules, to-dos and claims that the prompt was compared with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<CarriedItem>,
    /// For a handoff whose draft was reviewed: the part of the agent's transcript that stays in the model's
    /// view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptTurns>,
}

/// Turns between a reviewed draft and its acceptance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTurns {
    /// Position of the draft's creation.
    pub from: Position,
    /// Number of turns from there to the sentinel; zero while the draft is pending.
    pub turns: usize,
}

/// Maximum length of the distinctive line that users see, in characters.
const ABOUT: usize = 80;

impl Handoff {
    /// Short description in parentheses, or nothing if the prompt is empty.
    pub fn about(&self) -> String {
        let whole = distinctive_line(&self.prompt);
        let mut line: String = whole.chars().take(ABOUT).collect();
        if line.len() < whole.len() {
            line.push('…');
        }
        match line.is_empty() {
            true => String::new(),
            // A reply must not contain a marker from the prompt.
            false => format!(" ({})", line.replace("[[", "[ [")),
        }
    }
}

/// First line of a carry-over prompt that distinguishes it from others, without Markdown syntax.
///
/// Headings are skipped unless there is nothing else, because every prompt begins with one.
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
    let line = line.trim_start_matches(['#', '>', '-', '*', ' ']);
    without_label(line).trim_end_matches('*')
}

/// Removes the label of a goal, such as `Goal:` or `Goal (the last open request):`, which leaves a narrow list no room.
pub(crate) fn without_label(line: &str) -> &str {
    match line.split_once(": ") {
        Some((label, goal)) if label == "Goal" || label.starts_with("Goal (") => goal.trim_start(),
        _ => line,
    }
}

named! {
    /// Kind of an item that is carried over a cut.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CarriedKind {
        /// The user's newest message, with the question that it answers.
        Newest = "newest",
        /// A rule stated by the user.
        Rule = "rule",
        /// Any other statement by the user: the carried part of one message.
        Said = "said",
        /// An open to-do.
        Todo = "todo",
        /// A claim of the prompt that the evidence contradicts.
        Claim = "claim",
        /// Changed files that the prompt does not name.
        Files = "files",
        /// Earlier requests of the user that are done: the carried part of one message.
        Done = "done",
    }
}

named! {
    /// Outcome for an item to carry.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CarriedState {
        /// Already in the prompt.
        InPrompt = "in_prompt",
        /// Appended to the prompt.
        Added = "added",
        /// Dropped because it did not fit.
        LeftOut = "left_out",
    }
}

/// An item that is carried over a cut, or should have been.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedItem {
    pub kind: CarriedKind,
    pub state: CarriedState,
    /// Verbatim text, redacted.
    pub text: String,
}

named! {
    /// Whether a document is the newest one of its repository, branch and topic.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum HandoffStatus {
        /// The newest one.
        #[default]
        Active = "active",
        /// Superseded by a later document.
        Superseded = "superseded",
        /// Undone in the chat.
        Undone = "undone",
        /// Archived by the user.
        Archived = "archived",
    }
}

/// A document as stored. For each principal, repository, branch and topic, at most one document is active.
///
/// The JSON form omits principal and status, which change independently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentRecord {
    pub handoff: HandoffId,
    /// Owner.
    #[serde(skip)]
    pub principal: Principal,
    /// Directory of the work; empty if unknown.
    pub repository: String,
    /// Branch; empty if unknown.
    pub branch: String,
    /// Subject of the document.
    pub topic: String,
    /// Authoritative status; the document itself may state an outdated one.
    #[serde(skip)]
    pub status: HandoffStatus,
    /// Creation time of the handoff, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Directory of the document's files.
    pub directory: String,
    /// JSON document.
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
            ("Goal: mend it\nmore", "mend it"),
            (
                "## Task\nGoal (the last open request): Mend it: now.",
                "Mend it: now.",
            ),
            ("Last goal (done): Mend it.", "Last goal (done): Mend it."),
            ("---\n## Only a heading", "Only a heading"),
            ("<handoff-context>\n## Context\nUnder way: it", "Under way: it"),
            ("", ""),
        ] {
            assert_eq!(distinctive_line(prompt), line, "{prompt}");
        }
    }
}
