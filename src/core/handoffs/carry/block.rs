//! Writes and reads the block after a carry-over prompt. Its wording never changes, because it is part of a prefix.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::handoffs::draft::{DONE, tokens};
use crate::marker::tags;
use crate::record::{CarriedItem, CarriedKind, CarriedState};
use crate::text::tokens::beginning;
use crate::text::words::plural;
use crate::tools::RECALL_NAME;
use crate::transcript::ToolUse;

const OPENS: &str = "<carried-over>\n";
const CLOSES: &str = "</carried-over>";
const NAME: &str = "carried-over>";

/// Headings above the lines of each kind.
const NEWEST: &str = "The user's newest message, quoted. It is still to be answered unless the text above says that it is done:";
const SAID: &str = "What else the user said, quoted, newest first. Requests among it may be done:";
const RULES: &str =
    "The user's rules and decisions, quoted word for word. They hold unless the text above says otherwise:";
const TODOS: &str = "Open in the to-do list as it was last written, unless the text above says otherwise:";
const CLAIMS: &str = "Said above, and contradicted by what was seen:";

const FILES: &str = "Files that were changed, and are not named above:";

const ITEM: &str = "- ";
const CUT: &str = " […]";
const SET_IN: &str = "\n  ";

/// Budget in tokens below which the headings are short, because they would take most of it.
const SHORT: usize = 200;

/// Headings of a block with a small budget.
const SHORT_NEWEST: &str = "The user's newest message, to be answered:";
const SHORT_RULES: &str = "The user's rules:";
const SHORT_SAID: &str = "The user also said:";

/// Whether a block with this budget has only the user's words and short headings.
pub(super) fn is_short(budget: usize) -> bool {
    budget < SHORT
}

/// Chooses the lines of a block within its token budget.
pub(super) struct BlockWriter {
    left: usize,
    /// Tokens that stay free for other lines.
    pub(super) reserve: usize,
    kinds: Vec<CarriedKind>,
    is_short: bool,
}

impl BlockWriter {
    pub(super) fn within(budget: usize) -> Self {
        let around = tokens(OPENS) + tokens(CLOSES) + 2;
        Self {
            left: budget.saturating_sub(around),
            reserve: 0,
            kinds: Vec::new(),
            is_short: is_short(budget),
        }
    }

    /// Adds a line to the block, unless the prompt has it or it does not fit.
    pub(super) fn put(&mut self, kind: CarriedKind, text: String, is_there: bool) -> CarriedItem {
        let state = match is_there {
            true => CarriedState::InPrompt,
            false if self.takes(kind, &text) => CarriedState::Added,
            false => CarriedState::LeftOut,
        };
        CarriedItem { kind, state, text }
    }

    /// Bounds the tokens of all further lines.
    pub(super) fn limit(&mut self, tokens: usize) {
        self.reserve = self.left.saturating_sub(tokens);
    }

    /// The beginning of a line that takes at most one of `shares` parts of the budget with its heading.
    pub(super) fn part(&self, kind: CarriedKind, text: &str, shares: usize) -> String {
        let around = tokens(heading(kind, self.is_short)) + tokens(ITEM) + tokens(CUT) + 2;
        match beginning(text, (self.left / shares).saturating_sub(around)) {
            // Without room for a word, the line is left out whole.
            some if some.is_empty() || some.len() == text.len() => text.to_owned(),
            begins => format!("{}{CUT}", begins.trim_end()),
        }
    }

    /// Takes a line into the budget; `false` if it does not fit.
    pub(super) fn takes(&mut self, kind: CarriedKind, text: &str) -> bool {
        let is_first = !self.kinds.contains(&kind);
        // Counts one token for the line break.
        let line = tokens(text) + tokens(ITEM) + 1;
        // The first line of a kind also pays for the heading.
        let heading = match is_first {
            true => tokens(heading(kind, self.is_short)) + 1,
            false => 0,
        };
        let left = self.left.checked_sub(line + heading);
        let Some(left) = left.filter(|left| *left >= self.reserve) else {
            return false;
        };
        self.left = left;
        self.kinds.extend(is_first.then_some(kind));
        true
    }
}

/// Tool results that a cut leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    pub results: usize,
    /// Number of different tools.
    pub tools: usize,
}

impl LeftOut {
    /// Counts the results of a transcript's calls; `None` if there are none.
    pub fn from_uses(uses: &[ToolUse<'_>]) -> Option<Self> {
        let answered = || uses.iter().filter(|used| used.answer.is_some());
        let tools: HashSet<String> = answered().map(|used| used.call.named()).collect();
        let (results, tools) = (answered().count(), tools.len());
        (results > 0).then_some(Self { results, tools })
    }

    /// The line that tells the model about recall.
    pub(super) fn line(&self) -> String {
        let results = plural(self.results as u64, "result");
        let tools = plural(self.tools as u64, "tool");
        format!("Left out: {results} of {tools}; {RECALL_NAME} finds them.")
    }
}

/// The line that tells the model how many of the user's rules did not fit; `None` if all did.
pub(super) fn rules_left_out(items: &[CarriedItem], has_recall: bool) -> Option<String> {
    let is_left = |item: &&CarriedItem| item.kind == CarriedKind::Rule && item.state == CarriedState::LeftOut;
    let count = items.iter().filter(is_left).count();
    let rules = plural(count as u64, "more rule");
    let finds = match has_recall {
        true => format!("; {RECALL_NAME} finds them"),
        false => String::new(),
    };
    (count > 0).then(|| format!("Left out: {rules} of the user, for lack of room{finds}."))
}

/// Formats the block of added items within a budget; `None` if there are none. `closing` are its last lines.
pub(super) fn text(items: &[CarriedItem], closing: &[String], budget: usize) -> Option<String> {
    let mut out = OPENS.to_owned();
    // Lines were chosen by priority, but are listed by kind, in the order of the enum.
    for kind in CarriedKind::ALL {
        let added = |item: &&CarriedItem| item.kind == kind && item.state == CarriedState::Added;
        for (at, item) in items.iter().filter(added).enumerate() {
            if at == 0 {
                out.extend([heading(kind, is_short(budget)), "\n"]);
            }
            // Indents the further lines of a message, so that none of them is read as a heading or an item.
            out.extend([ITEM, &tags::break_up(&item.text).replace('\n', SET_IN), "\n"]);
        }
    }
    let lines = closing.iter().filter(|line| !line.is_empty());
    out.extend(lines.flat_map(|line| [line, "\n"]));
    (out.len() > OPENS.len()).then(|| out + CLOSES)
}

fn heading(kind: CarriedKind, is_short: bool) -> &'static str {
    match kind {
        CarriedKind::Newest if is_short => SHORT_NEWEST,
        CarriedKind::Said if is_short => SHORT_SAID,
        CarriedKind::Rule if is_short => SHORT_RULES,
        CarriedKind::Newest => NEWEST,
        CarriedKind::Said => SAID,
        CarriedKind::Rule => RULES,
        CarriedKind::Todo => TODOS,
        CarriedKind::Claim => CLAIMS,
        CarriedKind::Files => FILES,
        CarriedKind::Done => DONE,
    }
}

/// Whether a string has something that could be read as the edge of a block, unless it is broken up.
fn has_edge(text: &str) -> bool {
    text.contains(NAME)
}

/// Whether a string is nothing but an edge, as in a block that the user pasted.
pub(super) fn is_edge(text: &str) -> bool {
    [OPENS, CLOSES].iter().any(|edge| edge.trim_end() == text.trim())
}

/// Splits a stored prompt into the prompt itself and the rules of the block after it, newest first.
pub(super) fn split(prompt: &str) -> (&str, Vec<&str>) {
    // Only a block at the very end is baton's. The last opening counts, because the prompt itself may quote a block.
    let inside = prompt.trim_end().strip_suffix(CLOSES);
    let Some((before, block)) = inside.and_then(|inside| inside.rsplit_once(OPENS)) else {
        return (prompt, Vec::new());
    };
    let mut lines = block.lines();
    let has_rules = lines.any(|line| line == RULES || line == SHORT_RULES);
    // Without the heading of the rules, all items belong to other kinds.
    let rules = lines
        .map_while(|line| line.strip_prefix(ITEM))
        .take(if has_rules { usize::MAX } else { 0 });
    (before.trim_end(), rules.collect())
}

/// Removes `<carried-over>` blocks from a new prompt, which its writer copied from the previous one.
///
/// The caller appends a new block with the items that still hold.
pub fn without_blocks(prompt: &str) -> Cow<'_, str> {
    if !has_edge(prompt) {
        return prompt.into();
    }
    let mut out = String::with_capacity(prompt.len());
    let mut rest = prompt;
    while let Some((before, after)) = rest.split_once(OPENS) {
        out.push_str(before.trim_end());
        // A truncated copy has no end: it is removed to the end of the prompt.
        rest = after.split_once(CLOSES).map_or("", |(_, rest)| rest);
    }
    out.push_str(rest);
    // A remaining edge must not be read as the edge of the new block.
    out.replace(CLOSES, "").into()
}
