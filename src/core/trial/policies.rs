//! The policies that recorded sessions are replayed under, with their settings and display names.

use crate::nudge::Thresholds;

/// Decides when a session is cut, by the requests that the proxy has seen so far.
#[derive(Debug, PartialEq)]
pub struct Policy {
    /// Name in JSON and CSV.
    pub name: &'static str,
    /// Name on the screen.
    pub title: &'static str,
    /// The lines of the config that select it. Empty for the defaults, and for policies without a setting.
    pub setting: &'static str,
    /// Whether requests have the tool, so that the model hands over at task ends and after notices.
    pub(super) has_tool: bool,
    pub(super) thresholds: Thresholds,
    /// Whether baton makes free cuts.
    pub(super) is_free: bool,
    /// Whether old results are removed.
    pub(super) masks: bool,
    /// Whether cuts are only made at given moments.
    pub(super) is_forced: bool,
}

const NO_THRESHOLDS: Thresholds = Thresholds {
    nudge_at: 0.0,
    nudge_tokens: 0,
    auto_at: 0.0,
    nudge_pays: false,
};

/// Thresholds of the default config.
const DEFAULT_THRESHOLDS: Thresholds = Thresholds {
    nudge_at: 0.5,
    nudge_tokens: 200_000,
    ..NO_THRESHOLDS
};

const DEFAULT: Policy = Policy {
    name: "default",
    title: "handoff at task ends (default)",
    setting: "",
    has_tool: true,
    thresholds: DEFAULT_THRESHOLDS,
    is_free: false,
    masks: false,
    is_forced: false,
};

const NONE: Policy = Policy {
    name: "none",
    title: "as it was",
    has_tool: false,
    thresholds: NO_THRESHOLDS,
    ..DEFAULT
};

/// The default policy with one setting changed.
const fn with_setting(name: &'static str, setting: &'static str, thresholds: Thresholds) -> Policy {
    Policy {
        name,
        title: setting,
        setting,
        thresholds,
        ..DEFAULT
    }
}

const fn notified_at(name: &'static str, setting: &'static str, tokens: u64) -> Policy {
    let thresholds = Thresholds {
        nudge_tokens: tokens,
        ..DEFAULT_THRESHOLDS
    };
    with_setting(name, setting, thresholds)
}

const fn automatic(name: &'static str, setting: &'static str, share: f64) -> Policy {
    let thresholds = Thresholds {
        auto_at: share,
        ..DEFAULT_THRESHOLDS
    };
    with_setting(name, setting, thresholds)
}

const COLD_CACHE: Policy = Policy {
    is_free: true,
    ..with_setting(
        "cold_cache",
        "handoff.when_cache_cold = \"on\"",
        DEFAULT_THRESHOLDS,
    )
};

/// Thresholds for a notice at break-even.
const BREAK_EVEN: Thresholds = Thresholds {
    nudge_at: 0.0,
    nudge_pays: true,
    ..DEFAULT_THRESHOLDS
};

/// The policies that `baton try` replays; the one without cuts is first.
pub static POLICIES: [Policy; 11] = [
    NONE,
    Policy {
        name: "masked",
        title: "results masked",
        masks: true,
        ..NONE
    },
    DEFAULT,
    Policy {
        name: "only_cold",
        title: "only when the cache is cold",
        setting: "",
        is_free: true,
        ..NONE
    },
    COLD_CACHE,
    with_setting("break_even", "handoff.nudge_at = \"break-even\"", BREAK_EVEN),
    notified_at("notice_60k", "handoff.nudge_tokens = 60000", 60_000),
    notified_at("notice_80k", "handoff.nudge_tokens = 80000", 80_000),
    automatic("auto_0.3", "handoff.auto_at = 0.3", 0.3),
    automatic("auto_0.5", "handoff.auto_at = 0.5", 0.5),
    automatic("auto_0.75", "handoff.auto_at = 0.75", 0.75),
];

/// Name of the policy that cuts at the moments when shadow mode would have handed over.
pub const JOURNAL_SHADOW: &str = "shadow";

/// The policies for the journal's conversations: those that only need sizes and times, and [`JOURNAL_SHADOW`].
pub static JOURNAL_POLICIES: [Policy; 4] = [
    NONE,
    Policy {
        has_tool: false,
        thresholds: NO_THRESHOLDS,
        ..COLD_CACHE
    },
    automatic("auto_0.5", "handoff.auto_at = 0.5", 0.5),
    Policy {
        name: JOURNAL_SHADOW,
        title: "in its shadow",
        has_tool: true,
        is_forced: true,
        ..NONE
    },
];

/// The upper bound: the same session, cut at the moments that turned out best.
pub(super) static HINDSIGHT: Policy = Policy {
    name: "hindsight",
    title: "best moment (hindsight)",
    has_tool: true,
    is_forced: true,
    ..NONE
};

/// Name of the policy that needs no setting.
pub(super) const DEFAULTS: &str = DEFAULT.name;

impl Policy {
    /// Whether decisions depend on the bill of earlier requests.
    pub(super) fn needs_ledger(&self) -> bool {
        self.is_free || self.thresholds.nudge_pays
    }

    /// Whether the model hands over at task ends and after notices, and baton at thresholds.
    pub(super) fn decides(&self) -> bool {
        self.has_tool && !self.is_forced
    }

    /// Whether a config can select the policy, so that it may be recommended.
    pub fn is_choice(&self) -> bool {
        self.name == DEFAULTS || !self.setting.is_empty()
    }
}
