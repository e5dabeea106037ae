//! Keys of the brake: budgets, and whether an agent that repeats itself is stopped.

use super::key::{ConfigKey, row};
use baton_core::brake::BrakePolicy;

/// Maximum of a budget in tokens, and in model calls.
const MAX_COUNT: u64 = 1_000_000_000_000;

/// Maximum of a budget in minutes: about two years.
const MAX_MINUTES: u64 = 1_000_000;

/// Keys of the section `brake`, and of the table `brake` of a client.
#[rustfmt::skip]
pub(in crate::config) const BRAKE: &[&dyn ConfigKey<BrakePolicy>] = &[
    &row("session_dollars", |b: &mut BrakePolicy| &mut b.session.microdollars, |v, _| v.dollars()).optional(),
    &row("session_tokens", |b: &mut BrakePolicy| &mut b.session.tokens, |v, _| v.count(1, MAX_COUNT)).optional(),
    &row("session_calls", |b: &mut BrakePolicy| &mut b.session.calls, |v, _| v.count(1, MAX_COUNT)).optional(),
    &row("session_minutes", |b: &mut BrakePolicy| &mut b.session.millis, |v, _| v.count(1, MAX_MINUTES).map(|minutes| minutes * 60_000)).optional(),
    &row("day_dollars", |b: &mut BrakePolicy| &mut b.day.microdollars, |v, _| v.dollars()).optional(),
    &row("day_tokens", |b: &mut BrakePolicy| &mut b.day.tokens, |v, _| v.count(1, MAX_COUNT)).optional(),
    &row("directory_dollars", |b: &mut BrakePolicy| &mut b.directory.microdollars, |v, _| v.dollars()).optional(),
    &row("directory_tokens", |b: &mut BrakePolicy| &mut b.directory.tokens, |v, _| v.count(1, MAX_COUNT)).optional(),
    // In hundredths of a percent, because providers state whole percents or a few more digits.
    &row("plan_window_share", |b: &mut BrakePolicy| &mut b.plan.share, |v, _| v.share(0.01).map(|share| (share * 10_000.0).round() as u64)).optional(),
    &row("no_progress", |b: &mut BrakePolicy| &mut b.no_progress, |v, _| v.flag().map(Some)),
    &row("may_raise", |b: &mut BrakePolicy| &mut b.may_raise, |v, _| v.flag().map(Some)),
];
