//! Why a cut costs nothing at a moment, for logs and for people.

/// Why a cut costs nothing at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FreeCutReason {
    /// The cache has gone cold in a pause.
    Cold {
        /// Milliseconds since the last request.
        pause_ms: u64,
    },
    /// The model is another one, which has nothing cached.
    ModelChanged,
    /// The effort is another one: what was cached is lost.
    EffortChanged,
    /// The next request is above a step of the price.
    PriceStep {
        /// The step.
        tokens: u64,
    },
    /// The next request is near the end of the window, or where the agent compacts.
    Limit {
        /// Where.
        tokens: u64,
    },
}

impl FreeCutReason {
    /// The name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold { .. } => "cold",
            Self::ModelChanged => "model",
            Self::EffortChanged => "effort",
            Self::PriceStep { .. } => "price_step",
            Self::Limit { .. } => "limit",
        }
    }

    /// The reason as a person reads it in the sentinel.
    pub fn text(self) -> String {
        match self {
            Self::Cold { pause_ms } => {
                format!("the cache had gone cold: {} without a request", time(pause_ms))
            }
            Self::ModelChanged => "the model changed, and with it the cache".to_owned(),
            Self::EffortChanged => "the effort changed, and with it the cache".to_owned(),
            Self::PriceStep { tokens } => format!("requests above {tokens} tokens cost more"),
            Self::Limit { tokens } => format!("the context was about to reach {tokens} tokens"),
        }
    }

    /// Whether nothing of the history is in a cache.
    pub fn is_cold(self) -> bool {
        matches!(self, Self::Cold { .. } | Self::ModelChanged | Self::EffortChanged)
    }
}

pub(super) fn time(ms: u64) -> String {
    let unit = |count: u64, name| match count {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    };
    match ms / 1_000 {
        seconds @ 0..=119 => unit(seconds, "second"),
        seconds @ 120..=7_199 => unit(seconds / 60, "minute"),
        seconds => unit(seconds / 3_600, "hour"),
    }
}
