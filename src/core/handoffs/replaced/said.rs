//! A statement in its conversation.

use super::statement::Statement;

/// What a later statement does to an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::handoffs) enum Relation {
    /// It has another value for what may be something else.
    Perhaps,
    /// It says all of it, with another value.
    Surely,
}

/// A sentence that states a value.
#[derive(Debug)]
pub(in crate::handoffs) struct Said<'i> {
    pub(in crate::handoffs) turn: usize,
    pub(in crate::handoffs) by_person: bool,
    pub(in crate::handoffs) text: &'i str,
    pub(in crate::handoffs) statement: Statement,
    /// Its whole text is keys and values.
    pub(super) bare: bool,
    pub(in crate::handoffs) replaced: Option<(Relation, usize)>,
}
