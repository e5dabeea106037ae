//! Finds the handoff that a request is cut at: by its sentinel, by the response that the request continues,
//! or by the position of an omitted response.

use std::ops::Range;

use crate::commands;
use crate::marker::sentinel::SealedBody;
use crate::record::{CutPoint, Handoff, HandoffId, KeptTurns, LEFT_OUT_KEPT, LOCAL, ResponseOrigin};
use crate::rewrite::notes::UndoneHandoffs;
use crate::rewrite::{Candidate, RequestReading, left_out, preamble};
use crate::text::json;
use crate::text::splice::Edit;
use crate::wire::View;

use super::{Known, Need, Policy, Records};

/// Maximum number of sentinels looked up in one request, beginning with the last. No real transcript has more.
pub(super) const MAX_CANDIDATES: usize = 64;

/// Reply to a user who resumes a handoff that is unknown here.
const UNKNOWN: &str = "baton: this handoff is not known here, so nothing was sent to the model. `baton handoffs list` \
shows the handoffs of this store, and `baton handoffs show ID` the line to begin with. A handoff belongs to the client \
and to the state directory that it was made with. To continue without it, send your message again without that line.";

/// Reply to a client of a shared proxy, who has neither its store nor its commands.
const UNKNOWN_TO_CLIENT: &str = "baton: this handoff is not known here, so nothing was sent to the model. A handoff \
belongs to the client and to the proxy that it was made with. Begin with the whole line of a handoff of yours. To continue \
without it, send your message again without that line.";

/// Reply to a user who resumes by a line whose id is cut so short that several handoffs match.
const AMBIGUOUS: &str = "baton: more than one handoff has an id that begins like this, so nothing was sent to the model. \
Give more of the id, or better the whole line: `baton handoffs list` shows the handoffs of this store, and `baton handoffs \
show ID` the line to begin with. To continue without it, send your message again without that line.";

const AMBIGUOUS_TO_CLIENT: &str = "baton: more than one handoff has an id that begins like this, so nothing was sent to \
the model. Give the whole line. To continue without it, send your message again without that line.";

/// Reason why the line by which a user resumes a handoff names no single one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unresolved {
    /// There is no handoff with this id, or with this beginning of an id.
    Unknown,
    /// Several ids begin like this.
    Ambiguous,
}

impl Unresolved {
    /// Reply to the user. Nothing is sent to the model.
    pub fn answer(self, principal: &str) -> &'static str {
        match self {
            Self::Unknown if principal != LOCAL => UNKNOWN_TO_CLIENT,
            Self::Unknown => UNKNOWN,
            Self::Ambiguous if principal != LOCAL => AMBIGUOUS_TO_CLIENT,
            Self::Ambiguous => AMBIGUOUS,
        }
    }
}

/// Position of a request's active handoff.
#[derive(Debug, Clone)]
pub enum CutPosition {
    /// At the sentinel.
    Sentinel(Candidate),
    /// Before this turn, because the agent left out the response that showed the sentinel.
    BeforeTurn(usize),
    /// Before the whole request, because upstream stores the history before it.
    Upstream,
    /// Inside one string that holds a flattened transcript. The edits make the cut.
    Text(Vec<Edit>),
}

/// The active handoff.
#[derive(Debug, Clone)]
pub struct Active {
    pub place: CutPosition,
    pub id: HandoffId,
    /// Carry-over prompt.
    pub prompt: String,
    /// Whether transcripts show the prompt. If they do not, the text after a sentinel is the model's own.
    pub spelled_out: bool,
    /// Preamble and carry-over prompt as JSON elements of the request's wire. They replace the cut history.
    pub head: String,
    /// Model override for requests cut at this handoff, if it differs from the requested model.
    pub routed: Option<String>,
    /// Turns between a reviewed draft and its approval, which stay after the cut.
    pub kept: Option<KeptTurns>,
    /// Whether requests cut at this handoff have the tool that searches the cut history.
    ///
    /// If the store has lost the handoff, the config decides.
    pub recall: bool,
}

impl Active {
    /// Creates the active handoff from a stored one. `spelled_out` is set; the caller overrides it if need be.
    pub fn new(handoff: &Handoff, place: CutPosition, head: String, reading: &RequestReading) -> Self {
        Self {
            place,
            id: handoff.id,
            prompt: handoff.prompt.clone(),
            spelled_out: true,
            head,
            routed: routed(reading, handoff),
            kept: handoff.kept.clone(),
            recall: handoff.recall,
        }
    }

    /// Sentinel in the transcript, if the cut is at one.
    pub fn candidate(&self) -> Option<&Candidate> {
        match &self.place {
            CutPosition::Sentinel(candidate) => Some(candidate),
            CutPosition::BeforeTurn(_) | CutPosition::Upstream | CutPosition::Text(_) => None,
        }
    }

    /// Turns that stay after the cut of a reviewed draft.
    ///
    /// `None` if the sentinel is not where baton showed it, as after a resumption: the turns before it are then
    /// those of another session.
    pub(super) fn kept(&self, view: &View) -> Option<Range<usize>> {
        let (kept, until) = (self.kept.as_ref()?, self.turn()?);
        let from = view.leading() + kept.from.turns;
        (until == from + kept.turns && !self.is_by_user()).then_some(from..until)
    }

    /// Whether the user pasted the sentinel.
    pub(super) fn is_by_user(&self) -> bool {
        self.candidate().is_some_and(|candidate| candidate.by_user)
    }

    /// The turn containing the cut, or the first turn after it.
    pub fn turn(&self) -> Option<usize> {
        match &self.place {
            CutPosition::Sentinel(candidate) => Some(candidate.turn),
            CutPosition::BeforeTurn(turn) => Some(*turn),
            CutPosition::Upstream | CutPosition::Text(_) => None,
        }
    }
}

/// Lookup of the handoff that a request is cut at.
#[derive(Clone, Copy)]
pub struct CutTargetLookup<'a> {
    pub reading: &'a RequestReading,
    pub principal: &'a str,
    pub records: &'a Records,
    pub policy: &'a Policy<'a>,
}

impl CutTargetLookup<'_> {
    /// Finds the last sentinel whose id is in the store or whose seal verifies.
    ///
    /// # Errors
    /// Records are missing.
    pub fn active(&self, candidates: &[Candidate]) -> Known<Option<Active>> {
        let candidates = &candidates[..candidates.len().min(MAX_CANDIDATES)];
        for (i, candidate) in candidates.iter().enumerate() {
            // The newest one is usually known. Otherwise all others are read together, to save round trips.
            if i > 0 {
                self.records.all(candidates[i..].iter().map(meant))?;
            }
            if let Some(active) = self.at(candidate)? {
                return Ok(Some(active));
            }
        }
        Ok(None)
    }

    /// Finds the handoff of this sentinel.
    fn at(&self, candidate: &Candidate) -> Known<Option<Active>> {
        let mut candidate = candidate.clone();
        if candidate.id_range.is_some() {
            match *self.records.ids(meant(&candidate))? {
                [only] => candidate.sentinel.id = only,
                _ => return Ok(None),
            }
        }
        let id = candidate.sentinel.id;
        // The preamble of a session that resumes a handoff ends at the user's line.
        let until = candidate.by_user.then_some((candidate.turn, candidate.part));
        if let Some(handoff) = self.records.handoff(id)? {
            let head = match until {
                Some(_) => self.resumed_head(handoff, until),
                None => self.head(handoff, None),
            };
            return Ok(Some(Active {
                spelled_out: handoff.spelled_out.unwrap_or(self.policy.spelled_out),
                ..Active::new(handoff, CutPosition::Sentinel(candidate), head, self.reading)
            }));
        }
        let Some(sealed) = candidate.sentinel.sealed else {
            return Ok(None);
        };
        // The store has lost the handoff, or the transcript comes from another one: only the seal can prove the prompt.
        let keys = self.records.seal_keys()?;
        let prompt = SealedBody::opened(&sealed, &self.reading.view.body, keys, self.principal, id);
        Ok(prompt.map(|prompt| Active {
            id,
            head: self.new_head(&prompt, until),
            prompt,
            // A seal proves a prompt that is in the transcript.
            spelled_out: true,
            routed: None,
            kept: None,
            recall: self.policy.recall,
            place: CutPosition::Sentinel(candidate),
        }))
    }

    /// Finds the response that the request continues, and the handoff that it ended with.
    pub(super) fn previous(&self) -> Known<ContinuedOrigin> {
        let Some(previous) = &self.reading.view.facts.previous else {
            return Ok(ContinuedOrigin::default());
        };
        let id = match self.records.response(&previous.id)? {
            Some(ResponseOrigin::Handoff(id)) => id,
            origin => return Ok(ContinuedOrigin { active: None, origin }),
        };
        let Some(handoff) = self.records.handoff(id)? else {
            return Ok(ContinuedOrigin::default());
        };
        let head = self.head(handoff, None);
        Ok(ContinuedOrigin {
            active: Some(Active::new(handoff, CutPosition::Upstream, head, self.reading)),
            origin: Some(ResponseOrigin::Handoff(id)),
        })
    }

    /// Returns the stored head if it is of this wire, otherwise a new one.
    ///
    /// `until` is the end of this request's preamble.
    fn head(&self, handoff: &Handoff, until: Option<(usize, usize)>) -> String {
        match handoff.wire == self.reading.view.wire && !handoff.head.is_empty() {
            true => handoff.head.clone(),
            false => self.new_head(&handoff.prompt, until),
        }
    }

    /// Returns the head of a handoff that the user resumes in another session, with that session's preamble.
    ///
    /// The text before the user's line does not change, so later requests get the same head.
    fn resumed_head(&self, handoff: &Handoff, until: Option<(usize, usize)>) -> String {
        let view = &self.reading.view;
        let is_of_wire = handoff.wire == view.wire && !handoff.head.is_empty();
        let prompt = is_of_wire.then(|| preamble::prompt_of_head(view, &handoff.head));
        match prompt.flatten() {
            // A request that continues a stored history does not begin with a preamble.
            Some(prompt) if view.facts.previous.is_none() => self.new_head(&prompt, until),
            _ => self.head(handoff, until),
        }
    }

    /// Creates a head from this request's preamble.
    fn new_head(&self, prompt: &str, until: Option<(usize, usize)>) -> String {
        let view = &self.reading.view;
        preamble::head(view.wire(), &self.policy.preamble(view, until), prompt)
    }

    /// Finds a later handoff whose response the agent interrupted and left out.
    ///
    /// The transcript then continues the request that made the handoff, with new text. `after` is the turn of
    /// the sentinel in force. `has_unanswered` tells whether a command without a reply was removed: a handoff that
    /// the user commanded needs its command. Also returns the cut points of the conversation that this one was
    /// forked from.
    pub(super) fn left_out(
        &self,
        after: Option<usize>,
        undone: &UndoneHandoffs,
        has_unanswered: bool,
    ) -> Known<(Option<Active>, Vec<CutPoint>)> {
        let view = &self.reading.view;
        let Some(live) = &self.records.conversation else {
            return Ok((None, Vec::new()));
        };
        let listed = &live.listed()?.cut_points;
        let mut taken_over = Vec::new();
        // A conversation that is new here and already has a history may be a fork.
        if live.tooled.is_none() && view.under_way() {
            let missing = left_out::missing_answers(view, after);
            taken_over = self.copied(missing, |id| listed.iter().any(|point| point.handoff == id))?;
        }
        let points: Vec<&CutPoint> = listed.iter().map(|point| &**point).chain(&taken_over).collect();
        // Adopted points come last, because a fork is younger than the points of the listed record.
        let points = &points[points.len().saturating_sub(LEFT_OUT_KEPT)..];
        let is_in_force = |p: &&CutPoint| {
            let has_command = || has_unanswered || self.has_command(view.leading() + p.position.turns);
            !undone.is_undone(p.handoff) && (!p.before_command || has_command())
        };
        let in_force = points.iter().copied().filter(is_in_force);
        let is_relied_on = |point: &CutPoint| {
            let is_copied = taken_over.iter().any(|copied| copied.handoff == point.handoff);
            is_copied || live.relied_on.contains(&point.handoff)
        };
        let active = match left_out::last_in(view, in_force, after, is_relied_on) {
            Some((turn, point)) => self.records.handoff(point.handoff)?.map(|handoff| {
                let (place, head) = (CutPosition::BeforeTurn(turn), self.head(handoff, None));
                Active::new(handoff, place, head, self.reading)
            }),
            None => None,
        };
        Ok((active, taken_over))
    }

    /// Whether a command stands in this turn, because the agent joins messages of the user.
    fn has_command(&self, turn: usize) -> bool {
        let view = &self.reading.view;
        if turn >= view.turns.len() {
            return false;
        }
        let mut texts = view.content(turn).parts.into_iter().filter_map(|part| part.text);
        let prefix = self.policy.look.prefix;
        texts.any(|text| commands::is_command(&json::unescape(view.text(text)), prefix))
    }

    /// Finds the cut points of the conversation that this one was forked from, by digests of the positions where
    /// a response may be missing. `is_known` tells which handoffs this conversation lists itself.
    fn copied(&self, missing: Vec<String>, is_known: impl Fn(HandoffId) -> bool) -> Known<Vec<CutPoint>> {
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let points = self.records.cut_points(Need::CutPointsAt(missing))?.iter();
        let new: Vec<&CutPoint> = points.filter(|point| !is_known(point.handoff)).collect();
        // A fork is certain only if its origin still lists the handoff as one that may be left out.
        let origin = |point: &CutPoint| Need::LeftOutIn(point.conversation.clone());
        self.records.all(new.iter().map(|point| origin(point)))?;
        let mut copied = Vec::new();
        for point in new {
            if self.records.ids(origin(point))?.contains(&point.handoff) {
                copied.push(point.clone());
            }
        }
        Ok(copied)
    }

    /// Explains why no handoff was found for a user's line.
    pub(super) fn why_unresolved(&self, line: &Candidate) -> Known<Unresolved> {
        let found = match line.id_range {
            Some(_) => self.records.ids(meant(line))?.len(),
            None => 0,
        };
        Ok(match found {
            // A single id whose handoff was not found is as unknown as none.
            0 | 1 => Unresolved::Unknown,
            _ => Unresolved::Ambiguous,
        })
    }
}

/// Record of the handoff that a sentinel names, or of those that a truncated id may mean.
pub(super) fn meant(candidate: &Candidate) -> Need {
    match candidate.id_range {
        Some((first, last)) => Need::HandoffsBetween(first, last),
        None => Need::Handoff(candidate.sentinel.id),
    }
}

/// Model override of requests cut at this handoff.
///
/// If the user has changed the agent's model since, that choice counts.
fn routed(reading: &RequestReading, handoff: &Handoff) -> Option<String> {
    let same = reading.view.facts.model == handoff.model;
    handoff.routed.clone().filter(|_| same)
}

/// Origin of the response that a request continues.
#[derive(Default)]
pub(super) struct ContinuedOrigin {
    /// Handoff that the response ended with.
    pub(super) active: Option<Active>,
    /// Stored origin; `None` if nothing is stored about the response.
    pub(super) origin: Option<ResponseOrigin>,
}
