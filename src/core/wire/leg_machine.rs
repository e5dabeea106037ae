//! The machine of an answer on any wire: its legs one after the other, each as frames or in one piece.
//!
//! What differs between the wires is a [`Dialect`]; what is held, forgotten and counted of a leg is decided here.

use bytes::Bytes;

use super::api::Wire;
use super::framing::Framing;
use super::leg::{Ending, Leg, LegReport, ResponseWatch};
use super::leg_state::{Dialect, Frame, LegState};
use super::view::View;
use crate::marker::escape::Escaper;
use crate::text::splice;
use crate::tools::ToolNames;

/// Frames of one leg after another go in, what the agent may see comes out.
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

    /// How the frames are distinguished.
    pub fn framing(&self) -> Framing {
        self.state.framing
    }

    /// How upstream frames this stream: the wire's usual way, or the one that the path requests.
    pub fn frame_as(&mut self, framing: Framing) {
        self.state.framing = framing;
    }

    /// One frame: `raw` as it came, `data` its payload.
    pub fn frame(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        self.emit(out, |dialect, state| dialect.frame(state, Frame { raw, data }));
    }

    /// The report of the present leg so far.
    pub fn report(&self) -> &LegReport {
        &self.state.report
    }

    /// Terminal frames wait even without a hidden call: a handoff is pending.
    pub fn hold_ends(&mut self) {
        self.state.hold = true;
    }

    /// Whether terminal frames are waiting.
    pub fn holds_end(&self) -> bool {
        self.state.held.iter().any(Option::is_some)
    }

    /// Sets the calls to hide from here on: the next leg may offer other tools of ours.
    pub fn hide(&mut self, tools: ToolNames) {
        self.state.watch.hide = tools;
    }

    /// Frames that follow belong to another leg; its opening is swallowed.
    pub fn next_leg(&mut self) {
        self.end_leg(true);
        self.state.leg += 1;
        self.state.escaper = Escaper::default();
    }

    /// The present leg failed before anything of it was shown: it counts for nothing, its tokens neither.
    pub fn forget_leg(&mut self) {
        self.end_leg(false);
    }

    fn end_leg(&mut self, counts: bool) {
        self.dialect.end_leg(&self.state, counts);
        self.state.report = LegReport::default();
        self.state.held = Default::default();
    }

    /// The first leg of this response is a later one: the frames' own opening is shown, then `text`.
    pub fn open_with(&mut self, text: String) {
        self.state.opening = Some(text);
    }

    /// The text of [`open_with`](Self::open_with), if it was not shown yet.
    pub fn take_opening(&mut self) -> Option<String> {
        self.state.opening.take()
    }

    /// Assistant text of our own.
    pub fn say(&mut self, text: &str, out: &mut Vec<Bytes>) {
        self.emit(out, |dialect, state| {
            state.show_end();
            dialect.say(state, text);
        });
    }

    /// A keep-alive in the wire's own form.
    pub fn keepalive(&mut self, out: &mut Vec<Bytes>) {
        self.emit(out, |dialect, state| dialect.keepalive(state));
    }

    /// The end of the response: the leg's own, or one of ours.
    pub fn close(&mut self, ending: Ending, out: &mut Vec<Bytes>) {
        self.emit(out, |dialect, state| match ending.next_input() {
            Some(next_input) => {
                state.show_end();
                dialect.own_end(state, ending, next_input);
                state.held = Default::default();
            }
            None => {
                let held = std::mem::take(&mut state.held).into_iter().flatten();
                held.for_each(|frame| dialect.last(state, frame, ending));
            }
        });
    }

    /// Does something that shows the agent more, which is added to `out`.
    fn emit(&mut self, out: &mut Vec<Bytes>, what: impl FnOnce(&mut dyn Dialect, &mut LegState)) {
        std::mem::swap(&mut self.state.out, out);
        what(&mut *self.dialect, &mut self.state);
        std::mem::swap(&mut self.state.out, out);
    }
}

impl dyn Wire + '_ {
    /// The machine that reads this wire's answers to the request `view`.
    pub fn machine(&self, view: &View, watch: ResponseWatch) -> LegMachine {
        LegMachine::new((self.facts().dialect)(view), self.facts().framing, watch)
    }

    /// Reads a reply in one piece to the request `view`; `None` where it is none of this wire's.
    pub fn reply(&self, view: &View, body: &Bytes, watch: ResponseWatch) -> Option<LegReport> {
        let mut machine = self.machine(view, watch);
        machine.dialect.whole(&mut machine.state, body)?;
        Some(machine.state.report)
    }

    /// Joins the replies of an exchange's legs into the one the agent gets. `opening` is a sentinel shown in front of
    /// them all: the first leg is a later one.
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
            machine.state.hid = leg.report.hidden.iter().map(|call| call.tool).collect();
            if machine.dialect.whole(&mut machine.state, &leg.body).is_none() {
                return last.body.clone();
            }
            if let Some(text) = &leg.then {
                machine.dialect.say_whole(&machine.state, text);
            }
        }
        let edits = machine.dialect.joined(&machine.state, &last.body, ending);
        splice::edited(&last.body, edits)
    }
}
