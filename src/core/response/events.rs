//! Input events and output actions of the response machine.

use std::time::Duration;

use uuid::Uuid;

use super::verdict::AnsweredCall;
use crate::limits::BYTES_PER_TOKEN;
use crate::marker::note;
use crate::plan::{NewHandoff, NextLeg};
use crate::record::{HiddenResult, InsertionPoint, ResponseOrigin};
use crate::redact::Redactor;
use crate::text::prose::one_line;
use crate::wire::{Ending, LegReport, lacks_place};

/// Event reported to the machine.
#[derive(Debug, Clone)]
pub enum LegEvent {
    /// The leg's terminal frame arrived.
    LegEnded(LegReport),
    /// The leg's bytes ended without a terminal frame.
    LegTruncated {
        /// Result of the leg.
        report: LegReport,
        /// Whether any output of the leg was shown.
        shown: bool,
        /// Whether the agent's frames differ from upstream's.
        changed: bool,
    },
    /// Reading the leg failed.
    LegBroken {
        /// Result of the part that arrived.
        report: LegReport,
        /// Whether any output of the leg was shown.
        shown: bool,
        /// Whether a retry may succeed.
        retry: bool,
        /// Cause in words, for the user.
        cause: String,
    },
    /// The provider refuses the later leg because the account has no quota left. Contains the body of its
    /// error.
    QuotaUsed(String),
    /// The handoff is durable.
    HandoffWritten {
        /// The leg after the handoff.
        next: NextLeg,
        /// Text to show for it.
        sentinel: String,
    },
    /// The hidden call and its result are durable, and the model can be asked to continue.
    CallAnswered {
        /// Marker to show in the call's position. Empty if there is none.
        mark: String,
        /// Elements to append: the model's own turn and the result.
        more: String,
        answer: HiddenResult,
    },
    /// Pairs or an id were written.
    Written,
    /// The write failed, or the model cannot be asked to continue.
    NotWritten,
    /// Upstream has begun to respond to the leg that was sent.
    LegBegun,
    /// Upstream did not respond with a leg.
    LegRefused {
        /// Whether a retry may succeed.
        retry: bool,
        /// Pause that upstream asked for.
        pause: Option<Duration>,
        /// Cause in words, for the user.
        cause: String,
    },
}

/// Action for the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Show this text from baton after everything shown so far.
    Say(String),
    /// Perform this effect and report its outcome. No other action precedes the report.
    Perform(ResponseEffect),
    End(ResponseEnd),
    /// End the response without adding anything to upstream's bytes.
    EndAsItIs,
    /// End the response with this error body.
    Refuse(String),
    /// Abort the connection, so that the agent does not take the response for complete.
    BreakOff,
}

/// An operation on the store or upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseEffect {
    /// Write a handoff. Reported as `HandoffWritten` or `NotWritten`.
    WriteHandoff(NewHandoff),
    /// Write hidden calls with their results, each next to one of the agent's calls if one can be identified.
    /// Reported as `Written` or `NotWritten`.
    WritePairs(Vec<(AnsweredCall, Option<InsertionPoint>)>),
    /// Write a hidden call without siblings and its result, and return the elements that make the model
    /// continue. Reported as `CallAnswered` or `NotWritten`.
    AnswerCall(AnsweredCall),
    /// Store where the next request continues if the agent names this response by its id. Reported as `Written`
    /// or `NotWritten`.
    WriteId {
        /// Response id that the agent received.
        shown: String,
        /// Upstream response or handoff that the id stands for.
        origin: ResponseOrigin,
    },
    /// Send a later leg. Reported as `LegBegun` or `LegRefused`.
    Send {
        /// Request of the leg.
        leg: NextLeg,
        /// Pause before sending.
        pause: Duration,
        /// Number of failed attempts at this leg.
        failed: u32,
    },
}

impl ResponseEffect {
    /// Whether the effect needs the model's output, to send it back with a result.
    pub(super) fn asks_again(&self) -> bool {
        matches!(self, Self::AnswerCall(_))
    }

    /// Whether the effect reads the agent's request.
    pub fn needs_request(&self) -> bool {
        match self {
            Self::WriteHandoff(_) | Self::AnswerCall(_) | Self::Send { .. } => true,
            // A tool that computes its result searches the request.
            Self::WritePairs(all) => all.iter().any(|(call, place)| {
                let lacks_place = |place: &InsertionPoint| lacks_place(place.sibling());
                call.answer.is_none() || place.as_ref().is_some_and(lacks_place)
            }),
            Self::WriteId { .. } => false,
        }
    }

    /// Event that reports that the effect could not begin.
    pub fn not_done(&self) -> LegEvent {
        match self {
            Self::Send { .. } => LegEvent::LegRefused {
                retry: false,
                pause: None,
                cause: "the proxy could not read its copy of the request".to_owned(),
            },
            _ => LegEvent::NotWritten,
        }
    }
}

/// How the response ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseEnd {
    /// Like the last leg.
    Own,
    /// Like the last leg, but without the hidden call.
    WithoutCall,
    /// After baton's text, with a normal stop. The next request will be about as large as this leg's.
    Stopped(NextLeg),
    /// After baton's text, because this next leg failed.
    Lost {
        leg: NextLeg,
        /// Cause in words, for the user.
        cause: String,
    },
}

/// Maximum length of a cause in a note, in bytes. Messages of providers may be pages long.
const CAUSE_BYTES: usize = 200;

impl ResponseEnd {
    /// Whether the response ends after baton's text, whatever the end of the last leg was.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Stopped(_) | Self::Lost { .. })
    }

    /// Note that tells the user of a lost leg, as the last text of the response. Later requests go without it.
    pub fn note(&self, redactor: &Redactor) -> Option<String> {
        let Self::Lost { leg, cause } = self else {
            return None;
        };
        let stored = match leg.after {
            Some(_) => "the handoff is stored, but ",
            None => "",
        };
        // Redacted before it is cut, because half a key is not recognized.
        let cause = one_line(&redactor.cleaned(cause), CAUSE_BYTES);
        let cause = note::quoted(&cause);
        let text =
            format!("{stored}the next request to the provider failed ({cause}). Send any message to go on.");
        Some(note::answer(&text, Uuid::nil()))
    }

    /// Converts the end for the wires. `size_of` returns the bytes of a leg that is no longer sent.
    pub fn ending(&self, size_of: impl Fn(&NextLeg) -> usize) -> Ending {
        let tokens = |leg| size_of(leg) as u64 / BYTES_PER_TOKEN;
        match self {
            Self::Own => Ending::Own,
            Self::WithoutCall => Ending::WithoutCall,
            Self::Stopped(leg) => Ending::Stopped {
                next_input: tokens(leg),
            },
            Self::Lost { leg, .. } if leg.after.is_some() => Ending::Lost {
                next_input: tokens(leg),
            },
            // Only a call was answered, so it is the user who continues.
            Self::Lost { leg, .. } => Ending::Stopped {
                next_input: tokens(leg),
            },
        }
    }
}
