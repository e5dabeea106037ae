//! The model's view of a conversation, and its changes when a handoff takes effect or is undone.

use serde_json::{Value, json};

use super::blocks::is_thinking;
use super::oracle::Agent;

/// Opening of a conversation, and the part of it that survives a cut.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    /// All messages, as sent by the agent.
    pub messages: Vec<Value>,
    /// Messages that are only preamble.
    pub before: Vec<Value>,
    /// Preamble blocks before the carry-over prompt.
    pub blocks: Vec<Value>,
    /// System messages before the model's first output.
    pub behind: Vec<Value>,
    /// Number of `messages` that count as content.
    pub counted: usize,
}

/// The model's view of a conversation.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub opening: Opening,
    /// Carry-over prompt of the cut.
    pub cut: Option<String>,
    /// Everything after the opening or the cut.
    pub later: Vec<Value>,
    /// The prompt of a handoff that fires at the end of the turn.
    pub pending: Option<String>,
    /// Results of hidden calls, due in the next user message.
    pub owed: Vec<Value>,
    /// Whether it contains hidden pairs, or notices of the model's context.
    pub paired: bool,
    /// Length of the view when the model first had only thoughts, which are in the agent's history but not in
    /// the model's view.
    pub thought: Option<usize>,
    /// Whether a handoff in it was ever undone. Injected line breaks then separate the text around its
    /// sentinel.
    pub mended: bool,
    /// The view without the cut, for an undo.
    under: Option<Box<View>>,
    /// The handoff whose undo is the last change.
    undone: Option<Box<UndoneCut>>,
    /// Handoffs up to the cut that follow each other with almost nothing between them.
    chain: u32,
    /// Number of the cut, or zero without one. Thinking under a different cut is not part of the view.
    at_cut: u32,
    cuts: u32,
}

/// A handoff that was undone.
#[derive(Debug, Clone)]
struct UndoneCut {
    /// The view after the handoff, without anything later.
    cut: View,
    /// Number of blocks before it.
    before: usize,
}

/// Beginning of a context notice. Only this function of these tests depends on it.
const NUDGE: &str = "<context-notice>\n";

pub fn is_nudge(block: &Value) -> bool {
    block["text"].as_str().is_some_and(begins_nudge)
}

pub fn begins_nudge(text: &str) -> bool {
    text.trim_start().starts_with(NUDGE)
}

impl View {
    pub fn new(opening: Opening) -> Self {
        Self {
            opening,
            ..Self::default()
        }
    }

    /// Messages that upstream must receive.
    pub fn messages(&self) -> Vec<Value> {
        let mut out = match &self.cut {
            None => self.opening.messages.clone(),
            Some(prompt) => {
                let mut out = self.opening.before.clone();
                let mut blocks = self.opening.blocks.clone();
                blocks.push(json!({"type": "text", "text": prompt}));
                out.push(json!({"role": "user", "content": blocks}));
                out.extend(self.opening.behind.clone());
                out
            }
        };
        out.extend(self.here());
        out
    }

    /// Content after the opening or the cut, without the parts that belong to a different cut.
    fn here(&self) -> Vec<Value> {
        let blocks = self
            .later
            .iter()
            .filter_map(|message| message["content"].as_array());
        let searches = blocks
            .flatten()
            .filter(|block| self.cut.is_none() && block["name"] == "session_recall");
        // Without a cut the model has no such tool.
        let searches: Vec<&Value> = searches.map(|block| &block["id"]).collect();
        let is_search = |block: &Value| {
            ["id", "tool_use_id"]
                .iter()
                .any(|key| searches.contains(&&block[*key]))
        };
        let mut here = Vec::new();
        for message in &self.later {
            let mut message = message.clone();
            if let Some(blocks) = message["content"].as_array_mut() {
                blocks.retain(|block| self.is_here(block) && !is_search(block));
            }
            if message["content"] != json!([]) {
                here.push(message);
            }
        }
        here
    }

    /// Adds a user message, with the results of hidden calls before it. The user's words let a waiting handoff lapse.
    pub fn user(&mut self, blocks: &[Value]) {
        if blocks.iter().any(|block| block["type"] == "text") {
            self.pending = None;
        }
        let mut content = std::mem::take(&mut self.owed);
        content.extend(blocks.iter().cloned());
        self.later.push(json!({"role": "user", "content": content}));
    }

    pub fn say(&mut self, mut blocks: Vec<Value>) {
        for block in blocks.iter_mut().filter(|block| is_thinking(block)) {
            block["cut"] = self.at_cut.into();
        }
        if !blocks.is_empty() {
            self.later.push(json!({"role": "assistant", "content": blocks}));
        }
    }

    /// Appends the notice to the content. System text after the user message stays last.
    pub fn tell(&mut self, text: &str) {
        let users = self.later.iter_mut().rev().find(|m| m["role"] == "user");
        let blocks = users.and_then(|m| m["content"].as_array_mut()).unwrap();
        blocks.push(json!({"type": "text", "text": text, "cut": self.at_cut}));
        self.paired = true;
    }

    /// Whether the model was notified of its context after the cut.
    pub fn was_told(&self) -> bool {
        let blocks = self
            .later
            .iter()
            .filter_map(|message| message["content"].as_array());
        blocks
            .flatten()
            .any(|block| is_nudge(block) && self.is_here(block))
    }

    /// Whether a block belongs to this cut. The view has no thinking from under another cut, because a
    /// provider binds it to its prefix. Nor does it have the context notices from there.
    fn is_here(&self, block: &Value) -> bool {
        block["cut"] == self.at_cut || !is_thinking(block) && !is_nudge(block)
    }

    /// Returns the view after a handoff. `opening` is the part of the opening that survives it.
    pub fn cut_at(&mut self, prompt: &str, opening: Opening) {
        let (cuts, chain) = (self.cuts + 1, self.chained() + 1);
        let mut under = std::mem::take(self);
        (under.undone, under.pending) = (None, None);
        *self = View {
            opening,
            cut: Some(prompt.to_owned()),
            under: Some(Box::new(under)),
            at_cut: cuts,
            cuts,
            chain,
            ..View::default()
        };
    }

    /// The handoffs of the chain that a further one would continue: the user has said nothing since the cut, and the agent's tools
    /// were called in two rounds at most.
    pub fn chained(&self) -> u32 {
        let blocks = |message: &Value| message["content"].as_array().cloned().unwrap_or_default();
        let says = |block: &Value| block["type"] == "text" && !is_nudge(block);
        let is_baton = |block: &Value| {
            block["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("session_"))
        };
        let calls = |block: &Value| block["type"] == "tool_use" && !is_baton(block);
        let said = self
            .later
            .iter()
            .any(|m| m["role"] == "user" && blocks(m).iter().any(says));
        let is_round = |m: &&Value| m["role"] == "assistant" && blocks(m).iter().any(calls);
        let rounds = self.later.iter().filter(is_round);
        match self.cut.is_some() && !said && rounds.count() <= 2 {
            true => self.chain,
            false => 0,
        }
    }

    /// Whether an undo that names no handoff changes anything: it undoes the active handoff, or reverts the
    /// last undo.
    pub fn may_undo(&self) -> Option<bool> {
        match (&self.undone, &self.under) {
            (Some(_), _) => Some(false),
            (None, Some(_)) => Some(true),
            (None, None) => None,
        }
    }

    /// Undoes the active handoff, or reverts the last undo. `apart` means that thinking is a block or an
    /// item, and requires its target after it.
    pub fn undo(&mut self, apart: bool) {
        let cuts = self.cuts;
        if let Some(undone) = self.undone.take() {
            let UndoneCut { mut cut, before } = *undone;
            cut.later = self.later.split_off(before);
            cut.owed = std::mem::take(&mut self.owed);
            cut.paired = self.paired;
            cut.under = Some(Box::new(std::mem::take(self)));
            *self = cut;
        } else if let Some(under) = self.under.take() {
            let mut cut = std::mem::replace(self, *under);
            self.close(cut.later.first(), apart);
            let before = self.later.len();
            self.later.append(&mut cut.later);
            self.owed = std::mem::take(&mut cut.owed);
            self.paired |= cut.paired;
            self.undone = Some(Box::new(UndoneCut { cut, before }));
        }
        (self.mended, self.cuts, self.pending) = (true, cuts, None);
    }

    /// Closes the response that showed an undone handoff. If thinking stands apart, the response must not end
    /// in thinking, and thinking by itself is not a message.
    fn close(&mut self, next: Option<&Value>, apart: bool) {
        let thought = |message: &Value| {
            let blocks = message["content"].as_array();
            message["role"] == "assistant" && blocks.is_some_and(|blocks| blocks.iter().all(is_thinking))
        };
        if next.is_some_and(|next| next["role"] == "assistant" && !thought(next)) {
            return;
        }
        if apart
            && let Some(last) = self.later.last_mut().filter(|m| m["role"] == "assistant")
            && let Some(said) = last["content"].as_array_mut()
        {
            let end = said.iter().rposition(|block| !is_thinking(block));
            said.truncate(end.map_or(0, |at| at + 1));
        }
        if self.later.last().is_some_and(thought) {
            self.later.pop();
        }
    }

    /// Whether the transcript contains everything that the view needs.
    pub fn stands_alone(&self) -> bool {
        (self.cut.is_some() || self.undone.is_some()) && !self.paired
    }

    /// Loses the store. Content before the cut returns only if it is complete without the store.
    pub fn forget_dependent(&mut self) {
        if self.under.as_ref().is_some_and(|under| under.paired) {
            self.under = None;
        }
        if let Some(under) = &mut self.under {
            under.forget_dependent();
        }
    }

    /// Amount of content, for the "nothing to hand off" rule. For an agent that drops thinking, a model that
    /// has only thought has no output.
    pub fn content(&self, agent: &Agent) -> usize {
        let traits = &agent.profile.traits;
        let drops = |block: &Value| is_thinking(block) && !(agent.thoughts && traits.thoughts);
        let is_there = |m: &&Value| {
            let blocks = m["content"].as_array();
            m["role"] != "assistant" || blocks.is_none_or(|blocks| !blocks.iter().all(drops))
        };
        let opening = if self.cut.is_none() {
            self.opening.counted
        } else {
            0
        };
        let here = self.here();
        let answer = here.iter().filter(|m| m["role"] != "system").filter(is_there);
        let said = |m: &Value| {
            let blocks = m["content"].as_array()?;
            let counts = |block: &&Value| !is_nudge(block);
            Some(blocks.iter().filter(counts).count())
        };
        let size = |m: &Value| match traits.counts_parts {
            true => said(m).unwrap_or(1),
            false => 1,
        };
        opening + answer.map(size).sum::<usize>()
    }

    /// System messages that survive a first cut: those before the model's first output. Thinking does not
    /// count as output for an agent that drops it.
    pub fn first_notes(&self, agent: &Agent) -> Vec<Value> {
        let drops = |block: &Value| is_thinking(block) && !(agent.thoughts && agent.profile.traits.thoughts);
        let said = |m: &Value| {
            m["content"]
                .as_array()
                .is_some_and(|blocks| !blocks.iter().all(drops))
        };
        let spoken = |m: &Value| m["role"] == "assistant" && said(m);
        if self.cut.is_some() {
            return Vec::new();
        }
        let before = self.thought.unwrap_or(self.later.len());
        let first = self.later[..before].iter().take_while(|m| !spoken(m));
        first.filter(|m| m["role"] == "system").cloned().collect()
    }
}
