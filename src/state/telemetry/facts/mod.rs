//! The table of an exchange's facts: fields of [`ExchangeFacts`] and rows of [`FACTS`].
//!
//! The journal stores the fields and the API shows them. The rows produce the log, the spans, the metrics,
//! the filter and the inspector's sentences.

mod row;
mod words;

use serde::{Deserialize, Serialize};

pub(crate) use self::row::{FactCounter, FactValue, FilterKind, TextsOf, ValueOf};
use self::row::{FactRow, row};
pub(super) use self::words::{BRIEF, brief};
use self::words::{
    brake_note, brake_sentence, joined, nudge_note, nudge_sentence, some, tally, undo_note, undo_sentence,
    was, when,
};
use super::{BudgetUse, DraftEvent, ExceededLimit, ExchangeOutcome, ProviderLimit, ThinkingRetry};
use crate::jobs::recalls::AnswerOutcome;
use baton_core::brake::{BrakeOutcome, provider_limit};
use baton_core::commands::UndoOutcome;
use baton_core::nudge::{NudgeOutcome, ShadowMoment};
use baton_core::record::PlanWindow;
use baton_core::rewrite::untooled::ToolOmission;
use baton_core::text::units::is_zero;
use baton_core::text::words::plural;
use baton_core::wire::{ServedBy, Usage};

/// Facts about an exchange at its end. The field names are part of the API.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExchangeFacts {
    /// Client that sent the request. `None` without clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Status sent to the agent.
    pub status: u16,
    /// How the exchange ended.
    pub outcome: ExchangeOutcome,
    /// Whether baton refused the request because it had no valid client key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refused_key: bool,
    /// Limit that the request exceeded, if baton refused it for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<ExceededLimit>,
    /// Whether the response was a stream.
    pub streamed: bool,
    /// Whether the tool was offered.
    pub tooled: bool,
    /// Reason why the tool was not offered, if the request carries a transcript.
    pub untooled: Option<ToolOmission>,
    /// Handoff at which the request was cut.
    pub pinned: Option<String>,
    /// Whether the conversation has an active handoff whose sentinel is missing in the transcript.
    pub lost_sentinel: bool,
    /// Whether a handoff that waited for the end of its turn lapsed, because the user sent a message first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lapsed_handoff: bool,
    /// Handoffs that fired in the exchange.
    pub fired: Vec<String>,
    /// Number of rules, to-dos and contradicted claims that the prompts of its handoffs lacked.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing_items: u32,
    /// Files read again and commands run again after the handoffs before those that fired in it.
    #[serde(skip_serializing_if = "is_zero")]
    pub relookups: u64,
    /// Retries of later legs.
    pub retries: u32,
    /// Outcome of each call of the tool that searches the removed history.
    pub recalls: Vec<AnswerOutcome>,
    /// Handoff calls that were rejected with an error result. Recall calls are counted in `recalls`.
    pub refused_calls: u32,
    /// Responses in which the model wrote a call of baton's tool as text.
    #[serde(skip_serializing_if = "is_zero")]
    pub text_tool_calls: u32,
    /// Hidden pairs whose anchor in the transcript was not found anymore.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost_pairs: u32,
    /// Insertions whose anchor in the transcript was not found anymore.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost_insertions: u32,
    /// Sentinel-like strings from the model that were escaped.
    pub escaped_sentinels: u32,
    /// Thinking blocks that upstream reports to have dropped from the model's view.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_thinking: u32,
    /// Dropped thinking blocks whose prefix changed, included in `dropped_thinking`.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_for_prefix: u32,
    /// Outcome of a retry without the thinking that upstream rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_retry: Option<ThinkingRetry>,
    /// Outcomes of notifying the model of its context use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nudges: Vec<NudgeOutcome>,
    /// Change that shadow mode would have made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowMoment>,
    /// Outcome of the brake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brake: Option<BrakeOutcome>,
    /// Budgets of the request and their use, including that of this exchange.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetUse>,
    /// Windows of the subscription, as upstream's last response states them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plan_windows: Vec<PlanWindow>,
    /// Upstream's refusal because of a limit of the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_limit: Option<ProviderLimit>,
    /// Outcome of a requested undo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<UndoOutcome>,
    /// Decoded request bytes received from the agent.
    pub received_bytes: u64,
    /// Request bytes sent upstream, by leg, including retries.
    pub sent_bytes: Vec<u64>,
    /// Response bytes sent to the agent.
    pub response_bytes: u64,
    /// Usage by leg, indexed like `sent_bytes`. `None` for an incomplete leg. May be shorter.
    pub tokens: Vec<Option<Usage>>,
    /// Model that responded to each leg, indexed like `tokens`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub served: Vec<Option<ServedBy>>,
    /// Legs that requested the document of a handoff, as indices into `sent_bytes`. The agent did not cause
    /// their cost.
    #[serde(rename = "own_legs", skip_serializing_if = "Vec::is_empty")]
    pub draft_legs: Vec<u32>,
    /// Attempts to make the document of a handoff, in order.
    #[serde(skip)]
    pub drafts: Vec<DraftEvent>,
    /// Bytes of the carry-over prompts written in the exchange.
    #[serde(skip_serializing_if = "is_zero")]
    pub prompt_bytes: u64,
    /// Name and version of the agent, the first word of its `user-agent`. Bounded in length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Id of the `baton run` that started the agent. `None` for subagents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Topic of the conversation's handoffs, if the user or the request names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Whether a subscription paid for the request, so its tokens have no price.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub subscription: bool,
    /// Milliseconds from the request's last byte to the first response byte from upstream.
    pub first_byte_ms: Option<f64>,
    /// Milliseconds from the request's first byte to the response's last byte.
    pub total_ms: f64,
    /// Milliseconds spent in the proxy before the first leg was sent.
    pub added_ms: f64,
}

/// A row of the table.
pub(crate) type Fact = FactRow<ExchangeFacts>;

const fn fact(name: &'static str, value: ValueOf<ExchangeFacts>) -> Fact {
    row(name, value)
}

/// Facts in log order. Their notes appear in the same order, most important first.
#[rustfmt::skip]
pub(crate) static FACTS: &[Fact] = &[
    fact("baton.client", |f| f.client.as_deref().into())
        .filtered(FilterKind::Text, "client")
        .noted(|f| f.client.iter().map(|client| format!("client {client}")).collect()),
    fact("http.response.status_code", |f| f.status.into())
        .filtered(FilterKind::Text, "status"),
    fact("baton.outcome", |f| f.outcome.name().into())
        .counted_by("outcome", "baton_exchanges", "Exchanges by how they ended",
            |f| tally(ExchangeOutcome::ENDS, &[f.outcome], ExchangeOutcome::name))
        // A note for the normal case would only fill the line.
        .noted(|f| when(f.outcome != ExchangeOutcome::Complete, || f.outcome.name())),
    fact("baton.refused_key", |f| f.refused_key.then_some(true).into())
        .counted("baton_refused_keys", "Requests without a valid client key"),
    fact("baton.limit", |f| f.limit.map(ExceededLimit::name).into())
        .counted_by("limit", "baton_limit_refusals", "Requests that baton refused because of a limit, by key of the section `limits`",
            |f| tally(&ExceededLimit::ALL, f.limit.as_slice(), ExceededLimit::name))
        .filtered(FilterKind::Text, "limit")
        .noted(|f| f.limit.map(|limit| format!("limits.{}", limit.name())).into_iter().collect()),
    fact("baton.streamed", |f| f.streamed.into()),
    fact("baton.tooled", |f| f.tooled.into()),
    fact("baton.fired", |f| joined(f.fired.iter().map(String::as_str)))
        .filtered(FilterKind::Flag, "handoff")
        .noted(|f| f.fired.last().map(|id| format!("handed off {}", brief(id))).into_iter().collect()),
    fact("baton.missing_items", |f| some(f.missing_items))
        .noted(|f| when(f.missing_items > 0, || format!("{} missing items", f.missing_items)))
        .told(|f| when(f.missing_items > 0, || {
            let items = plural(f.missing_items.into(), "item");
            format!("The carry-over prompt lacked {items}. baton appended those that fit.")
        })),
    fact("baton.relookups", |f| some(f.relookups))
        .counted("baton_handoff_relookups", "Files read again and commands run again within twenty requests after a handoff, and questions to recall; counted at the next one"),
    fact("baton.draft_legs", |f| some(f.draft_legs.len()))
        .noted(|f| when(!f.draft_legs.is_empty(), || {
            let drafted = f.drafted();
            format!("draft of {} tokens", drafted.all_input() + drafted.output)
        })),
    fact("baton.drafts", |f| joined(f.drafts.iter().map(|draft| format!("{}:{}", draft.method, draft.outcome))))
        .noted(|f| f.drafts.iter().filter_map(DraftEvent::note).collect()),
    fact("baton.draft_input_tokens", |f| f.of_drafts(Usage::all_input)),
    fact("baton.draft_output_tokens", |f| f.of_drafts(|tokens| tokens.output)),
    fact("baton.recalls", |f| joined(f.recalls.iter().map(|recall| recall.name())))
        .counted_by("outcome", "baton_recalls", "Searches in the history before a cut, by outcome",
            |f| tally(&AnswerOutcome::ALL, &f.recalls, AnswerOutcome::name))
        .filtered(FilterKind::Flag, "recall")
        .noted(|f| when(!f.recalls.is_empty(), || format!("recalled: {}", f.recalled(","))))
        .told(|f| when(!f.recalls.is_empty(), || format!(
            "The model called session_recall, which searched the history before the cut ({}). The agent saw none of it.", f.recalled(", ")))),
    fact("baton.lost_sentinel", |f| f.lost_sentinel.then_some(true).into())
        .counted("baton_lost_sentinel", "Requests without the sentinel of their conversation's handoff")
        .filtered(FilterKind::Flag, "lost_sentinel")
        .noted(|f| when(f.lost_sentinel, || "lost_sentinel"))
        .with_lead_sentence(|f| when(f.lost_sentinel, ||
            "The conversation has a handoff, but this transcript lacks its sentinel, so it was sent whole.")),
    fact("baton.lapsed_handoff", |f| f.lapsed_handoff.then_some(true).into())
        .noted(|f| when(f.lapsed_handoff, || "waiting handoff lapsed"))
        .told(|f| when(f.lapsed_handoff, ||
            "A handoff that waited for the end of its turn lapsed, because the user sent a message first.")),
    fact("baton.lost_pairs", |f| some(f.lost_pairs))
        .counted("baton_lost_pairs", "Hidden calls that could not be restored, because their anchor is missing in the transcript")
        .noted(|f| when(f.lost_pairs > 0, || format!("{} hidden calls lost", f.lost_pairs))),
    fact("baton.lost_insertions", |f| some(f.lost_insertions))
        .counted("baton_lost_insertions", "Inserted notices that could not be restored, because their anchor is missing in the transcript")
        .noted(|f| when(f.lost_insertions > 0, || format!("{} inserted notices lost", f.lost_insertions))),
    fact("baton.dropped_thinking", |f| some(f.dropped_thinking))
        .counted_by("reason", "baton_thinking_dropped", "Thinking blocks that upstream reports to have dropped from the model's input, by reason",
            |f| vec![
                ("prefix", f.dropped_for_prefix.into()),
                ("other", f.dropped_thinking.saturating_sub(f.dropped_for_prefix).into()),
            ])
        .noted(|f| when(f.dropped_thinking > 0, || format!("upstream dropped {} thinking blocks", f.dropped_thinking)))
        .told(|f| when(f.dropped_thinking > 0, || {
            let blocks = plural(f.dropped_thinking.into(), "block");
            format!("Upstream dropped {blocks} of thinking from the model's input, because the prefix or the model has changed.")
        })),
    fact("baton.thinking_retry", |f| f.thinking_retry.map(ThinkingRetry::name).into())
        .counted_by("outcome", "baton_thinking_retries", "Retries of cut requests without the thinking that upstream refused, by outcome",
            |f| tally(&ThinkingRetry::ALL, f.thinking_retry.as_slice(), ThinkingRetry::name))
        .noted(|f| f.thinking_retry.iter().map(|retry| match retry {
            ThinkingRetry::Accepted => "thinking left out".to_owned(),
            ThinkingRetry::Refused => "refused even without thinking".to_owned(),
        }).collect()),
    fact("baton.nudges", |f| joined(f.nudges.iter().map(|nudged| nudged.name())))
        .counted_by("outcome", "baton_nudges", "Notifications to models about how full their context is, by outcome",
            |f| tally(&NudgeOutcome::ALL, &f.nudges, NudgeOutcome::name))
        .noted(|f| f.nudges.iter().map(|nudged| nudge_note(*nudged)).collect())
        .told(|f| f.nudges.iter().map(|nudged| nudge_sentence(*nudged).to_owned()).collect()),
    fact("baton.shadow_saved", |f| f.would_save().into())
        .noted(|f| f.would_save().map(|saved| format!("would save ${saved:.2}")).into_iter().collect())
        .told(|f| f.would_save().map(|saved| {
            let verb = if saved < 0.0 { "cost" } else { "saved" };
            format!("A handoff here would have {verb} about ${:.2}.", saved.abs())
        }).into_iter().collect()),
    fact("baton.brake", |f| f.brake.map(BrakeOutcome::name).into())
        .counted_by("outcome", "baton_brake_requests", "Requests on which the brake acted, by outcome",
            |f| tally(&BrakeOutcome::ALL, f.brake.as_slice(), BrakeOutcome::name))
        .filtered(FilterKind::Text, "brake")
        .noted(|f| f.brake.iter().map(|brake| brake_note(*brake).to_owned()).collect())
        .told(|f| f.brake.iter().map(|brake| brake_sentence(*brake).to_owned()).collect()),
    fact("baton.budgets", |f| joined(f.budgets.iter().map(|budget| format!("{}_{}:{}", budget.of, budget.unit, budget.share())))),
    fact("baton.plan_windows", |f| joined(f.plan_windows.iter().map(|window| format!("{}:{}", window.name, window.used as f64 / 10_000.0)))),
    fact("baton.provider_limit", |f| f.provider_limit.map(ProviderLimit::opens).into())
        .counted("baton_brake_provider_limits", "Requests that upstream refused with status 429, because of a limit of the account")
        .filtered(FilterKind::Flag, "provider_limit")
        .noted(|f| f.provider_limit.iter().map(|limit| provider_limit(limit.opens_ms)).collect())
        .told(|f| f.provider_limit.iter().map(|limit| format!("Upstream refused the request: {}.", provider_limit(limit.opens_ms))).collect()),
    fact("baton.undo", |f| f.undo.map(UndoOutcome::name).into())
        .counted_by("outcome", "baton_undos", "Undos of handoffs, by outcome",
            |f| tally(&UndoOutcome::ALL, f.undo.as_slice(), UndoOutcome::name))
        .noted(|f| f.undo.iter().map(|undo| undo_note(*undo).to_owned()).collect())
        .told(|f| f.undo.iter().map(|undo| undo_sentence(*undo).to_owned()).collect()),
    fact("baton.pinned", |f| f.pinned.as_deref().into())
        .counted("baton_pinned_requests", "Requests cut at a handoff")
        .noted(|f| f.pinned.iter().map(|id| format!("pinned {}", brief(id))).collect()),
    fact("baton.untooled", |f| f.untooled.map(ToolOmission::name).into())
        // Side calls list no tools and are frequent, so this reason gets no note.
        .noted(|f| f.untooled.iter().filter(|why| **why != ToolOmission::NoClientTools)
            .map(|why| format!("no tool: {}", why.name())).collect())
        .with_lead_sentence(|f| f.untooled.iter()
            .map(|why| format!("No tool was offered: {} ({}).", why.about(), why.name())).collect()),
    fact("baton.legs", |f| f.sent_bytes.len().into())
        .counted("baton_legs", "Upstream requests")
        .filtered(FilterKind::Number, "requests")
        .noted(|f| when(f.sent_bytes.len() > 1, || format!("{} legs", f.sent_bytes.len()))),
    fact("baton.retries", |f| f.retries.into())
        .counted("baton_leg_retries", "Retries of upstream requests after a handoff"),
    fact("baton.refused_calls", |f| f.refused_calls.into())
        .counted("baton_refused_calls", "Handoff calls that were refused")
        .told(|f| when(f.refused_calls > 0, || {
            let calls = plural(f.refused_calls.into(), "handoff call");
            format!("{calls} {} answered with an error. The agent saw none of it.", was(f.refused_calls))
        })),
    fact("baton.text_tool_calls", |f| some(f.text_tool_calls))
        .counted("baton_text_tool_calls", "Responses in which the model wrote a handoff call as text, which no server parses as a call"),
    fact("baton.escaped_sentinels", |f| f.escaped_sentinels.into())
        .counted("baton_escaped_sentinels", "Sentinel-like strings from the model that were escaped")
        .told(|f| when(f.escaped_sentinels > 0, || {
            let passages = plural(f.escaped_sentinels.into(), "passage");
            format!("{passages} in the model's output looked like a sentinel and {} escaped for the agent.", was(f.escaped_sentinels))
        })),
    // OpenTelemetry includes cached tokens in the input. Unknown usage is omitted, since zero tokens would
    // look like a free request.
    fact("gen_ai.usage.input_tokens", |f| f.of_agent(Usage::all_input)),
    fact("gen_ai.usage.cache_read.input_tokens", |f| f.of_agent(|tokens| tokens.cache_read)),
    fact("gen_ai.usage.cache_creation.input_tokens", |f| f.of_agent(|tokens| tokens.cache_write)),
    fact("gen_ai.usage.output_tokens", |f| f.of_agent(|tokens| tokens.output)),
    fact("baton.received_bytes", |f| f.received_bytes.into())
        .counted("baton_received_bytes", "Request bytes from agents")
        .filtered(FilterKind::Number, "received"),
    fact("baton.sent_bytes", |f| f.sent_bytes.iter().sum::<u64>().into())
        .counted("baton_sent_bytes", "Request bytes to upstreams")
        .filtered(FilterKind::Number, "sent"),
    fact("baton.response_bytes", |f| f.response_bytes.into())
        .counted("baton_response_bytes", "Response bytes to agents"),
    fact("baton.first_byte_ms", |f| f.first_byte_ms.into()),
    fact("baton.total_ms", |f| f.total_ms.into()),
    fact("baton.added_ms", |f| f.added_ms.into()),
];

impl ExchangeFacts {
    /// Whether upstream reported usage for any leg.
    pub fn has_tokens(&self) -> bool {
        self.tokens.iter().any(Option::is_some)
    }

    /// Returns the tokens of all legs except drafts: the true cost of the agent's request.
    pub fn spent(&self) -> Usage {
        self.sum(false)
    }

    /// Returns the tokens of drafts.
    pub fn drafted(&self) -> Usage {
        self.sum(true)
    }

    /// Returns the context tokens after the last response to the agent. `None` if no usage was reported.
    pub fn context_tokens(&self) -> Option<u64> {
        Usage::of_context(&self.tokens, &self.draft_legs)
    }

    fn sum(&self, drafts: bool) -> Usage {
        let legs = (0u32..).zip(&self.tokens);
        let wanted = legs.filter(|(leg, _)| self.draft_legs.contains(leg) == drafts);
        Usage::sum(wanted.filter_map(|(_, tokens)| *tokens)).unwrap_or_default()
    }

    fn of_agent(&self, count: fn(Usage) -> u64) -> FactValue<'_> {
        self.has_tokens().then(|| count(self.spent())).into()
    }

    fn of_drafts(&self, count: fn(Usage) -> u64) -> FactValue<'_> {
        (!self.draft_legs.is_empty())
            .then(|| count(self.drafted()))
            .into()
    }

    /// Joins the outcomes of recall calls.
    fn recalled(&self, between: &str) -> String {
        let names: Vec<_> = self.recalls.iter().map(|recall| recall.name()).collect();
        names.join(between)
    }

    fn would_save(&self) -> Option<f64> {
        self.shadow.as_ref().and_then(|shadow| shadow.saved)
    }
}
