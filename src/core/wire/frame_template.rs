//! Templates of a stream's frames: most frames are passed on without being parsed. They differ from the frame before
//! only in the piece of text that they carry and in a number or two.
//!
//! A template is learned from a frame that was parsed: its bytes, with holes where later frames may differ. A frame
//! that fits the template has the same members with the same values outside of the holes. So it means the same, and
//! gets the same edits.

use memchr::memchr2;

use crate::text::Span;
use crate::text::scan;
use crate::text::splice::Edit;

/// Maximum holes of one template; frames with more are parsed one by one.
const HOLES: usize = 4;

/// What may be in a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hole {
    /// The inside of a string of the model's own text: no bracket, since that could begin a mark.
    Text,
    /// The inside of any other string.
    String,
    /// An object; the last one is kept.
    Object,
    /// A number that the dialect assigns itself.
    Count,
}

/// Result of matching the next frame with a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramePass {
    /// The frame must be parsed.
    Unread,
    /// The frame passes unchanged; its length in bytes.
    Same(usize),
    /// The frame passes rewritten; its length in bytes.
    Changed(usize),
}

/// A template; the default one fits nothing.
#[derive(Debug, Default)]
pub(super) struct FrameTemplate {
    /// The text around the holes, as it arrives.
    given: Vec<u8>,
    /// The same text, as it is passed on.
    shown: Vec<u8>,
    /// The holes, each with the text before it; then the end of the frame.
    steps: Vec<TemplateStep>,
    /// Whether a frame is changed when passed on, whatever is in its holes.
    changes: bool,
    /// Which of the holes has an object; the last one, if several have.
    object_hole: Option<usize>,
    /// The object of the last frame that fitted.
    object: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct TemplateStep {
    /// End of what is `given` before the hole.
    given: usize,
    /// End of what is `shown` before it.
    shown: usize,
    /// `None`: the end of the frame.
    hole: Option<Hole>,
    /// Whether the hole's content is passed on.
    kept: bool,
}

/// The contents of the holes in a frame that fits.
#[derive(Default)]
struct HoleValues {
    holes: [Span; HOLES],
    count: Option<u64>,
    len: usize,
}

impl FrameTemplate {
    /// Fits nothing any more.
    pub(super) fn forget(&mut self) {
        self.steps.clear();
    }

    /// Learns from a frame: `edits` were made in its `data`, and later ones may differ in its `holes`. Nothing is
    /// learned from data outside the frame, nor where an edit touches a hole: the edit may depend on its content. An
    /// object may be taken out with its member. The frame must end with a line feed, so that its end is known without
    /// the byte after it.
    pub(super) fn learn(&mut self, raw: &[u8], data: &[u8], holes: &[(Span, Hole)], edits: &[Edit]) {
        self.forget();
        let offset = (data.as_ptr() as usize).wrapping_sub(raw.as_ptr() as usize);
        let in_place = offset.checked_add(data.len()).is_some_and(|end| end <= raw.len());
        let clash = holes
            .iter()
            .any(|(span, hole)| edits.iter().any(|edit| touches(edit.span, *span, *hole)));
        if !in_place || clash || holes.len() > HOLES || !raw.ends_with(b"\n") {
            return;
        }
        let moved = |span: Span| Span::new(span.start + offset, span.end + offset);
        let mut holes: Vec<_> = holes
            .iter()
            .map(|(span, hole)| (moved(*span), Some(*hole)))
            .collect();
        holes.sort_by_key(|(span, _)| span.start);
        holes.push((Span::new(raw.len(), raw.len()), None));
        let mut edits: Vec<_> = edits.iter().map(|e| (moved(e.span), &e.with[..])).collect();
        edits.sort_by_key(|(span, _)| (span.start, !span.is_empty()));
        self.draw(raw, &holes, &edits);
    }

    /// Writes down what is around the holes, before and after the edits.
    fn draw(&mut self, raw: &[u8], holes: &[(Span, Option<Hole>)], edits: &[(Span, &[u8])]) {
        self.given.clear();
        self.shown.clear();
        // Up to here the frame is given, and up to here it is shown.
        let (mut given, mut shown) = (0, 0);
        let mut edits = edits.iter().peekable();
        for &(span, hole) in holes {
            self.given.extend_from_slice(&raw[given..span.start]);
            given = span.end;
            while let Some((edit, with)) = edits.next_if(|(edit, _)| edit.start <= span.start) {
                if edit.start < shown || edit.end > raw.len() {
                    return self.forget();
                }
                self.shown.extend_from_slice(&raw[shown..edit.start]);
                self.shown.extend_from_slice(with);
                shown = edit.end;
            }
            let kept = shown <= span.start;
            if kept {
                self.shown.extend_from_slice(&raw[shown..span.start]);
                shown = span.end;
            }
            self.steps.push(TemplateStep {
                given: self.given.len(),
                shown: self.shown.len(),
                hole,
                kept,
            });
        }
        self.changes = self.given != self.shown || self.steps.iter().any(|step| !step.kept);
        self.object_hole = holes.iter().rposition(|(_, hole)| *hole == Some(Hole::Object));
    }

    /// Passes on the frame at the start of `raw` if it fits: unchanged, or rewritten into `out`. `count` maps the
    /// event's number to the one that is shown.
    pub(super) fn pass(
        &mut self,
        raw: &[u8],
        count: impl FnOnce(u64) -> u64,
        out: &mut Vec<u8>,
    ) -> FramePass {
        let Some(found) = self.fit(raw) else {
            return FramePass::Unread;
        };
        if let Some(hole) = self.object_hole {
            self.object.clear();
            self.object.extend_from_slice(found.holes[hole].of(raw));
        }
        let number = found.count.map(count);
        if !self.changes && number == found.count {
            return FramePass::Same(found.len);
        }
        self.write(raw, &found, number, out);
        FramePass::Changed(found.len)
    }

    /// The object of the last frame that fitted since the previous call.
    pub(super) fn take_object(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.object)).filter(|object| !object.is_empty())
    }

    fn fit(&self, raw: &[u8]) -> Option<HoleValues> {
        let mut found = HoleValues::default();
        let (mut at, mut given) = (0, 0);
        for (i, step) in self.steps.iter().enumerate() {
            let rest = raw.get(at..)?.strip_prefix(&self.given[given..step.given])?;
            (at, given) = (raw.len() - rest.len(), step.given);
            let Some(hole) = step.hole else {
                found.len = at;
                return Some(found);
            };
            let end = match hole {
                Hole::Text => string(raw, at, true)?,
                Hole::String => string(raw, at, false)?,
                Hole::Object => object(raw, at)?,
                Hole::Count => {
                    let (number, end) = number(raw, at)?;
                    found.count = Some(number);
                    end
                }
            };
            found.holes[i] = Span::new(at, end);
            at = end;
        }
        None
    }

    fn write(&self, raw: &[u8], found: &HoleValues, number: Option<u64>, out: &mut Vec<u8>) {
        let mut shown = 0;
        for (i, step) in self.steps.iter().enumerate() {
            out.extend_from_slice(&self.shown[shown..step.shown]);
            shown = step.shown;
            match (step.hole, number) {
                (Some(Hole::Count), Some(number)) => out.extend_from_slice(number.to_string().as_bytes()),
                (Some(_), _) if step.kept => out.extend_from_slice(found.holes[i].of(raw)),
                _ => {}
            }
        }
    }
}

/// Whether an edit is in or next to a hole; an object may be inside one.
fn touches(edit: Span, hole: Span, kind: Hole) -> bool {
    let covers = edit.start < hole.start && hole.end <= edit.end;
    edit.start <= hole.end && hole.start <= edit.end && !(covers && kind == Hole::Object)
}

/// End of the inside of a string that begins at `at`. `None` where it must be parsed: model text with a bracket or an
/// escaped one, or invalid JSON.
fn string(raw: &[u8], mut at: usize, watched: bool) -> Option<usize> {
    loop {
        at = scan::special(raw, at);
        match raw.get(at)? {
            b'"' => return Some(at),
            b'[' if !watched => at += 1,
            b'\\' => {
                let bracket = match raw.get(at + 1)? {
                    b'u' => raw.get(at + 2..at + 6)?.eq_ignore_ascii_case(b"005b"),
                    escaped => *escaped == b'[',
                };
                if watched && bracket {
                    return None;
                }
                at += 2;
            }
            _ => return None,
        }
    }
}

/// End of the object at `at`, all on one line.
fn object(raw: &[u8], at: usize) -> Option<usize> {
    if raw.get(at) != Some(&b'{') {
        return None;
    }
    let end = scan::container_end(raw, at)?;
    memchr2(b'\n', b'\r', &raw[at..end]).is_none().then_some(end)
}

/// The number at `at`, and its end.
fn number(raw: &[u8], at: usize) -> Option<(u64, usize)> {
    let rest = raw.get(at..)?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let number = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    Some((number, at + digits))
}
