//! Index of a transcript's calls by fingerprint.

use std::collections::HashMap;

use super::call_fingerprint::{Fingerprint, MessageNumber, is_random};

/// Calls by every key that can identify them. Each lookup is a hash access instead of a walk over all calls.
pub(super) struct FingerprintIndex<T> {
    all: Vec<(Fingerprint, T)>,
    /// Index of the first call with this key.
    first: HashMap<CallName, usize>,
}

/// A key that identifies a call.
#[derive(PartialEq, Eq, Hash)]
enum CallName {
    Id(String),
    IdAt(String, MessageNumber),
    Signed(u64),
    SignedAt(u64, MessageNumber),
    At(u64, Option<MessageNumber>),
}

impl<T> FingerprintIndex<T> {
    pub(super) fn new(all: Vec<(Fingerprint, T)>) -> Self {
        let mut first = HashMap::new();
        for (n, (fingerprint, _)) in all.iter().enumerate() {
            let mut name = |name: CallName| {
                first.entry(name).or_insert(n);
            };
            let place = fingerprint.place.unwrap_or_default();
            if !fingerprint.id.is_empty() {
                name(CallName::Id(fingerprint.id.clone()));
                name(CallName::IdAt(fingerprint.id.clone(), place));
            }
            if let Some(signature) = fingerprint.signature {
                name(CallName::Signed(signature));
                name(CallName::SignedAt(signature, place));
            }
            name(CallName::At(fingerprint.call, fingerprint.place));
        }
        Self { all, first }
    }

    /// Returns the best match for a fingerprint; among equal matches, the first one.
    pub(super) fn find(&self, wanted: &Fingerprint) -> Option<&T> {
        let found = self.surely(wanted).or_else(|| {
            // Without a certain match, an equal call at the same position will do.
            let here = self.first.get(&CallName::At(wanted.call, wanted.place)).copied();
            here.filter(|&n| wanted.may_be(&self.all[n].0))
        });
        found.map(|n| &self.all[n].1)
    }

    /// Finds a call by id, else by signature. A candidate at the same position wins.
    fn surely(&self, wanted: &Fingerprint) -> Option<usize> {
        let place = wanted.place.unwrap_or_default();
        // Ids from a server's counter repeat, so the same id at the same position comes first.
        let by_id = (!wanted.id.is_empty()).then(|| {
            let id = || wanted.id.clone();
            [CallName::IdAt(id(), place), CallName::Id(id())]
        });
        let by_signature = wanted
            .signature
            .map(|s| [CallName::SignedAt(s, place), CallName::Signed(s)]);
        let names = by_id.into_iter().chain(by_signature).flatten();
        names.filter_map(|name| self.first.get(&name).copied()).next()
    }

    /// Whether a unique feature, a random id or a signature, proves that the call is here.
    pub(super) fn proves(&self, wanted: &Fingerprint) -> bool {
        let has = |name: CallName| self.first.contains_key(&name);
        wanted.signature.is_some_and(|s| has(CallName::Signed(s)))
            || is_random(&wanted.id) && has(CallName::Id(wanted.id.clone()))
    }
}
