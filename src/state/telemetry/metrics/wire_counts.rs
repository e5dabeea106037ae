//! The counters by wire, as a table. The names are API.

use crate::state::telemetry::ExchangeEvent;

/// A counter by wire, to which every exchange adds.
pub(super) struct WireCount {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) amount: fn(&ExchangeEvent) -> u64,
}

/// The counters by wire, in the order in which they are shown.
pub(super) const WIRE_COUNTS: [WireCount; 13] = [
    WireCount {
        name: "baton_legs",
        help: "Upstream requests",
        amount: |event| event.sent_bytes.len() as u64,
    },
    WireCount {
        name: "baton_leg_retries",
        help: "Retries of upstream requests after a handoff",
        amount: |event| event.retries.into(),
    },
    WireCount {
        name: "baton_pinned_requests",
        help: "Requests cut at a handoff",
        amount: |event| event.pinned.is_some().into(),
    },
    WireCount {
        name: "baton_unpinned",
        help: "Requests without the sentinel of their conversation's handoff",
        amount: |event| event.unpinned.into(),
    },
    WireCount {
        name: "baton_refused_calls",
        help: "Handoff calls that were refused",
        amount: |event| event.refused_calls.into(),
    },
    WireCount {
        name: "baton_written_calls",
        help: "Answers in which the model wrote a handoff call as text, which no server reads as a call",
        amount: |event| event.written_calls.into(),
    },
    WireCount {
        name: "baton_lost_pairs",
        help: "Hidden calls that could not be restored, because their place in the transcript is missing",
        amount: |event| event.lost_pairs.into(),
    },
    WireCount {
        name: "baton_lost_insertions",
        help: "Texts of baton's own that could not be restored, because their place in the transcript is missing",
        amount: |event| event.lost_insertions.into(),
    },
    WireCount {
        name: "baton_handoff_relookups",
        help: "Files read again and commands run again within twenty requests after a handoff, and questions to recall; counted at the next one",
        amount: |event| {
            event
                .handoffs
                .iter()
                .filter_map(|handoff| handoff.relookups)
                .sum()
        },
    },
    WireCount {
        name: "baton_broken_up",
        help: "Sentinel-like texts of the model that were escaped",
        amount: |event| event.broken_up.into(),
    },
    WireCount {
        name: "baton_received_bytes",
        help: "Request bytes from agents",
        amount: |event| event.received_bytes,
    },
    WireCount {
        name: "baton_sent_bytes",
        help: "Request bytes to upstreams",
        amount: |event| event.sent_bytes.iter().sum(),
    },
    WireCount {
        name: "baton_response_bytes",
        help: "Response bytes to agents",
        amount: |event| event.response_bytes,
    },
];
