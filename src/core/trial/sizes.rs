//! A recorded session as the sizes that the arms are simulated with.

use std::collections::HashMap;

use super::reader::BYTES;
use super::session::{RecordedCall, RecordedSession};
use crate::bill::{CacheRule, Caching, SessionCall, SessionSizes, TaskEnd, TokenCounts};
use crate::tools::Tool;

/// Calls of a session that are reckoned: a simulated request costs time in proportion to the calls before it.
pub const MAX_CALLS: usize = 10_000;

/// Tokens of system prompt and tools, where the record does not begin with the session.
const PREFIX: u64 = 21_000;

/// A history that shrinks to less than this share was compacted, if it was as long as that.
const SHRUNK: f64 = 0.5;
const SHRUNK_FROM: u64 = 20_000;

/// A request that reads less than this share of the history before it has lost a part of the cache.
const READ: f64 = 0.95;

/// Tokens that a call adds, where no call has shown it.
const STEP: u64 = 1_500;

/// The sizes of a session, and of the tool that handoffs need. `None`: it has no calls.
pub fn sizes(session: &RecordedSession) -> Option<SessionSizes> {
    let calls = session.calls.get(..MAX_CALLS).unwrap_or(&session.calls);
    let first = calls.first()?;
    let whole = first.counts.whole_input();
    let prefix = match session.copied {
        0 => whole.saturating_sub((first.said + first.results) / BYTES),
        _ => PREFIX.min(whole),
    };
    let caching = caching(session, calls);
    let lifetime = lifetime(session, first, caching);
    let reads = read_again(calls);
    let step = step(calls);
    let mut all = Vec::with_capacity(calls.len());
    let mut before: Option<&RecordedCall> = None;
    for (call, read_again) in calls.iter().zip(reads) {
        let pause_ms = before.map_or(0, |before| call.at_ms - before.at_ms);
        let mut one = grown(before, call, prefix, step);
        (one.pause_ms, one.handoff) = (pause_ms, call.handoff);
        one.seen.read_again = read_again;
        one.seen.results = (call.results / BYTES).min(one.new);
        one.seen.task_end = before.and_then(|_| task_end(call, pause_ms > lifetime));
        let is_known = !caching.none && !session.estimated;
        one.seen.kept = before.filter(|_| is_known).and_then(|before| kept(before, call));
        let changed = before.is_some_and(|before| before.model != call.model);
        one.model = changed.then(|| session.model(call).0.to_owned());
        all.push(one);
        before = Some(call);
    }
    Some(SessionSizes {
        name: session.id.clone(),
        model: session.model(first).0.to_owned(),
        prefix,
        limit: None,
        calls: all,
        caching,
        copied: session.copied,
        tool: tool_tokens(),
    })
}

/// Tokens of the tool that handoffs need, in every request.
fn tool_tokens() -> u64 {
    let tool = Tool::handoff(None, true);
    (tool.description.len() + tool.schema.len()) as u64 / BYTES
}

/// What a call adds to the history, and takes out of it.
fn grown(before: Option<&RecordedCall>, call: &RecordedCall, prefix: u64, step: u64) -> SessionCall {
    let whole = call.counts.whole_input();
    let last = before.map_or(prefix, |before| before.counts.whole_input());
    let shrunk = last >= SHRUNK_FROM && (whole as f64) < last as f64 * SHRUNK;
    let compacted = before.is_some() && whole < last && (call.compacted || shrunk);
    let compaction = compacted.then(|| (last, whole.saturating_sub(prefix)));
    let (new, dropped) = match compacted {
        true => (step, 0),
        false if whole >= last => (whole - last, 0),
        // What the cache gave is what is left of a history that was taken back.
        false => {
            let left = Some(call.counts.cache_read).filter(|read| (1..whole).contains(read));
            let left = left.unwrap_or(whole);
            (whole - left, last - left)
        }
    };
    let mut grown = SessionCall::default();
    (grown.new, grown.output) = (new, call.counts.output);
    (grown.seen.dropped, grown.seen.compaction) = (dropped, compaction);
    grown
}

/// How a task is seen to have ended before a call.
fn task_end(call: &RecordedCall, paused: bool) -> Option<TaskEnd> {
    match () {
        () if call.compacted => None,
        () if call.plan => Some(TaskEnd::Plan),
        () if call.finished => Some(TaskEnd::Todos),
        () => (call.user && paused).then_some(TaskEnd::Pause),
    }
}

/// The mean of what calls add.
fn step(calls: &[RecordedCall]) -> u64 {
    let input = |call: &RecordedCall| call.counts.whole_input();
    let pairs = calls.windows(2);
    let grown = pairs.filter_map(|pair| input(&pair[1]).checked_sub(input(&pair[0])));
    let (sum, count) = grown.fold((0_u64, 0_u64), |(sum, count), new| (sum + new, count + 1));
    sum.checked_div(count).unwrap_or(STEP)
}

/// What the recorded counts show of the cache.
fn caching(session: &RecordedSession, calls: &[RecordedCall]) -> Caching {
    let mut sum = TokenCounts::default();
    calls.iter().for_each(|call| sum += call.counts);
    let mut caching = Caching {
        long: sum.cache_write_long > sum.cache_write,
        none: !session.estimated && calls.len() > 2 && sum.whole_input() == sum.input,
        lifetime_ms: None,
    };
    let rule = calls.first().map_or(0, |first| lifetime(session, first, caching));
    let outlived = calls.windows(2).filter_map(|pair| {
        let pause = pair[1].at_ms - pair[0].at_ms;
        let is_hit = pair[1].counts.cache_read * 2 > pair[0].counts.whole_input();
        (pause > rule && is_hit).then_some(pause)
    });
    caching.lifetime_ms = outlived.max();
    caching
}

fn lifetime(session: &RecordedSession, call: &RecordedCall, caching: Caching) -> u64 {
    let rule = || CacheRule::for_model(session.model(call).0, caching.long).lifetime_ms;
    caching.lifetime_ms.unwrap_or_else(rule)
}

/// What the cache still had of a history that only grew, where it had lost a part.
fn kept(before: &RecordedCall, call: &RecordedCall) -> Option<u64> {
    let last = before.counts.whole_input();
    let read = call.counts.cache_read;
    let lost = before.counts.whole_input() > before.counts.input
        && call.counts.whole_input() >= last
        && (read as f64) < last as f64 * READ;
    lost.then_some(read)
}

/// For a cut in front of each call: tokens of the files that were read before it, and that are changed behind it without being
/// read first. What is read anyway is among what later calls add. `None`: no file was read before.
fn read_again(calls: &[RecordedCall]) -> Vec<Option<u64>> {
    let mut files: HashMap<u64, (usize, u64)> = HashMap::new();
    let mut first_read = usize::MAX;
    let mut change = vec![(0_u64, 0_u64); calls.len() + 1];
    for (at, call) in calls.iter().enumerate() {
        for (path, tokens) in &call.files {
            if *tokens > 0 {
                first_read = first_read.min(at);
                files.insert(*path, (at, u64::from(*tokens)));
            } else if let Some((last, tokens)) = files.get_mut(path) {
                // It counts between the call that named it before and this one.
                change[*last].0 += *tokens;
                change[at].1 += *tokens;
                *last = at;
            }
        }
    }
    let mut sum = 0;
    let each = calls.iter().enumerate().map(|(at, _)| {
        sum = sum + change[at].0 - change[at].1;
        (at >= first_read).then_some(sum)
    });
    each.collect()
}
