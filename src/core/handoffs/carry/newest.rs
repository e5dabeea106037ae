//! Of the rules that the person ever said, those that hold.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::block::has_edge;
use super::prompt_index::plain;
use super::rule::{self, Rule, RuleSources, Saying};
use crate::handoffs::draft::one_line;
use crate::handoffs::replaced::{Relation, SpokenText, Statement, Statements};
use crate::redact::Redactor;
use crate::text::prose::has_word;

/// Bytes of a rule that are kept.
const BYTES: usize = 400;

/// Rules that are looked at, the newest ones.
const MOST: usize = 200;

/// What the person said about later work.
struct Candidate {
    /// The number of its text, and its place in it.
    at: (usize, usize),
    saying: Saying,
    /// As it was said, on a line.
    text: String,
}

/// The rules that hold, newest first: each once, without what a later word replaced or lifted. What replaced a rule is one.
pub fn rules(sources: &RuleSources<'_>) -> Vec<Rule> {
    let markers: Vec<String> = sources.markers.iter().map(|word| word.to_lowercase()).collect();
    let carried = sources.earlier.len();
    let said = sources.said.lines().map(|lines| lines.join("\n"));
    // What an earlier handoff carried was said before what is left of the history.
    let texts: Vec<String> = sources.earlier.iter().rev().cloned().chain(said).collect();
    let found = texts.iter().enumerate().flat_map(|(turn, text)| {
        let sayings = text.lines().flat_map(|line| rule::in_line(line, &markers));
        let mut sayings: Vec<(Saying, String)> = sayings.collect();
        if turn < carried && sayings.is_empty() {
            // A word that replaced a rule.
            sayings.push((Saying::Holds, text.clone()));
        }
        let place = move |(n, (saying, text))| Candidate {
            at: (turn, n),
            saying,
            text,
        };
        sayings.into_iter().enumerate().map(place)
    });
    let candidates: Vec<Candidate> = found.collect();
    let spoken = texts
        .iter()
        .enumerate()
        .map(|(turn, text)| SpokenText::new(turn, true, text));
    let spoken: Vec<SpokenText<'_>> = spoken.collect();
    let statements = Statements::of(&spoken);
    let candidates = candidates.into_iter().rev().filter(|one| !has_edge(&one.text));
    let mut held = Held::of(sources.redactor);
    for candidate in candidates.take(MOST) {
        held.add(candidate, &statements);
    }
    held.rules(sources.without)
}

/// The rules that hold, as far as they were read: newest first.
struct Held<'r> {
    redactor: &'r Redactor,
    rules: Vec<((usize, usize), Rule)>,
    /// The wordings of the rules.
    known: HashSet<String>,
    lifting: Vec<Statement>,
}

impl<'r> Held<'r> {
    fn of(redactor: &'r Redactor) -> Self {
        Self {
            redactor,
            rules: Vec::new(),
            known: HashSet::new(),
            lifting: Vec::new(),
        }
    }

    fn add(&mut self, candidate: Candidate, statements: &Statements<'_>) {
        let Candidate { at, saying, text } = candidate;
        if saying == Saying::Lifts {
            self.lifting.push(Statement::of(&text));
            return;
        }
        let statement = Statement::of(&text);
        if self.lifting.iter().any(|later| lifts(later, &statement)) {
            return;
        }
        let fate = statements.of_whole(&SpokenText::new(at.0, true, &text));
        if let Some((_, by)) = fate {
            let by = statements.newest(by);
            let mut rules = self.rules.iter();
            if !rules.any(|((turn, _), rule)| *turn == by.turn && has_word(&rule.text, by.text)) {
                let forbids = by.statement.forbids;
                self.hold((by.turn, usize::MAX), by.text, forbids, by.replaced.is_some());
            }
        }
        if !matches!(fate, Some((Relation::Surely, _))) {
            self.hold(at, &text, saying == Saying::Forbids, fate.is_some());
        }
    }

    fn hold(&mut self, at: (usize, usize), text: &str, forbids: bool, replaced: bool) {
        let text = self.redactor.cleaned(&one_line(text, BYTES));
        if self.known.insert(plain(&text)) {
            let rule = Rule {
                text,
                forbids,
                replaced,
            };
            self.rules.push((at, rule));
        }
    }

    fn rules(mut self, without: &[String]) -> Vec<Rule> {
        let dropped: HashSet<String> = without.iter().map(|text| plain(rule::unmarked(text))).collect();
        self.rules.sort_by_key(|(at, _)| Reverse(*at));
        let rules = self.rules.into_iter().map(|(_, rule)| rule);
        rules
            .filter(|rule| !dropped.contains(&plain(&rule.text)))
            .collect()
    }
}

/// Whether a later sentence lifts an earlier rule: most of what it names is in the rule.
fn lifts(later: &Statement, earlier: &Statement) -> bool {
    let (all, shared) = later.overlap(earlier);
    shared > 0 && shared * 3 >= all * 2
}
