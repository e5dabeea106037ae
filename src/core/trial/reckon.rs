//! The arms of one session.

use serde::Serialize;

use super::session::RecordedSession;
use super::sizes;
use crate::bill::{Arm, ArmBill, ArmCut, PriceQuery, PriceTable, Rates, SessionSizes, TokenCounts, dollars};

/// The arms that are tried; the first is what the others are compared with.
pub const ARMS: [Arm; 5] = [Arm::None, Arm::Mask, Arm::TaskEnds, Arm::Free, Arm::Pays];

/// Tokens that are read again where the session does not show it.
const READ_AGAIN: u64 = 20_000;

/// A session counts as unchanged where an arm changes its cost by less than this share.
pub(super) const UNCHANGED: f64 = 0.005;

/// A session with its cost in each arm.
#[derive(Debug, Clone, Serialize)]
pub struct Reckoned {
    #[serde(flatten)]
    pub session: RecordedSession,
    /// The model of most of its calls.
    pub model: String,
    /// When its first and its last call were sent, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    pub ended_ms: u64,
    pub calls: usize,
    /// Tokens of its longest history.
    pub longest: u64,
    /// The provider's counts.
    pub tokens: TokenCounts,
    /// What the recorded counts cost; `None` where the record lacks some, or a model has no price.
    #[serde(serialize_with = "dollars")]
    pub paid: Option<f64>,
    /// The arms, without cuts first; none where a model has no price.
    pub arms: Vec<ArmResult>,
}

/// What an arm would have cost.
#[derive(Debug, Clone, Serialize)]
pub struct ArmResult {
    pub arm: &'static str,
    #[serde(flatten)]
    pub bill: ArmBill,
    /// Dollars less than without cuts; negative where it costs more.
    #[serde(serialize_with = "dollars")]
    pub saved: f64,
    /// The expected error of that.
    #[serde(serialize_with = "dollars")]
    pub error: f64,
    /// Of the cuts, those whose tokens that are read again were assumed.
    pub assumed: usize,
}

impl Reckoned {
    /// An arm's result; `None` where no arm has one.
    pub fn arm(&self, arm: Arm) -> Option<&ArmResult> {
        self.arms.iter().find(|result| result.arm == arm.name())
    }

    /// Whether an arm would have changed what it costs.
    pub fn is_changed(&self, arm: Arm) -> bool {
        let none = self.arms.first().map_or(0.0, |none| none.bill.cost);
        let found = self.arm(arm).filter(|one| !one.bill.cuts.is_empty());
        found.is_some_and(|one| one.saved.abs() > none * UNCHANGED)
    }

    /// By which share the modelled cost without cuts differs from what was paid.
    pub fn deviation(&self) -> Option<f64> {
        let (paid, none) = (self.paid.filter(|paid| *paid > 0.0)?, self.arms.first()?);
        Some((none.bill.cost - none.bill.compacting) / paid - 1.0)
    }

    /// Whether its dollars are somebody's: those of a subscription's session are what an API key would have cost.
    pub fn has_dollars(&self) -> bool {
        self.session.subscription.is_none() && !self.arms.is_empty()
    }
}

/// Reckons a session at the prices of its day, in these arms, of which the first is without cuts. `None`: it has no calls.
pub fn reckon(session: RecordedSession, prices: &PriceTable, run: &[Arm]) -> Option<Reckoned> {
    let sizes = sizes(&session)?;
    let (own, paid) = (session.own(), paid(&session, prices));
    let (first, last) = (own.first()?, own.last()?);
    let at_ms = session.started_ms();
    let rates = |model: &str| rates(prices, (model, None), at_ms);
    let mut tokens = TokenCounts::default();
    own.iter().for_each(|call| tokens += call.counts);
    Some(Reckoned {
        model: session.main_model().to_owned(),
        started_ms: first.at_ms,
        ended_ms: last.at_ms,
        calls: own.len(),
        longest: own.iter().map(|call| call.counts.whole_input()).max()?,
        tokens,
        arms: arms(&sizes, &rates, paid, run).unwrap_or_default(),
        paid,
        session,
    })
}

/// What the recorded counts cost, each at the price of its own time.
fn paid(session: &RecordedSession, prices: &PriceTable) -> Option<f64> {
    if session.estimated {
        return None;
    }
    let own = session.own().iter().take(super::MAX_CALLS);
    let mut costs = own.map(|call| {
        let rates = rates(prices, session.model(call), call.at_ms)?;
        Some(call.counts.cost(&rates).total())
    });
    costs.try_fold(0.0, |sum, cost| Some(sum + cost?))
}

fn rates(prices: &PriceTable, (model, service): (&str, Option<&str>), at_ms: u64) -> Option<Rates> {
    prices.rates(&PriceQuery {
        model,
        service,
        at_ms,
        host: "",
    })
}

fn arms(
    sizes: &SessionSizes,
    rates: &dyn Fn(&str) -> Option<Rates>,
    paid: Option<f64>,
    run: &[Arm],
) -> Option<Vec<ArmResult>> {
    let none = sizes.bill(Arm::None, rates)?;
    let off = paid.map_or(0.0, |paid| (none.cost - none.compacting - paid).abs());
    let model_error = off / none.cost.max(f64::MIN_POSITIVE);
    let twice = reading_twice(sizes);
    let result = |arm: &Arm| {
        let bill = sizes.bill(*arm, rates)?;
        let saved = none.cost - bill.cost;
        let of_reading = match bill.cuts.is_empty() {
            true => 0.0,
            false => (twice.bill(*arm, rates)?.cost - bill.cost).abs(),
        };
        let is_assumed = |cut: &&ArmCut| sizes.calls[cut.call].seen.read_again.is_none();
        Some(ArmResult {
            arm: arm.name(),
            saved,
            error: saved.abs() * model_error + of_reading,
            assumed: bill.cuts.iter().filter(is_assumed).count(),
            bill,
        })
    };
    run.iter().map(result).collect()
}

/// The same session where twice as much is read again.
fn reading_twice(sizes: &SessionSizes) -> SessionSizes {
    let mut twice = sizes.clone();
    for call in &mut twice.calls {
        call.seen.read_again = Some(call.seen.read_again.unwrap_or(READ_AGAIN) * 2);
    }
    twice
}
