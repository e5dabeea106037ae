//! Messages of an agent's harness that may outlive a cut: those before the user's first words, and reminders
//! of the session's state anywhere.
//!
//! A file, a result or the user may imitate them. So `agents::speakers` decides who speaks. The last text
//! block before the model's next turn counts as typed by the user, whatever its beginning. So does one in a
//! turn with other words. In a result, only blocks count that its tool cannot have printed.

use std::cell::OnceCell;
use std::ops::Range;

use memchr::memmem;

use crate::agents::reminders::{self, StateReminder};
use crate::agents::speakers::{self, AgentsCall, SpeakerSettings};
use crate::agents::wordings::UserText;
use crate::text::{Span, cost, json};
use crate::transcript::{AgentKind, SaidPart, ToolUse, Transcript};
use crate::wire::TurnPart;
use crate::wire::view::{Role, TurnPartKind, View};

/// Opening tag of a reminder (Claude Code and others).
const OPENS: &str = "<system-reminder>";
/// Closing tag of a reminder.
const CLOSES: &str = "</system-reminder>";

/// Beginnings of an attached file.
const ATTACHED: [&str; 2] = ["Called the ", "Result of calling the "];

/// Claude Code's tool with which the model enters plan mode, and how its result begins.
const ENTER_PLAN: &str = "EnterPlanMode";
const ENTERED: &str = "Entered plan mode.";

/// A message of the harness.
pub(super) struct HarnessText {
    pub(super) turn: usize,
    pub(super) place: TextPosition,
    reminder: Option<StateReminder>,
    /// Whether the message precedes the user's first words and the model's first turn.
    is_opening: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextPosition {
    /// A part of a list.
    Block(Span),
    /// Text in a string or a result.
    Text(String),
    /// A system message, or an accepted plan, which is not part of the preamble.
    Elsewhere,
}

/// The user's turns since the model's last one.
#[derive(Default)]
struct UsersTurns {
    /// Index of the last text block, if it looks like the harness's.
    last: Option<usize>,
    /// Last turn with a result.
    answers: Option<usize>,
    is_interrupted: bool,
    /// Whether a block comes from someone other than the harness.
    has_words: bool,
}

struct HarnessReader<'v> {
    view: &'v View,
    tags: &'v [String],
    found: Vec<HarnessText>,
    is_opening: bool,
    turns: UsersTurns,
    /// Read only if a result has reminders.
    agent: OnceCell<&'static str>,
}

/// Reads the harness's messages of a transcript in order, each with whether it still holds.
///
/// Reading stops at the part `until`.
pub(super) fn read(view: &View, until: Option<(usize, usize)>, tags: &[String]) -> Vec<(HarnessText, bool)> {
    let transcript = Transcript::from_view(view);
    let mut reader = HarnessReader {
        view,
        tags,
        found: Vec::new(),
        is_opening: true,
        turns: UsersTurns::default(),
        agent: OnceCell::new(),
    };
    let mut said = transcript.said_by(SpeakerSettings::tagged(tags));
    let leading = view.leading();
    let last = until.map_or(view.turns.len(), |(turn, _)| turn + 1);
    for (at, turn) in transcript.turns().enumerate().take(last) {
        let parts = said.next_turn(&turn);
        match turn.role {
            Role::User | Role::Tool => {
                let end = until.filter(|(turn, _)| *turn == at).map(|(_, part)| part);
                reader.users_turn(at, &parts[..end.unwrap_or(parts.len()).min(parts.len())]);
            }
            // A cut keeps the leading system messages, so they need not be collected.
            Role::System if at >= leading => reader.system_turn(at),
            Role::System | Role::Tools => {}
            _ if is_compaction(view, at) => {}
            _ => {
                reader.end_users_turns();
                reader.is_opening = false;
            }
        }
    }
    // With `until`, the text of the user begins at that part, so the last block before it is not the user's.
    if until.is_none() {
        reader.end_users_turns();
    }
    reader.holding()
}

impl<'v> HarnessReader<'v> {
    fn users_turn(&mut self, at: usize, said: &[SaidPart<'v>]) {
        let content = self.view.content(at);
        for (part, said) in content.parts.iter().zip(said) {
            match part.kind {
                TurnPartKind::Compaction => {}
                TurnPartKind::Text => self.text(at, content.list.is_some(), said),
                TurnPartKind::Result => self.result(at, said),
                _ => self.is_opening = false,
            }
        }
        if self.turns.has_words {
            self.end_users_turns();
        }
    }

    fn text(&mut self, turn: usize, is_block: bool, said: &SaidPart<'v>) {
        let text = &*said.text;
        self.turns.last = None;
        self.turns.is_interrupted |= said.spoken.iter().any(|s| s.by == UserText::Interrupted);
        let len = tagged_len(text, self.tags);
        let is_harness = said
            .spoken
            .iter()
            .all(|spoken| spoken.by == UserText::Harness || spoken.range.start >= len);
        let is_whole = text[len..].trim().is_empty();
        if text[..len].trim().is_empty() || !is_harness || is_block && !is_whole {
            self.turns.has_words = true;
            self.is_opening = false;
            return;
        }
        let harness = text[..len].trim();
        let inside = harness.strip_prefix(OPENS).unwrap_or_default().trim_start();
        // An attached file does not outlive a cut.
        if ATTACHED.iter().any(|begins| inside.starts_with(begins)) {
            return;
        }
        // The end of one of several blocks in a string is unknown.
        let is_one = is_block || harness.matches(OPENS).count() <= 1;
        let place = match is_block {
            true => TextPosition::Block(said.part.span),
            false => TextPosition::Text(harness.to_owned()),
        };
        let reminder = StateReminder::of_reminder(harness).filter(|_| is_one);
        self.push(turn, place, reminder);
        match is_whole {
            true => self.turns.last = Some(self.found.len() - 1),
            false => self.is_opening = false,
        }
    }

    fn result(&mut self, turn: usize, said: &SaidPart<'v>) {
        self.turns.answers = Some(turn);
        self.is_opening = false;
        let Some(used) = said.used else { return };
        if used.accepts_plan() {
            let accepted = Some(StateReminder::plan_accepted());
            self.push(turn, TextPosition::Elsewhere, accepted);
        }
        if let Some(entered) = entered_plan(&used, &said.part.text()) {
            let reminder = StateReminder::of_reminder(&entered);
            self.push(turn, TextPosition::Text(entered), reminder);
        }
        // Without the angle brackets, which JSON may escape.
        let words = &OPENS.as_bytes()[1..OPENS.len() - 1];
        if !self.tags.iter().any(|tag| tag == OPENS) || memmem::find(said.part.raw(), words).is_none() {
            return;
        }
        let text = said.part.text();
        // Only if the tool cannot have printed the block itself.
        let (name, arguments) = (used.call.named(), used.call.given());
        let call = AgentsCall {
            agent: self.agent(),
            name: &name,
            arguments: &arguments,
        };
        let blocks = speakers::reminders(&call, &text);
        let mut rest = blocks.unwrap_or_default();
        while let Some(reminder) = StateReminder::of_reminder(rest).filter(|_| rest.starts_with(OPENS)) {
            let close = match reminder.is_plain {
                true => rest.find(CLOSES),
                // A file may contain the closing tag.
                false => rest.rfind(CLOSES),
            };
            let Some(close) = close else { return };
            let (block, after) = rest.split_at(close + CLOSES.len());
            self.push(turn, TextPosition::Text(block.to_owned()), Some(reminder));
            rest = after.trim_start();
        }
    }

    /// Name of the agent; empty in doubt.
    fn agent(&self) -> &'static str {
        self.agent.get_or_init(|| {
            let agent = Transcript::from_view(self.view).certain_agent();
            agent.map_or("", AgentKind::name)
        })
    }

    fn system_turn(&mut self, turn: usize) {
        for part in &self.view.content(turn).parts {
            for (_, reminder) in system_reminders(self.view, part) {
                self.push(turn, TextPosition::Elsewhere, Some(reminder));
            }
        }
    }

    fn push(&mut self, turn: usize, place: TextPosition, reminder: Option<StateReminder>) {
        self.found.push(HarnessText {
            turn,
            place,
            reminder,
            is_opening: self.is_opening,
        });
    }

    /// Ends the user's turns, because the model speaks or nothing follows.
    ///
    /// The last text block then was the user's, unless the harness put it into the turn of a result.
    fn end_users_turns(&mut self) {
        let turns = std::mem::take(&mut self.turns);
        let Some(last) = turns.last.map(|last| &mut self.found[last]) else {
            return;
        };
        if turns.answers != Some(last.turn) || turns.is_interrupted {
            (last.reminder, last.is_opening) = (None, false);
        }
    }

    fn holding(self) -> Vec<(HarnessText, bool)> {
        let known = self.found.iter().filter_map(|text| text.reminder.clone());
        let known: Vec<StateReminder> = known.collect();
        let mut holds = reminders::holding(&known).into_iter();
        let all = self.found.into_iter().map(|text| {
            let holds = match text.reminder {
                Some(_) => holds.next().unwrap_or_default(),
                // A message without a known reminder survives only if it opened the conversation.
                None => text.is_opening,
            };
            (text, holds)
        });
        all.collect()
    }
}

/// Formats the harness's statement that the model has entered plan mode as a reminder. It is only in the
/// call's result.
fn entered_plan(used: &ToolUse<'_>, text: &str) -> Option<String> {
    let is_entered = used.call.named() == ENTER_PLAN && text.starts_with(ENTERED);
    is_entered.then(|| format!("{OPENS}\n{}\n{CLOSES}", text.trim_end()))
}

/// Reminders in a part of a system message, each with its range in the part's text.
pub(super) fn system_reminders(view: &View, part: &TurnPart) -> Vec<(Range<usize>, StateReminder)> {
    let text = part.text.filter(|_| part.kind == TurnPartKind::Text);
    text.map_or(Vec::new(), |inside| {
        StateReminder::in_system_text(&json::unescape(view.text(inside)))
    })
}

/// Whether a turn consists only of a provider's summary of the turns before it.
pub(super) fn is_compaction(view: &View, turn: usize) -> bool {
    let parts = view.content(turn).parts;
    !parts.is_empty() && parts.iter().all(is_summary)
}

pub(super) fn is_summary(part: &TurnPart) -> bool {
    part.kind == TurnPartKind::Compaction
}

/// Length of the tagged sections at the start of a block.
///
/// A tag `<x …` ends with `</x>`. A heading ends after the following tagged section, or with the block.
pub(super) fn tagged_len(text: &str, tags: &[String]) -> usize {
    let mut at = 0;
    loop {
        let rest = text[at..].trim_start();
        let opens = |tag: &&String| !tag.is_empty() && rest.starts_with(tag.as_str());
        let Some(tag) = tags.iter().find(opens) else {
            return at;
        };
        let start = text.len() - rest.len();
        at = start + section_len(rest, tag);
    }
}

fn section_len(rest: &str, tag: &str) -> usize {
    let from = if tag.starts_with('<') {
        Some(0)
    } else {
        rest.find("\n<").map(|i| i + 1)
    };
    let Some(from) = from else { return rest.len() };
    let name = &rest[from + 1..];
    let ends = name.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-'));
    let close = ["</", &name[..ends.unwrap_or(name.len())], ">"].concat();
    // Searched only after the opening tag, so that no text is read twice.
    let end = memmem::find(&rest.as_bytes()[from..], close.as_bytes())
        .map_or(rest.len(), |i| from + i + close.len());
    cost::add(end);
    end
}
