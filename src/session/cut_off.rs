//! Handoffs whose answer the agent may have cut off and left out: the cut points by which they are found all the same.

use std::sync::Arc;

use crate::handoff::record::{Conversation, CutPoint, HandoffId};

/// So many are listed for one key; the oldest goes first. Each takes a person who stops an answer behind its handoff.
const KEPT: usize = 32;

/// The cut points that a conversation's record lists.
pub(super) struct CutOff {
    /// `None`: not read yet.
    points: Option<Vec<Arc<CutPoint>>>,
    /// Those by which a request was cut: they stay, whatever becomes of the answer that showed the sentinel.
    relied_on: Vec<HandoffId>,
}

impl CutOff {
    pub(super) fn of(record: &Conversation) -> Self {
        Self {
            points: record.cut_off.is_empty().then(Vec::new),
            relied_on: Vec::new(),
        }
    }

    /// All of them, where they are known.
    pub(super) fn points(&self) -> Option<&[Arc<CutPoint>]> {
        self.points.as_deref()
    }

    /// They were read from the store.
    pub(super) fn read(&mut self, found: Vec<Arc<CutPoint>>) {
        self.points.get_or_insert(found);
    }

    pub(super) fn add(&mut self, point: Option<&Arc<CutPoint>>) {
        if let (Some(points), Some(point)) = (&mut self.points, point) {
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
