//! What all sessions together say.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reckon::{ARMS, Reckoned, UNCHANGED};
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
    pub verdict: Verdict,
}

/// Some sessions.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GroupSum {
    pub key: String,
    pub sessions: usize,
    pub calls: usize,
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
#[derive(Debug, Clone, Default, Serialize)]
pub struct ArmSum {
    pub arm: &'static str,
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

/// Whether handoffs are for this person.
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
    pub fn of(all: &[Reckoned]) -> Self {
        let arms = ARMS.map(|arm| ArmSum::of(arm, all)).to_vec();
        let best = best(&arms);
        let mut lengths: Vec<GroupSum> = grouped(all, best, length_of);
        lengths.sort_by_key(|group| group.key.parse::<u64>().unwrap_or(u64::MAX));
        let mut groups = grouped(all, best, |one| format!("{} {}", one.session.agent(), one.model));
        groups.sort_by(|a, b| b.paid.total_cmp(&a.paid).then(b.input.cmp(&a.input)));
        let started = all.iter().map(|one| one.started_ms).min().unwrap_or_default();
        let ended = all.iter().map(|one| one.ended_ms).max().unwrap_or_default();
        let mut unpriced: Vec<String> = all
            .iter()
            .filter(|one| one.arms.is_empty())
            .map(|one| one.model.clone())
            .collect();
        unpriced.sort();
        unpriced.dedup();
        Self {
            sessions: all.len(),
            calls: all.iter().map(|one| one.calls).sum(),
            days: (ended - started).div_ceil(86_400_000),
            with_dollars: all.iter().filter(|one| one.has_dollars()).count(),
            subscription: all
                .iter()
                .filter(|one| one.session.subscription.is_some())
                .count(),
            unpriced,
            paid: dollars_of(all).map(spent).sum(),
            model_error: model_error(all),
            verdict: Verdict::of(best, &arms, &lengths, all),
            total: grouped(all, best, |_| "all".to_owned()).pop(),
            groups,
            lengths,
            arms,
        }
    }

    /// An arm's sum.
    pub fn arm(&self, arm: Arm) -> Option<&ArmSum> {
        self.arms.iter().find(|sum| sum.arm == arm.name())
    }
}

fn dollars_of(all: &[Reckoned]) -> impl Iterator<Item = &Reckoned> {
    all.iter().filter(|one| one.has_dollars())
}

/// What was paid; where the record does not say so, what the model says.
fn spent(one: &Reckoned) -> f64 {
    one.paid
        .unwrap_or_else(|| one.arms.first().map_or(0.0, |none| none.bill.cost))
}

/// Of ours, the arm that saves most. Without dollars the prices weigh the tokens.
fn best(arms: &[ArmSum]) -> Arm {
    let saved = |arm: Arm| {
        arms.iter()
            .find(|sum| sum.arm == arm.name())
            .map_or(0.0, |sum| sum.saved)
    };
    OURS.into_iter()
        .fold(OURS[0], |best, arm| match saved(arm) > saved(best) {
            true => arm,
            false => best,
        })
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
        group.calls += one.calls;
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
    let mut all: Vec<f64> = all
        .iter()
        .filter_map(|one| Some(one.deviation()?.abs()))
        .collect();
    all.sort_by(f64::total_cmp);
    Some((*all.get(all.len() / 2)?, *all.last()?))
}

impl ArmSum {
    fn of(arm: Arm, all: &[Reckoned]) -> Self {
        let mut sum = Self {
            arm: arm.name(),
            ..Self::default()
        };
        let has_any = all.iter().any(Reckoned::has_dollars);
        for one in all {
            let (Some(none), Some(result)) = (one.arms.first(), one.arm(arm)) else {
                continue;
            };
            let input =
                |bill: &crate::bill::ArmBill| i64::try_from(bill.tokens.whole_input()).unwrap_or(i64::MAX);
            sum.unsent += input(&none.bill) - input(&result.bill);
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
    fn of(best: Arm, arms: &[ArmSum], lengths: &[GroupSum], all: &[Reckoned]) -> Self {
        let sum = |arm: Arm| arms.iter().find(|sum| sum.arm == arm.name());
        let none: f64 = all
            .iter()
            .filter_map(|one| one.arms.first())
            .map(|none| none.bill.cost)
            .sum();
        let (saved, error) = sum(best).map_or((0.0, 0.0), |sum| (sum.saved, sum.error));
        // The tool alone makes no session dearer that is worth a word.
        let has_lost = sum(best).is_some_and(|sum| sum.lost > 0.0);
        let outcome = match () {
            () if saved > error && saved > none * WORTH => Outcome::ForYou,
            () if has_lost && saved < -none * UNCHANGED => Outcome::Dearer,
            () => Outcome::NotForYou,
        };
        // The shortest length from which on no longer group loses.
        let gains = |group: &&GroupSum| group.won >= group.lost && group.won > 0.0;
        let shortest = lengths.iter().rev().take_while(gains).last();
        Self {
            arm: best.name(),
            outcome,
            setting: setting(best),
            from_tokens: shortest
                .and_then(|group| group.key.parse().ok())
                .filter(|tokens| *tokens > 0),
            mask_is_better: sum(Arm::Mask).is_some_and(|mask| mask.saved > saved.max(0.0)),
        }
    }
}

fn setting(arm: Arm) -> &'static str {
    match arm {
        Arm::Free => "handoff.free = \"on\"",
        Arm::Pays => "handoff.nudge_at = \"pays\"",
        _ => "the defaults",
    }
}
