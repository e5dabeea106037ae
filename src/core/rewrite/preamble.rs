//! The preamble: facts about the session that the agent itself gives its model, and other text that must
//! survive a cut.

use std::collections::HashMap;
use std::ops::Range;

use memchr::memmem;

use super::harness_texts::{self, HarnessText, TextPosition, is_compaction, is_summary, tagged_len};
use crate::agents::reminders;
use crate::text::{Span, json};
use crate::wire::view::{self, Role, TurnPartKind, View};
use crate::wire::{Turn, TurnContent, TurnPart, Wire};

/// Preamble of a transcript, as JSON of its wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preamble {
    /// Messages or items that contain nothing else.
    pub turns: Vec<String>,
    /// Blocks before the carry-over prompt, in its message.
    pub blocks: Vec<String>,
}

/// Formats preamble and carry-over prompt as message elements, separated by commas. A handoff is stored with
/// them.
pub fn head(wire: &Wire, preamble: &Preamble, prompt: &str) -> String {
    let mut all = preamble.turns.clone();
    all.push((wire.functions.carry_over)(&preamble.blocks, prompt));
    all.join(",")
}

/// Reads the agent's current preamble in a transcript, up to a user's sentinel in `until`.
///
/// The preamble has the messages before the user's first words, and the reminders that still hold.
pub fn of(view: &View, until: Option<(usize, usize)>, tags: &[String]) -> Preamble {
    let mut found = Preamble::default();
    let texts = harness_texts::read(view, until, tags);
    for texts in texts.chunk_by(|a, b| a.0.turn == b.0.turn) {
        let turn = texts[0].0.turn;
        let holding = texts.iter().filter(|(_, holds)| *holds);
        let holding = holding.map(|(text, _)| &text.place);
        let content = view.content(turn);
        let summaries = content.parts.iter().filter(|part| is_summary(part)).count();
        let is_block = |(text, _): &(HarnessText, bool)| matches!(text.place, TextPosition::Block(_));
        let is_alone = texts.len() == content.parts.len() - summaries && texts.iter().all(is_block);
        // A message of nothing but preamble keeps its form. Otherwise its parts move before the prompt.
        match content.list.filter(|_| is_alone && found.blocks.is_empty()) {
            Some(list) => {
                let blocks: Vec<String> = holding.filter_map(|place| block_of(view, place)).collect();
                if !blocks.is_empty() {
                    found.turns.push(around(view, turn, list, &blocks));
                }
            }
            None => holding.for_each(|place| found.take(view, place)),
        }
    }
    found
}

impl Preamble {
    /// Appends a message. Blocks follow the turns, so everything after a block is a block as well.
    fn take(&mut self, view: &View, place: &TextPosition) {
        match (place, block_of(view, place)) {
            // In a message of its own, as long as no block has to come first.
            (TextPosition::Text(text), _) if self.blocks.is_empty() => {
                self.turns.push(view.wire().user_text(text));
            }
            (_, Some(block)) => self.blocks.push(block),
            (TextPosition::Text(text), None) => self.turns.push(view.wire().user_text(text)),
            (TextPosition::Block(_) | TextPosition::Elsewhere, None) => {}
        }
    }

    /// Whether the preamble is empty.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.blocks.is_empty()
    }
}

/// Converts a message to a block; `None` on a wire without blocks.
fn block_of(view: &View, place: &TextPosition) -> Option<String> {
    match place {
        TextPosition::Block(span) => Some(clean(&view.str(*span))),
        TextPosition::Text(text) => {
            let message = (view.wire().functions.carry_over)(&["{}".to_owned()], text);
            let content = lone(view, &message);
            // On a wire without blocks, the text becomes a message of its own.
            content.list?;
            Some(content.parts.last()?.span.text(message.as_bytes()))
        }
        TextPosition::Elsewhere => None,
    }
}

/// Removes the cache breakpoint of a block, because later requests bring four of their own.
fn clean(block: &str) -> String {
    view::without(block, "cache_control").into_owned()
}

fn is_tagged(view: &View, part: &TurnPart, tags: &[String]) -> bool {
    let Some(inside) = part.text.filter(|_| part.kind == TurnPartKind::Text) else {
        return false;
    };
    let raw = view.text(inside);
    if !may_be_tagged(raw, tags) {
        return false;
    }
    let text = json::unescape(raw);
    let len = tagged_len(&text, tags);
    len > 0 && text[len..].trim().is_empty()
}

/// Whether a string, with its escapes, may begin with a tag. Most do not, and need not be unescaped to tell.
fn may_be_tagged(raw: &[u8], tags: &[String]) -> bool {
    match raw.first() {
        // White space may precede a tag, and an escape may spell one.
        Some(first) if first.is_ascii_graphic() && *first != b'\\' => {
            tags.iter().any(|t| t.as_bytes().first() == Some(first))
        }
        Some(_) => true,
        None => false,
    }
}

/// Number of user turns that consist only of preamble.
pub fn whole_turns(view: &View, tags: &[String]) -> usize {
    let mut count = 0;
    for turn in view.leading()..view.turns.len() {
        match view.turns[turn].role {
            Role::User => {}
            role if !role.is_spoken() => continue,
            _ => break,
        }
        let content = view.content(turn);
        let only = !content.parts.is_empty() && content.parts.iter().all(|p| is_tagged(view, p, tags));
        if !only {
            break;
        }
        count += 1;
    }
    count
}

/// Extracts the preamble from a stored head of the same wire, so that a chain of handoffs keeps the first
/// one.
pub fn of_head(view: &View, head: &str) -> Preamble {
    let mut turns = elements_of(head);
    let Some(last) = turns.pop() else {
        return Preamble::default();
    };
    let content = lone(view, &last);
    let mut blocks: Vec<String> = match content.list {
        Some(_) => {
            let parts = content.parts.iter();
            parts.map(|p| p.span.text(last.as_bytes())).collect()
        }
        None => Vec::new(),
    };
    // The last block is the prompt.
    blocks.pop();
    Preamble { turns, blocks }
}

/// Extracts the carry-over prompt from a stored head of the same wire, with the text before it.
pub fn prompt_of_head(view: &View, head: &str) -> Option<String> {
    let last = elements_of(head).pop()?;
    let part = lone(view, &last).parts.pop()?;
    Some(json::unescape(part.text?.of(last.as_bytes())).into_owned())
}

fn elements_of(head: &str) -> Vec<String> {
    let list = format!("[{head}]");
    let elements = json::elements(list.as_bytes(), json::root(list.as_bytes())).into_iter();
    elements.map(|element| element.text(list.as_bytes())).collect()
}

/// Content of a single element.
fn lone(view: &View, element: &str) -> TurnContent {
    let span = Span::new(0, element.len());
    let alone = View {
        body: bytes::Bytes::copy_from_slice(element.as_bytes()),
        list: span,
        turns: vec![Turn::new(span, Role::User)],
        facts: view.facts.clone(),
        ..View::empty(view.wire)
    };
    alone.content(0)
}

/// Turns of a dropped part that are sent nevertheless, in order.
///
/// These are system messages before the model's first turn (unless they belong to a finished turn), reminders
/// that still hold, and changes of the available tools. If the provider stores the earlier history, the model
/// has spoken there.
pub fn re_emitted(view: &View, from: usize, to: usize) -> Vec<String> {
    let mut spoken = view.facts.previous.is_some();
    let last_user = (from..to).rfind(|&turn| view.turns[turn].role == Role::User);
    let compacted = may_be_compacted(view, from, to);
    let summed = compacted.then(|| last_summed(view, from, to)).flatten();
    let reminders = SystemReminders::read(view, from..to);
    let mut out = Vec::new();
    for turn in from..to {
        // The last summary covers all changes before it, starting with the list of tools.
        let is_summed = summed.as_ref().is_some_and(|summed| turn < summed.turn);
        out.extend(
            summed
                .as_ref()
                .filter(|s| s.turn == turn)
                .map(|s| s.changes.clone()),
        );
        match view.turns[turn].role {
            // A provider's summary does not count as the model's words.
            _ if view.is_models(turn) => spoken |= !(compacted && is_compaction(view, turn)),
            Role::Tools => out.push(view.str(view.turns[turn].span).into_owned()),
            Role::System if is_over(view, turn, last_user) => {
                out.extend(tool_changes(view, turn).filter(|_| !is_summed));
            }
            Role::System if spoken && view.content(turn).parts.is_empty() => {}
            Role::System => {
                out.extend(parts_alone(view, turn, |part| {
                    match reminders.holding(turn, part) {
                        Some(holding) => holding,
                        None if is_change(part) => kept_if(!is_summed),
                        None => kept_if(!spoken),
                    }
                }));
            }
            _ => {}
        }
    }
    out
}

/// How much of a part of a system message is sent.
enum KeptPart {
    Whole,
    /// Its text, without the reminders that no longer hold.
    Text(String),
    Nothing,
}

fn kept_if(is_kept: bool) -> KeptPart {
    match is_kept {
        true => KeptPart::Whole,
        false => KeptPart::Nothing,
    }
}

/// Range of a reminder in its part, and whether it still holds.
type JudgedReminder = (Range<usize>, bool);

/// Reminders in system messages by turn and part.
struct SystemReminders<'v> {
    view: &'v View,
    by_part: HashMap<(usize, usize), Vec<JudgedReminder>>,
}

impl<'v> SystemReminders<'v> {
    fn read(view: &'v View, turns: Range<usize>) -> Self {
        let last_user = turns.clone().rfind(|&turn| view.turns[turn].role == Role::User);
        let systems =
            turns.filter(|&turn| view.turns[turn].role == Role::System && !is_over(view, turn, last_user));
        let (mut places, mut all) = (Vec::new(), Vec::new());
        for turn in systems {
            for part in &view.content(turn).parts {
                for (range, reminder) in harness_texts::system_reminders(view, part) {
                    places.push(((turn, part.span.start), range));
                    all.push(reminder);
                }
            }
        }
        let mut by_part: HashMap<_, Vec<_>> = HashMap::new();
        for ((place, range), holds) in places.into_iter().zip(reminders::holding(&all)) {
            by_part.entry(place).or_default().push((range, holds));
        }
        Self { view, by_part }
    }

    /// The part as far as it still holds; `None` if it states nothing.
    fn holding(&self, turn: usize, part: &TurnPart) -> Option<KeptPart> {
        let all = self.by_part.get(&(turn, part.span.start))?;
        let holding: Vec<_> = all.iter().filter(|(_, holds)| *holds).collect();
        if holding.is_empty() || holding.len() == all.len() {
            return Some(kept_if(!holding.is_empty()));
        }
        let text = json::unescape(self.view.text(part.text?));
        let kept: String = holding.iter().map(|(range, _)| &text[range.clone()]).collect();
        Some(KeptPart::Text(kept.trim_end().to_owned()))
    }
}

/// A provider's summary that replaces earlier changes of the tools.
struct ToolSummary {
    turn: usize,
    changes: String,
}

/// Finds the last such summary in these turns.
fn last_summed(view: &View, from: usize, to: usize) -> Option<ToolSummary> {
    (from..to).rev().find_map(|turn| {
        let content = view.content(turn);
        let mut summaries = content.parts.iter().rev().filter(|part| is_summary(part));
        let changes = summaries.find_map(|part| (view.turn_rules().compacted_changes)(view, part))?;
        Some(ToolSummary { turn, changes })
    })
}

/// Whether a system message belonged to a turn that is over, so that the model no longer reads it.
fn is_over(view: &View, turn: usize, last_user: Option<usize>) -> bool {
    last_user.is_some_and(|last| turn < last) && (view.turn_rules().ends_at_next_user)(view, turn)
}

/// Whether these turns may contain a provider's summary. Most contain none, and are not parsed for it.
fn may_be_compacted(view: &View, from: usize, to: usize) -> bool {
    let word = memmem::Finder::new(b"\"compaction\"");
    let turns = view.turns.get(from..to).unwrap_or_default();
    // A summary is in a model turn, or before the first one. The other turns hold nearly all of the bytes,
    // because they contain the results of calls.
    let mut spoken = false;
    let mut turns = turns.iter().filter(|turn| {
        spoken |= turn.role == Role::Assistant;
        !spoken || turn.role != Role::User
    });
    turns.any(|turn| word.find(view.text(turn.span)).is_some())
}

fn is_change(part: &TurnPart) -> bool {
    part.kind == TurnPartKind::ToolChange
}

/// Reduces a system message to its changes of tools.
fn tool_changes(view: &View, turn: usize) -> Option<String> {
    let content = view.content(turn);
    let any = content.list.is_some() && content.parts.iter().any(is_change);
    any.then(|| parts_alone(view, turn, |part| kept_if(is_change(part))))
        .flatten()
}

/// Reduces a message to what is kept of its parts; `None` if nothing is left.
fn parts_alone(view: &View, turn: usize, keep: impl Fn(&TurnPart) -> KeptPart) -> Option<String> {
    let content = view.content(turn);
    let mut kept = Vec::new();
    let mut is_changed = false;
    for part in &content.parts {
        let how = keep(part);
        is_changed |= !matches!(how, KeptPart::Whole);
        match how {
            KeptPart::Whole => kept.push(view.str(part.span).into_owned()),
            KeptPart::Text(text) => kept.push(with_text(view, part, &text)),
            KeptPart::Nothing => {}
        }
    }
    let whole = view.turns[turn].span;
    match content.list {
        _ if !is_changed => Some(view.str(whole).into_owned()),
        _ if kept.is_empty() => None,
        Some(list) => Some(around(view, turn, list, &kept)),
        None => {
            let part = content.parts.first()?.span;
            let open = view.str(Span::new(whole.start, part.start));
            let close = view.str(Span::new(part.end, whole.end));
            Some(format!("{open}{}{close}", kept.concat()))
        }
    }
}

/// A part with another text.
fn with_text(view: &View, part: &TurnPart, text: &str) -> String {
    let inside = part.text.unwrap_or(part.span);
    let open = view.str(Span::new(part.span.start, inside.start));
    let close = view.str(Span::new(inside.end, part.span.end));
    let mut out = open.into_owned();
    json::escape_into(text, &mut out);
    out + &close
}

/// Formats a turn with these parts in its list.
fn around(view: &View, turn: usize, list: Span, parts: &[String]) -> String {
    let whole = view.turns[turn].span;
    let open = view.str(Span::new(whole.start, list.start + 1));
    let close = view.str(Span::new(list.end - 1, whole.end));
    format!("{open}{}{close}", parts.join(","))
}
