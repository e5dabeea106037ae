//! The machine that reads a stream's frames.

use bytes::Bytes;

use super::framing::Framing;
use super::leg::{Ending, LegReport};
use super::stream_state::StreamState;
use crate::tools::ToolNames;

/// A wire's stream machine: frames of one leg after another go in, what the agent may see comes out.
///
/// Nothing visible is buffered. The terminal frames of a leg wait inside when a hidden call was seen or `hold_ends` was
/// requested; `close` sends them (or their replacement), `next_leg` forgets them.
pub trait Dialect: Send {
    /// How the frames are distinguished.
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    /// Upstream frames this stream another way than the wire's usual one.
    fn frame_as(&mut self, _framing: Framing) {}

    /// One frame: `raw` as it came, `data` its payload.
    fn frame(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>);

    /// The state of the stream: its legs so far.
    fn state(&self) -> &StreamState;

    /// The state, to be changed.
    fn state_mut(&mut self) -> &mut StreamState;

    /// The report of the present leg so far.
    fn report(&self) -> &LegReport {
        &self.state().report
    }

    /// Whether terminal frames wait even without a hidden call: a handoff is pending.
    fn hold_ends(&mut self, hold: bool) {
        self.state_mut().hold = hold;
    }

    /// Whether terminal frames are waiting.
    fn holds_end(&self) -> bool;

    /// Sets the calls to hide from here on: the next leg may offer other tools of ours.
    fn hide(&mut self, tools: ToolNames) {
        self.state_mut().watch.hide = tools;
    }

    /// Frames that follow belong to another leg; its opening is swallowed.
    fn next_leg(&mut self);

    /// The present leg failed before anything of it was shown: it counts for nothing, its tokens neither.
    fn forget_leg(&mut self);

    /// The first leg of this response is a later one: the frames' own opening is shown, then `text`.
    fn open_with(&mut self, text: String) {
        self.state_mut().opening = Some(text);
    }

    /// Assistant text of our own, in a block of its own where the wire has such a thing.
    fn say(&mut self, text: &str, out: &mut Vec<Bytes>);

    /// A keep-alive in the wire's own form.
    fn keepalive(&mut self, out: &mut Vec<Bytes>);

    /// The end of the response.
    fn close(&mut self, ending: Ending, out: &mut Vec<Bytes>);
}
