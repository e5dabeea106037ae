//! The scan: one pass with an automaton of all keywords, and an action for each hit.

use std::collections::HashMap;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};

use super::matches::Matches;
use super::names::SecretName;
use super::rules::{self, CredentialRule};
use super::words::WORDS;
use super::{assign, context, prose};

/// Keywords of contexts, with the context that each belongs to.
const CONTEXTS: [(&str, ScanContext); 11] = [
    ("PRIVATE KEY", ScanContext::Pem),
    ("eyJ", ScanContext::Jwt),
    ("://", ScanContext::Url),
    // Slashes as some programs escape them in JSON, and in JSON within JSON.
    (r":\/\/", ScanContext::Url),
    (r":\\/\\/", ScanContext::Url),
    ("bearer ", ScanContext::Bearer),
    ("basic ", ScanContext::Basic),
    ("token ", ScanContext::Bearer),
    (" -u", ScanContext::User),
    ("--user", ScanContext::User),
    ("--proxy-user", ScanContext::User),
];

#[derive(Debug, Clone, Copy)]
enum ScanContext {
    Pem,
    Encoded,
    Jwt,
    Url,
    Bearer,
    Basic,
    User,
}

#[derive(Debug, Clone, Copy)]
enum RuleAction {
    Rule(u16),
    Name,
    /// A word of a sentence for a password or a key.
    Word(SecretName),
    Context(ScanContext),
}

pub(super) struct Keywords {
    automaton: Option<AhoCorasick>,
    /// By pattern: the action, and the exact spelling if case matters.
    acts: Vec<(RuleAction, Option<&'static str>)>,
    pub(super) rules: Vec<CredentialRule>,
}

pub(super) static KEYWORDS: LazyLock<Keywords> = LazyLock::new(Keywords::new);

impl Keywords {
    fn new() -> Self {
        let rules = rules::all();
        let mut words: Vec<(&'static str, RuleAction)> = Vec::new();
        for (n, rule) in rules.iter().enumerate() {
            let act = RuleAction::Rule(u16::try_from(n).unwrap_or(u16::MAX));
            words.extend(rule.keywords.iter().map(|word| (*word, act)));
        }
        words.extend(WORDS.names.iter().map(|word| (*word, RuleAction::Name)));
        let word = |name| move |word| (word, RuleAction::Word(name));
        words.extend(WORDS.passwords.iter().copied().map(word(SecretName::Password)));
        words.extend(WORDS.keys.iter().copied().map(word(SecretName::Key)));
        let encoded = RuleAction::Context(ScanContext::Encoded);
        words.extend(WORDS.encoded.iter().map(|word| (*word, encoded)));
        words.extend(CONTEXTS.map(|(word, place)| (word, RuleAction::Context(place))));
        let automaton = AhoCorasickBuilder::new()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(aho_corasick::AhoCorasickKind::DFA))
            .build(words.iter().map(|(word, _)| word));
        let spelled = |word: &'static str| {
            let counts = word.bytes().any(|b| b.is_ascii_uppercase());
            counts.then_some(word)
        };
        let acts = words.into_iter().map(|(word, act)| (act, spelled(word)));
        Self {
            automaton: automaton.ok(),
            acts: acts.collect(),
            rules,
        }
    }
}

/// Whether the text contains any keyword.
pub(super) fn any(text: &[u8]) -> bool {
    let automaton = KEYWORDS.automaton.as_ref();
    automaton.is_none_or(|automaton| automaton.is_match(text))
}

/// Appends the matches, unordered.
pub(super) fn find(found: &mut Matches<'_>) {
    let Some(automaton) = KEYWORDS.automaton.as_ref() else {
        return;
    };
    let text = found.text();
    let mut scan = CredentialScan {
        found,
        match_ends: HashMap::new(),
        names: assign::NameScan::default(),
        pem: context::Pem::default(),
        jwt: context::Jwt::default(),
        encoded: 0,
    };
    for hit in automaton.find_overlapping_iter(text) {
        let (act, spelled) = KEYWORDS.acts[hit.pattern().as_usize()];
        if spelled.is_none_or(|word| &text.as_bytes()[hit.range()] == word.as_bytes()) {
            scan.hit(act, hit.start(), hit.end());
        }
    }
    scan.pem.finish(scan.found);
}

struct CredentialScan<'a, 't> {
    found: &'a mut Matches<'t>,
    /// End of each rule's last match. Hits inside it are skipped.
    match_ends: HashMap<u16, usize>,
    names: assign::NameScan,
    pem: context::Pem,
    jwt: context::Jwt,
    /// End of the last base64-encoded credential.
    encoded: usize,
}

impl CredentialScan<'_, '_> {
    fn hit(&mut self, act: RuleAction, start: usize, end: usize) {
        super::worked(end - start);
        match act {
            RuleAction::Rule(n) => self.rule(n, start),
            RuleAction::Name => self.names.at(start, self.found),
            RuleAction::Word(name) => prose::at(start, end, name, self.found),
            RuleAction::Context(ScanContext::Pem) => self.pem.at(start, end, self.found),
            RuleAction::Context(ScanContext::Encoded) => {
                self.encoded = context::encoded(start, self.encoded, self.found)
            }
            RuleAction::Context(ScanContext::Jwt) => self.jwt.at(start, self.found),
            RuleAction::Context(ScanContext::Url) => context::url(end, self.found),
            RuleAction::Context(ScanContext::Bearer) => context::bearer(start, end, self.found),
            RuleAction::Context(ScanContext::Basic) => context::basic(start, end, self.found),
            RuleAction::Context(ScanContext::User) => context::user(start, end, self.found),
        }
    }

    fn rule(&mut self, n: u16, start: usize) {
        let match_end = self.match_ends.get(&n);
        if match_end.is_some_and(|match_end| start < *match_end) {
            return;
        }
        let rule = &KEYWORDS.rules[usize::from(n)];
        if let Some((range, end)) = rule.at(self.found.text(), start) {
            self.match_ends.insert(n, end);
            self.found.push(range, rule.name);
        }
    }
}
