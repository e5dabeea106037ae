//! Finds the active handoff of a summary request, whose transcript is flattened into one string.
//!
//! The sentinel is in that string or after it: agents summarize the earlier part of a transcript, and keep
//! the later one unchanged.

use std::sync::Arc;

use super::active::MAX_CANDIDATES;
use super::{Active, CutPosition, CutTargetLookup, Known, Need, Records};
use crate::record::{Handoff, HandoffId};
use crate::rewrite::flattened::{self, FlattenedTranscript, FoundSentinel};
use crate::rewrite::notes::UndoneHandoffs;
use crate::text::splice::Edit;

/// Maximum number of sentinels looked up in one transcript without a named session. Their handoffs are in
/// memory together.
const MAX_MARKERS_IN_TEXT: usize = 256;

/// Maximum number of sentinels that are tried as this conversation's first one. Earlier ones in the string may
/// be quotations.
const MAX_FIRST_TEXTS: usize = 4;

/// A sentinel in the string, and its handoff.
struct Resolved<'a> {
    found: &'a FoundSentinel,
    handoff: &'a Arc<Handoff>,
}

impl CutTargetLookup<'_> {
    /// Finds the handoff that a flattened transcript is cut at.
    ///
    /// That is the conversation's active one if the whole string lies before it, otherwise the last one in
    /// the string. `key` is the conversation's key, if the agent named its session.
    pub(super) fn flattened(&self, key: Option<&str>, undone: &UndoneHandoffs) -> Known<Option<Active>> {
        let Some(flat) = flattened::find(&self.reading.view) else {
            return Ok(None);
        };
        let mut sentinels = flat.sentinels();
        match key {
            Some(_) => {
                // Newest first and each once, because a transcript may quote many sentinels.
                sentinels.sort_by_key(|f| std::cmp::Reverse(f.id));
                sentinels.dedup_by_key(|f| f.id);
                sentinels.truncate(MAX_CANDIDATES);
            }
            None => sentinels.truncate(MAX_MARKERS_IN_TEXT),
        }
        let lookup = FlattenedLookup {
            records: self.records,
            flat: &flat,
            undone,
        };
        let known = lookup.known(&sentinels)?;
        let found = match key {
            // Ids sort by time, so a sentinel quoted after the newest handoff of a named session is older or
            // the same.
            Some(key) => known.into_iter().find(|known| known.handoff.conversation == key),
            None => lookup.last_in_line(known)?,
        };
        if let Some(handoff) = lookup.active_after(found.as_ref(), key)? {
            // The whole string is before the active handoff, so the prompt takes its place.
            let edits = flat.cut_whole(&handoff.prompt);
            return Ok(Some(pinned(handoff, edits)));
        }
        Ok(found.map(|Resolved { found, handoff }| {
            let edits = flat.cut(found, &handoff.prompt);
            pinned(handoff, edits)
        }))
    }
}

fn pinned(handoff: &Handoff, edits: Vec<Edit>) -> Active {
    Active {
        id: handoff.id,
        prompt: handoff.prompt.clone(),
        head: handoff.head.clone(),
        spelled_out: true,
        // A summary is not part of the agent's loop and calls no tool.
        recall: false,
        // A summary goes to the model that it names.
        routed: None,
        kept: None,
        place: CutPosition::Text(edits),
    }
}

/// Lookup of the handoffs in a flattened transcript.
struct FlattenedLookup<'a> {
    records: &'a Records,
    flat: &'a FlattenedTranscript<'a>,
    undone: &'a UndoneHandoffs,
}

impl<'a> FlattenedLookup<'a> {
    /// Selects the sentinels with known handoffs.
    fn known(&self, sentinels: &'a [FoundSentinel]) -> Known<Vec<Resolved<'a>>> {
        self.records
            .all(sentinels.iter().map(|found| Need::Handoff(found.id)))?;
        let mut known = Vec::new();
        for found in sentinels {
            let handoff = self.records.handoff(found.id)?;
            known.extend(handoff.map(|handoff| Resolved { found, handoff }));
        }
        Ok(known)
    }

    /// Finds the last handoff of the chain that leads to the end of the string.
    ///
    /// Without a session name, the transcript before the first sentinel must be the one that its handoff was
    /// made in. Each later handoff must follow from the one before.
    fn last_in_line(&self, known: Vec<Resolved<'a>>) -> Known<Option<Resolved<'a>>> {
        if known.is_empty() {
            return Ok(None);
        }
        let first = known.iter().take(MAX_FIRST_TEXTS);
        let points = self
            .records
            .cut_points(Need::CutPoints(first.map(|k| k.handoff.id).collect()))?;
        let leads_up = |known: &Resolved<'_>| {
            let mut own = points.iter().filter(|p| p.handoff == known.handoff.id);
            own.any(|p| self.flat.leads_up_to(known.found, &p.texts))
        };
        let Some(at) = known.iter().take(MAX_FIRST_TEXTS).position(leads_up) else {
            return Ok(None);
        };
        let mut line = known.into_iter().skip(at);
        let mut last = line.next();
        let later: Vec<_> = line.collect();
        self.records
            .all(later.iter().map(|later| Need::Line(later.handoff.id)))?;
        for next in later {
            // A handoff in between may be missing, because the agent left out the response that showed it.
            let before = last.as_ref().map(|last| last.handoff.id);
            if self.line(next.handoff.id, before)?.is_some() {
                last = Some(next);
            }
        }
        Ok(last)
    }

    /// Returns the conversation's active handoff if the whole string, or all of it after `found`, is older.
    ///
    /// The active handoff's sentinel is then in the part that the agent keeps, and the string covers finished
    /// work.
    fn active_after(
        &self,
        found: Option<&Resolved<'_>>,
        key: Option<&str>,
    ) -> Known<Option<&'a Arc<Handoff>>> {
        let until = found.map(|f| f.handoff.id);
        let candidates = self
            .records
            .ids(match key.or(found.map(|f| &*f.handoff.conversation)) {
                Some(key) => Need::ActiveIn(key.to_owned()),
                None => Need::NewestActive,
            })?;
        let counts = |id: &HandoffId| Some(*id) != until && !self.undone.is_undone(*id);
        let candidates = candidates.iter().copied().filter(counts);
        // The chains of all candidates are read together, to save round trips.
        self.records.all(candidates.clone().map(Need::Line))?;
        let mut lines = Vec::new();
        for id in candidates {
            lines.extend(self.line(id, until)?);
        }
        let points = |line: &[Arc<Handoff>]| Need::CutPoints(line.iter().map(|handoff| handoff.id).collect());
        self.records.all(lines.iter().map(|line| points(line)))?;
        for line in lines {
            let points = self.records.cut_points(points(line))?;
            let texts: Vec<u32> = points.iter().flat_map(|p| &p.texts).copied().collect();
            if self.flat.lies_before(found.map(|f| f.found), &texts) {
                return Ok(line.first());
            }
        }
        Ok(None)
    }

    /// Returns a handoff and those that it followed from, newest first, up to `until`.
    ///
    /// `None` if the handoff did not follow from `until`.
    fn line(&self, id: HandoffId, until: Option<HandoffId>) -> Known<Option<&'a [Arc<Handoff>]>> {
        let line = self.records.line(id)?;
        let end = line.iter().position(|handoff| Some(handoff.id) == until);
        let line = &line[..end.unwrap_or(line.len())];
        let next = line.last().and_then(|last| last.parent);
        let is_whole = until.is_none() || next == until;
        Ok(Some(line).filter(|line| is_whole && !line.is_empty()))
    }
}
