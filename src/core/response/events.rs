//! What goes into a response machine, and what comes out: events, and the actions that follow them.

use std::time::Duration;

use super::verdict::AnsweredCall;
use crate::limits::BYTES_PER_TOKEN;
use crate::plan::{NewHandoff, NextLeg};
use crate::record::{HiddenResult, InsertionPoint, ResponseOrigin};
use crate::wire::{Ending, LegReport};

/// What happened.
#[derive(Debug, Clone)]
pub enum LegEvent {
    /// The leg's terminal frame arrived.
    LegEnded(LegReport),
    /// The leg's bytes ended without a terminal frame.
    LegTruncated {
        /// The leg's outcome.
        report: LegReport,
        /// Whether anything of it was shown.
        shown: bool,
        /// Whether its last frames were held back.
        withheld: bool,
    },
    /// Reading the leg failed.
    LegBroken {
        /// What arrived of it.
        report: LegReport,
        /// Whether anything of it was shown.
        shown: bool,
        /// Whether a retry may succeed.
        retry: bool,
    },
    /// The provider refuses the later leg, since the account has no quota left: the body of its error.
    QuotaUsed(String),
    /// The handoff is durable.
    HandoffWritten {
        /// The leg after it.
        next: NextLeg,
        /// What is shown of it.
        sentinel: String,
    },
    /// The hidden call and its answer are durable, and the model can be asked to go on.
    CallAnswered {
        /// What is shown in the call's place.
        mark: String,
        /// The elements to append: the model's own turn, and the answer.
        more: String,
        answer: HiddenResult,
    },
    /// Pairs or an id were written.
    Written,
    /// The write failed, or the model cannot be asked to go on.
    NotWritten,
    /// Upstream has begun to answer the leg that was sent.
    LegBegun,
    /// Upstream did not answer with a leg.
    LegRefused {
        /// Whether a retry may succeed.
        retry: bool,
        /// The pause that upstream asked for.
        pause: Option<Duration>,
    },
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Show a text of ours after all that was shown.
    Say(String),
    /// Perform this effect and report its outcome; no other action precedes the report.
    Perform(ResponseEffect),
    End(ResponseEnd),
    /// End the response without adding anything to upstream's bytes.
    EndAsItIs,
    /// End the response with this error, the body of one.
    Refuse(String),
    /// Abort the connection, so that the agent does not take the response for whole.
    BreakOff,
}

/// An operation on the store or upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseEffect {
    /// Write a handoff: `HandoffWritten` or `NotWritten`.
    WriteHandoff(NewHandoff),
    /// Write hidden calls with their answers, each placed next to one of the agent's calls where one can be identified:
    /// `Written` or `NotWritten`.
    WritePairs(Vec<(AnsweredCall, Option<InsertionPoint>)>),
    /// Write a hidden call without siblings with its answer, and report what asks the model to go on after it:
    /// `CallAnswered` or `NotWritten`.
    AnswerCall(AnsweredCall),
    /// Write upstream's origin of the response id that the agent knows: `Written` or `NotWritten`.
    WriteId {
        /// The response id that the agent knows.
        shown: String,
        /// Upstream's origin of that id.
        origin: ResponseOrigin,
    },
    /// Send a later leg: `LegBegun` or `LegRefused`.
    Send {
        /// The leg's request.
        leg: NextLeg,
        /// The pause before it.
        pause: Duration,
        /// Tries of this leg that have failed.
        failed: u32,
    },
}

impl ResponseEffect {
    /// Whether it makes a text that asks the model to go on after its own output.
    pub(super) fn asks_again(&self) -> bool {
        matches!(self, Self::AnswerCall(_))
    }

    /// Whether it reads the agent's request.
    pub fn needs_request(&self) -> bool {
        match self {
            Self::WriteHandoff(_) | Self::AnswerCall(_) | Self::Send { .. } => true,
            // Whoever answers a call looks into it.
            Self::WritePairs(all) => all.iter().any(|(call, _)| call.answer.is_none()),
            Self::WriteId { .. } => false,
        }
    }

    /// The event that reports that the effect could not begin.
    pub fn not_done(&self) -> LegEvent {
        match self {
            Self::Send { .. } => LegEvent::LegRefused {
                retry: false,
                pause: None,
            },
            _ => LegEvent::NotWritten,
        }
    }
}

/// How the response ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseEnd {
    /// As the last leg ended.
    Own,
    /// As the last leg ended, but without the call.
    WithoutCall,
    /// After a text of ours, with a normal stop. The next request will be about as large as this leg's.
    Stopped(NextLeg),
    /// After a sentinel, because this next leg failed.
    Lost(NextLeg),
}

impl ResponseEnd {
    /// Whether it ends after a text of ours, whatever the last leg's end was.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Stopped(_) | Self::Lost(_))
    }

    /// The end in the wires' terms. `size_of` returns the bytes of a leg that is not sent any more.
    pub fn ending(&self, size_of: impl Fn(&NextLeg) -> usize) -> Ending {
        let tokens = |leg| size_of(leg) as u64 / BYTES_PER_TOKEN;
        match self {
            Self::Own => Ending::Own,
            Self::WithoutCall => Ending::WithoutCall,
            Self::Stopped(leg) => Ending::Stopped {
                next_input: tokens(leg),
            },
            Self::Lost(leg) => Ending::Lost {
                next_input: tokens(leg),
            },
        }
    }
}
