//! The legs of one streamed response, frame by frame.

use bytes::Bytes;

use super::verdict::{Circumstances, Verdict, judge};
use crate::limits::LEG_LOG;
use crate::wire::sse::{self, Framer};
use crate::wire::{Dialect, Ending, LegReport, Spoken};

/// Frames in, what the agent may see out.
pub struct StreamMerge {
    framer: Framer,
    dialect: Box<dyn Dialect>,
    /// What the present leg streamed, for asking again; `None` once it grew over its limit.
    log: Option<Vec<Bytes>>,
    logged: usize,
    /// What came last was kept back: a hidden call, or the end of a leg.
    withholding: bool,
    /// A frame was over the limit: bytes go by unread until the leg's end.
    blind: bool,
    frame_limit: usize,
}

impl StreamMerge {
    /// A machine for one response; frames over `frame_limit` bytes are passed on unread.
    pub fn new(dialect: Box<dyn Dialect>, frame_limit: usize) -> Self {
        Self {
            framer: Framer::new(frame_limit),
            dialect,
            log: Some(Vec::new()),
            logged: 0,
            withholding: false,
            blind: false,
            frame_limit,
        }
    }

    /// Takes upstream's next bytes; appends what goes to the agent now.
    pub fn feed(&mut self, chunk: Bytes, out: &mut Vec<Bytes>) {
        if self.blind {
            out.push(chunk);
            return;
        }
        match self.framer.push(chunk) {
            Ok(batch) => {
                let mut passed = Vec::new();
                let mut same = 0..0;
                for range in &batch.frames {
                    if self.dialect.is_more_of_the_same(&batch.buf[range.clone()]) {
                        same = if same.is_empty() {
                            range.clone()
                        } else {
                            same.start..range.end
                        };
                        continue;
                    }
                    push_run(&batch.buf, &mut same, &mut passed);
                    let raw = batch.buf.slice(range.clone());
                    let data = sse::data(&raw);
                    if data.is_empty() {
                        passed.push(raw.clone())
                    } else {
                        self.dialect.frame(&raw, &data, &mut passed)
                    }
                }
                push_run(&batch.buf, &mut same, &mut passed);
                if !batch.frames.is_empty() {
                    self.withholding = passed.is_empty();
                }
                self.remember(batch.buf.clone());
                coalesce(&batch.buf, passed, out);
            }
            Err(sse::Oversize(held)) => {
                self.blind = true;
                out.push(held);
            }
        }
    }

    /// Upstream's stream is over: a last frame without its blank line counts where its data is whole JSON;
    /// anything else goes by as it came.
    pub fn finish_leg(&mut self, out: &mut Vec<Bytes>) {
        let rest = self.framer.finish();
        if rest.is_empty() {
            return;
        }
        let data = sse::data(&rest);
        if crate::json::whole(&data).is_ok() {
            let framed = Bytes::from([&rest[..], b"\n\n"].concat());
            let data = sse::data(&framed);
            self.dialect.frame(&framed, &data, out);
            self.remember(framed.clone());
        } else {
            out.push(rest);
        }
    }

    fn remember(&mut self, bytes: Bytes) {
        self.logged += bytes.len();
        if self.logged > LEG_LOG {
            self.log = None;
        }
        if let Some(log) = self.log.as_mut().filter(|_| !bytes.is_empty()) {
            log.push(bytes);
        }
    }

    /// What the present leg has come to.
    pub fn report(&self) -> &LegReport {
        self.dialect.report()
    }

    /// Whether the leg's own last event was seen.
    pub fn leg_ended(&self) -> bool {
        self.dialect.report().ended
    }

    /// Whether upstream's last frames were kept back, so that the agent hears nothing.
    pub fn withholding(&self) -> bool {
        self.withholding || self.dialect.holds_end()
    }

    /// Terminal frames wait for the verdict even without a hidden call.
    pub fn hold_ends(&mut self) {
        self.dialect.hold_ends(true);
    }

    /// Judges the leg.
    pub fn judge(&self, now: &Circumstances) -> Verdict {
        judge(self.dialect.report(), now)
    }

    /// What the model said in this leg; `None` where it was too much to keep.
    pub fn spoken(&self) -> Option<Spoken> {
        let log = self.log.as_ref()?;
        let mut framer = Framer::new(self.frame_limit);
        let mut frames = Vec::new();
        for chunk in log {
            if let Ok(batch) = framer.push(chunk.clone()) {
                frames.extend(batch.frames.iter().map(|r| batch.buf.slice(r.clone())));
            }
        }
        Some(Spoken::Stream(frames))
    }

    /// The bytes that follow belong to another leg.
    pub fn next_leg(&mut self) {
        self.framer = Framer::new(self.frame_limit);
        self.log = Some(Vec::new());
        self.logged = 0;
        self.blind = false;
        self.withholding = false;
        self.dialect.next_leg();
    }

    /// The response begins with a leg whose sentinel was shown in a response that broke off.
    pub fn open_with(&mut self, text: String) {
        self.dialect.open_with(text);
    }

    /// Assistant text of our own.
    pub fn say(&mut self, text: &str, out: &mut Vec<Bytes>) {
        self.dialect.say(text, out);
    }

    /// A keep-alive.
    pub fn keepalive(&mut self, out: &mut Vec<Bytes>) {
        self.dialect.keepalive(out);
    }

    /// The response's end.
    pub fn close(&mut self, ending: Ending, out: &mut Vec<Bytes>) {
        self.dialect.close(ending, out);
    }
}

/// Neighbouring frames that none needed a look go on as one piece.
fn push_run(buf: &Bytes, run: &mut std::ops::Range<usize>, passed: &mut Vec<Bytes>) {
    if run.start < run.end {
        passed.push(buf.slice(std::mem::take(run)));
    }
}

/// Neighbouring slices of one buffer become one again: a read of many frames that none needed a change in
/// goes out as one piece.
fn coalesce(buf: &Bytes, pieces: Vec<Bytes>, out: &mut Vec<Bytes>) {
    let base = buf.as_ptr() as usize;
    let place = |b: &Bytes| {
        let at = (b.as_ptr() as usize).wrapping_sub(base);
        at.checked_add(b.len())
            .filter(|end| *end <= buf.len())
            .map(|end| at..end)
    };
    let mut run: Option<std::ops::Range<usize>> = None;
    for piece in pieces {
        match (place(&piece), run.take()) {
            (Some(next), Some(open)) if open.end == next.start => run = Some(open.start..next.end),
            (next, open) => {
                out.extend(open.map(|r| buf.slice(r)));
                match next {
                    Some(next) => run = Some(next),
                    None => out.push(piece),
                }
            }
        }
    }
    out.extend(run.map(|r| buf.slice(r)));
}
