//! The handoffs of one answer.

use super::an_id;
use crate::serve::exchange::value::Fired;

#[test]
fn clones_share_the_handoffs_of_an_answer_until_its_end_takes_them() {
    let fired = Fired::default();
    let clone = fired.clone();
    assert!(fired.list().is_empty() && fired.list().last().is_none());
    fired.list().push(an_id(1));
    clone.list().push(an_id(2));
    assert_eq!(fired.list().clone(), [an_id(1), an_id(2)]);
    assert_eq!(clone.list().last().copied(), Some(an_id(2)));
    assert_eq!(std::mem::take(&mut *clone.list()), [an_id(1), an_id(2)]);
    assert!(fired.list().is_empty());
}
