//! Cut points of handoffs whose answer the agent may have left out of its transcript.

use std::sync::Arc;

use super::TOUCH_AFTER_MS;
use baton_core::record::{Conversation, CutPoint, LEFT_OUT_KEPT};

/// The cut points that a conversation's record lists.
pub(super) struct UnplacedCuts {
    /// `None`: not read yet.
    points: Option<Vec<Arc<CutPoint>>>,
    /// When the oldest of them was read from the store or written to it.
    read_ms: u64,
}

impl UnplacedCuts {
    pub(super) fn of(record: &Conversation) -> Self {
        Self {
            points: record.left_out.is_empty().then(Vec::new),
            read_ms: 0,
        }
    }

    /// All of them, where they are known. What was read long ago is read again: reading marks cut points as used, and those
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
            if points.len() == LEFT_OUT_KEPT {
                points.remove(0);
            }
            points.push(Arc::clone(point));
        }
    }

    /// Those that the record lists no more are not examined again.
    pub(super) fn keep_listed(&mut self, record: &Conversation) {
        if let Some(points) = &mut self.points {
            points.retain(|point| record.left_out.contains(&point.handoff));
        }
    }
}
