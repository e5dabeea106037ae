//! Reads chat responses: one completion for the agent, whatever the number of legs.
//!
//! Events: <https://platform.openai.com/docs/api-reference/chat-streaming>.

use bytes::Bytes;

use super::calls::{self, CallListFate, LegCalls};
use super::chunk::{self, ChatChunk, ChatIdentity, ChunkChoice};
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::leg_state::{Dialect, Frame, HeldFrame, HeldKind, LegState, LegUsage, ProviderUsage};
use crate::wire::openai::{OpenaiUsage, stopped_chat as stopped};
use crate::wire::{Ending, View, sse, view};

const DONE: &[u8] = b"[DONE]";

/// State of a response.
#[derive(Default)]
pub(super) struct ChatDialect {
    /// Whether the agent requested usage.
    wants_usage: bool,
    /// Whether the response has more than one choice, so that it is relayed unchanged.
    many: bool,
    usage: LegUsage<OpenaiUsage>,
    identity: ChatIdentity,
    calls: LegCalls,
    /// Whether the leg has content.
    spoke: bool,
    /// Whether the role was shown. Accumulators concatenate strings, so a role must appear only once.
    role_shown: bool,
    /// Whether baton's text before upstream's first output was emitted.
    opened: bool,
    /// The agent's message, joined from complete replies.
    joined: JoinedMessage,
}

/// Changes of a chunk.
#[derive(Default)]
struct ChunkShape {
    edits: Vec<Edit>,
    /// Whether part of the delta was removed.
    taken: bool,
    /// Whether visible content remains in the delta.
    left: bool,
    /// Whether the chunk states the role.
    role: bool,
}

impl Dialect for ChatDialect {
    fn frame(&mut self, state: &mut LegState, frame: Frame<'_>) {
        let Frame { raw, data } = frame;
        if data.trim_ascii() == DONE {
            state.report.ended = true;
            self.release(state);
            return state.end(HeldKind::Done, raw);
        }
        let Some(chunk) = ChatChunk::read(data) else {
            return state.pass(raw);
        };
        if chunk.error {
            // A chunk with an id may already have been forwarded, so the leg cannot be retried.
            let shown = state.report.parts > 0 || !state.report.id.is_empty();
            return state.pass_error(shown, raw);
        }
        self.note(state, data, &chunk);
        match &chunk.choice {
            _ if self.many => state.pass(raw),
            Some(choice) => self.choice(state, frame, &chunk, choice),
            // SDKs overwrite the usage with every later chunk, so this one has to stay the last.
            None if chunk.usage.is_some() => {
                if state.holds() || !self.hides_usage(state) {
                    state.end(HeldKind::Usage, raw);
                }
            }
            None => {
                let edits = self.identity_edits(state, data, &chunk);
                state.out.push(frame.edited(edits));
            }
        }
    }

    fn whole(&mut self, state: &mut LegState, body: &Bytes) -> Option<()> {
        let data: &[u8] = body;
        let whole = json::whole(data).ok()?;
        let choices = json::elements(data, json::get(data, whole, "choices")?);
        let choice = *choices.first()?;
        let report = &mut state.report;
        report.id = json::get_owned(data, whole, "id");
        report.stop = chunk::stop(json::get_string(data, choice, "finish_reason").as_deref());
        report.ended = true;
        report.served.take(data, whole);
        if let Some(usage) = json::get(data, whole, "usage").filter(|usage| data[usage.start] == b'{') {
            self.usage.take(data, usage, report);
        }
        if state.leg == 0 {
            self.identity.take(data, &json::members(data, whole));
        }
        self.many = choices.len() > 1;
        if self.many {
            return Some(());
        }
        // Any other value of `message` cannot be extended.
        let message = json::get(data, choice, "message").filter(|m| data[m.start] == b'{')?;
        let [calls, content] = json::pick(data, message, ["tool_calls", "content"]);
        for call in calls.map_or(Vec::new(), |calls| json::elements(data, calls)) {
            calls::whole(state, data, call);
        }
        if let Some(content) = content {
            let edits = chunk::texts(data, content).into_iter();
            let edits: Vec<Edit> = edits.flat_map(|inside| state.break_up(data, inside)).collect();
            self.joined.take(data, content, &edits);
        }
        let spoken = content.is_some_and(|content| chunk::says_something(content.of(data)));
        state.report.parts = state.report.calls.len() + usize::from(spoken);
        Some(())
    }

    fn end_leg(&mut self, _state: &LegState, counts: bool) {
        self.usage.end_leg(counts);
        self.calls.next_leg();
        self.spoke = false;
    }

    fn say(&mut self, state: &mut LegState, text: &str) {
        let delta = format!(r#"{{"content":{}}}"#, json::quote(text));
        state.out.push(self.own(&delta, "null"));
    }

    fn say_whole(&mut self, _state: &LegState, text: &str) {
        self.joined.say(text);
    }

    fn keepalive(&mut self, state: &mut LegState) {
        // Not a data event, because the TypeScript SDK throws on one without choices.
        state.out.push(Bytes::from_static(b": keep-alive\n\n"));
    }

    fn last(&mut self, state: &mut LegState, held: HeldFrame, ending: Ending) {
        // The agent did not request this frame.
        if held.kind == HeldKind::Usage && self.hides_usage(state) {
            return;
        }
        let data = &sse::data(&held.raw)[..];
        let Some(chunk) = ChatChunk::read(data).filter(|_| held.kind != HeldKind::Done) else {
            return state.pass(&held.raw);
        };
        let mut edits = self.identity_edits(state, data, &chunk);
        let reason = chunk.choice.as_ref().and_then(|c| c.finish);
        edits.extend(reason.and_then(|reason| chunk::reason_edit(data, reason, ending)));
        if let Some(usage) = chunk.usage.filter(|_| state.leg > 0) {
            let merged = OpenaiUsage::merged(&self.usage.all());
            edits.extend(merged.map(|m| Edit::replace(usage, m)));
        }
        state.out.push(sse::edited(&held.raw, data, edits));
    }

    fn own_end(&mut self, state: &mut LegState, _ending: Ending, next_input: u64) {
        state.out.push(self.own("{}", r#""stop""#));
        if self.wants_usage {
            let usage = stopped(&self.usage.all(), next_input);
            state.out.push(self.bare("[]", &usage));
        }
        state.out.push(sse::unnamed("[DONE]"));
    }

    /// Keeps the identity of the first leg. All other members are those of the last leg.
    fn joined(&mut self, state: &LegState, last: &[u8], ending: Ending) -> Vec<Edit> {
        let whole = json::root(last);
        let mut edits = Vec::new();
        if state.leg > 0 {
            edits.extend(self.identity.edits(last, &json::members(last, whole), ""));
        }
        let [usage, choices] = json::pick(last, whole, ["usage", "choices"]);
        if let Some(usage) = usage.filter(|usage| ending.next_input().is_some() || last[usage.start] == b'{')
        {
            let now = self.usage.joined(ending, stopped);
            edits.extend(now.map(|now| Edit::replace(usage, now)));
        }
        let choices = choices.map_or(Vec::new(), |choices| json::elements(last, choices));
        let choice = choices.first().copied().unwrap_or_default();
        let [reason, message] = json::pick(last, choice, ["finish_reason", "message"]);
        edits.extend(reason.and_then(|reason| chunk::reason_edit(last, reason, ending)));
        // A response with more than one choice is a single leg without baton's tool.
        if let Some(message) = message.filter(|_| !self.many) {
            edits.extend(self.joined.edits(state, last, message));
        }
        edits
    }
}

impl ChatDialect {
    pub(super) fn new(view: &View) -> Self {
        Self {
            wants_usage: view.facts.wants_usage,
            many: view.facts.many,
            ..Self::default()
        }
    }

    /// Whether to hide the chunk that contains only usage, because baton requested it and not the agent.
    /// Later legs always carry the tool, and with it that request.
    fn hides_usage(&self, state: &LegState) -> bool {
        !self.wants_usage && (state.leg > 0 || state.watch.hide.any())
    }

    /// Records the members that every chunk states: identity, usage and finish reason.
    fn note(&mut self, state: &mut LegState, data: &[u8], chunk: &ChatChunk) {
        if state.report.served.model.is_empty() || chunk.usage.is_some() {
            state.report.served.take(data, chunk.root);
        }
        if chunk.named && state.report.id.is_empty() {
            let own = chunk.members.iter().find(|(key, _)| key.of(data) == b"id");
            state.report.id = own.map(|(_, id)| id.inner().text(data)).unwrap_or_default();
        }
        if chunk.named {
            self.identity.take(data, &chunk.members);
        }
        if let Some(usage) = chunk.usage {
            self.usage.take(data, usage, &mut state.report);
        }
        if let Some(reason) = chunk.choice.as_ref().and_then(|c| c.finish) {
            state.report.stop = chunk::stop(json::string(data, reason).as_deref());
        }
    }

    fn choice(&mut self, state: &mut LegState, frame: Frame<'_>, chunk: &ChatChunk, choice: &ChunkChoice) {
        if let Some(text) = state.opening.take() {
            // Clients expect the role in the first chunk.
            let begins = self.own(r#"{"role":"assistant","content":""}"#, "null");
            state.out.push(begins);
            self.role_shown = true;
            self.opened = true;
            self.say(state, &text);
        }
        let shape = self.shape(state, frame.data, chunk, choice);
        if let Some(reason) = choice.finish {
            self.finish(state, frame, (chunk, choice.delta, reason), shape);
        } else if shape.left || !shape.taken {
            state.out.push(frame.edited(shape.edits));
        }
    }

    /// Reads the chunk that ends the choice. Any other content in it is emitted at once.
    fn finish(
        &mut self,
        state: &mut LegState,
        frame: Frame<'_>,
        (chunk, delta, reason): (&ChatChunk, Option<Span>, Span),
        shape: ChunkShape,
    ) {
        // A call that is cut off by the end of its leg is incomplete.
        let natural = state.report.stop.natural();
        let last = state.report.hidden.len();
        for (i, call) in state.report.hidden.iter_mut().enumerate() {
            call.complete = natural || i + 1 < last;
        }
        if !state.holds() {
            self.release(state);
            return state.out.push(frame.edited(shape.edits));
        }
        // The content is emitted now, but the reason waits for the verdict.
        if shape.left {
            let mut edits = shape.edits;
            edits.push(Edit::replace(reason, "null"));
            edits.extend(chunk.usage.map(|u| Edit::replace(u, "null")));
            state.out.push(frame.edited(edits));
        }
        self.release(state);
        // The content was emitted or hidden, so the held frame keeps only the end.
        let rest = delta.filter(|_| shape.left || shape.taken);
        let rest = rest.map(|d| Edit::replace(d, "{}")).into_iter().collect();
        state.keep(HeldFrame::new(HeldKind::End, &frame.edited(rest)));
    }

    /// Emits calls whose name was undecided until the end.
    fn release(&mut self, state: &mut LegState) {
        if let Some(elements) = self.calls.flush(state) {
            let calls = self.own(&format!(r#"{{"tool_calls":[{elements}]}}"#), "null");
            state.out.push(calls);
        }
    }

    fn shape(
        &mut self,
        state: &mut LegState,
        data: &[u8],
        chunk: &ChatChunk,
        choice: &ChunkChoice,
    ) -> ChunkShape {
        let mut shape = ChunkShape {
            edits: self.identity_edits(state, data, chunk),
            ..ChunkShape::default()
        };
        // Running totals (Gemini, vLLM) cover only this leg.
        if let Some(usage) = chunk.usage.filter(|_| state.leg > 0 && choice.finish.is_none()) {
            let now = OpenaiUsage::merged(&self.usage.all());
            shape.edits.extend(now.map(|n| Edit::replace(usage, n)));
        }
        let Some(delta) = choice.delta else {
            return shape;
        };
        let members = json::members(data, delta);
        let mut gone = Vec::new();
        for &(key, value) in &members {
            let goes = match key.of(data) {
                b"role" => self.role(state, &mut shape),
                b"tool_calls" => self.tool_calls(state, data, value, &mut shape),
                b"content" => self.content(state, data, value, &mut shape),
                _ => {
                    shape.left |= chunk::says_something(value.of(data));
                    false
                }
            };
            gone.extend(goes.then_some(key));
        }
        shape.taken = !gone.is_empty();
        // If every member is removed, the delta becomes empty.
        let kept = view::members_without(&members, |key| gone.contains(&key));
        shape
            .edits
            .extend(kept.unwrap_or_else(|| vec![Edit::delete(delta.inner())]));
        shape
    }

    fn role(&mut self, state: &LegState, shape: &mut ChunkShape) -> bool {
        let shown = std::mem::replace(&mut self.role_shown, true);
        shape.role = true;
        shape.left |= !shown;
        // Some servers repeat the role in every chunk. On the first leg without injected text that stays as
        // upstream sent it.
        shown && (state.leg > 0 || self.opened)
    }

    fn content(&mut self, state: &mut LegState, data: &[u8], value: Span, shape: &mut ChunkShape) -> bool {
        if chunk::says_something(value.of(data)) {
            shape.left = true;
            state.report.parts += usize::from(!std::mem::replace(&mut self.spoke, true));
        }
        for inside in chunk::texts(data, value) {
            shape.edits.extend(state.break_up(data, inside));
        }
        false
    }

    fn tool_calls(&mut self, state: &mut LegState, data: &[u8], value: Span, shape: &mut ChunkShape) -> bool {
        if json::elements(data, value).is_empty() {
            return false;
        }
        match self.calls.take(data, value, state) {
            CallListFate::Shown(edits) => shape.edits.extend(edits),
            CallListFate::Rebuilt(list) => shape.edits.push(Edit::replace(value, list)),
            CallListFate::Gone => return true,
        }
        shape.left = true;
        false
    }

    /// Returns the edits that give a later leg's chunk the identity of the first leg.
    fn identity_edits(&self, state: &LegState, data: &[u8], chunk: &ChatChunk) -> Vec<Edit> {
        if state.leg == 0 || !chunk.named {
            return Vec::new();
        }
        // Azure marks its late filter chunks with an empty `object`.
        self.identity.edits(data, &chunk.members, "object")
    }

    /// Creates a chunk.
    fn own(&self, delta: &str, finish: &str) -> Bytes {
        let choice = format!(r#"[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]"#);
        self.bare(&choice, "null")
    }

    fn bare(&self, choices: &str, usage: &str) -> Bytes {
        self.identity
            .chunk(choices, Some(usage).filter(|_| self.wants_usage))
    }
}

/// Content of all legs in order, with baton's text between them.
#[derive(Default)]
pub(super) struct JoinedMessage(Vec<ContentPiece>);

/// A piece of the agent's content.
enum ContentPiece {
    /// Inside of a string literal.
    Text(String),
    /// Block of a list.
    Block(String),
}

impl JoinedMessage {
    /// Appends text from baton.
    pub(super) fn say(&mut self, text: &str) {
        let quoted = json::quote(text);
        self.0
            .push(ContentPiece::Text(quoted[1..quoted.len() - 1].to_owned()));
    }

    /// Appends the content of a leg after applying these edits.
    pub(super) fn take(&mut self, data: &[u8], content: Span, edits: &[Edit]) {
        let broken = view::edited_part(data, content, edits);
        let text = broken.as_bytes();
        let whole = json::root(text);
        match text.first() {
            Some(b'"') => self.0.push(ContentPiece::Text(whole.inner().text(text))),
            Some(b'[') => {
                let blocks = json::elements(text, whole).into_iter();
                self.0
                    .extend(blocks.map(|block| ContentPiece::Block(block.text(text))));
            }
            _ => {}
        }
    }

    /// Joins the pieces: a string, or a list if any leg has one. `None` if there is no content.
    fn content(&self) -> Option<String> {
        let text = |p: &ContentPiece| match p {
            ContentPiece::Text(text) => Some(text.clone()),
            ContentPiece::Block(_) => None,
        };
        let pieces = &self.0;
        if pieces.is_empty() {
            return None;
        }
        if let Some(all) = pieces.iter().map(text).collect::<Option<Vec<_>>>() {
            return Some(format!("\"{}\"", all.concat()));
        }
        let blocks = pieces.iter().map(|p| match p {
            ContentPiece::Text(text) => format!(r#"{{"type":"text","text":"{text}"}}"#),
            ContentPiece::Block(raw) => raw.clone(),
        });
        Some(format!("[{}]", blocks.collect::<Vec<_>>().join(",")))
    }

    /// Returns the edits that set the joined content and remove baton's calls.
    pub(super) fn edits(&self, state: &LegState, text: &[u8], message: Span) -> Vec<Edit> {
        let is_ours = |call: &Span| {
            let name =
                json::at_path(text, *call, &["function", "name"]).and_then(|name| json::string(text, name));
            name.is_some_and(|name| state.ours(&name).is_some())
        };
        let members = json::members(text, message);
        let find = |name: &str| members.iter().find(|(k, _)| k.of(text) == name.as_bytes());
        let listed = find("tool_calls").copied();
        let elements = listed.map_or(Vec::new(), |(_, list)| json::elements(text, list));
        let (ours, theirs): (Vec<Span>, Vec<Span>) = elements.into_iter().partition(is_ours);
        let hidden = listed.filter(|_| !ours.is_empty());
        let bare = hidden.filter(|_| theirs.is_empty());
        // A message without calls needs content, even if empty, or it cannot be sent back.
        let content = self.content().or(bare.map(|_| r#""""#.to_owned()));
        let mut edits = Vec::new();
        match (find("content"), content, bare) {
            (Some((_, old)), Some(now), _) if old.of(text) == now.as_bytes() => {}
            (Some((_, old)), Some(now), _) => edits.push(Edit::replace(*old, now)),
            // The API would reject an empty list of calls when the agent sends it back, so the content
            // replaces it.
            (None, Some(now), Some((key, list))) => {
                let place = Span::new(key.start - 1, list.end);
                return vec![Edit::replace(place, format!(r#""content":{now}"#))];
            }
            (None, Some(now), None) => edits.push(view::first_member(text, message, "content", &now)),
            (_, None, _) => {}
        }
        if bare.is_some() {
            edits.extend(view::without_member(text, message, "tool_calls"));
        } else if let Some((_, list)) = hidden {
            let kept: Vec<String> = theirs.iter().map(|call| call.text(text)).collect();
            edits.push(Edit::replace(list, format!("[{}]", kept.join(","))));
        }
        edits
    }
}
