//! The expected result of an exchange, computed only from the script.
//!
//! It is a second, slow implementation of the design that never looks at a sentinel. Here, a message is a
//! role and a list of blocks, whatever the wire.

use baton_core::record::HiddenResult;
use baton_strict::{Arguments, Fault, Part, Reply, Stop};
use serde_json::{Value, json};

use super::blocks::{block, held, is_hidden, is_recall, is_thinking, result, scrub, scrubbed, tokens};
use super::drafts::Drafted;
use super::items::{self, FOUND, Item};
use super::view::{View, begins_nudge};
use super::wires::WireProfile;

/// Placeholder for a turn that the API would otherwise refuse.
const FILLER: &str = "(The session goes on.)";

/// The agent and its wire, as far as the oracle needs them.
#[derive(Clone, Copy)]
pub struct Agent {
    pub profile: WireProfile,
    /// Whether the agent sends thinking back.
    pub thoughts: bool,
    /// Whether the agent or the provider reorders the calls of a message.
    pub unordered: bool,
    /// Whether the provider stores the transcript, including its own output.
    pub chained: bool,
    /// Whether the request continues from a response, and so does not contain the conversation's opening.
    pub held: bool,
}

impl Agent {
    /// Normalizes items for comparison.
    pub fn plain(&self, items: Vec<Item>) -> Vec<Item> {
        let traits = &self.profile.traits;
        let plain = items::plain(items, traits, self.thoughts);
        match self.unordered {
            // Text parts with calls between them then become adjacent.
            true => items::plain(items::calls_last(plain), traits, self.thoughts),
            false => plain,
        }
    }

    /// The items that upstream must receive.
    pub fn wanted(&self, view: &View) -> Vec<Item> {
        self.seen(view, items::of_messages(&view.messages(), &self.profile.traits))
    }

    /// Normalizes the items that upstream received for this view.
    pub fn seen(&self, view: &View, items: Vec<Item>) -> Vec<Item> {
        let plain = self.plain(items);
        match view.mended {
            true => items::unspaced(plain),
            false => plain,
        }
    }
}

/// Output that the agent must have been shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    Block(Value),
    Sentinel(String),
    Aside,
    /// Report to the user about a handoff at a threshold.
    Told,
    /// Note about a lost leg.
    Lost,
    /// Note about a call without an effect.
    Dropped,
}

/// Expected end of an exchange.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    Stop(String),
    Broken,
    Status(u16),
}

/// Expected result of an exchange.
#[derive(Debug)]
pub struct Outcome {
    pub shown: Vec<Shown>,
    pub ended: Ended,
    /// Prompt of the handoff from where a repeated request continues.
    pub repeat: Option<String>,
    /// Output tokens of the legs that were answered.
    pub output: usize,
    pub lost: bool,
    /// For an interrupted response: the model's view in its last leg, and the index in `shown` where that leg
    /// begins.
    pub broken_leg: Option<(View, usize)>,
    /// The model's output in that leg.
    pub answer: Vec<Value>,
    /// Dropped call in that output that is stored anyway.
    pub bound: Option<BoundCall>,
    /// Notice about the model's context. It is recorded whatever the outcome of the response.
    pub told: Option<String>,
}

/// A dropped call that reasoning requires.
#[derive(Debug)]
pub struct BoundCall {
    /// Position in the model's output.
    at: usize,
    call: Value,
    result: Value,
}

impl BoundCall {
    /// Restores the call in the output that an agent keeps, if some of it follows the call. Returns the
    /// result.
    pub fn put_into(self, kept: &mut Vec<Value>) -> Option<Value> {
        (self.at < kept.len()).then(|| kept.insert(self.at, self.call))?;
        Some(self.result)
    }
}

/// The model's result of a call without effect.
fn untaken(call: &Part, natural: bool) -> HiddenResult {
    match (is_recall(call), natural) {
        (false, true) => HiddenResult::NOT_TAKEN,
        (false, false) => HiddenResult::CUT_OFF,
        (true, true) => HiddenResult::TOO_OFTEN,
        (true, false) => HiddenResult::NOT_WHOLE,
    }
}

/// Context notice at the end of the sent request, if the expected request does not end with it. The machine's
/// tests check when a notice is due; this checks its position.
fn told(seen: &[Item], wanted: &[Item]) -> Option<String> {
    let last = |items: &[Item]| {
        items
            .iter()
            .rfind(|item| !matches!(item, Item::System(_)))
            .cloned()
    };
    let Item::User(seen) = last(seen)? else {
        return None;
    };
    let rest = match last(wanted)? {
        Item::User(wanted) => seen.strip_prefix(&wanted)?.to_owned(),
        Item::Result { .. } => seen,
        _ => return None,
    };
    begins_nudge(&rest).then_some(rest)
}

/// Whether the model may be notified: once after a cut, from this number of tokens on.
fn may_be_told(text: &str, view: &View, from: u64) -> Result<(), String> {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let tokens = text
        .split_once("now at about ")
        .and_then(|(_, rest)| rest.split_once(" tokens"));
    let told = tokens.ok_or("no tokens are told")?.0;
    // "… of 200,000", if the window is configured.
    let tokens: u64 = digits(told.split(" of ").next().unwrap_or_default())
        .parse()
        .unwrap_or_default();
    if view.was_told() || view.later.is_empty() || from == 0 || tokens < from {
        return Err(format!(
            "told at {tokens} tokens, from {from} on, before: {}",
            view.was_told()
        ));
    }
    Ok(())
}

/// An exchange, leg by leg.
pub struct Exchange {
    agent: Agent,
    view: View,
    /// Index in `shown` where the current leg begins.
    leg_from: usize,
    content: usize,
    legs: u32,
    /// Number of legs after an answered call.
    again: u32,
    asked: u32,
    /// Number of answered searches.
    recalled: usize,
    max_legs: u32,
    max_chain: u32,
    recalls: usize,
    /// Whether the response ends at a handoff.
    stops: bool,
    shown: Vec<Shown>,
    sentinel: Option<String>,
    output: usize,
    answered: usize,
    told: Option<String>,
    /// The view as stored upstream if no more legs come: with all calls of the last leg, and their results.
    held: Option<View>,
    rules: Vec<String>,
}

/// Limits of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum number of legs per request.
    pub max_chain: u32,
    /// Maximum number of retries of a later leg.
    pub retries: usize,
    /// Threshold in tokens for the notice to the model; zero disables it.
    pub nudge_from: u64,
    /// Maximum number of answered searches.
    pub recalls: usize,
    /// Whether the response ends at a handoff.
    pub stops: bool,
}

/// Circumstances of a request at its beginning.
#[derive(Debug, Clone, Copy)]
pub struct Begins<'a> {
    /// The prompt of the sentinel before the interruption, if the request is repeated after an interrupted
    /// response.
    pub repeat: Option<&'a str>,
    /// The handoff that a threshold began before the response.
    pub drafted: Option<&'a Drafted>,
    /// The user's rules in the agent's transcript, oldest first. They follow every cut.
    pub rules: &'a [String],
}

/// A prompt that lacks these rules, as the model sees it. Only this function of these tests depends on the
/// form of the block.
fn with_rules(prompt: &str, rules: &[String]) -> String {
    const SAID: &str = "The user's rules and decisions, quoted word for word. They hold unless the text above says otherwise:\n";
    let lines: String = rules.iter().rev().map(|rule| format!("- {rule}\n")).collect();
    match rules {
        [] => prompt.to_owned(),
        _ => format!("{prompt}\n\n<carried-over>\n{SAID}{lines}</carried-over>"),
    }
}

/// Replays an exchange. `broke` means that the connection broke in the middle of the response, streamed or
/// not.
pub fn replay(
    agent: Agent,
    view: &mut View,
    begins: Begins<'_>,
    log: &[(Vec<Item>, Reply)],
    (streamed, broke): (bool, bool),
    bounds: Bounds,
) -> Result<Outcome, String> {
    let Bounds {
        max_chain,
        retries,
        nudge_from,
        recalls,
        stops,
    } = bounds;
    let mut x = Exchange {
        agent,
        content: view.content(&agent),
        view: view.clone(),
        leg_from: 0,
        legs: 1,
        again: 0,
        asked: 0,
        recalled: 0,
        max_legs: max_chain,
        // What upstream holds of the transcript is not in the request.
        max_chain: max_chain.saturating_sub(if agent.held { 0 } else { view.chained() }),
        recalls,
        stops,
        shown: Vec::new(),
        sentinel: None,
        output: 0,
        answered: 0,
        told: None,
        held: None,
        rules: begins.rules.to_vec(),
    };
    let log = match begins.drafted {
        Some(drafted) => {
            drafted.check(&agent, &x.view)?;
            x.shown.push(Shown::Told);
            x.begin_behind(&drafted.prompt);
            &log[drafted.asked.len()..]
        }
        None => log,
    };
    if let Some(prompt) = begins.repeat {
        x.begin_behind(prompt);
    }
    if stops && begins.drafted.is_some() {
        return match log {
            [] => Ok(x.stopped()).inspect(|_| *view = x.view.clone()),
            _ => Err("a leg behind a handoff at which the answer ends".to_owned()),
        };
    }
    let is_first = begins.repeat.is_none() && begins.drafted.is_none();
    let mut tries = 0;
    for (i, (seen, reply)) in log.iter().enumerate() {
        let (mut wanted, seen) = (agent.wanted(&x.view), agent.seen(&x.view, seen.clone()));
        if let Some(text) = told(&seen, &wanted).filter(|_| i == 0 && is_first) {
            may_be_told(&text, &x.view, nudge_from)?;
            x.view.tell(&text);
            x.told = Some(text);
            wanted = agent.wanted(&x.view);
        }
        if seen != wanted {
            return Err(format!(
                "leg {i} was sent\n{}\nand should have been\n{}",
                items::lines(&seen),
                items::lines(&wanted)
            ));
        }
        x.leg_from = x.shown.len();
        let last = i + 1 == log.len();
        let ended = match &reply.fault {
            Some(Fault::Status { status, .. }) if i == 0 => Some(x.broken(Ended::Status(*status))),
            Some(Fault::Status { .. }) => {
                tries += 1;
                (tries > retries).then(|| x.lost())
            }
            // A later leg has shown no output if it is sent again, or if the response ends without it.
            Some(_) if streamed && i > 0 && !(last && broke) => {
                tries += 1;
                (tries > retries).then(|| x.lost())
            }
            Some(_) if streamed => {
                let visible: Vec<Value> = reply.parts.iter().filter(|p| !is_hidden(p)).map(block).collect();
                x.show(&visible);
                let bound = x.bound(reply).map(|call| BoundCall {
                    at: reply.parts[..call].iter().filter(|p| !is_hidden(p)).count(),
                    call: block(&reply.parts[call]),
                    result: result(&reply.parts[call], untaken(&reply.parts[call], false)),
                });
                let broken = x.broken(Ended::Broken);
                Some(Outcome {
                    answer: visible,
                    bound,
                    ..broken
                })
            }
            Some(_) if i == 0 => Some(x.broken(Ended::Status(502))),
            // A complete reply was not shown at all.
            Some(_) => {
                tries += 1;
                (tries > retries).then(|| x.lost())
            }
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
            (None, true) => {
                return Err(format!(
                    "a leg is missing: {}",
                    items::lines(&agent.wanted(&x.view))
                ));
            }
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
            broken_leg: None,
            answer: Vec::new(),
            bound: None,
            told: self.told.take(),
        }
    }

    fn broken(&mut self, ended: Ended) -> Outcome {
        let leg = (self.view.clone(), self.leg_from);
        Outcome {
            broken_leg: Some(leg),
            ..self.outcome(ended, false)
        }
    }

    fn word(&self, stop: &Stop, calls: bool) -> String {
        (self.agent.profile.word)(stop, calls).to_owned()
    }

    /// Ends after the next leg has failed for good.
    fn lost(&mut self) -> Outcome {
        let stop = match self.sentinel {
            Some(_) => self.agent.profile.lost.to_owned(),
            None => self.word(&Stop::Natural, false),
        };
        if let Some(held) = self.held.take().filter(|_| self.agent.chained) {
            self.view = held;
        }
        self.shown.push(Shown::Lost);
        self.outcome(Ended::Stop(stop), true)
    }

    fn end(&mut self, stop: &str) -> Option<Outcome> {
        Some(self.outcome(Ended::Stop(stop.to_owned()), false))
    }

    fn show(&mut self, blocks: &[Value]) {
        self.shown.extend(scrubbed(blocks).into_iter().map(Shown::Block));
    }

    fn leg(&mut self, reply: &Reply) -> Option<Outcome> {
        self.answered += 1;
        self.output += tokens(reply);
        let visible: Vec<Value> = reply.parts.iter().filter(|p| !is_hidden(p)).map(block).collect();
        let hidden: Vec<&Part> = reply.parts.iter().filter(|p| is_hidden(p)).collect();
        let calls = visible.iter().any(|b| b["type"] == "tool_use");
        let natural = reply.stop == Stop::Natural;
        let stop = &self.word(&reply.stop, calls);
        if hidden.is_empty() {
            self.show(&visible);
            if let Some(prompt) = self.view.pending.clone()
                && natural
                && !calls
                && self.legs + self.again < self.max_chain
            {
                self.view.say(visible);
                return self.fire(&prompt);
            }
            self.view.say(visible);
            return self.end(stop);
        }
        if !natural {
            return self.cut_off(reply, visible, stop);
        }
        if calls {
            return self.mixed(reply, &hidden, &visible);
        }
        self.alone(reply, &hidden, visible)
    }

    fn fire(&mut self, prompt: &str) -> Option<Outcome> {
        let prompt = &with_rules(prompt, &self.rules);
        self.shown.push(Shown::Sentinel(prompt.clone()));
        self.cut_at(prompt);
        self.legs += 1;
        self.asked = 0;
        self.held = None;
        self.stops.then(|| self.stopped())
    }

    /// Begins the response with a handoff.
    fn begin_behind(&mut self, prompt: &str) {
        self.shown.push(Shown::Sentinel(prompt.to_owned()));
        self.cut_at(prompt);
        self.legs = 2;
    }

    /// Ends the response at a handoff.
    fn stopped(&mut self) -> Outcome {
        let stop = self.word(&Stop::Natural, false);
        self.outcome(Ended::Stop(stop), true)
    }

    /// System messages before the model's first output survive a cut. An opening that is not in the request
    /// does not.
    fn cut_at(&mut self, prompt: &str) {
        let mut opening = self.view.opening.clone();
        opening.behind.extend(self.view.first_notes(&self.agent));
        if self.agent.held {
            for part in [&mut opening.before, &mut opening.blocks, &mut opening.behind] {
                part.clear();
            }
        }
        self.view.cut_at(prompt, opening);
        self.sentinel = Some(prompt.to_owned());
    }

    /// Ends the turn at a call without an effect, and tells the user.
    fn dropped(&mut self, reply: &Reply, visible: Vec<Value>, stop: &str) -> Option<Outcome> {
        let mut outcome = self.without_call(reply, visible, stop);
        let shown = outcome.iter_mut().map(|outcome| &mut outcome.shown);
        shown.for_each(|shown| shown.push(Shown::Dropped));
        outcome
    }

    /// Drops the call. The rest must be a message that can be sent back.
    fn without_call(&mut self, reply: &Reply, mut visible: Vec<Value>, stop: &str) -> Option<Outcome> {
        if self.agent.chained {
            let mut shown = visible.clone();
            if self.unfit(&visible) {
                shown.push(json!({"type": "text", "text": FILLER}));
            }
            self.show(&shown);
            self.hold(reply, &[]);
            return self.end(stop);
        }
        if let Some(call) = self.bound(reply) {
            self.show(&visible);
            let kept = reply.parts.iter().enumerate();
            let kept = kept.filter(|(at, p)| *at == call || !is_hidden(p));
            self.view.say(kept.map(|(_, p)| block(p)).collect());
            self.view.paired = true;
            let call = &reply.parts[call];
            self.view
                .owed
                .push(result(call, untaken(call, reply.stop == Stop::Natural)));
            return self.end(stop);
        }
        if self.unfit(&visible) {
            visible.push(json!({"type": "text", "text": FILLER}));
        }
        self.show(&visible);
        if self.agent.profile.traits.thought_is_content {
            // The target of the reasoning is gone.
            let answer = visible
                .iter()
                .rposition(|b| !is_thinking(b))
                .map_or(0, |at| at + 1);
            if answer == 0 && !visible.is_empty() && self.agent.thoughts {
                self.view.thought.get_or_insert(self.view.later.len());
            }
            visible.truncate(answer);
        }
        self.view.say(visible);
        self.end(stop)
    }

    /// Upstream stores the response with all its calls. The next request has the results of those without
    /// effect.
    fn hold(&mut self, reply: &Reply, answered: &[Value]) {
        self.view.say(reply.parts.iter().map(held).collect());
        self.view.paired = true;
        self.view.owed.extend(answered.iter().cloned());
        let told = |id: &Value| answered.iter().any(|result| result["tool_use_id"] == *id);
        for call in reply.parts.iter().filter(|p| is_hidden(p)) {
            let untaken = result(call, untaken(call, reply.stop == Stop::Natural));
            if !told(&untaken["tool_use_id"]) {
                self.view.owed.push(untaken);
            }
        }
    }

    /// Index of a call that is dropped right after reasoning, with more output after it. If reasoning must
    /// come back with its item, that item is this call.
    fn bound(&self, reply: &Reply) -> Option<usize> {
        if !self.agent.profile.traits.thought_is_content || !self.agent.thoughts {
            return None;
        }
        let is_thought = |p: &Part| matches!(p, Part::Thinking(_) | Part::Redacted);
        let mut pairs = reply.parts.windows(2);
        let call = 1 + pairs.position(|pair| is_thought(&pair[0]) && is_hidden(&pair[1]))?;
        let more = reply.parts[call..].iter().any(|p| !is_hidden(p));
        more.then_some(call)
    }

    /// Whether the API would refuse this response when it is sent back.
    fn unfit(&self, visible: &[Value]) -> bool {
        let traits = self.agent.profile.traits;
        match visible.last() {
            None => self.shown.is_empty(),
            Some(last) if traits.blocks => is_thinking(last),
            Some(_) if traits.thought_is_content => false,
            Some(_) => self.shown.is_empty() && visible.iter().all(is_thinking),
        }
    }

    /// Ends a truncated turn. Hidden calls are dropped, except for those before a call of the agent, which
    /// get results.
    fn cut_off(&mut self, reply: &Reply, visible: Vec<Value>, stop: &str) -> Option<Outcome> {
        let theirs = |p: &Part| block(p)["type"] == "tool_use" && !is_hidden(p);
        let last = reply.parts.iter().rposition(theirs).unwrap_or_default();
        let answered: Vec<&Part> = reply.parts[..last].iter().filter(|p| is_hidden(p)).collect();
        if answered.is_empty() {
            return self.without_call(reply, visible, stop);
        }
        self.show(&visible);
        if self.agent.chained {
            self.hold(reply, &[]);
            return self.end(stop);
        }
        let answer = reply.parts.iter().enumerate();
        let answer = answer.filter(|(at, p)| *at < last || !is_hidden(p));
        self.view.say(answer.map(|(_, p)| block(p)).collect());
        self.view.paired = true;
        let answers = answered.into_iter().map(|call| match is_recall(call) {
            true => result(call, HiddenResult::NOT_WHOLE),
            false => result(call, HiddenResult::CUT_OFF),
        });
        self.view.owed.extend(answers);
        self.end(stop)
    }

    fn mixed(&mut self, reply: &Reply, hidden: &[&Part], visible: &[Value]) -> Option<Outcome> {
        self.show(visible);
        let stored = if self.agent.chained { held } else { block };
        self.view.say(reply.parts.iter().map(stored).collect());
        self.view.paired = true;
        let mut recalled = self.recalled;
        for call in hidden {
            if is_recall(call) {
                self.view.owed.push(result(call, self.search(recalled)));
                recalled += 1;
                continue;
            }
            let (answer, prompt) = self.judge(call);
            self.view.owed.push(result(call, answer));
            self.view.pending = prompt.or(self.view.pending.take());
        }
        let stop = self.word(&Stop::Natural, true);
        self.end(&stop)
    }

    /// The last valid call takes effect. If all are refused, the first gets a result and the others are
    /// dropped.
    fn alone(&mut self, reply: &Reply, calls: &[&Part], visible: Vec<Value>) -> Option<Outcome> {
        let ended = &self.word(&Stop::Natural, false);
        let may_chain = self.legs + self.again < self.max_chain;
        let mut handoffs = calls.iter().rev().filter(|call| !is_recall(call));
        if let Some(prompt) = handoffs.find_map(|call| self.judge(call).1) {
            if !may_chain {
                return self.dropped(reply, visible, ended);
            }
            self.show(&visible);
            self.view.say(visible);
            return self.fire(&prompt);
        }
        let call = calls[0];
        let answer = match is_recall(call) {
            true => self.search(self.recalled),
            false => self.judge(call).0,
        };
        let found = is_recall(call) && !answer.is_error();
        let is_refused = !found && (self.asked >= 2 || !is_recall(call) && !may_chain);
        if is_refused || self.legs + self.again >= self.max_legs {
            return self.dropped(reply, visible, ended);
        }
        self.show(&visible);
        let before = self.view.clone();
        self.hold(reply, &[result(call, answer.clone())]);
        self.held = Some(std::mem::replace(&mut self.view, before));
        match found {
            true => self.recalled += 1,
            false => self.asked += 1,
        }
        self.again += 1;
        self.shown.push(Shown::Aside);
        self.view.paired = true;
        self.view.say([visible, vec![block(call)]].concat());
        self.view
            .later
            .push(json!({"role": "user", "content": [result(call, answer)]}));
        None
    }

    /// Result of a search, after `before` others.
    fn search(&self, before: usize) -> HiddenResult {
        match before < self.recalls {
            true => HiddenResult::from_text(FOUND[0]),
            false => HiddenResult::TOO_OFTEN,
        }
    }

    fn judge(&self, call: &Part) -> (HiddenResult, Option<String>) {
        let Part::Call { arguments, .. } = call else {
            unreachable!()
        };
        let Arguments::Value(value) = arguments else {
            return (HiddenResult::BAD_ARGUMENTS, None);
        };
        let Some(prompt) = value["prompt"].as_str() else {
            return (HiddenResult::BAD_ARGUMENTS, None);
        };
        let prompt = scrub(prompt.trim());
        if prompt.is_empty() {
            (HiddenResult::EMPTY_PROMPT, None)
        } else if self.legs == 1 && self.content < 2 {
            (HiddenResult::NOTHING_TO_HAND_OFF, None)
        } else {
            (HiddenResult::QUEUED, Some(prompt))
        }
    }
}
