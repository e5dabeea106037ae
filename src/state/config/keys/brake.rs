//! Keys of the brake: budgets, and whether an agent that repeats itself is stopped.

use super::key::{KeySection, key};

/// Maximum of a budget in tokens, and in model calls.
const MAX_COUNT: u64 = 1_000_000_000_000;

/// Maximum of a budget in minutes: about two years.
const MAX_MINUTES: u64 = 1_000_000;

#[rustfmt::skip]
pub(super) const BRAKE: KeySection = KeySection {
    name: "brake",
    keys: &[
        &key("session_dollars", |c| &mut c.brake.session.microdollars, |v, _| v.dollars()).optional(),
        &key("session_tokens", |c| &mut c.brake.session.tokens, |v, _| v.count(1, MAX_COUNT)).optional(),
        &key("session_calls", |c| &mut c.brake.session.calls, |v, _| v.count(1, MAX_COUNT)).optional(),
        &key("session_minutes", |c| &mut c.brake.session.millis, |v, _| v.count(1, MAX_MINUTES).map(|minutes| minutes * 60_000)).optional(),
        &key("day_dollars", |c| &mut c.brake.day.microdollars, |v, _| v.dollars()).optional(),
        &key("day_tokens", |c| &mut c.brake.day.tokens, |v, _| v.count(1, MAX_COUNT)).optional(),
        &key("directory_dollars", |c| &mut c.brake.directory.microdollars, |v, _| v.dollars()).optional(),
        &key("directory_tokens", |c| &mut c.brake.directory.tokens, |v, _| v.count(1, MAX_COUNT)).optional(),
        &key("no_progress", |c| &mut c.brake.no_progress, |v, _| v.flag()),
        &key("may_raise", |c| &mut c.brake.may_raise, |v, _| v.flag()),
    ],
};
