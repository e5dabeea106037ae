//! Sums over all sessions, and the verdict.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::lost::LostCaches;
use super::policies::{DEFAULTS, HINDSIGHT, POLICIES, Policy};
use super::reckon::{Reckoned, UNCHANGED};
use crate::bill::dollars;

/// Lower bounds of the groups of sessions, in tokens of the longest history.
const LENGTHS: [u64; 7] = [25_000, 50_000, 100_000, 150_000, 200_000, 300_000, 500_000];

/// Share of the cost below which a saving does not justify a proxy.
const MIN_SAVED_SHARE: f64 = 0.03;

/// Recorded dollars below which no share of them means anything.
const SMALLEST: f64 = 0.01;

/// Report on all sessions.
#[derive(Debug, Clone, Serialize)]
pub struct TrialReport {
    pub sessions: usize,
    pub subagents: usize,
    /// Sessions that ran through baton. They are not part of any other figure.
    pub behind_baton: usize,
    pub calls: usize,
    /// When the first and the last call were sent, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    pub ended_ms: u64,
    /// Number of sessions in the sum of dollars; the others are on a subscription, or have no price.
    pub with_dollars: usize,
    pub subscription: usize,
    pub unpriced: Vec<String>,
    /// Recorded dollars: the base of every saving.
    #[serde(serialize_with = "dollars")]
    pub paid: f64,
    /// Base of all shares: recorded dollars, or tokens weighed by list prices if all sessions are on a subscription.
    #[serde(skip)]
    pub weight: f64,
    /// Relative difference of the replay without cuts from the record: of the sum, and of the worst session.
    pub model_error: Option<(f64, f64)>,
    /// Share of notices and task ends that the model follows by a handoff.
    pub follow_share: f64,
    /// Sums by agent and model, by call, the most expensive first.
    pub groups: Vec<GroupSum>,
    /// Sums by the longest history of a session.
    pub lengths: Vec<LengthSum>,
    /// The policies over all sessions, the upper bound last.
    pub arms: Vec<ArmSum>,
    /// Lost caches by cause.
    pub lost: Vec<LostCaches>,
    pub verdict: Verdict,
}

/// The calls of one model in one agent.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GroupSum {
    pub agent: &'static str,
    pub model: String,
    pub calls: usize,
    /// Input tokens.
    pub input: u64,
    #[serde(serialize_with = "dollars")]
    pub paid: f64,
    /// Dollars saved by each policy, in the order of the report's `arms`.
    pub saved: Vec<f64>,
}

/// Sessions of one length under the best policy.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LengthSum {
    /// Lower bound, in tokens of the longest history.
    pub from: u64,
    pub sessions: usize,
    #[serde(serialize_with = "dollars")]
    pub paid: f64,
    /// Dollars saved in the sessions that the policy makes cheaper.
    #[serde(serialize_with = "dollars")]
    pub won: f64,
    /// Dollars lost in the sessions that the policy makes more expensive.
    #[serde(serialize_with = "dollars")]
    pub lost: f64,
}

/// A policy over all sessions with dollars, and its tokens over all sessions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmSum {
    pub arm: String,
    pub title: String,
    /// Config lines that select the policy.
    pub setting: String,
    /// Whether the policy needs knowledge of later calls.
    pub hindsight: bool,
    #[serde(serialize_with = "dollars")]
    pub saved: f64,
    #[serde(serialize_with = "dollars")]
    pub error: f64,
    /// Input tokens that were not sent.
    pub unsent: i64,
    /// Number of sessions that the policy makes cheaper.
    pub cheaper: usize,
    /// Number of sessions that the policy makes more expensive.
    pub dearer: usize,
    /// Number of sessions whose cost hardly changes.
    pub unchanged: usize,
    /// Dollars lost in the sessions that the policy makes more expensive.
    #[serde(serialize_with = "dollars")]
    pub lost: f64,
    pub cuts: usize,
    /// The agents' own compactions that remain.
    pub compactions: u32,
}

/// Recommendation to the user.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    pub outcome: Outcome,
    /// The defaults.
    pub default: Judged,
    /// The policy with the highest saving after its error, without knowledge of the future.
    ///
    /// Chosen afterwards, over these very sessions.
    pub best: Judged,
    /// Whether removing old results saves more than both.
    pub masked_is_better: bool,
}

/// A policy and its outcome.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    pub arm: String,
    pub setting: String,
    pub outcome: Outcome,
}

/// Whether a policy is worthwhile for this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Saves more than its error, and enough to matter.
    ForYou,
    /// Changes little, or no more than its error.
    NoDifference,
    /// Costs more than it saves.
    NotForYou,
}

impl TrialReport {
    /// The report of these sessions.
    pub fn new(all: &[Reckoned], follow_share: f64) -> Self {
        let is_session = |one: &&Reckoned| !one.session.is_subagent();
        let behind = all.iter().filter(|one| !one.is_judged());
        let behind_baton = behind.filter(is_session).count();
        let judged: Vec<&Reckoned> = all.iter().filter(|one| one.is_judged()).collect();
        let policies = POLICIES.iter().chain([&HINDSIGHT]);
        let arms: Vec<ArmSum> = policies.map(|policy| ArmSum::new(policy, &judged)).collect();
        let with_dollars = || judged.iter().filter(|one| one.has_dollars());
        let paid = with_dollars().map(|one| one.cost()).sum();
        let weight = counted(&judged).map(|one| one.cost()).sum();
        let verdict = Verdict::new(&arms, weight);
        let unpriced = all.iter().filter(|one| one.arms.is_empty());
        let unpriced: BTreeSet<String> = unpriced.map(|one| one.model.clone()).collect();
        let mut lost = Vec::new();
        for one in judged.iter().flat_map(|one| &one.lost) {
            LostCaches::add(&mut lost, one);
        }
        lost.sort_by(|a, b| b.cost.total_cmp(&a.cost));
        let sessions = judged.iter().filter(|one| !one.session.is_subagent()).count();
        let on_subscription = judged.iter().filter(|one| one.session.subscription.is_some());
        Self {
            sessions,
            subagents: judged.len() - sessions,
            behind_baton,
            calls: judged.iter().map(|one| one.calls).sum(),
            started_ms: judged.iter().map(|one| one.started_ms).min().unwrap_or_default(),
            ended_ms: judged.iter().map(|one| one.ended_ms).max().unwrap_or_default(),
            with_dollars: with_dollars().count(),
            subscription: on_subscription.count(),
            unpriced: unpriced.into_iter().collect(),
            paid,
            weight,
            model_error: model_error(&judged),
            follow_share,
            groups: groups(&judged, arms.len()),
            lengths: lengths(&judged, &verdict.best.arm),
            arms,
            lost,
            verdict,
        }
    }

    /// The sum of a policy.
    pub fn arm(&self, name: &str) -> Option<&ArmSum> {
        self.arms.iter().find(|sum| sum.arm == name)
    }

    /// The sum of the upper bound.
    pub fn bound(&self) -> Option<&ArmSum> {
        self.arms.iter().find(|sum| sum.hindsight)
    }
}

/// The sessions in the sum of dollars: those that are paid in dollars, or all if none is.
fn counted<'a>(all: &'a [&'a Reckoned]) -> impl Iterator<Item = &'a Reckoned> {
    let has_any = all.iter().any(|one| one.has_dollars());
    let all = all.iter().copied();
    all.filter(move |one| one.has_dollars() || !has_any)
}

/// Sums by agent and model, the most expensive first.
fn groups(all: &[&Reckoned], arms: usize) -> Vec<GroupSum> {
    let mut groups: BTreeMap<(&'static str, String), GroupSum> = BTreeMap::new();
    for one in all {
        for (at, used) in one.models.iter().enumerate().filter(|(_, used)| used.calls > 0) {
            let key = (one.session.agent(), used.model.clone());
            let group = groups.entry(key).or_insert_with(|| GroupSum {
                agent: one.session.agent(),
                model: used.model.clone(),
                saved: vec![0.0; arms],
                ..GroupSum::default()
            });
            group.calls += used.calls;
            group.input = group.input.saturating_add(used.tokens.whole_input());
            if one.has_dollars() {
                group.paid += used.paid;
                for (sum, arm) in group.saved.iter_mut().zip(&one.arms) {
                    *sum += arm.by_model.get(at).copied().unwrap_or_default();
                }
            }
        }
    }
    let mut groups: Vec<GroupSum> = groups.into_values().collect();
    groups.sort_by(|a, b| b.paid.total_cmp(&a.paid).then(b.input.cmp(&a.input)));
    groups
}

/// Groups sessions by their longest history, with the effect of a policy. A subagent belongs to its session, so that the
/// groups add up to the total.
fn lengths(all: &[&Reckoned], arm: &str) -> Vec<LengthSum> {
    let sessions = all.iter().filter(|one| !one.session.is_subagent());
    let longest: HashMap<&str, u64> = sessions.map(|one| (one.session.root(), one.longest)).collect();
    let mut lengths: BTreeMap<u64, LengthSum> = BTreeMap::new();
    for one in counted(all) {
        let tokens = longest.get(one.session.root()).unwrap_or(&one.longest);
        let from = LENGTHS.iter().rev().find(|bound| *tokens >= **bound);
        let from = from.copied().unwrap_or_default();
        let length = lengths.entry(from).or_default();
        length.from = from;
        length.sessions += usize::from(!one.session.is_subagent());
        length.paid += one.cost();
        if let Some(result) = one.arm(arm).filter(|_| one.is_changed(arm)) {
            length.won += result.saved.max(0.0);
            length.lost += (-result.saved).max(0.0);
        }
    }
    lengths.into_values().collect()
}

/// Relative difference of the replay without cuts from the record: of the sum, and of the worst session.
fn model_error(all: &[&Reckoned]) -> Option<(f64, f64)> {
    let known: Vec<&&Reckoned> = all.iter().filter(|one| one.deviation().is_some()).collect();
    let paid: f64 = known.iter().filter_map(|one| one.paid).sum();
    let uncut = known.iter().filter_map(|one| one.arms.first());
    let none: f64 = uncut.map(|none| none.bill.cost).sum();
    let deviations = known.iter().filter_map(|one| one.deviation());
    let worst = deviations.map(f64::abs).reduce(f64::max)?;
    Some(((none / paid - 1.0).abs(), worst))
}

impl ArmSum {
    /// The sum over the sessions that were replayed under a policy.
    pub fn new(policy: &Policy, all: &[&Reckoned]) -> Self {
        let arm = policy.name;
        let mut sum = Self {
            arm: arm.to_owned(),
            title: policy.title.to_owned(),
            setting: policy.setting.to_owned(),
            hindsight: *policy == HINDSIGHT,
            ..Self::default()
        };
        for one in all {
            let Some(result) = one.arm(arm) else { continue };
            sum.unsent += result.unsent;
            sum.cuts += result.bill.cuts.len();
            sum.compactions += result.bill.compactions;
            match one.is_changed(arm) {
                true if result.saved > 0.0 => sum.cheaper += 1,
                true => sum.dearer += 1,
                false => sum.unchanged += 1,
            }
        }
        for one in counted(all) {
            let Some(result) = one.arm(arm) else { continue };
            sum.saved += result.saved;
            sum.error += result.error;
            if one.is_changed(arm) {
                sum.lost += (-result.saved).max(0.0);
            }
        }
        sum
    }

    /// Dollars saved after deducting the error.
    pub fn at_least(&self) -> f64 {
        self.saved - self.error
    }

    /// Judges the savings against the recorded dollars.
    pub(super) fn outcome(&self, paid: f64) -> Outcome {
        match () {
            () if paid < SMALLEST => Outcome::NoDifference,
            () if self.saved > self.error && self.saved > paid * MIN_SAVED_SHARE => Outcome::ForYou,
            // A loss is reported from a smaller share than a saving.
            () if self.saved < -paid * UNCHANGED && -self.saved > self.error => Outcome::NotForYou,
            () => Outcome::NoDifference,
        }
    }
}

impl Verdict {
    fn new(arms: &[ArmSum], paid: f64) -> Self {
        let judged = |sum: &ArmSum| Judged {
            arm: sum.arm.clone(),
            setting: sum.setting.clone(),
            outcome: sum.outcome(paid),
        };
        let is_choice = |sum: &&ArmSum| {
            let policy = POLICIES.iter().find(|policy| policy.name == sum.arm);
            policy.is_some_and(Policy::is_choice)
        };
        let nothing = ArmSum::default();
        let named = |name: &str| arms.iter().find(|sum| sum.arm == name).unwrap_or(&nothing);
        let default = named(DEFAULTS);
        let choices = arms.iter().filter(is_choice);
        let best = choices.fold(default, |best, next| {
            if next.at_least() > best.at_least() {
                next
            } else {
                best
            }
        });
        let masked = named("masked");
        let (default, best) = (judged(default), judged(best));
        let outcome = match (default.outcome, best.outcome) {
            (Outcome::ForYou, _) | (_, Outcome::ForYou) => Outcome::ForYou,
            (worse, Outcome::NotForYou) => worse,
            _ => Outcome::NoDifference,
        };
        Self {
            outcome,
            default,
            // Masking must beat its own error as well as the best policy.
            masked_is_better: masked.saved > masked.error.max(named(&best.arm).saved),
            best,
        }
    }
}
