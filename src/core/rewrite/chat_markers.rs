//! Finds baton's replies in a transcript: notes and sentinels, each with the reply around it.

use std::collections::HashSet;

use uuid::Uuid;

use super::RequestReading;
use super::reading::TextFinder;
use crate::marker::{MarkerKind, gap, note, sentinel};
use crate::text::{Span, cost};
use crate::wire::view::{InjectedKind, Role, View};

/// A note or a valid sentinel.
pub(super) struct MarkerPosition {
    pub(super) id: Uuid,
    pub(super) turn: usize,
    pub(super) part: usize,
    /// Span of the marker; `None` if an item is identified only by its id.
    pub(super) span: Option<Span>,
    /// Inside of the string literal that holds the marker.
    pub(super) inside: Span,
}

#[derive(Default)]
pub(super) struct ChatMarker {
    pub(super) notes: Vec<MarkerPosition>,
    pub(super) opens: Vec<MarkerPosition>,
}

impl ChatMarker {
    pub(super) fn in_reading(reading: &RequestReading) -> Self {
        let mut texts = TextFinder::new(&reading.view);
        let mut found = Self::default();
        for (i, mark) in reading.marks.iter().enumerate() {
            let (MarkerKind::Note(id) | MarkerKind::Open(id)) = mark.kind else {
                continue;
            };
            let Some((turn, part, inside)) = texts.at(mark.span.start, &[Role::Assistant]) else {
                continue;
            };
            let at = |span| MarkerPosition {
                id,
                turn,
                part,
                span: Some(span),
                inside,
            };
            match mark.kind {
                MarkerKind::Note(_) => found.notes.push(at(mark.span)),
                _ => {
                    let read = sentinel::read(&reading.view.body, inside, &reading.marks, i);
                    found.opens.extend(read.map(|read| {
                        let from = announcement_start(&reading.view.body, inside.start, read.at);
                        at(Span::new(from, read.rest))
                    }));
                }
            }
        }
        // A sentinel may be known by its text and by its item. It counts once.
        let mut known: HashSet<_> = found.opens.iter().map(|at| (at.turn, at.id)).collect();
        let items = reading.items.iter();
        for item in items.filter(|item| item.kind == InjectedKind::Sentinel) {
            if known.insert((item.turn, item.id)) {
                found.opens.push(MarkerPosition {
                    id: item.id,
                    turn: item.turn,
                    part: 0,
                    span: None,
                    inside: Span::default(),
                });
            }
        }
        found
    }

    /// Spans of the replies that end with the notes.
    ///
    /// Each extends back to its beginning, as far as the text before its note shows, and never across another
    /// note.
    pub(super) fn answers(&self, view: &View) -> Vec<Span> {
        let mut done = 0;
        let spans = self.notes.iter().map(|at| {
            let mark = at.span.unwrap_or_default();
            let start = answer_start(&view.body, at.inside.start.max(done), mark.start);
            done = mark.end;
            Span::new(start, mark.end)
        });
        spans.collect()
    }
}

/// Start of the reply whose note is at `mark`, at or after `from`.
///
/// This is the last line before the note that begins a reply, or else `from`.
pub(super) fn answer_start(text: &[u8], from: usize, mark: usize) -> usize {
    // The progress line has no note after it.
    if text[mark..].starts_with(note::BEGINS.as_bytes()) {
        return mark;
    }
    let start = from.min(mark);
    let line_start = |at: &usize| *at == start || text[..*at].ends_with(br"\n");
    cost::add(mark - start);
    let hits = memchr::memmem::rfind_iter(&text[start..mark], note::BEGINS);
    hits.map(|hit| start + hit).find(line_start).unwrap_or(start)
}

/// Start of baton's announcement right before a sentinel, which is a separate line.
pub(super) fn announcement_start(text: &[u8], start: usize, open: usize) -> usize {
    /// Maximum length of such a line in bytes.
    const LONGEST: usize = 1024;
    let end = gap::before(text, start, open);
    let from = start.max(end.saturating_sub(LONGEST));
    let line = memchr::memmem::rfind(&text[from..end], br"\n").map_or(from, |at| from + at + 2);
    match text[line..end].starts_with(note::BEGINS.as_bytes()) {
        true => line,
        false => open,
    }
}
