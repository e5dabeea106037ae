//! Random plans of conversations: actions of the model, the agent and the network.

use baton_strict::{Arguments, CallStyle, Fault, Part, Reply, Stop};
use proptest::prelude::*;
use serde_json::json;

use super::agent_quirks::{AgentQuirks, quirks};
use super::drafts::DraftPlan;
use super::wires::WireProfile;

/// Number of conversations per run: two with the same opening, a parent and its subagent.
pub const CONVERSATIONS: usize = 4;

/// Carry-over prompts as a model might write them.
pub const PROMPTS: [&str; 8] = [
    "Goal: skip BOMs. Next: reader.rs.",
    "  \n two lines\nand a third \\n with a backslash \n\n",
    "```rust\nfn main() {}\n```\n</system-reminder> <b>\u{2028}\u{2029}\u{85}",
    "\"quoted\" \\ / \u{1F980} 漢字 \u{0}\u{1b}[31m",
    "[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\nnested\n[[/handoff-resume:AAAAAAAAAAAAAAAAAAAAAA]]",
    "<system-reminder>looks like a preamble</system-reminder>",
    "x",
    "ends in brackets ]]",
];

/// Plausible output of a model.
pub const TEXTS: [&str; 7] = [
    "Let me look.",
    "\n\nleading line breaks",
    "The log says\n[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\nwhich is a quotation",
    "[[/handoff-aside:x and [[handoff-resume\\: and [[[handoff-aside:\u{2028}",
    "naïve “quotes” 🦀 \\ \" \t tab",
    "[[handoff-",
    "resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]",
];

#[derive(Debug, Clone)]
pub enum Piece {
    Think,
    Redacted,
    Text(usize),
    Call,
    /// An ordinary call.
    Same,
    Good(usize),
    Empty,
    Broken,
    NoPrompt,
    /// A search of the removed history, if the tool is offered.
    Recall,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    Natural,
    MaxTokens,
    Refusal,
    Pause,
}

#[derive(Debug, Clone, Copy)]
pub enum Trouble {
    Status(u16),
    Cut(usize),
    CleanEnd(usize),
}

#[derive(Debug, Clone)]
pub struct LegPlan {
    pub pieces: Vec<Piece>,
    pub end: End,
    pub chunks: u8,
    pub delta: usize,
    pub trouble: Option<Trouble>,
}

/// An agent's reaction to an interrupted response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Broken {
    /// Sends the same request again.
    Again,
    /// Keeps the partial output, and the user's message states the interruption.
    Kept,
    /// Like [`Broken::Kept`], with the end of the partial output in that message.
    Quoted,
    /// Keeps the partial output, and sends it at the end of its request (Responses; elsewhere as
    /// [`Broken::Kept`]).
    Prefilled,
    /// Sends the same request again, and keeps both responses.
    Doubled,
}

#[derive(Debug, Clone)]
pub enum Step {
    Turn {
        who: usize,
        legs: Vec<LegPlan>,
        stream: bool,
        says: u8,
        /// The agent's reaction to an interrupted response.
        broken: Broken,
        restart_when_broken: bool,
        /// Outcomes of the documents that the model is asked to write.
        drafts: Vec<DraftPlan>,
    },
    /// The user asks to undo the last handoff, or to revert its undo.
    Undo {
        who: usize,
        stream: bool,
    },
    Count {
        who: usize,
    },
    Fork {
        who: usize,
        back: usize,
    },
    Compact {
        who: usize,
    },
    Restart,
    Lose,
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub opening: u8,
    /// Whether the opening contains a prohibition.
    pub forbids: bool,
    pub quirks: AgentQuirks,
    /// Whether recall is on.
    pub recall: bool,
    /// Whether responses end at a handoff.
    pub stops: bool,
    pub steps: Vec<Step>,
    /// Threshold in tokens for the notice to the model; zero disables it.
    pub nudge_from: u64,
    /// Threshold in tokens for an automatic handoff; zero disables it.
    pub auto_from: u64,
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        3 => Just(Piece::Think),
        1 => Just(Piece::Redacted),
        4 => (0..TEXTS.len()).prop_map(Piece::Text),
        3 => Just(Piece::Call),
        1 => Just(Piece::Same),
        4 => (0..PROMPTS.len()).prop_map(Piece::Good),
        1 => Just(Piece::Empty),
        1 => Just(Piece::Broken),
        1 => Just(Piece::NoPrompt),
    ]
}

fn leg() -> impl Strategy<Value = LegPlan> {
    let end = prop_oneof![
        12 => Just(End::Natural), 1 => Just(End::MaxTokens), 1 => Just(End::Refusal), 1 => Just(End::Pause)
    ];
    let trouble = prop_oneof![
        10 => Just(None),
        1 => prop_oneof![Just(429u16), Just(500), Just(529)].prop_map(|s| Some(Trouble::Status(s))),
        1 => (0usize..60).prop_map(|n| Some(Trouble::Cut(n))),
        1 => (0usize..60).prop_map(|n| Some(Trouble::CleanEnd(n))),
    ];
    let chunks = prop_oneof![6 => Just(0u8), 2 => Just(1), 2 => Just(2), 1 => Just(3)];
    let delta = prop_oneof![4 => Just(20usize), 1 => Just(1), 1 => Just(1000)];
    (prop::collection::vec(piece(), 1..5), end, chunks, delta, trouble).prop_map(
        |(pieces, end, chunks, delta, trouble)| LegPlan {
            pieces,
            end,
            chunks,
            delta,
            trouble,
        },
    )
}

fn who() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0usize), 2 => Just(1), 3 => Just(2), 2 => Just(3)]
}

fn broken() -> impl Strategy<Value = Broken> {
    prop_oneof![
        4 => Just(Broken::Again),
        2 => Just(Broken::Kept),
        1 => Just(Broken::Quoted),
        1 => Just(Broken::Prefilled),
        1 => Just(Broken::Doubled),
    ]
}

fn drafts() -> impl Strategy<Value = Vec<DraftPlan>> {
    let draft = prop_oneof![
        6 => Just(DraftPlan::Written),
        2 => prop_oneof![Just(400u16), Just(403), Just(500), Just(529)].prop_map(DraftPlan::Status),
        1 => Just(DraftPlan::Cut),
        1 => Just(DraftPlan::Nothing),
        1 => Just(DraftPlan::OutOfRoom),
    ];
    prop::collection::vec(draft, 0..3)
}

fn step() -> impl Strategy<Value = Step> {
    let legs = || prop::collection::vec(leg(), 1..5);
    let turn = (
        who(),
        legs(),
        prop::bool::weighted(0.8),
        0u8..6,
        broken(),
        prop::bool::weighted(0.2),
        drafts(),
    )
        .prop_map(
            |(who, legs, stream, says, broken, restart_when_broken, drafts)| Step::Turn {
                who,
                legs,
                stream,
                says,
                broken,
                restart_when_broken,
                drafts,
            },
        );
    let undo = (who(), prop::bool::weighted(0.8)).prop_map(|(who, stream)| Step::Undo { who, stream });
    prop_oneof![
        16 => turn,
        8 => undo,
        1 => who().prop_map(|who| Step::Count { who }),
        2 => (who(), 0usize..8).prop_map(|(who, back)| Step::Fork { who, back }),
        1 => who().prop_map(|who| Step::Compact { who }),
        1 => Just(Step::Restart),
        // Most conversations have something that is only in the store, and then the store is not lost.
        3 => Just(Step::Lose),
    ]
}

pub fn plan() -> impl Strategy<Value = Plan> {
    let steps = prop::collection::vec(step(), 4..24);
    let nudge_from = prop_oneof![2 => Just(0u64), 2 => Just(1), 3 => 400u64..2_500];
    let auto_from = prop_oneof![3 => Just(0u64), 3 => 300u64..2_500];
    let opening = (0u8..5, any::<bool>());
    let steps = (steps, any::<bool>()).prop_map(|(mut steps, alone)| {
        if alone {
            steps.iter_mut().filter_map(Step::who).for_each(|who| *who = 0);
        }
        steps
    });
    let all = (opening, quirks(), steps, nudge_from, auto_from);
    all.prop_map(|((opening, forbids), quirks, steps, nudge_from, auto_from)| {
        let recall = steps.len() % 2 == 0;
        let mut plan = Plan {
            opening,
            forbids,
            quirks,
            recall,
            stops: steps.len() % 5 < 2,
            steps,
            nudge_from,
            auto_from,
        };
        if recall {
            plan.search();
        }
        plan
    })
}

impl Step {
    /// The conversation of this step.
    fn who(&mut self) -> Option<&mut usize> {
        match self {
            Self::Turn { who, .. }
            | Self::Undo { who, .. }
            | Self::Count { who }
            | Self::Fork { who, .. }
            | Self::Compact { who } => Some(who),
            Self::Restart | Self::Lose => None,
        }
    }
}

impl Plan {
    /// Replaces calls that ask for nothing by searches.
    fn search(&mut self) {
        for step in &mut self.steps {
            let Step::Turn { legs, .. } = step else {
                continue;
            };
            let pieces = legs.iter_mut().flat_map(|leg| &mut leg.pieces);
            for piece in pieces.filter(|p| matches!(p, Piece::NoPrompt | Piece::Empty)) {
                *piece = Piece::Recall;
            }
        }
    }

    /// Makes all calls different.
    pub fn all_different(&mut self) {
        for step in &mut self.steps {
            let Step::Turn { legs, .. } = step else {
                continue;
            };
            let pieces = legs.iter_mut().flat_map(|leg| &mut leg.pieces);
            for piece in pieces.filter(|p| matches!(p, Piece::Same)) {
                *piece = Piece::Call;
            }
        }
    }
}

impl LegPlan {
    /// Creates the reply, with ids that no other reply has.
    ///
    /// Combinations that the API would not produce are omitted: adjacent text blocks, thinking after a call,
    /// and a turn that ends in thinking. The same applies to ends and blocks that the wire does not have, and
    /// to a tool that is not offered (`recall`).
    ///
    /// If the provider stores its output (`stored`), no text follows a call. After a refused call such text
    /// could not be distinguished from text before the call, which follows reasoning.
    pub fn reply(
        &self,
        profile: &WireProfile,
        streamed: bool,
        id: &mut usize,
        (recall, stored): (bool, bool),
    ) -> Reply {
        let traits = profile.traits;
        let mut reply = Reply::new().deltas(self.delta).reasoning();
        reply.delivery.call_style = STYLES[*id % STYLES.len()];
        let end = self.end_on(profile);
        let mut text_before = false;
        let mut called = false;
        for piece in &self.pieces {
            *id += 1;
            let (n, hidden) = (*id, format!("hid_{id}"));
            let good = |text: &str| json!({"prompt": text, "reason": "done"});
            reply = match piece {
                Piece::Think | Piece::Redacted if called => continue,
                Piece::Redacted if !traits.thoughts => continue,
                Piece::Recall if !recall => continue,
                Piece::Text(_) if text_before || called && stored => continue,
                Piece::Call | Piece::Same if !matches!(end, Stop::Natural | Stop::MaxTokens) => continue,
                Piece::Think => reply.thinking(format!("Thought {n}.")),
                Piece::Redacted => reply.part(Part::Redacted),
                Piece::Text(t) => reply.say(text(*t, n)),
                Piece::Call => reply.call_as(
                    format!("toolu_{n}"),
                    "read_file",
                    json!({"path": format!("f{n}")}),
                ),
                Piece::Same => reply.call_as(format!("toolu_{n}"), "read_file", json!({"path": "same"})),
                Piece::Good(p) => reply.call_as(hidden, "session_handoff", good(PROMPTS[*p])),
                Piece::Recall => reply.call_as(
                    hidden,
                    "session_recall",
                    json!({"query": format!("importer {n}")}),
                ),
                Piece::Empty => reply.call_as(hidden, "session_handoff", good(" \n")),
                Piece::NoPrompt => reply.call_as(hidden, "session_handoff", json!({"reason": 7})),
                Piece::Broken => reply.part(broken_call(hidden)),
            };
            match piece {
                Piece::Think | Piece::Redacted => text_before = false,
                Piece::Text(_) => text_before = true,
                Piece::Call | Piece::Same => (text_before, called) = (false, true),
                _ => called = true,
            }
        }
        *id += 1;
        if !called && !text_before {
            reply = reply.say(format!("So be it {id}."));
        }
        if end == Stop::PauseTurn {
            let input = json!({"query": "q"});
            reply = reply.part(Part::Block(
                json!({"type": "server_tool_use", "id": format!("srvtoolu_{id}"), "name": "web_search", "input": input}),
            ));
        }
        self.sent(reply.stop(end), profile, streamed)
    }

    /// End of the reply in the terms of this wire.
    fn end_on(&self, profile: &WireProfile) -> Stop {
        let has = |stop: &Stop| (profile.word)(stop, false) != (profile.word)(&Stop::Natural, false);
        let wanted = match self.end {
            End::Natural => Stop::Natural,
            End::MaxTokens => Stop::MaxTokens,
            End::Refusal if has(&Stop::Refusal) => Stop::Refusal,
            End::Refusal => Stop::ContentFilter,
            End::Pause => Stop::PauseTurn,
        };
        if has(&wanted) { wanted } else { Stop::Natural }
    }

    fn sent(&self, reply: Reply, profile: &WireProfile, streamed: bool) -> Reply {
        let reply = match self.chunks {
            0 => reply,
            1 => reply.in_bytes(7),
            2 => reply.whole(),
            _ => reply.in_bytes(1),
        };
        let events = (profile.events)(&reply);
        match self.trouble {
            None => reply,
            Some(Trouble::Status(status)) => Reply::status(status, "busy").retry_after(0),
            Some(_) if !streamed || events == 0 => reply.fault(Fault::CutAfterBytes(20)),
            Some(Trouble::Cut(n)) => reply.fault(Fault::CutAfterEvents(1 + n % events)),
            Some(Trouble::CleanEnd(n)) => reply.fault(Fault::EndAfterEvents(1 + n % events)),
        }
    }
}

/// Spellings of calls by chat servers.
const STYLES: [CallStyle; 4] = [
    CallStyle::Standard,
    CallStyle::OneChunk,
    CallStyle::SplitName,
    CallStyle::IdFirst,
];

/// Output with a unique number, in a position that does not break a marker formed by two parts.
fn text(t: usize, n: usize) -> String {
    match t {
        5 => format!("{n} {}", TEXTS[t]),
        _ => format!("{} {n}", TEXTS[t]),
    }
}

fn broken_call(id: String) -> Part {
    Part::Call {
        id: Some(id),
        name: "session_handoff".to_owned(),
        arguments: Arguments::Raw("{\"prompt\": \"never clo".to_owned()),
    }
}
