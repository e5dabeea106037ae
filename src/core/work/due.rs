//! Steps that were finished and may be due again, because work followed.

use std::collections::HashSet;

use super::SeenStatement;
use super::message::{IndexedCall, IndexedMessage};
use super::turns::{IndexedTurn, calls};
use crate::agents::tools::ToolKind;
use crate::text::prose::lower;

/// The turns of the finished requests whose steps may be due again.
///
/// A later request may ask for it again, in more words. A step that changed no file is a recurring one: after other work,
/// the tests run and the commit is made again.
pub(super) fn due_again(
    messages: &[IndexedMessage],
    turns: &[IndexedTurn<'_>],
    finished: &[SeenStatement],
) -> Vec<usize> {
    let works =
        |turn: &&IndexedTurn<'_>| calls(messages, turn.messages.clone()).any(|(_, _, call)| acts(call));
    let last_work = turns.iter().rev().find(works).map_or(0, |turn| turn.n);
    let requests = finished
        .iter()
        .map(|request| (request.turn, words(&request.text)));
    let requests: Vec<(usize, HashSet<String>)> = requests.collect();
    let changes = |turn: usize| {
        let mut calls = calls(messages, turns[turn - 1].messages.clone());
        calls.any(|(_, _, call)| call.kind.changes() || call.paths.iter().any(|(_, change)| change.is_some()))
    };
    let recurs = |(turn, _): &&(usize, HashSet<String>)| *turn < last_work && !changes(*turn);
    let mut due: HashSet<usize> = requests.iter().filter(recurs).map(|(turn, _)| *turn).collect();
    let first = requests
        .iter()
        .map(|(turn, _)| *turn)
        .min()
        .unwrap_or(turns.len());
    for turn in turns.iter().filter(|turn| turn.n > first) {
        let said = words(&turn.user_text());
        let again = requests
            .iter()
            .filter(|(at, wanted)| *at < turn.n && wanted.is_subset(&said));
        due.extend(again.map(|(at, _)| *at));
    }
    due.into_iter().collect()
}

/// Whether a call may do more than to read or to ask.
fn acts(call: &IndexedCall) -> bool {
    let looks = matches!(
        call.kind,
        ToolKind::Read | ToolKind::Search | ToolKind::Todo | ToolKind::Ask | ToolKind::Own
    );
    !looks && !call.is_read_only
}

/// The words of a string in lower case.
fn words(text: &str) -> HashSet<String> {
    let small = lower(text);
    let words = small
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}
