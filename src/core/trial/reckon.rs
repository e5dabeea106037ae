//! One session under every policy.

use serde::Serialize;

use super::lost::{LostCaches, lost_caches};
use super::policies::{HINDSIGHT, Policy};
use super::replay::{Replay, ReplayBill};
use super::session::{RecordedCall, RecordedSession};
use super::sizes::ReplaySession;
use crate::bill::{PriceTable, TokenCounts, dollars};
use crate::nudge::Windows;

/// Share of notices and task ends that the model follows by a handoff.
///
/// Half lies between two findings. Models hardly use such a tool without an instruction (SelfCompact, arXiv 2606.23525). They follow an
/// instruction in their context in every episode (Governance Decay, arXiv 2606.22528).
pub const DEFAULT_FOLLOW_SHARE: f64 = 0.5;

/// Assumed error of that share.
const FOLLOW_ERROR: f64 = 0.25;

/// Relative change of the cost below which a session counts as unchanged by a policy.
pub(super) const UNCHANGED: f64 = 0.005;

/// Parameters for replaying recorded sessions under each policy.
#[derive(Debug, Clone, Copy)]
pub struct TrialSettings<'a> {
    pub prices: &'a PriceTable,
    pub windows: &'a Windows,
    /// Share of notices and task ends that the model follows by a handoff.
    pub follow_share: f64,
}

/// A session with its cost under each policy.
#[derive(Debug, Clone, Serialize)]
pub struct Reckoned {
    #[serde(flatten)]
    pub session: RecordedSession,
    /// The model of most calls.
    pub model: String,
    /// When the first and the last call were sent, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    pub ended_ms: u64,
    pub calls: usize,
    /// Tokens of the longest history.
    pub longest: u64,
    /// The provider's counts.
    pub tokens: TokenCounts,
    /// Cost of the recorded counts; `None` if the record lacks some, or if a model has no price.
    #[serde(serialize_with = "dollars")]
    pub paid: Option<f64>,
    /// Usage by model, in the order of the session's models.
    pub models: Vec<ModelUse>,
    /// Lost caches by cause.
    pub lost: Vec<LostCaches>,
    /// Results of the policies, the one without cuts first, and the upper bound last. Empty if a model has no price.
    pub arms: Vec<ArmResult>,
}

/// The calls of one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ModelUse {
    pub model: String,
    pub calls: usize,
    pub tokens: TokenCounts,
    #[serde(serialize_with = "dollars")]
    pub paid: f64,
}

/// Result of a policy in one session.
#[derive(Debug, Clone, Serialize)]
pub struct ArmResult {
    /// Name of the policy in JSON and CSV.
    pub arm: &'static str,
    /// Name of the policy on the screen.
    pub title: &'static str,
    /// Dollars that the session costs under the policy.
    #[serde(serialize_with = "dollars")]
    pub cost: f64,
    /// Dollars less than recorded. Negative if the policy costs more.
    #[serde(serialize_with = "dollars")]
    pub saved: f64,
    /// Expected error of `saved`.
    #[serde(serialize_with = "dollars")]
    pub error: f64,
    /// Whether the policy needs knowledge of later calls.
    pub hindsight: bool,
    /// Cuts, compactions and requests if the model follows each notice.
    #[serde(flatten)]
    pub bill: ReplayBill,
    /// Dollars saved by model.
    #[serde(skip)]
    pub by_model: Vec<f64>,
    /// Input tokens that were not sent.
    pub unsent: i64,
}

impl Reckoned {
    /// The result of a policy; `None` if it was not replayed.
    pub fn arm(&self, name: &str) -> Option<&ArmResult> {
        self.arms.iter().find(|result| result.arm == name)
    }

    /// Whether a policy would have changed the cost.
    pub fn is_changed(&self, name: &str) -> bool {
        let found = self.arm(name).filter(|one| !one.bill.cuts.is_empty());
        found.is_some_and(|one| one.saved.abs() > self.cost() * UNCHANGED)
    }

    /// The recorded cost, or the estimated one if the record lacks some counts.
    pub fn cost(&self) -> f64 {
        let none = || self.arms.first().map_or(0.0, |none| none.bill.cost);
        self.paid.unwrap_or_else(none)
    }

    /// Relative difference of the cost without cuts from the recorded cost.
    pub fn deviation(&self) -> Option<f64> {
        let (paid, none) = (self.paid.filter(|paid| *paid > 0.0)?, self.arms.first()?);
        Some(none.bill.cost / paid - 1.0)
    }

    /// Whether the dollars were paid. On a subscription they only weigh tokens.
    pub fn has_dollars(&self) -> bool {
        self.session.subscription.is_none() && !self.arms.is_empty()
    }

    /// Whether policies are compared in this session. A session that ran through baton followed one already.
    pub fn is_judged(&self) -> bool {
        !self.session.behind_baton
    }
}

/// Replays a session under these policies, at the prices of its day. The first policy makes no cuts. `None` if the session has no calls.
pub fn reckon(
    session: RecordedSession,
    settings: &TrialSettings<'_>,
    policies: &'static [Policy],
) -> Option<Reckoned> {
    let replayed = ReplaySession::new(&session, settings.prices, settings.windows);
    let own = session.own();
    let (first, last) = (own.first()?, own.last()?);
    let requests = || own.iter().flat_map(RecordedCall::requests);
    let mut tokens = TokenCounts::default();
    requests().for_each(|call| {
        tokens += call.counts;
        tokens += call.rounds;
    });
    let models = models(&session, replayed.as_ref());
    // Estimated counts are not a bill.
    let known = replayed.as_ref().filter(|_| !session.estimated);
    let paid = known.map(|_| models.iter().map(|model| model.paid).sum());
    let lost = |replayed: &ReplaySession<'_>| lost_caches(&session, |at| replayed.rates_of(at));
    let lost = replayed.as_ref().map(lost);
    Some(Reckoned {
        model: session.main_model().to_owned(),
        started_ms: first.at_ms,
        ended_ms: last.at_ms,
        calls: requests().count(),
        longest: own.iter().map(|call| call.counts.whole_input()).max()?,
        tokens,
        arms: replayed.map_or(Vec::new(), |replayed| arms(&replayed, paid, settings, policies)),
        paid,
        models,
        lost: lost.unwrap_or_default(),
        session,
    })
}

/// Calls, tokens and dollars of each model.
fn models(session: &RecordedSession, replayed: Option<&ReplaySession<'_>>) -> Vec<ModelUse> {
    let names = session.models.iter().map(|(name, _)| ModelUse {
        model: name.clone(),
        ..ModelUse::default()
    });
    let mut models: Vec<ModelUse> = names.collect();
    for (at, call) in session.calls.iter().enumerate().skip(session.copied) {
        for request in call.requests() {
            let model = &mut models[usize::from(request.model)];
            model.calls += 1;
            model.tokens += request.counts;
            model.tokens += request.rounds;
        }
        for (model, cost) in replayed.into_iter().flat_map(|replayed| replayed.paid(at)) {
            models[usize::from(model)].paid += cost;
        }
    }
    models
}

fn arms(
    session: &ReplaySession<'_>,
    paid: Option<f64>,
    settings: &TrialSettings<'_>,
    policies: &'static [Policy],
) -> Vec<ArmResult> {
    let none = Replay::run(session, &policies[0], true, 1);
    // The replay without cuts should equal the record, so the difference is the model's own error.
    let off = paid.map_or(0.0, |paid| (none.cost - paid).abs());
    let mut bound = best_in_hindsight(session);
    let mut all: Vec<ArmResult> = Vec::with_capacity(policies.len() + 1);
    for policy in policies {
        let followed = Replay::run(session, policy, true, 1);
        let is_cut = !followed.cuts.is_empty();
        // If the model decides nothing, following and ignoring are the same run.
        let ignored = (is_cut && policy.decides()).then(|| Replay::run(session, policy, false, 1));
        let ignored = ignored.as_ref().unwrap_or(&followed);
        let error = match is_cut {
            true => {
                // The amount that is read again is the least certain assumption, so its double is part of the error.
                let twice = Replay::run(session, policy, true, 2).cost;
                off + FOLLOW_ERROR * (followed.cost - ignored.cost).abs() + (twice - followed.cost).abs()
            }
            false => 0.0,
        };
        // The search tries at most 64 places, so a policy may be cheaper: the bound must not lie above it.
        if followed.cost < bound.cost {
            bound = followed.clone();
        }
        all.push(ArmResult {
            error,
            ..result(policy, &none, &followed, ignored, settings.follow_share)
        });
    }
    all.push(result(&HINDSIGHT, &none, &bound, &bound, 1.0));
    all
}

/// The result of a policy whose notices and task ends the model follows by a handoff in this share.
fn result(
    policy: &'static Policy,
    none: &ReplayBill,
    followed: &ReplayBill,
    ignored: &ReplayBill,
    share: f64,
) -> ArmResult {
    let mixed = |followed: f64, ignored: f64| followed * share + ignored * (1.0 - share);
    let input = |bill: &ReplayBill| bill.tokens.whole_input() as f64;
    let cost = mixed(followed.cost, ignored.cost);
    let models = followed.by_model.iter().zip(&ignored.by_model);
    let models = models.map(|(followed, ignored)| mixed(*followed, *ignored));
    ArmResult {
        arm: policy.name,
        title: policy.title,
        cost,
        saved: none.cost - cost,
        error: 0.0,
        hindsight: *policy == HINDSIGHT,
        bill: followed.clone(),
        by_model: none
            .by_model
            .iter()
            .zip(models)
            .map(|(none, cost)| none - cost)
            .collect(),
        unsent: (input(none) - mixed(input(followed), input(ignored))) as i64,
    }
}

/// Maximum number of places for a cut. Each costs one more run over the later calls.
const MAX_PLACES: usize = 64;

/// Tokens of messages that a history needs for a cut to be considered.
const MIN_TOKENS: u64 = 10_000;

/// The cheapest bill of all ways to cut a session at some of its calls.
///
/// After a cut the history does not depend on earlier cuts. So only the cheapest run up to each cut has to be kept.
fn best_in_hindsight(session: &ReplaySession<'_>) -> ReplayBill {
    let calls = session.calls.len();
    let fits = |n: &usize| session.calls[*n].whole() >= session.prefix + MIN_TOKENS;
    let places: Vec<usize> = (session.copied.max(1)..calls).filter(fits).collect();
    // Spread over the whole session: the first 64 candidates would miss late cuts.
    let step = places.len().div_ceil(MAX_PLACES).max(1);
    let places: Vec<usize> = places.iter().step_by(step).copied().collect();
    let mut after: Vec<Option<Replay<'_>>> = vec![None; places.len()];
    let mut best: Option<ReplayBill> = None;
    for from in 0..=places.len() {
        // The run up to the cut `from - 1`, or the whole session without any cut.
        let (mut run, first) = match from.checked_sub(1) {
            None => (Replay::new(session, &HINDSIGHT, true, 1), 0),
            Some(at) => match after[at].take() {
                Some(run) => (run, places[at] + 1),
                None => continue,
            },
        };
        let mut next = from;
        for n in first..calls {
            if places.get(next) == Some(&n) {
                let mut cut = run.clone();
                cut.call(n, Some("it paid"));
                let is_cheaper = |known: &Replay<'_>| cut.bill.cost < known.bill.cost;
                // The history after this cut does not depend on earlier ones, so only the cheapest way here counts.
                if after[next].as_ref().is_none_or(is_cheaper) {
                    after[next] = Some(cut);
                }
                next += 1;
            }
            run.call(n, None);
        }
        if best.as_ref().is_none_or(|best| run.bill.cost < best.cost) {
            best = Some(run.bill);
        }
    }
    best.unwrap_or_default()
}
