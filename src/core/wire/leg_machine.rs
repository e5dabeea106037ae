//! State machine for the response of any wire: leg after leg, as frames or as complete replies.
//!
//! The wires differ only in their [`Dialect`]. This machine decides which frames are held, forgotten and
//! counted.

use bytes::Bytes;

use super::facts::Wire;
use super::framing::Framing;
use super::leg::{Ending, Leg, LegReport, ResponseWatch};
use super::leg_state::{Dialect, Frame, LegState};
use super::view::View;
use crate::marker::escape::Escaper;
use crate::text::splice;
use crate::tools::ToolNames;

/// Consumes the frames of one leg after another, and emits the frames for the agent.
pub struct LegMachine {
    state: LegState,
    dialect: Box<dyn Dialect>,
}

impl LegMachine {
    fn new(dialect: Box<dyn Dialect>, framing: Framing, watch: ResponseWatch) -> Self {
        let state = LegState {
            watch,
            framing,
            ..LegState::default()
        };
        Self { state, dialect }
    }

    /// Framing of the stream.
    pub fn framing(&self) -> Framing {
        self.state.framing
    }

    /// Sets upstream's framing, if the path requests another one than the wire's default.
    pub fn frame_as(&mut self, framing: Framing) {
        self.state.framing = framing;
    }

    /// Reads a frame with its payload `data`. Appends the agent's frames to `out`.
    pub fn frame(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        self.emit(out, |dialect, state| dialect.frame(state, Frame { raw, data }));
    }

    /// Report of the current leg so far.
    pub fn report(&self) -> &LegReport {
        &self.state.report
    }

    /// Holds terminal frames even without a hidden call, because a handoff is pending.
    pub fn hold_ends(&mut self) {
        self.state.hold = true;
    }

    /// Whether terminal frames are held.
    pub fn holds_end(&self) -> bool {
        self.state.held.iter().any(Option::is_some)
    }

    /// Sets the tools whose calls are hidden from now on. The next leg may offer different ones.
    pub fn hide(&mut self, tools: ToolNames) {
        self.state.watch.hide = tools;
    }

    /// Starts the next leg. Its opening frames are not forwarded.
    pub fn next_leg(&mut self) {
        self.end_leg(true);
        self.state.leg += 1;
        // A sentinel-like string cannot span two legs: a sentinel or an aside separates their text.
        self.state.escaper = Escaper::default();
    }

    /// Discards the current leg and its usage. It failed before any output was shown.
    pub fn forget_leg(&mut self) {
        self.end_leg(false);
    }

    fn end_leg(&mut self, counts: bool) {
        self.dialect.end_leg(&self.state, counts);
        self.state.report = LegReport::default();
        self.state.held = Default::default();
    }

    /// Emits `text` after the opening frames of the first leg, before the output of the model.
    pub fn open_with(&mut self, text: String) {
        self.state.opening = Some(text);
    }

    /// Returns the text of [`open_with`](Self::open_with) if it was not emitted yet.
    pub fn take_opening(&mut self) -> Option<String> {
        self.state.opening.take()
    }

    /// Emits baton's text as assistant output.
    pub fn say(&mut self, text: &str, out: &mut Vec<Bytes>) {
        self.emit(out, |dialect, state| {
            // The held frame may carry the model's last text, which precedes baton's.
            state.show_end();
            dialect.say(state, text);
        });
    }

    /// Emits a keep-alive in the wire's own form.
    pub fn keepalive(&mut self, out: &mut Vec<Bytes>) {
        self.emit(out, |dialect, state| dialect.keepalive(state));
    }

    /// Ends the response: with the held frames of the leg, or with an end that baton creates.
    pub fn close(&mut self, ending: Ending, out: &mut Vec<Bytes>) {
        self.emit(out, |dialect, state| match ending.next_input() {
            // The leg's end is replaced, but the visible content of its held frame is not lost.
            Some(next_input) => {
                state.show_end();
                dialect.own_end(state, ending, next_input);
                state.held = Default::default();
            }
            None => {
                // They are in the order of `HeldKind`, because SDKs read nothing after the last frame.
                let held = std::mem::take(&mut state.held).into_iter().flatten();
                held.for_each(|frame| dialect.last(state, frame, ending));
            }
        });
    }

    /// Runs `what` with `out` in place of the state's buffer, so that it appends to `out`.
    fn emit(&mut self, out: &mut Vec<Bytes>, what: impl FnOnce(&mut dyn Dialect, &mut LegState)) {
        std::mem::swap(&mut self.state.out, out);
        what(&mut *self.dialect, &mut self.state);
        std::mem::swap(&mut self.state.out, out);
    }
}

impl Wire {
    /// Creates the machine that reads responses to the request `view`.
    pub fn machine(&self, view: &View, watch: ResponseWatch) -> LegMachine {
        LegMachine::new((self.functions.dialect)(view), self.framing, watch)
    }

    /// Reads a complete reply to the request `view`. Returns `None` if it does not have this wire's shape.
    pub fn reply(&self, view: &View, body: &Bytes, watch: ResponseWatch) -> Option<LegReport> {
        let mut machine = self.machine(view, watch);
        machine.dialect.whole(&mut machine.state, body)?;
        Some(machine.state.report)
    }

    /// Joins the replies of all legs into the one for the agent. `opening` is a sentinel shown before them,
    /// if the first leg follows a handoff.
    pub fn join(&self, legs: &[Leg], opening: Option<&str>, ending: Ending) -> Bytes {
        let Some(last) = legs.last() else {
            return Bytes::new();
        };
        let mut machine = self.machine(&View::empty(self.id()), ResponseWatch::default());
        if let Some(text) = opening {
            machine.dialect.say_whole(&machine.state, text);
        }
        for (n, leg) in legs.iter().enumerate() {
            if n > 0 {
                machine.next_leg();
            }
            // This second reading watches for no tools, so it hides the calls that the first reading hid.
            machine.state.hid = leg.report.hidden.iter().map(|call| call.tool).collect();
            if machine.dialect.whole(&mut machine.state, &leg.body).is_none() {
                // A body of another shape cannot be joined, so the agent receives the last one as upstream sent it.
                return last.body.clone();
            }
            for text in &leg.then {
                machine.dialect.say_whole(&machine.state, text);
            }
        }
        let edits = machine.dialect.joined(&machine.state, &last.body, ending);
        splice::edited(&last.body, edits)
    }
}
