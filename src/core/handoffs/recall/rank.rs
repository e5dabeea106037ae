//! Ranks the passages that answer a question.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::index::{self, Passage, RecallIndex};
use super::question::Question;
use super::sections::TextSource;
use crate::text::vocabulary::WordNumber;
use crate::text::words;

/// Number of passages that are examined more closely.
const CLOSER: usize = 64;

/// Ratio of scores above which the newer of two passages comes first.
const EQUAL: f32 = 0.8;

/// How much more the newest passage counts than the oldest one, other things being equal.
const NEWER: f32 = 0.15;

/// Weight of a passage with hardly any of a question's words, relative to one with all of them.
const LITTLE: f32 = 0.5;

/// Share of the best passage's matched weight that makes another passage one about the same subject.
const SAME: f32 = 0.6;

/// Minimum share of the best score for a repeated statement.
const ANEW: f32 = 0.5;

/// Minimum share of the best score for an excerpt.
const WORTH: f32 = 0.3;

/// Maximum number of passages from the same part of a message.
const OF_ONE: usize = 2;

/// A passage in the answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RankedPassage {
    pub(super) passage: usize,
    /// The last message that returns to the passage's subject.
    pub(super) later: Option<usize>,
}

/// Score of a passage for a question.
#[derive(Debug, Clone, Copy)]
struct PassageScore {
    passage: usize,
    score: f32,
    /// The matched words of the question, one bit each.
    has: u64,
}

/// Weights of a question's words by hash, for finding the words in a passage.
pub(super) type TermWeights = HashMap<u64, f32>;

/// For each word of the question, the matching words of the vocabulary with their weights.
type TermGroups = Vec<Vec<(WordNumber, f32)>>;

/// The best passages, best first, and the weights of the question's words.
pub(super) fn ranked(index: &RecallIndex<'_>, question: &Question) -> (Vec<RankedPassage>, TermWeights) {
    let groups = question.groups(&index.vocabulary);
    let count = index.passages.len() as f32;
    let rarity = |word: WordNumber| words::rarity(count, index.vocabulary.of(word).len() as f32);
    let mut weights = TermWeights::new();
    let mut mass = Vec::new();
    for group in &groups {
        let mut best = 0.0_f32;
        for (word, counts) in group {
            let own = counts * rarity(*word);
            best = best.max(own);
            let weight = weights
                .entry(words::hash(index.vocabulary.letters(*word)))
                .or_default();
            *weight = own.max(*weight);
        }
        mass.push(best);
    }
    let mut all = best_of(index, scored(index, &groups, &mass));
    let top = all.first().map_or(0.0, |best| mass_of(best.has, &mass));
    newest_first_among_equals(index, &mut all, &mass);
    let ranked = all.iter().map(|one| RankedPassage {
        passage: one.passage,
        later: returns(index, one, &all, &mass, top * SAME),
    });
    let mut ranked = distinct(index, ranked);
    // A question that locates a call gets that call with its result first, whatever else it names.
    if let Some(call) = question.call().and_then(|number| index.call_at(number)) {
        let is_its = |passage: usize| index.passages[passage].call == Some(call);
        ranked.retain(|one| !is_its(one.passage));
        let own = (0..index.passages.len())
            .filter(|passage| is_its(*passage))
            .take(1 + OF_ONE);
        let own = own.map(|passage| RankedPassage { passage, later: None });
        ranked.splice(0..0, own);
    }
    (ranked, weights)
}

/// The best passages, best first, with a limit for each part.
fn best_of(index: &RecallIndex<'_>, mut all: Vec<PassageScore>) -> Vec<PassageScore> {
    // Between equal scores the newer passage comes first.
    all.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.passage.cmp(&a.passage)));
    let worth = all.first().map_or(0.0, |best| best.score * WORTH);
    let mut of_part: HashMap<(usize, usize), usize> = HashMap::new();
    let worthy = all.into_iter().take_while(|one| one.score >= worth);
    let few = worthy.filter(|one| {
        let passage = &index.passages[one.passage];
        let shown = of_part.entry((passage.turn, passage.part)).or_default();
        *shown += 1;
        // A single long result must not fill the answer.
        *shown <= OF_ONE
    });
    few.take(CLOSER).collect()
}

fn scored(index: &RecallIndex<'_>, groups: &TermGroups, mass: &[f32]) -> Vec<PassageScore> {
    let passages = index.passages.len();
    let (count, mean) = (passages as f32, index.mean());
    let (mut scores, mut has) = (vec![0.0_f32; passages], vec![0_u64; passages]);
    let mut best = vec![0.0_f32; passages];
    for (at, group) in groups.iter().enumerate() {
        let mut touched = Vec::new();
        for (word, counts) in group {
            let term_weight = counts * words::rarity(count, index.vocabulary.of(*word).len() as f32);
            for posting in index.vocabulary.of(*word) {
                let passage = posting.text as usize;
                let length = index.passages[passage].words as f32;
                let weight = term_weight * words::weight(posting.count as f32, length, mean);
                if best[passage] == 0.0 {
                    touched.push(passage);
                }
                best[passage] = best[passage].max(weight);
            }
        }
        for passage in touched {
            // Only the best match counts among the words that may stand for one word of the question.
            scores[passage] += std::mem::take(&mut best[passage]);
            has[passage] |= 1 << at;
        }
    }
    let whole = mass_of(u64::MAX, mass).max(f32::MIN_POSITIVE);
    let newest = index.passages.last().map_or(1, |passage| passage.turn.max(1)) as f32;
    let found = scores
        .into_iter()
        .zip(has)
        .enumerate()
        .filter(|(_, (_, has))| *has != 0);
    let scored = found.map(|(passage, (score, has))| {
        let of = &index.passages[passage];
        // A passage with one rare word of the question must not outrank one with most of its words.
        let share = LITTLE + (1.0 - LITTLE) * mass_of(has, mass) / whole;
        let newer = 1.0 + NEWER * of.turn as f32 / newest;
        let score = score * share * newer * counts(index, of);
        PassageScore { passage, score, has }
    });
    scored.collect()
}

/// Weight of a passage by its source.
fn counts(index: &RecallIndex<'_>, passage: &Passage) -> f32 {
    match passage.source {
        TextSource::User => 1.15,
        TextSource::Model => 1.1,
        TextSource::CarryOver | TextSource::Summary => 0.8,
        // The change itself is more informative than the result, which only names the file.
        TextSource::Result => match passage.call.map(|call| &index.calls[call]) {
            Some(called) if called.kind.changes() => 0.6,
            _ => 1.0,
        },
        TextSource::Call | TextSource::Report => 1.0,
    }
}

/// The total weight of the question's words in this bit set.
fn mass_of(has: u64, mass: &[f32]) -> f32 {
    let all = mass.iter().enumerate();
    all.filter(|(at, _)| has & (1 << at) != 0)
        .map(|(_, mass)| mass)
        .sum()
}

/// Puts the newest passage first among those with nearly equal scores or the same matched words.
///
/// A repeated statement counts with its newest occurrence.
fn newest_first_among_equals(index: &RecallIndex<'_>, all: &mut [PassageScore], mass: &[f32]) {
    let mut rest = all;
    while let Some(first) = rest.first().copied() {
        let same = mass_of(first.has, mass) * SAME;
        let first_is_speech = is_speech(&index.passages[first.passage]);
        let equal = |one: &PassageScore| {
            let is_later = one.passage > first.passage && one.score >= first.score * ANEW;
            let one_is_speech = is_speech(&index.passages[one.passage]);
            let anew = first_is_speech && one_is_speech && mass_of(one.has & first.has, mass) >= same;
            // With the same matched words, a result only scores lower because of the rest of its output.
            let alike = first_is_speech == one_is_speech && one.has == first.has;
            one.score >= first.score * EQUAL || is_later && (anew || alike)
        };
        let equals = rest.iter().filter(|one| equal(one)).count();
        // The sort is stable: the others keep their order.
        rest.sort_by_key(|one| std::cmp::Reverse(if equal(one) { Some(one.passage) } else { None }));
        rest = &mut rest[equals..];
    }
}

/// Whether a passage is speech, and not a tool's arguments or result.
fn is_speech(passage: &Passage) -> bool {
    matches!(
        passage.source,
        TextSource::User | TextSource::Model | TextSource::CarryOver | TextSource::Summary
    )
}

/// The last later message that returns to the passage's subject: it changes the file, or speaks of the same thing.
///
/// `same` is the weight that a statement must share with the passage to be about the same thing.
fn returns(
    index: &RecallIndex<'_>,
    one: &PassageScore,
    all: &[PassageScore],
    mass: &[f32],
    same: f32,
) -> Option<usize> {
    let passage = &index.passages[one.passage];
    let called = passage.call.map(|call| &index.calls[call]);
    let paths = called.map_or(&[][..], |called| &called.paths);
    let changed = paths
        .iter()
        .filter_map(|(path, _)| index::changes(&index.calls, path, passage.turn).next_back());
    let turn_number = index.user_turn(passage.turn);
    let speech = all.iter().filter(|other| {
        let of = &index.passages[other.passage];
        is_speech(passage)
            && is_speech(of)
            // A later message of the same user turn continues the passage, and does not return to it.
            && index.user_turn(of.turn) > turn_number
            && mass_of(other.has & one.has, mass) >= same
    });
    let speech = speech.map(|other| index.passages[other.passage].turn);
    changed.chain(speech).max()
}

/// Removes duplicates: keeps either a call or its result, and only the best ranked of repeated reads.
fn distinct(index: &RecallIndex<'_>, all: impl Iterator<Item = RankedPassage>) -> Vec<RankedPassage> {
    let mut of_call: HashMap<usize, TextSource> = HashMap::new();
    let mut read: HashSet<(&str, &Range<usize>)> = HashSet::new();
    all.filter(|one| {
        let passage = &index.passages[one.passage];
        let Some(call) = passage.call else { return true };
        // The better ranked of a call and its result comes first, and excludes the other.
        if *of_call.entry(call).or_insert(passage.source) != passage.source {
            return false;
        }
        let about = &index.calls[call].about;
        // Repeated reads of a file give the same ranges; only the best ranked one is kept.
        passage.source != TextSource::Result || about.is_empty() || read.insert((about, &passage.range))
    })
    .collect()
}
