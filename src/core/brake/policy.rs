//! Budgets: limits, and how much of them is used.

use crate::record::{Amounts, Ledger};

/// Microdollars of a dollar.
pub const MICRODOLLARS: f64 = 1e6;

/// Share of a budget from which on the model is told.
const NEAR: f64 = 0.8;

/// Range of a budget in dollars.
const DOLLARS: std::ops::RangeInclusive<f64> = 0.01..=1e6;

/// Number of complete responses to the same request after which the agent is stopped. Agents retry a request whose
/// response broke off, but not one that was answered.
const MAX_SAME_REQUESTS: u32 = 5;

/// Milliseconds of a day.
pub const DAY_MS: u64 = 86_400_000;

/// Settings of the brake. Everything is off by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BrakePolicy {
    /// Limits of a session, with its subagents.
    pub session: Amounts,
    /// Limits of a client's day, in UTC.
    pub day: Amounts,
    /// Limits of a client's working directory.
    pub directory: Amounts,
    /// Limit of each window of a client's subscription.
    pub plan: Amounts,
    /// Whether an agent that repeats itself is stopped. `None` means no.
    pub no_progress: Option<bool>,
    /// Whether a request may set its session's budget above the configured one, and a user may let a stopped
    /// agent go on. `None` means no.
    pub may_raise: Option<bool>,
}

impl BrakePolicy {
    /// Whether nothing is limited.
    pub fn is_off(&self) -> bool {
        let limits = [self.session, self.day, self.directory, self.plan];
        !self.stops_loops() && limits.iter().all(|limits| *limits == Amounts::default())
    }

    /// Whether an agent that repeats itself is stopped.
    pub fn stops_loops(&self) -> bool {
        self.no_progress.unwrap_or_default()
    }

    /// Whether requests and users may raise a budget.
    pub fn may_raise(&self) -> bool {
        self.may_raise.unwrap_or_default()
    }

    /// A client's policy: its own settings, and those of `all` that it leaves open.
    #[must_use]
    pub fn or(self, all: &Self) -> Self {
        Self {
            session: self.session.or(&all.session),
            day: self.day.or(&all.day),
            directory: self.directory.or(&all.directory),
            plan: self.plan.or(&all.plan),
            no_progress: self.no_progress.or(all.no_progress),
            may_raise: self.may_raise.or(all.may_raise),
        }
    }

    /// The policy for a request that declares its session's budget, in microdollars.
    #[must_use]
    pub fn declaring(mut self, declared: Option<u64>) -> Self {
        let limit = &mut self.session.microdollars;
        if let Some(declared) = declared {
            // Without `may_raise` a request can only lower a configured limit. If none is configured, any declared
            // budget applies.
            let is_free = self.may_raise.unwrap_or_default() || *limit == 0;
            *limit = if is_free { declared } else { declared.min(*limit) };
        }
        self
    }
}

/// Parses a budget in dollars: a plain number from 0.01 to 1,000,000, maybe after `$`. Returns microdollars.
///
/// # Errors
/// Returns an error with the expected form.
pub fn parse_dollars(text: &str) -> Result<u64, &'static str> {
    let number = text.trim();
    let number = number.strip_prefix('$').unwrap_or(number);
    let is_plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let dollars = number.parse::<f64>().ok();
    let dollars = dollars.filter(|dollars| is_plain && DOLLARS.contains(dollars));
    let dollars =
        dollars.ok_or("a budget is a number of US dollars from 0.01 to 1000000, such as 5 or 2.50")?;
    Ok((dollars * MICRODOLLARS).round() as u64)
}

named! {
    /// Owner of an account.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AccountKind {
        Session = "session",
        Day = "day",
        Directory = "directory",
        Plan = "plan",
    }
}

named! {
    /// Unit of a budget.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum BudgetUnit {
        Dollars = "dollars",
        Tokens = "tokens",
        Calls = "calls",
        Minutes = "minutes",
        Share = "share",
    }
}

impl BudgetUnit {
    /// The amount in this unit.
    pub fn amount(self, amounts: &Amounts) -> u64 {
        match self {
            Self::Dollars => amounts.microdollars,
            Self::Tokens => amounts.tokens,
            Self::Calls => amounts.calls,
            Self::Minutes => amounts.millis,
            Self::Share => amounts.share,
        }
    }

    /// An amount in the whole unit: dollars, minutes, or a share from 0 to 1.
    pub fn in_full(self, amount: u64) -> f64 {
        amount as f64
            / match self {
                Self::Dollars => MICRODOLLARS,
                Self::Tokens | Self::Calls => 1.0,
                Self::Minutes => 60_000.0,
                Self::Share => 10_000.0,
            }
    }

    /// Smallest amount that is not shown as zero.
    pub fn least_shown(self) -> f64 {
        if self == Self::Dollars { 0.01 } else { 1.0 }
    }

    /// Amounts of which only this unit is set.
    pub fn only(self, amount: u64) -> Amounts {
        let mut amounts = Amounts::default();
        *match self {
            Self::Dollars => &mut amounts.microdollars,
            Self::Tokens => &mut amounts.tokens,
            Self::Calls => &mut amounts.calls,
            Self::Minutes => &mut amounts.millis,
            Self::Share => &mut amounts.share,
        } = amount;
        amounts
    }
}

/// A ledger with its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    pub kind: AccountKind,
    pub limits: Amounts,
    /// Key of the ledger's record.
    pub key: String,
    pub ledger: Ledger,
}

impl Account {
    /// The limit in this unit with what the user granted; `None` if it is not limited.
    pub fn limit(&self, unit: BudgetUnit) -> Option<u64> {
        let limit = Some(unit.amount(&self.limits)).filter(|limit| *limit > 0)?;
        Some(limit.saturating_add(unit.amount(&self.ledger.granted)))
    }

    /// Amount spent in this unit.
    pub fn spent(&self, unit: BudgetUnit) -> u64 {
        unit.amount(&self.ledger.spent)
    }

    /// Next start of the budget; `None` if it never begins anew.
    pub fn opens_ms(&self) -> Option<u64> {
        match self.kind {
            AccountKind::Day => Some((self.ledger.last_ms / DAY_MS + 1) * DAY_MS),
            AccountKind::Plan => self.ledger.windows.first().map(|window| window.resets_ms),
            AccountKind::Session | AccountKind::Directory => None,
        }
    }

    /// The unit whose limit is reached.
    pub fn used_up(&self) -> Option<BudgetUnit> {
        let is_over = |unit: &BudgetUnit| self.limit(*unit).is_some_and(|limit| self.spent(*unit) >= limit);
        BudgetUnit::ALL.into_iter().find(is_over)
    }

    /// The first unit with little left, unless the model was told since the last grant.
    pub fn nearly_used_up(&self) -> Option<BudgetUnit> {
        // Each grant allows one more notice.
        if self.ledger.told > self.ledger.grants {
            return None;
        }
        let is_near = |unit: &BudgetUnit| {
            let limit = self.limit(*unit);
            limit.is_some_and(|limit| self.spent(*unit) as f64 >= limit as f64 * NEAR)
        };
        BudgetUnit::ALL.into_iter().find(is_near)
    }

    /// Whether the agent was stopped for a reason other than a budget.
    pub fn is_stopped(&self) -> bool {
        self.ledger.halted || self.ledger.stopped_at.is_some() || is_same_again(&self.ledger)
    }

    /// Amounts that the user's `::go` adds: for each limit that is reached, the limit once more, or these microdollars.
    ///
    /// An overshoot is granted in addition, so that at least the next request passes.
    pub fn grant(&self, microdollars: Option<u64>) -> Amounts {
        let mut grant = Amounts::default();
        for unit in BudgetUnit::ALL {
            let Some(limit) = self.limit(unit).filter(|limit| self.spent(unit) >= *limit) else {
                continue;
            };
            let more = match microdollars {
                Some(more) if unit == BudgetUnit::Dollars => more,
                _ => unit.amount(&self.limits),
            };
            // A single expensive request may have overshot the limit. A window's grant begins at its use.
            let over = if unit == BudgetUnit::Share {
                0
            } else {
                self.spent(unit) - limit
            };
            grant.add(&unit.only(more + over));
        }
        grant
    }
}

/// Whether the newest request has had so many complete responses that sending it again is a loop.
pub(super) fn is_same_again(ledger: &Ledger) -> bool {
    ledger.repeats >= MAX_SAME_REQUESTS
}
