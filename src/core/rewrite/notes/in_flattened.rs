//! Removes baton's traces from a flattened transcript, as every other request does.
//!
//! These are commands that baton answered, its replies, and the sentinels of undone handoffs.

use std::collections::{BTreeMap, HashSet};

use memchr::memmem;
use uuid::Uuid;

use super::removed_texts::without;
use super::undone::UndoneHandoffs;
use crate::commands;
use crate::marker::{self, MarkerKind, gap};
use crate::rewrite::RequestReading;
use crate::rewrite::chat_markers::{announcement_start, answer_start};
use crate::rewrite::flattened::{self, FlattenedTranscript, SectionKind};
use crate::text::splice::{self, Edit};
use crate::text::{Span, json};

/// Returns the summary request without these traces, and the handoffs that its notes undo.
///
/// `None` if it has no such traces, or nothing else.
pub(super) fn without_notes(
    reading: &RequestReading,
    prefix: &str,
) -> Option<(RequestReading, UndoneHandoffs)> {
    if !flattened::may_be_flattened(&reading.view) {
        return None;
    }
    let body = &reading.view.body;
    let has_any = memmem::find(body, marker::STEM).is_some()
        || !prefix.is_empty() && memmem::find(body, prefix.as_bytes()).is_some();
    if !has_any {
        return None;
    }
    let flat = flattened::find(&reading.view)?;
    let mut gone = GoneSections::default();
    let undone = flat.find_notes(prefix, &mut gone);
    for found in flat.sentinels().iter().filter(|found| undone.contains(&found.id)) {
        let Some(n) = flat.section_number(found.at) else {
            continue;
        };
        let inside = flat.inside(n);
        let from = announcement_start(body, inside.start, found.at);
        gone.text(n, Span::new(from, found.rest.clamp(from, inside.end)));
    }
    let edits = flat.without(&gone);
    if edits.is_empty() {
        return None;
    }
    let again = reading.again(&splice::flat(splice::splice(body, edits)))?;
    Some((again, UndoneHandoffs::in_text(undone)))
}

/// Spans to remove, by section number.
#[derive(Default)]
struct GoneSections {
    texts: BTreeMap<usize, Vec<Span>>,
}

impl GoneSections {
    fn text(&mut self, section: usize, span: Span) {
        self.texts.entry(section).or_default().push(span);
    }
}

impl FlattenedTranscript<'_> {
    fn section_number(&self, at: usize) -> Option<usize> {
        self.sections.partition_point(|s| s.at <= at).checked_sub(1)
    }

    /// Text of a section, without the line breaks before the next one.
    fn inside(&self, section: usize) -> Span {
        let section = &self.sections[section];
        let end = self.end_of(section);
        Span::new(section.text, gap::before(self.body, section.text, end))
    }

    /// Finds the replies with their commands, and commands without replies. Returns the handoffs that the
    /// notes undo.
    fn find_notes(&self, prefix: &str, gone: &mut GoneSections) -> HashSet<Uuid> {
        // Includes the closing quote of the literal, which marks the end of the last line.
        let literal = Span::new(self.span.start, self.end + 1);
        let (marks, _) = marker::marks_in(self.body, literal, &marker::stems(self.body));
        let mut undone = HashSet::new();
        let mut done = 0;
        for mark in marks {
            let MarkerKind::Note(id) = mark.kind else { continue };
            let Some(n) = self.section_number(mark.span.start) else {
                continue;
            };
            if self.sections[n].kind != SectionKind::Assistant {
                continue;
            }
            let from = answer_start(self.body, self.sections[n].text.max(done), mark.span.start);
            gone.text(n, Span::new(from, mark.span.end));
            done = mark.span.end;
            // Each further note toggles the state, because the same command reverts an undo.
            if !id.is_nil() && !undone.remove(&id) {
                undone.insert(id);
            }
            let before = n.checked_sub(1);
            if let Some(before) = before.filter(|before| self.says_command(*before, prefix)) {
                gone.text(before, self.inside(before));
            }
        }
        // The agent may have left out the reply to a command, which then has no note.
        for n in 0..self.sections.len() {
            let next = self.sections.get(n + 1).map(|next| next.kind);
            if next != Some(SectionKind::Assistant) && self.is_command(n, prefix) {
                gone.text(n, self.inside(n));
            }
        }
        undone
    }

    /// The user's words in a section.
    fn users_words(&self, section: usize) -> Option<String> {
        let is_users = self.sections[section].kind == SectionKind::User;
        let raw = flattened::unwrapped(self.wording, self.inside(section).of(self.body));
        is_users.then(|| commands::unquoted(json::unescape(raw).trim()).into_owned())
    }

    /// Whether a section that baton answered is a command, or was one under another prefix.
    fn says_command(&self, section: usize, prefix: &str) -> bool {
        let said = self.users_words(section);
        said.is_some_and(|said| commands::is_or_was_command(&said, prefix))
    }

    fn is_command(&self, section: usize, prefix: &str) -> bool {
        let said = self.users_words(section);
        said.is_some_and(|said| commands::is_command(&said, prefix))
    }

    /// Edits that remove these spans, and sections that become empty. No edits if nothing would be left at
    /// all.
    fn without(&self, gone: &GoneSections) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut empty: Vec<Span> = Vec::new();
        for (&n, spans) in &gone.texts {
            let section = &self.sections[n];
            let whole = Span::new(section.at, self.end_of(section));
            match without(self.body, self.inside(n), spans) {
                Some(some) => edits.extend(some),
                // Adjacent sections are merged, so that one span shows whether anything is left.
                None => match empty.last_mut().filter(|last| last.end == whole.start) {
                    Some(last) => last.end = whole.end,
                    None => empty.push(whole),
                },
            }
        }
        if empty.contains(&self.span) {
            return Vec::new();
        }
        if let Some(last) = empty.last_mut().filter(|last| last.end == self.span.end) {
            last.start = gap::before(self.body, self.span.start, last.start);
        }
        edits.extend(empty.into_iter().map(|span| Edit::replace(span, "")));
        edits
    }
}
