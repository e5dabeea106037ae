//! The legs of one streamed response, frame by frame.

use bytes::Bytes;

use super::verdict::{Circumstances, Verdict, judge};
use crate::limits::LEG_LOG;
use crate::wire::framing::{ArrayWriter, Framing};
use crate::wire::sse::{Framer, Oversize};
use crate::wire::{Dialect, Ending, LegReport, Spoken};

/// Frames in, what the agent may see out.
pub struct StreamMerge {
    framing: Framing,
    framer: Framer,
    /// The array that goes out, where that is the framing.
    array: ArrayWriter,
    dialect: Box<dyn Dialect>,
    /// What the present leg streamed, for asking again; `None` once it grew over its limit.
    /// A copy: slices would hold all that was read with them, and upstream's events are small.
    log: Option<Vec<u8>>,
    logged: usize,
    /// Whether anything was shown that the bytes of an unread frame would contradict.
    committed: bool,
    failed: bool,
    /// What came last was kept back: a hidden call, or the end of a leg.
    withholding: bool,
    /// A frame was over the limit: bytes go by unread until the leg's end.
    blind: bool,
    frame_limit: usize,
}

impl StreamMerge {
    /// A machine for one response. Frames over `frame_limit` bytes are passed on unread, where nothing was
    /// hidden yet. `keep`: what a leg says is kept, so that the model can be asked again.
    pub fn new(dialect: Box<dyn Dialect>, frame_limit: usize, keep: bool) -> Self {
        let framing = dialect.framing();
        Self {
            framing,
            framer: Framer::of(framing, frame_limit),
            array: ArrayWriter::default(),
            dialect,
            log: keep.then(Vec::new),
            logged: 0,
            committed: false,
            failed: false,
            withholding: false,
            blind: false,
            frame_limit,
        }
    }

    /// The same, where upstream frames its stream another way than the wire's usual one.
    pub fn framed(mut dialect: Box<dyn Dialect>, framing: Framing, frame_limit: usize, keep: bool) -> Self {
        dialect.frame_as(framing);
        Self {
            framing,
            framer: Framer::of(framing, frame_limit),
            ..Self::new(dialect, frame_limit, keep)
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
                    self.frame(batch.buf.slice(range.clone()), &mut passed);
                }
                push_run(&batch.buf, &mut same, &mut passed);
                if !batch.frames.is_empty() {
                    self.withholding = passed.is_empty();
                }
                self.remember(batch.buf.clone());
                match self.framing {
                    Framing::JsonArray => self.elements(passed, out),
                    _ => coalesce(&batch.buf, passed, out),
                }
            }
            // Behind a hidden call or in a later leg, unread frames would make the message invalid.
            Err(Oversize(_)) if self.withholding() || self.committed => self.failed = true,
            Err(Oversize(held)) => {
                self.blind = true;
                out.push(held);
            }
        }
    }

    fn frame(&mut self, raw: Bytes, out: &mut Vec<Bytes>) {
        let data = self.framing.data(&raw);
        match self.framing {
            _ if data.is_empty() => out.push(raw.clone()),
            Framing::JsonArray => self.dialect.frame(&raw.slice_ref(&data), &data, out),
            _ => self.dialect.frame(&raw, &data, out),
        }
    }

    /// In an array every piece is an element.
    fn elements(&mut self, pieces: Vec<Bytes>, out: &mut Vec<Bytes>) {
        for piece in pieces {
            self.array.element(piece, out);
        }
    }

    /// Frames of the dialect's own making.
    fn show(&mut self, made: Vec<Bytes>, out: &mut Vec<Bytes>) {
        match self.framing {
            Framing::JsonArray => self.elements(made, out),
            _ => out.extend(made),
        }
    }

    /// Upstream's stream is over: a last frame without its end counts where its data is whole JSON;
    /// anything else goes by as it came.
    pub fn finish_leg(&mut self, out: &mut Vec<Bytes>) {
        let rest = self.framer.finish();
        if rest.is_empty() {
            return;
        }
        let data = self.framing.data(&rest);
        if crate::json::whole(&data).is_ok() {
            let framed = Bytes::from([&rest[..], self.framing.terminator()].concat());
            let mut passed = Vec::new();
            self.frame(framed.clone(), &mut passed);
            self.remember(framed);
            self.show(passed, out);
        } else if self.framing != Framing::JsonArray || !matches!(&data[..], b"" | b"]") {
            out.push(rest);
        }
    }

    fn remember(&mut self, bytes: Bytes) {
        self.logged += bytes.len();
        if self.logged > LEG_LOG {
            self.log = None;
        }
        if let Some(log) = self.log.as_mut().filter(|_| !bytes.is_empty()) {
            log.extend_from_slice(&bytes);
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

    /// Whether the stream cannot be read any further, nor passed on as it is.
    pub fn failed(&self) -> bool {
        self.failed
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
        let mut framer = Framer::of(self.framing, self.frame_limit);
        let batch = framer.push(Bytes::copy_from_slice(log)).ok()?;
        let frames = batch.frames.iter().map(|r| batch.buf.slice(r.clone()));
        Some(Spoken::Stream(frames.collect()))
    }

    /// The bytes that follow belong to another leg.
    pub fn next_leg(&mut self) {
        self.framer = Framer::of(self.framing, self.frame_limit);
        self.committed = true;
        self.log = Some(Vec::new());
        self.logged = 0;
        self.blind = false;
        // Nothing of this leg was shown yet.
        self.withholding = true;
        self.dialect.next_leg();
    }

    /// The response begins with a leg whose sentinel was shown in a response that broke off.
    pub fn open_with(&mut self, text: String) {
        self.dialect.open_with(text);
    }

    /// Assistant text of our own.
    pub fn say(&mut self, text: &str, out: &mut Vec<Bytes>) {
        let mut made = Vec::new();
        self.dialect.say(text, &mut made);
        self.show(made, out);
    }

    /// A keep-alive; none where bytes go by unread, since that may be in the middle of a frame.
    pub fn keepalive(&mut self, out: &mut Vec<Bytes>) {
        if !self.blind {
            self.dialect.keepalive(out);
        }
    }

    /// The response's end.
    pub fn close(&mut self, ending: Ending, out: &mut Vec<Bytes>) {
        let mut made = Vec::new();
        self.dialect.close(ending, &mut made);
        self.show(made, out);
        if self.framing == Framing::JsonArray && !self.blind {
            self.array.end(out);
        }
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
