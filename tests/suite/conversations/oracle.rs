//! What must come out, computed from the script alone: a second, slow reading of DESIGN.md, sections 5 to 8,
//! that never looks at a sentinel.

use baton_proxy::handoff::record::Answer;
use baton_proxy::strict::{Arguments, Fault, Part, Reply, Stop};
use serde_json::{Value, json};

use super::spelling::{block, broken_up, is_hidden, is_thinking, lines, plain, result, scrub, tokens};

/// Shown where a turn would otherwise be one that the API refuses.
const FILLER: &str = "(The session goes on.)";

/// What a conversation opens with, and what of it survives a cut.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    /// All of it, as the agent sends it.
    pub messages: Vec<Value>,
    /// Messages of nothing but preamble.
    pub before: Vec<Value>,
    /// Preamble blocks in front of the carry-over prompt.
    pub blocks: Vec<Value>,
    /// System messages from before the model first spoke.
    pub behind: Vec<Value>,
    /// How many of `messages` count as content.
    pub counted: usize,
}

/// The model's view of a conversation.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub opening: Opening,
    /// The carry-over prompt it is cut at.
    pub cut: Option<String>,
    /// Everything behind the opening or the cut.
    pub later: Vec<Value>,
    /// The prompt of a handoff that waits for the turn's end.
    pub pending: Option<String>,
    /// Results of hidden calls, due in the next user message.
    owed: Vec<Value>,
    /// Whether hidden pairs stand in it.
    pub paired: bool,
}

/// What the agent must have been shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    Block(Value),
    Sentinel(String),
    Aside,
}

/// How an exchange must have ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    Stop(String),
    Broken,
    Status(u16),
}

/// What an exchange must have come to.
#[derive(Debug)]
pub struct Outcome {
    pub shown: Vec<Shown>,
    pub ended: Ended,
    /// The prompt behind which a repetition goes on.
    pub repeat: Option<String>,
    /// Tokens put out by the legs that were answered.
    pub output: usize,
    pub lost: bool,
}

impl View {
    pub fn new(opening: Opening) -> Self {
        Self {
            opening,
            ..Self::default()
        }
    }

    /// The messages that upstream must get, in the long form.
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
        out.extend(self.later.clone());
        plain(&out)
    }

    /// A message of the user's, with the results of hidden calls in front.
    pub fn user(&mut self, blocks: &[Value]) {
        let mut content = std::mem::take(&mut self.owed);
        content.extend(blocks.iter().cloned());
        self.later.push(json!({"role": "user", "content": content}));
    }

    fn say(&mut self, blocks: Vec<Value>) {
        if !blocks.is_empty() {
            self.later.push(json!({"role": "assistant", "content": blocks}));
        }
    }

    fn cut_at(&mut self, prompt: &str) {
        *self = View {
            opening: self.opening.clone(),
            cut: Some(prompt.to_owned()),
            ..View::default()
        };
    }

    /// Messages that count for "nothing to hand off".
    fn content(&self) -> usize {
        let opening = if self.cut.is_none() {
            self.opening.counted
        } else {
            0
        };
        opening + self.later.iter().filter(|m| m["role"] != "system").count()
    }
}

/// One exchange, leg by leg.
pub struct Exchange {
    view: View,
    content: usize,
    legs: u32,
    asked: u32,
    max_chain: u32,
    shown: Vec<Shown>,
    sentinel: Option<String>,
    output: usize,
    answered: usize,
}

/// Replays an exchange. `repeat`: it repeats a request that broke off behind this prompt's sentinel.
pub fn replay(
    view: &mut View,
    repeat: Option<&str>,
    log: &[(Vec<Value>, Reply)],
    streamed: bool,
    (max_chain, retries): (u32, usize),
) -> Result<Outcome, String> {
    let mut x = Exchange {
        content: view.content(),
        view: view.clone(),
        legs: 1,
        asked: 0,
        max_chain,
        shown: Vec::new(),
        sentinel: None,
        output: 0,
        answered: 0,
    };
    if let Some(prompt) = repeat {
        x.view.cut_at(prompt);
        x.legs = 2;
        x.sentinel = Some(prompt.to_owned());
        x.shown.push(Shown::Sentinel(prompt.to_owned()));
    }
    let mut tries = 0;
    for (i, (seen, reply)) in log.iter().enumerate() {
        let wanted = x.view.messages();
        if plain(seen) != wanted {
            return Err(format!(
                "leg {i} was sent\n{}\nand should have been\n{}",
                lines(&plain(seen)),
                lines(&wanted)
            ));
        }
        let last = i + 1 == log.len();
        let ended = match &reply.fault {
            Some(Fault::Status { status, .. }) if i == 0 => Some(x.broken(Ended::Status(*status))),
            Some(Fault::Status { .. }) => {
                tries += 1;
                (tries > retries).then(|| x.lost())
            }
            Some(_) if streamed => {
                let visible: Vec<Value> = reply.parts.iter().filter(|p| !is_hidden(p)).map(block).collect();
                x.show(&visible);
                Some(x.broken(Ended::Broken))
            }
            Some(_) if i == 0 => Some(x.broken(Ended::Status(502))),
            Some(_) => Some(x.lost()),
            None => {
                tries = 0;
                x.leg(reply)
            }
        };
        match (ended, last) {
            (Some(outcome), true) => {
                if !matches!(outcome.ended, Ended::Broken | Ended::Status(_)) {
                    *view = x.view;
                }
                return Ok(outcome);
            }
            (Some(outcome), false) => return Err(format!("a leg too many behind {outcome:?}")),
            (None, true) => return Err(format!("a leg is missing: {}", lines(&x.view.messages()))),
            (None, false) => {}
        }
    }
    Err("no leg at all".to_owned())
}

impl Exchange {
    fn outcome(&mut self, ended: Ended, lost: bool) -> Outcome {
        Outcome {
            shown: std::mem::take(&mut self.shown),
            ended,
            repeat: self.sentinel.clone(),
            output: self.output,
            lost,
        }
    }

    fn broken(&mut self, ended: Ended) -> Outcome {
        self.outcome(ended, false)
    }

    /// The next leg could not be had.
    fn lost(&mut self) -> Outcome {
        let stop = if self.sentinel.is_some() {
            "pause_turn"
        } else {
            "end_turn"
        };
        self.outcome(Ended::Stop(stop.to_owned()), true)
    }

    fn end(&mut self, stop: &str) -> Option<Outcome> {
        Some(self.outcome(Ended::Stop(stop.to_owned()), false))
    }

    fn show(&mut self, blocks: &[Value]) {
        self.shown
            .extend(blocks.iter().map(|b| Shown::Block(broken_up(b))));
    }

    fn leg(&mut self, reply: &Reply) -> Option<Outcome> {
        self.answered += 1;
        self.output += tokens(reply);
        let visible: Vec<Value> = reply.parts.iter().filter(|p| !is_hidden(p)).map(block).collect();
        let hidden: Vec<&Part> = reply.parts.iter().filter(|p| is_hidden(p)).collect();
        let calls = visible.iter().any(|b| b["type"] == "tool_use");
        let natural = reply.stop == Stop::Natural;
        let stop = match reply.stop {
            Stop::MaxTokens => "max_tokens",
            Stop::Refusal => "refusal",
            Stop::PauseTurn => "pause_turn",
            _ if calls => "tool_use",
            _ => "end_turn",
        };
        if hidden.is_empty() {
            self.show(&visible);
            if let Some(prompt) = self.view.pending.clone()
                && natural
                && !calls
                && self.legs < self.max_chain
            {
                return self.fire(&prompt);
            }
            self.view.say(visible);
            return self.end(stop);
        }
        if !natural {
            return self.without_call(visible, stop);
        }
        if calls {
            return self.mixed(reply, &hidden, &visible);
        }
        self.alone(&hidden, visible)
    }

    fn fire(&mut self, prompt: &str) -> Option<Outcome> {
        self.shown.push(Shown::Sentinel(prompt.to_owned()));
        self.view.cut_at(prompt);
        self.sentinel = Some(prompt.to_owned());
        self.legs += 1;
        self.asked = 0;
        None
    }

    /// The call is dropped. What is left must be a message that may be sent back.
    fn without_call(&mut self, mut visible: Vec<Value>, stop: &str) -> Option<Outcome> {
        let unfit = visible.last().map_or(self.shown.is_empty(), is_thinking);
        if unfit {
            visible.push(json!({"type": "text", "text": FILLER}));
        }
        self.show(&visible);
        self.view.say(visible);
        self.end(stop)
    }

    fn mixed(&mut self, reply: &Reply, hidden: &[&Part], visible: &[Value]) -> Option<Outcome> {
        self.show(visible);
        self.view.say(reply.parts.iter().map(block).collect());
        self.view.paired = true;
        for call in hidden {
            let (answer, prompt) = self.judge(call);
            self.view.owed.push(result(call, answer));
            self.view.pending = prompt.or(self.view.pending.take());
        }
        self.end("tool_use")
    }

    /// The last good call fires; where all are refused the first is answered, and the others never were.
    fn alone(&mut self, calls: &[&Part], visible: Vec<Value>) -> Option<Outcome> {
        if self.legs >= self.max_chain {
            return self.without_call(visible, "end_turn");
        }
        if let Some(prompt) = calls.iter().rev().find_map(|call| self.judge(call).1) {
            self.show(&visible);
            return self.fire(&prompt);
        }
        let call = calls[0];
        let (answer, _) = self.judge(call);
        if self.asked >= 2 {
            return self.without_call(visible, "end_turn");
        }
        self.show(&visible);
        self.asked += 1;
        self.shown.push(Shown::Aside);
        self.view.paired = true;
        self.view.say([visible, vec![block(call)]].concat());
        self.view
            .later
            .push(json!({"role": "user", "content": [result(call, answer)]}));
        None
    }

    fn judge(&self, call: &Part) -> (Answer, Option<String>) {
        let Part::Call { arguments, .. } = call else {
            unreachable!()
        };
        let Arguments::Value(value) = arguments else {
            return (Answer::BadArguments, None);
        };
        let Some(prompt) = value["prompt"].as_str() else {
            return (Answer::BadArguments, None);
        };
        let prompt = scrub(prompt.trim());
        if prompt.is_empty() {
            (Answer::EmptyPrompt, None)
        } else if self.legs == 1 && self.content < 2 {
            (Answer::NothingToHandOff, None)
        } else {
            (Answer::Queued, Some(prompt))
        }
    }
}
