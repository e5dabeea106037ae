//! The names of the metrics that are not of the table of facts, and their help texts. The names are API; the encoder appends `_total` to counters.

use prometheus_client::metrics::info::Info;

use super::{Metrics, counters};

/// Registers rows of a name, a help text and a metric.
macro_rules! register {
    ($registry:expr; $($name:literal $help:literal $metric:expr;)*) => {
        $($registry.register($name, $help, $metric.clone());)*
    };
}

impl Metrics {
    /// Registers all metrics, in the order in which they are shown.
    pub(super) fn register(&mut self) {
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        self.registry
            .register("baton_build", "The running version", version);
        register! { self.registry;
            "gen_ai_client_token_usage" "Tokens of each upstream request; input includes cached tokens" self.token_usage;
            "gen_ai_server_time_to_first_token_seconds" "Time from the last byte of the request to the first byte of upstream's answer" self.first_token;
            "gen_ai_client_operation_duration_seconds" "Time from the first byte of the request to the last byte of the response" self.duration;
            "baton_added_seconds" "Time in the proxy before the first upstream request" self.added;
            "baton_open_exchanges" "Exchanges in progress" self.open;
            "baton_tokens" "Tokens by the model that answered and by how they are billed: new, read from a cache, written to one, output" self.costs.tokens;
            "baton_cost_dollars" "What these tokens cost at the table of prices, in US dollars" self.costs.dollars;
            "baton_cost_unpriced" "Upstream requests whose model has no price, or that a subscription paid for" self.costs.unpriced;
            "baton_journal_dropped" "Copies that the journal dropped or could not write" self.journal_dropped;
            "baton_traces_dropped" "Exchanges whose spans the queue or the collector did not accept" self.traces_dropped;
            "baton_documents" "Documents of handoffs, by result" self.documents;
            "baton_handoffs" "Handoffs that fired, by who began them" self.handoffs;
            "baton_handoff_lacked" "Rules of the person, open to-dos and contradicted claims that carry-over prompts lacked, by kind" self.handoff_lacked;
            "baton_handoff_prompt_bytes" "Sizes of carry-over prompts" self.handoff_prompt;
            "baton_handoff_before_bytes" "Sizes of upstream requests in which a handoff fired" self.handoff_before;
            "baton_handoff_after_bytes" "Sizes of the first upstream requests after a handoff" self.handoff_after;
            "baton_drafts" "Tries to write the document of a handoff, by method and by how they ended" self.drafts;
            "baton_draft_tokens" "Tokens of requests for such documents, by how they are billed; the other metrics of tokens have them, too" self.draft_tokens;
        }
        for ((_, counter), metric) in counters().zip(&self.facts) {
            self.registry.register(counter.name, counter.help, metric.clone());
        }
    }
}
