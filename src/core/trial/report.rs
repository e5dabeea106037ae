//! What all sessions together say.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::reckon::{ARMS, ArmResult, Reckoned, UNCHANGED};
use crate::bill::{Arm, dollars};

/// Bounds of the lengths that sessions are grouped by, in tokens of the longest history.
const LENGTHS: [u64; 7] = [25_000, 50_000, 100_000, 150_000, 200_000, 300_000, 500_000];

/// The arms that a setting of baton's makes.
const OURS: [Arm; 3] = [Arm::TaskEnds, Arm::Free, Arm::Pays];

/// Below this share of the cost a saving is not worth a proxy.
const WORTH: f64 = 0.03;

/// All sessions, and what follows.
#[derive(Debug, Clone, Serialize)]
pub struct TrialReport {
    pub sessions: usize,
    pub calls: usize,
    /// Days from the first call to the last one.
    pub days: u64,
    /// Sessions whose dollars are summed up; the others are on a subscription, or have no price.
    pub with_dollars: usize,
    pub subscription: usize,
    pub unpriced: Vec<String>,
    #[serde(serialize_with = "dollars")]
    pub paid: f64,
    /// By which share the modelled cost differs from the recorded one: in the median, and at worst.
    pub model_error: Option<(f64, f64)>,
    /// By agent and model, the dearest first.
    pub groups: Vec<GroupSum>,
    /// All of them; none where there is no session.
    pub total: Option<GroupSum>,
    pub lengths: Vec<GroupSum>,
    /// The arms over all sessions, in the order of [`ARMS`].
    pub arms: Vec<ArmSum>,
    /// The arm that is recommended.
    #[serde(skip)]
    pub best: Arm,
    pub verdict: Verdict,
}

/// Some sessions.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GroupSum {
    pub key: String,
    pub sessions: usize,
    /// Tokens of input.
    pub input: u64,
    #[serde(serialize_with = "dollars")]
    pub paid: f64,
    /// What each arm would have saved, in the order of [`ARMS`].
    pub saved: [f64; ARMS.len()],
    /// Of the recommended arm: what sessions saved that it makes cheaper, and what the others lost.
    #[serde(serialize_with = "dollars")]
    pub won: f64,
    #[serde(serialize_with = "dollars")]
    pub lost: f64,
}

/// An arm over all sessions with dollars, and its tokens over all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmSum {
    pub arm: String,
    #[serde(serialize_with = "dollars")]
    pub saved: f64,
    #[serde(serialize_with = "dollars")]
    pub error: f64,
    /// Tokens of input that were not sent.
    pub unsent: i64,
    pub cheaper: usize,
    pub dearer: usize,
    pub unchanged: usize,
    #[serde(serialize_with = "dollars")]
    pub lost: f64,
    /// Cuts, and those whose tokens that are read again were assumed.
    pub cuts: usize,
    pub assumed: usize,
    /// The agents' own compactions that are left.
    pub compactions: u32,
}

/// What to do.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// The best arm of ours by what it saves.
    pub arm: &'static str,
    pub outcome: Outcome,
    /// The setting that makes it.
    pub setting: &'static str,
    /// The length from which on it saves; `None`: at every length.
    pub from_tokens: Option<u64>,
    /// Whether leaving out old results saves more.
    pub mask_is_better: bool,
}

/// Whether handoffs are for this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// They save more than the error.
    ForYou,
    /// They save little, or no more than the error.
    NotForYou,
    /// They cost more than they save.
    Dearer,
}

impl TrialReport {
    /// The report of some sessions.
    pub fn new(all: &[Reckoned]) -> Self {
        let arms = ARMS.map(|arm| ArmSum::new(arm, all)).to_vec();
        let best = best(&arms);
        let mut lengths: Vec<GroupSum> = grouped(all, best, length_of);
        lengths.sort_by_key(|group| group.key.parse::<u64>().unwrap_or(u64::MAX));
        let mut groups = grouped(all, best, |one| format!("{} {}", one.session.agent(), one.model));
        groups.sort_by(|a, b| b.paid.total_cmp(&a.paid).then(b.input.cmp(&a.input)));
        let started = all.iter().map(|one| one.started_ms).min().unwrap_or_default();
        let ended = all.iter().map(|one| one.ended_ms).max().unwrap_or_default();
        let unpriced = all.iter().filter(|one| one.arms.is_empty());
        let unpriced: BTreeSet<String> = unpriced.map(|one| one.model.clone()).collect();
        Self {
            sessions: all.len(),
            calls: all.iter().map(|one| one.calls).sum(),
            days: (ended - started).div_ceil(86_400_000),
            with_dollars: all.iter().filter(|one| one.has_dollars()).count(),
            subscription: all
                .iter()
                .filter(|one| one.session.subscription.is_some())
                .count(),
            unpriced: unpriced.into_iter().collect(),
            paid: all.iter().filter(|one| one.has_dollars()).map(spent).sum(),
            model_error: model_error(all),
            verdict: Verdict::new(best, &arms, &lengths, all),
            total: grouped(all, best, |_| "all".to_owned()).pop(),
            groups,
            lengths,
            arms,
            best,
        }
    }

    /// The sum of one of [`ARMS`].
    pub fn arm(&self, arm: Arm) -> &ArmSum {
        sum_of(&self.arms, arm)
    }

    /// The most that sessions of one length saved or lost.
    pub fn most(&self) -> f64 {
        let groups = self.lengths.iter();
        groups.map(|group| group.won.max(group.lost)).fold(0.0, f64::max)
    }
}

fn sum_of(arms: &[ArmSum], arm: Arm) -> &ArmSum {
    &arms[ARMS.iter().position(|one| *one == arm).unwrap_or_default()]
}

/// What was paid; where the record does not say so, what the model says.
fn spent(one: &Reckoned) -> f64 {
    one.paid
        .unwrap_or_else(|| one.arms.first().map_or(0.0, |none| none.bill.cost))
}

/// Of ours, the arm that saves most. Without dollars the prices weigh the tokens.
fn best(arms: &[ArmSum]) -> Arm {
    let saved = |arm: Arm| sum_of(arms, arm).saved;
    let better = |best, arm| if saved(arm) > saved(best) { arm } else { best };
    OURS.into_iter().fold(OURS[0], better)
}

/// The lower bound of a session's length.
fn length_of(one: &Reckoned) -> String {
    let bound = LENGTHS.iter().rev().find(|bound| one.longest >= **bound);
    bound.copied().unwrap_or_default().to_string()
}

fn grouped(all: &[Reckoned], best: Arm, key: impl Fn(&Reckoned) -> String) -> Vec<GroupSum> {
    let mut groups: BTreeMap<String, GroupSum> = BTreeMap::new();
    for one in all {
        let key = key(one);
        let group = groups.entry(key.clone()).or_insert_with(|| GroupSum {
            key,
            ..GroupSum::default()
        });
        group.sessions += 1;
        group.input = group.input.saturating_add(one.tokens.whole_input());
        if !one.has_dollars() {
            continue;
        }
        group.paid += spent(one);
        for (sum, arm) in group.saved.iter_mut().zip(&one.arms) {
            *sum += arm.saved;
        }
        if let Some(result) = one.arm(best).filter(|_| one.is_changed(best)) {
            group.won += result.saved.max(0.0);
            group.lost += (-result.saved).max(0.0);
        }
    }
    groups.into_values().collect()
}

/// Median and worst deviation of the model, as shares.
fn model_error(all: &[Reckoned]) -> Option<(f64, f64)> {
    let off = all.iter().filter_map(|one| Some(one.deviation()?.abs()));
    let mut all: Vec<f64> = off.collect();
    all.sort_by(f64::total_cmp);
    Some((*all.get(all.len() / 2)?, *all.last()?))
}

impl ArmSum {
    /// The sum of the sessions that were run in an arm.
    pub fn new(arm: Arm, all: &[Reckoned]) -> Self {
        let mut sum = Self {
            arm: arm.name().to_owned(),
            ..Self::default()
        };
        let has_any = all.iter().any(Reckoned::has_dollars);
        for one in all {
            let (Some(none), Some(result)) = (one.arms.first(), one.arm(arm)) else {
                continue;
            };
            let input = |one: &ArmResult| i64::try_from(one.bill.tokens.whole_input()).unwrap_or(i64::MAX);
            sum.unsent += input(none) - input(result);
            sum.cuts += result.bill.cuts.len();
            sum.assumed += result.assumed;
            sum.compactions += result.bill.compactions;
            match one.is_changed(arm) {
                true if result.saved > 0.0 => sum.cheaper += 1,
                true => sum.dearer += 1,
                false => sum.unchanged += 1,
            }
            // On a subscription alone, list prices weigh the tokens.
            if one.has_dollars() || !has_any {
                sum.saved += result.saved;
                sum.error += result.error;
                if one.is_changed(arm) {
                    sum.lost += (-result.saved).max(0.0);
                }
            }
        }
        sum
    }
}

impl Verdict {
    fn new(best: Arm, arms: &[ArmSum], lengths: &[GroupSum], all: &[Reckoned]) -> Self {
        let (sum, mask) = (sum_of(arms, best), sum_of(arms, Arm::Mask));
        let none = all.iter().filter_map(|one| one.arms.first());
        let none: f64 = none.map(|none| none.bill.cost).sum();
        let outcome = match () {
            () if sum.saved > sum.error && sum.saved > none * WORTH => Outcome::ForYou,
            // The tool alone makes no session dearer that is worth a word.
            () if sum.lost > 0.0 && sum.saved < -none * UNCHANGED => Outcome::Dearer,
            () => Outcome::NotForYou,
        };
        // The shortest length from which on no longer group loses.
        let gains = |group: &&GroupSum| group.won >= group.lost && group.won > 0.0;
        let shortest = lengths.iter().rev().take_while(gains).last();
        Self {
            arm: best.name(),
            outcome,
            setting: match best {
                Arm::Free => "handoff.when_cache_cold = \"on\"",
                Arm::Pays => "handoff.nudge_at = \"break-even\"",
                _ => "the defaults",
            },
            from_tokens: shortest.and_then(|group| group.key.parse().ok().filter(|tokens| *tokens > 0)),
            mask_is_better: mask.saved > sum.saved.max(0.0),
        }
    }
}
