//! One agent's conversation: its own history beside what the model must be seeing of it.

use serde_json::{Value, json};

use super::oracle::{Opening, Shown, View};
use super::spelling::{plain_block, scrub};
use crate::harness::quirks::{self, Quirks};

/// A point to which a person may rewind.
#[derive(Debug, Clone)]
struct Snapshot {
    history: Vec<Value>,
    view: View,
}

/// A conversation.
#[derive(Debug, Clone)]
pub struct Talk {
    pub name: usize,
    pub history: Vec<Value>,
    pub view: View,
    quirks: Quirks,
    snapshots: Vec<Snapshot>,
    /// Calls that the agent has to answer.
    calls: Vec<String>,
    opening: Opening,
}

fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

fn user(blocks: &[Value]) -> Value {
    json!({"role": "user", "content": blocks})
}

/// The ways in which agents open: plain, with a preamble in blocks, in a message of its own, with a system
/// message behind, inside one string.
pub fn opening(kind: u8) -> Opening {
    let harness = text("<system-reminder>CLAUDE.md says: be brief.</system-reminder>");
    let ask = text("Mend the importer.");
    let system = json!({"role": "system", "content": [{"type": "text", "text": "Environment: a test."}]});
    let first = user(&[harness.clone(), ask.clone()]);
    let mut out = Opening {
        counted: 1,
        ..Opening::default()
    };
    match kind {
        0 => out.messages = vec![user(&[ask])],
        1 => (out.messages, out.blocks) = (vec![first], vec![harness]),
        2 => {
            out.messages = vec![user(std::slice::from_ref(&harness)), user(&[ask])];
            out.before = vec![user(&[harness])];
        }
        3 => {
            out.messages = vec![first, system.clone()];
            (out.blocks, out.behind) = (vec![harness], vec![system]);
        }
        _ => {
            let both = format!("{}\nMend it.", harness["text"].as_str().unwrap());
            out.messages = vec![user(&[text(both)])];
            out.before = vec![user(&[harness])];
        }
    }
    out
}

impl Talk {
    pub fn new(name: usize, kind: u8, quirks: Quirks) -> Self {
        let opening = opening(kind);
        // In a string the preamble is found as text; in blocks it must fill its block.
        let quirks = Quirks {
            strings: quirks.strings || kind == 4,
            ..quirks
        };
        Self {
            name,
            history: Vec::new(),
            view: View::new(opening.clone()),
            quirks,
            snapshots: Vec::new(),
            calls: Vec::new(),
            opening,
        }
    }

    /// Headers by which the conversation is told apart, where the agent sends any.
    pub fn session(&self) -> Vec<(&'static str, &'static str)> {
        match self.name {
            2 => vec![("x-claude-code-session-id", "s1")],
            3 => vec![
                ("x-claude-code-session-id", "s1"),
                ("x-claude-code-agent-id", "a1"),
            ],
            _ => Vec::new(),
        }
    }

    pub fn begun(&self) -> bool {
        !self.history.is_empty()
    }

    /// The next message of the agent's: results of its calls, or what a person says.
    pub fn ask(&mut self, says: u8, n: usize) {
        if !self.begun() {
            self.history.clone_from(&self.opening.messages);
            return;
        }
        let mut blocks = Vec::new();
        for id in std::mem::take(&mut self.calls) {
            let read = format!(
                "{id}: [[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\n{}",
                self.quoted()
            );
            blocks.push(json!({"type": "tool_result", "tool_use_id": id, "content": [text(read)]}));
        }
        if blocks.is_empty() {
            self.snapshots.push(Snapshot {
                history: self.history.clone(),
                view: self.view.clone(),
            });
        }
        if blocks.is_empty() || says == 1 {
            let said = match says {
                2 => format!("See {n}:\n{}", self.quoted()),
                3 => format!("<system-reminder>later</system-reminder> {n}"),
                _ => format!("Go on, {n}."),
            };
            blocks.push(text(said));
        }
        self.history.push(user(&blocks));
        self.view.user(&blocks);
        if says == 4 {
            self.note(n);
        }
    }

    /// The last assistant text in the history, which may be a sentinel: files and logs quote it.
    fn quoted(&self) -> String {
        let texts = self.history.iter().filter(|m| m["role"] == "assistant");
        let blocks = texts.flat_map(|m| m["content"].as_array().into_iter().flatten());
        let found = blocks
            .filter_map(|b| b["text"].as_str())
            .rfind(|t| t.contains("[[handoff-resume:"));
        found.unwrap_or("nothing").to_owned()
    }

    /// The history as it is sent.
    pub fn sent(&self) -> Vec<Value> {
        quirks::applied(self.quirks, &self.history)
    }

    /// The model's answer becomes part of the history.
    pub fn keep(&mut self, content: Vec<Value>) {
        let calls = content.iter().filter(|b| b["type"] == "tool_use");
        self.calls = calls.map(|b| b["id"].as_str().unwrap().to_owned()).collect();
        self.history
            .push(json!({"role": "assistant", "content": content}));
    }

    /// A system message of this turn; gone with the next cut.
    fn note(&mut self, n: usize) {
        let note =
            json!({"role": "system", "content": [{"type": "text", "text": format!("{n} tokens left")}]});
        self.history.push(note.clone());
        self.view.later.push(note);
    }

    pub fn fork(&mut self, back: usize) {
        let Some(at) = self.snapshots.len().checked_sub(1 + back) else {
            return;
        };
        let snapshot = self.snapshots[at].clone();
        self.history = snapshot.history;
        self.view = snapshot.view;
        self.calls.clear();
    }

    /// The agent sums up, and starts over from that.
    pub fn compact(&mut self, n: usize) {
        if !self.begun() {
            return;
        }
        let opening = Opening {
            messages: vec![user(&[text(format!("Summary {n} of what went before."))])],
            counted: 1,
            ..Opening::default()
        };
        self.history.clone_from(&opening.messages);
        self.view = View::new(opening);
        self.calls.clear();
    }

    /// Whether the conversation can do without the store: everything it needs stands in the transcript.
    pub fn stands_alone(&self) -> bool {
        !self.begun() || stands_alone(&self.view)
    }

    pub fn forget_dependent(&mut self) {
        self.snapshots.retain(|s| stands_alone(&s.view));
    }

    /// Whether the history ends with what a person or a tool said.
    pub fn may_ask(&self) -> bool {
        self.history.last().is_none_or(|m| m["role"] == "assistant")
    }
}

fn stands_alone(view: &View) -> bool {
    view.cut.is_some() && !view.paired
}

/// Whether `content` is what had to be shown; of a broken answer, its beginning.
pub fn matches(shown: &[Shown], content: &[Value], broken: bool) -> Result<(), String> {
    if content.len() > shown.len() || (!broken && content.len() < shown.len()) {
        return Err(format!("shown {content:#?}\nwanted {shown:#?}"));
    }
    for (wanted, block) in shown.iter().zip(content) {
        let said = block["text"].as_str().unwrap_or_default();
        let fits = match wanted {
            Shown::Block(wanted) => plain_block(block) == *wanted,
            Shown::Sentinel(prompt) => is_sentinel(said, prompt),
            Shown::Aside => {
                said.starts_with("\n\n[[handoff-aside:") && said.ends_with("]]\n\n") && said.len() == 58
            }
        };
        if !fits {
            return Err(format!("shown {block}\nwanted {wanted:?}"));
        }
    }
    Ok(())
}

/// DESIGN.md, section 5, letter by letter.
fn is_sentinel(said: &str, prompt: &str) -> bool {
    let Some(rest) = said.strip_prefix("\n\n[[handoff-resume:") else {
        return false;
    };
    let Some((_, rest)) = rest.split_at_checked(36) else {
        return false;
    };
    let line = "*Handed over: done. From here on the model knows only what follows.*";
    let behind = format!("]]\n{line}\n\n{prompt}\n[[/handoff-resume:");
    let Some(seal) = rest.strip_prefix(&behind).and_then(|r| r.strip_suffix("]]\n\n")) else {
        return false;
    };
    seal.len() == 22 && !prompt.is_empty() && scrub(prompt).len() >= prompt.len()
}
