//! Cut points of handoffs whose answer the agent may have left out of its transcript.

use std::sync::Arc;

use super::TOUCH_AFTER_MS;
use crate::record::{Conversation, CutPoint, HandoffId};

/// So many are listed for one key; the oldest goes first. Each takes a person who stops an answer behind its handoff.
const KEPT: usize = 32;

/// The cut points that a conversation's record lists.
pub(super) struct CutOff {
    /// `None`: not read yet.
    points: Option<Vec<Arc<CutPoint>>>,
    /// When the oldest of them was read from the store or written to it.
    read_ms: u64,
    /// Those by which a request was cut: they stay, whatever becomes of the answer that showed the sentinel.
    relied_on: Vec<HandoffId>,
}

impl CutOff {
    pub(super) fn of(record: &Conversation) -> Self {
        Self {
            points: record.cut_off.is_empty().then(Vec::new),
            read_ms: 0,
            relied_on: Vec::new(),
        }
    }

    /// All of them, where they are known. What was read long ago is read anew: reading marks cut points as used, and those
    /// that were taken over from another conversation would be swept otherwise.
    pub(super) fn points(&self, now_ms: u64) -> Option<&[Arc<CutPoint>]> {
        let fresh = now_ms.saturating_sub(self.read_ms) <= TOUCH_AFTER_MS;
        self.points.as_deref().filter(|points| fresh || points.is_empty())
    }

    /// They were read from the store.
    pub(super) fn read(&mut self, found: Vec<Arc<CutPoint>>, now_ms: u64) {
        self.points = Some(found);
        self.read_ms = now_ms;
    }

    /// One more was written, or read where another conversation has it.
    pub(super) fn add(&mut self, point: Option<&Arc<CutPoint>>, now_ms: u64) {
        if let (Some(points), Some(point)) = (&mut self.points, point) {
            if points.is_empty() {
                self.read_ms = now_ms;
            }
            points.retain(|p| p.handoff != point.handoff);
            if points.len() == KEPT {
                points.remove(0);
            }
            points.push(Arc::clone(point));
        }
    }

    /// A request was cut by this one.
    pub(super) fn rely_on(&mut self, handoff: HandoffId) {
        if !self.relied_on.contains(&handoff) {
            self.relied_on.push(handoff);
        }
    }

    /// The answer that showed these handoffs went out whole: the agent has their sentinels. Whether the record changed.
    pub(super) fn shown(&mut self, record: &mut Conversation, handoffs: &[HandoffId]) -> bool {
        let goes = |id: &HandoffId| handoffs.contains(id) && !self.relied_on.contains(id);
        let before = record.cut_off.len();
        record.cut_off.retain(|id| !goes(id));
        if let Some(points) = &mut self.points {
            points.retain(|p| !goes(&p.handoff));
        }
        record.cut_off.len() != before
    }
}

/// Lists a handoff in the record.
pub(super) fn list(record: &mut Conversation, handoff: HandoffId) {
    record.cut_off.retain(|id| *id != handoff);
    if record.cut_off.len() == KEPT {
        record.cut_off.remove(0);
    }
    record.cut_off.push(handoff);
}
