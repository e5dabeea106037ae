//! Sessions with known outcomes.

use std::sync::LazyLock;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::sizes::ReplaySession;
use super::*;
use crate::bill::{CacheRule, PriceTable, RequestSegment, SimulatedCache, TokenCounts};
use crate::nudge::Windows;
use crate::transcript::AgentKind;

mod reading;

const MINUTE: u64 = 60_000;
const MODEL: &str = "claude-opus-5-5";
const OTHER: &str = "claude-haiku-5-5";

fn prices() -> PriceTable {
    serde_json::from_value(json!({
        "source": "test", "date": "2026-11-23",
        "provider": [{"id": "anthropic", "model": [{"id": MODEL, "names": [MODEL, OTHER], "price": [
            {"input": 4.0, "cache_read": 0.2, "cache_write": 5.0, "cache_write_long": 8.0, "output": 20.0}]}]}]
    }))
    .unwrap()
}

/// A line of Claude Code with a response.
fn answer(n: u64, minute: u64, counts: [u64; 4], content: Value) -> Value {
    let [input, write, read, output] = counts;
    json!({"type": "assistant", "sessionId": "s", "timestamp": time(minute), "message": {"id": format!("msg_{n}"), "role": "assistant",
        "model": MODEL, "content": content, "usage": {"input_tokens": input, "cache_creation_input_tokens": write,
        "cache_read_input_tokens": read, "output_tokens": output}}})
}

fn said(minute: u64, content: Value) -> Value {
    json!({"type": "user", "sessionId": "s", "timestamp": time(minute), "message": {"role": "user", "content": content}})
}

fn time(minute: u64) -> String {
    crate::text::date::rfc3339_millis(1_795_435_200_000 + minute * MINUTE)
}

fn call(name: &str, input: Value) -> Value {
    json!([{"type": "tool_use", "id": format!("c{name}{}", input.to_string().len()), "name": name, "input": input}])
}

fn read(lines: &[Value]) -> Vec<RecordedSession> {
    let mut reader = TrialReader::new(0, &[]);
    lines.iter().for_each(|line| reader.entry(line));
    reader.into_sessions()
}

/// A session that grows by `step` per call, cached by the rules.
///
/// `pauses` are in minutes, before each call. `ends` has the calls before which the user speaks after a finished list.
fn growing(first: u64, step: u64, pauses: &[u64], ends: &[usize]) -> RecordedSession {
    let mut at_ms = 1_795_435_200_000;
    let mut whole = first;
    let mut session = RecordedSession {
        id: "s".to_owned(),
        models: vec![(MODEL.to_owned(), None)],
        ..RecordedSession::default()
    };
    for (n, pause) in pauses.iter().enumerate() {
        at_ms += pause * MINUTE;
        let last = if n == 0 { 0 } else { whole };
        whole += if n == 0 { 0 } else { step };
        let warm = n > 0 && *pause <= 5;
        let cache_read = if warm { last } else { 0 };
        session.calls.push(RecordedCall {
            id: n as u64 + 1,
            at_ms,
            counts: TokenCounts {
                cache_read,
                cache_write: whole - cache_read,
                output: 400,
                ..TokenCounts::default()
            },
            user: n == 0 || ends.contains(&n),
            finished: ends.contains(&n),
            said: 4 * (first / 2),
            ..RecordedCall::default()
        });
    }
    session
}

fn settings(prices: &PriceTable, follow_share: f64) -> TrialSettings<'_> {
    static WINDOWS: LazyLock<Windows> = LazyLock::new(Windows::default);
    TrialSettings {
        prices,
        windows: &WINDOWS,
        follow_share,
    }
}

fn reckoned(session: &RecordedSession) -> Reckoned {
    reckon(session.clone(), &settings(&prices(), 1.0), &POLICIES).unwrap()
}

fn report(all: &[Reckoned]) -> TrialReport {
    TrialReport::new(all, 1.0)
}

/// A session with another model from some call on, a lost cache, a history that was rolled back, and a compaction.
fn troubled() -> RecordedSession {
    let mut session = growing(30_000, 4_000, &[1; 60], &[]);
    session.models.push((OTHER.to_owned(), None));
    for (n, call) in session.calls.iter_mut().enumerate() {
        let whole = match n {
            40.. => 40_000 + (n as u64 - 40) * 4_000,
            30.. => call.counts.whole_input() - 20_000,
            _ => call.counts.whole_input(),
        };
        call.counts.cache_read = match n {
            0 => 12_000,
            15 | 20 | 25 | 40 => 21_000,
            30 => 90_000,
            _ => whole - 4_000,
        };
        call.counts.input = 3;
        call.counts.cache_write = whole - call.counts.cache_read - 3;
        call.model = u16::from((20..25).contains(&n));
    }
    session.calls[40].compacted = true;
    session
}

#[test]
fn the_replay_without_cuts_is_the_record() {
    for session in [
        growing(30_000, 1_500, &[1; 80], &[]),
        growing(60_000, 2_000, &[1, 1, 90, 1, 4, 30, 1], &[]),
        troubled(),
    ] {
        let one = reckoned(&session);
        let off = one.deviation().unwrap();
        assert!(off.abs() < 1e-9, "{off}");
        assert_eq!(one.arms[0].bill.tokens, one.tokens);
    }
}

/// Checks that a cut costs as much as a cache with the provider's rules bills for the same requests.
#[test]
fn a_cut_is_billed_as_a_cache_bills_it() {
    let (prefix, prompt) = (20_000, 1_500);
    let mut cache = SimulatedCache::new(CacheRule::for_model(MODEL, false), true);
    let segment = |id, tokens| RequestSegment { id, tokens };
    let (mut history, mut session) = (vec![segment(0, prefix)], growing(1, 1, &[1; 40], &[]));
    let mut request =
        |history: &[RequestSegment], at: usize, output| cache.send(at as u64 * MINUTE, history, output);
    for (n, call) in session.calls.iter_mut().enumerate() {
        history.push(segment(1 + n as u64, 3_000));
        call.counts = request(&history, n, 400);
        call.said = 0;
        call.results = 0;
    }
    session.calls[0].said = 4 * 3_000;
    session.calls[25].handoff = true;
    let [.., shadow] = &JOURNAL_POLICIES;
    let one = reckon(session.clone(), &settings(&prices(), 1.0), &JOURNAL_POLICIES).unwrap();
    let predicted = one.arm(shadow.name).unwrap();
    assert_eq!(predicted.bill.cuts.len(), 1);
    // The same session with the cut, each request sent to a cache: the tool precedes the messages.
    let tokens = ReplaySession::new(&session, &prices(), &Windows::default())
        .unwrap()
        .tool;
    let mut cache = SimulatedCache::new(CacheRule::for_model(MODEL, false), true);
    let mut history = vec![segment(0, prefix), segment(99, tokens)];
    let mut all = TokenCounts::default();
    for n in 0..40_u64 {
        let at = n * MINUTE;
        history.push(segment(1 + n, 3_000));
        if n == 25 {
            all += cache.send(at, &history, prompt);
            history.truncate(2);
            history.push(segment(100, prompt));
        }
        all += cache.send(at, &history, 400);
        for part in (0..4).filter(|_| n == 25) {
            history.push(segment(200 + part, 5_000));
            all += cache.send(at, &history, 150);
        }
    }
    assert_eq!(predicted.bill.tokens, all);
}

#[test]
fn a_long_session_gains_from_a_handoff_at_its_tasks_end() {
    let session = growing(30_000, 2_000, &[1; 120], &[60]);
    let one = reckoned(&session);
    let default = one.arm("default").unwrap();
    assert_eq!(default.bill.cuts.len(), 1);
    assert_eq!(default.bill.cuts[0].reason, "its to-do list was finished");
    assert!(default.saved > 0.1 && default.error > 0.0, "{default:?}");
    assert_eq!(report(&[one]).verdict.default.outcome, Outcome::ForYou);
}

/// With a single question after a finished list, the cut costs its prompt and the repeated reads, and no call follows.
#[test]
fn a_session_in_which_a_handoff_loses_is_said_to_lose() {
    let session = growing(60_000, 500, &[1; 12], &[11]);
    let one = reckoned(&session);
    let default = one.arm("default").unwrap();
    assert!(default.saved < 0.0 && one.is_changed("default"), "{default:?}");
    let report = report(&[one]);
    let sum = report.arm("default").unwrap();
    assert_eq!((sum.cheaper, sum.dearer), (0, 1));
    assert!(sum.lost > 0.0 && report.verdict.outcome != Outcome::ForYou);
}

#[test]
fn a_short_session_is_not_for_handoffs() {
    let one = reckoned(&growing(25_000, 800, &[1; 12], &[5, 9]));
    let (bound, arms) = one.arms.split_last().unwrap();
    assert!(arms.iter().all(|arm| arm.bill.cuts.is_empty()), "{arms:?}");
    assert!(bound.hindsight && bound.saved < 0.02, "{bound:?}");
    assert_eq!(report(&[one]).verdict.outcome, Outcome::NotForYou);
}

#[test]
fn a_session_that_cost_next_to_nothing_is_not_judged() {
    let lost = ArmSum {
        saved: -0.004,
        ..ArmSum::default()
    };
    assert_eq!(lost.outcome(0.005), Outcome::NoDifference);
    assert_eq!(lost.outcome(0.05), Outcome::NotForYou);
}

/// A subagent belongs to the group of its session, and is none itself.
#[test]
fn sessions_are_grouped_by_their_length() {
    let session = growing(30_000, 4_000, &[1; 60], &[]);
    let mut subagent = growing(10_000, 100, &[1; 3], &[]);
    subagent.id = format!("{}/a", session.id);
    let all = [session, subagent].map(|one| reckoned(&one));
    let groups = report(&all).lengths;
    let sessions: Vec<_> = groups.iter().map(|group| group.sessions).collect();
    assert_eq!(sessions, [1]);
}

/// A model that follows half of the notices saves half as much as one that follows all.
#[test]
fn how_often_a_model_follows_is_a_parameter() {
    let session = growing(30_000, 4_000, &[1; 90], &[]);
    let saved = |share| {
        let one = reckon(session.clone(), &settings(&prices(), share), &POLICIES).unwrap();
        one.arm("default").unwrap().saved
    };
    let [none, half, all] = [0.0, 0.5, 1.0].map(saved);
    assert!(none < 0.0 && all > 0.5, "{none} {all}");
    assert!((half - (none + all) / 2.0).abs() < 1e-9, "{half}");
}

/// A notice that a handoff breaks even requires a to-do list with open items.
#[test]
fn without_a_to_do_list_nothing_breaks_even() {
    let mut session = growing(30_000, 2_000, &[1; 80], &[]);
    let cuts = |session: &RecordedSession| {
        let one = reckoned(session);
        let cuts = &one.arm("break_even").unwrap().bill.cuts;
        cuts.iter()
            .map(|cut| (cut.call, cut.reason.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(cuts(&session), []);
    session.calls[40].step_done = true;
    session.calls[40].steps = Some((2, 3));
    let found = cuts(&session);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].0 == 40 && found[0].1.starts_with("the notice that it pays"),
        "{found:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// A policy decides by the past: in a session that ends earlier it makes the same cuts up to there.
    ///
    /// In addition, no policy beats the upper bound.
    #[test]
    fn no_policy_knows_the_future(
        pauses in prop::collection::vec(prop_oneof![1_u64..5, 6_u64..90], 20..70),
        step in 500_u64..9_000,
        ends in prop::collection::vec(1_usize..70, 0..4),
        until in 5_usize..60,
    ) {
        let session = growing(30_000, step, &pauses, &ends);
        let whole = reckoned(&session);
        let until = until.min(session.calls.len() - 1);
        let mut begun = session;
        begun.calls.truncate(until);
        let begun = reckoned(&begun);
        for policy in &POLICIES {
            let cuts = |one: &Reckoned| {
                let cuts = &one.arm(policy.name).unwrap().bill.cuts;
                cuts.iter().filter(|cut| cut.call < until).cloned().collect::<Vec<_>>()
            };
            prop_assert_eq!(cuts(&whole), cuts(&begun), "{}", policy.name);
        }
        let bound = whole.arms.last().unwrap();
        let most = whole.arms.iter().map(|arm| arm.saved).fold(0.0, f64::max);
        prop_assert!(bound.hindsight && bound.saved >= most - 1e-9);
    }
}

/// Checks that hindsight is never recommended as a setting.
#[test]
fn hindsight_is_marked_and_never_recommended() {
    let report = report(&[reckoned(&growing(30_000, 3_000, &[1; 100], &[]))]);
    let hindsight: Vec<&str> = report
        .arms
        .iter()
        .filter(|sum| sum.hindsight)
        .map(|sum| &*sum.arm)
        .collect();
    assert_eq!(hindsight, ["hindsight"]);
    let best = report.arm(&report.verdict.best.arm).unwrap();
    assert!(!best.hindsight && best.saved <= report.bound().unwrap().saved);
}

#[test]
fn what_is_read_again_is_taken_from_the_session() {
    let mut session = growing(30_000, 2_000, &[1; 60], &[30]);
    session.calls[10].files = vec![(7, 3_000), (8, 2_000)];
    session.calls[40].files = vec![(7, 0)];
    // The session itself reads it again.
    session.calls[50].files = vec![(8, 2_000), (8, 0)];
    let replayed = ReplaySession::new(&session, &prices(), &Windows::default()).unwrap();
    let again = [9, 10, 39, 40].map(|at| replayed.read_again(at));
    assert_eq!(again, [20_000, 3_000, 3_000, 0]);
}

#[test]
fn old_results_are_left_out_under_one_policy() {
    let mut session = growing(30_000, 4_000, &[1; 60], &[]);
    session.calls.iter_mut().for_each(|call| call.results = 4 * 3_500);
    let one = reckoned(&session);
    let masked = one.arm("masked").unwrap();
    assert!(
        !masked.bill.cuts.is_empty() && masked.bill.tokens.whole_input() < one.tokens.whole_input(),
        "{masked:?}"
    );
}

/// Checks the causes that an accountant names: each call that stores the cache again has one.
#[test]
fn each_lost_cache_has_its_cause() {
    let mut session = troubled();
    session
        .calls
        .iter_mut()
        .for_each(|call| call.answered_ms = call.at_ms + 1_000);
    for call in &mut session.calls[50..] {
        call.answered_ms += 10 * MINUTE;
    }
    session.calls[50].counts.cache_read = 0;
    session.calls[50].counts.cache_write = 80_000;
    let one = reckoned(&session);
    let lost = |cause| {
        one.lost
            .iter()
            .find(|lost| lost.cause == cause)
            .map(|lost| lost.calls)
    };
    assert_eq!(lost(LossCause::Compaction), Some(1));
    assert_eq!(lost(LossCause::ModelSwitch), Some(2));
    assert_eq!(lost(LossCause::Expired), Some(1));
    assert_eq!(
        lost(LossCause::PrefixChange),
        Some(2),
        "a change, and a history that was taken back: {:?}",
        one.lost
    );
}
