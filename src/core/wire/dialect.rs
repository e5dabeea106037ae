//! What a wire makes of its frames and replies, inside the machine that is the same for all.

use bytes::Bytes;

use super::leg::Ending;
use super::leg_state::{HeldFrame, LegState};
use crate::text::splice::Edit;

/// A wire's part of [`LegMachine`](super::LegMachine): it decodes frames and whole replies, and makes those of our own.
///
/// Nothing visible is buffered. The terminal frames of a leg go through [`LegState::end`], which holds them where the
/// leg is not the whole response.
pub trait Dialect: Send {
    /// One frame: `raw` as it came, `data` its payload.
    fn frame(&mut self, state: &mut LegState, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>);

    /// A leg in one piece; `None` where it is no reply of this wire's.
    fn whole(&mut self, state: &mut LegState, body: &Bytes) -> Option<()>;

    /// Forgets what is the present leg's alone; its tokens count where `counts`.
    fn end_leg(&mut self, state: &LegState, counts: bool);

    /// Assistant text of our own in a stream, in a block of its own where the wire has such a thing.
    fn say(&mut self, state: &LegState, text: &str, out: &mut Vec<Bytes>);

    /// Assistant text of our own between the legs of a whole reply.
    fn say_whole(&mut self, state: &LegState, text: &str);

    /// A keep-alive in the wire's own form.
    fn keepalive(&mut self, state: &LegState, out: &mut Vec<Bytes>);

    /// A terminal frame that was held, as the response's.
    fn last(&mut self, state: &mut LegState, held: HeldFrame, ending: Ending) -> Option<Bytes>;

    /// An end of our own in place of the leg's. The next request will have `next_input` tokens.
    fn own_end(&mut self, state: &mut LegState, ending: Ending, next_input: u64, out: &mut Vec<Bytes>);

    /// The edits that make the last leg's reply that of all legs.
    fn joined(&mut self, state: &LegState, last: &[u8], ending: Ending) -> Vec<Edit>;
}
