//! The record of the soak: counts, faults by kind, disturbances, and violations.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Texts of violations that are kept; all are counted.
const KEPT: usize = 200;

/// For this long after a disturbance requests may still fail: connections are opened again, the store is probed.
const AFTER: Duration = Duration::from_secs(4);

/// Disturbances that may make a request fail without a fault of upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// A process was killed, stopped or not yet started again.
    Process,
    /// Another program wrote to the store's file, for less time than a request waits.
    Lock,
    /// The store could not be reached.
    Store,
    /// The disk was full.
    Disk,
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub kind: &'static str,
    pub seconds: f64,
    pub text: String,
}

/// One of each run.
pub struct Ledger {
    pub began: Instant,
    /// Where the bodies of requests that break a rule are kept.
    evidence: Option<PathBuf>,
    /// The last number that a marker was given.
    numbers: AtomicU64,
    /// Whether agents and chaos end.
    ending: AtomicBool,
    entries: Mutex<Entries>,
}

#[derive(Default)]
pub struct Entries {
    pub counts: BTreeMap<&'static str, u64>,
    pub faults: BTreeMap<&'static str, u64>,
    pub violations: BTreeMap<&'static str, u64>,
    pub texts: Vec<Violation>,
    pub skipped: Vec<String>,
    disturbances: Vec<(Disturbance, Instant, Option<Instant>)>,
}

impl Ledger {
    pub fn new(evidence: Option<PathBuf>) -> Self {
        Self {
            evidence,
            began: Instant::now(),
            numbers: AtomicU64::new(0),
            ending: AtomicBool::new(false),
            entries: Mutex::default(),
        }
    }

    pub fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// A number that no other marker has.
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The largest number that a marker has now.
    pub fn last_number(&self) -> u64 {
        self.numbers.load(Ordering::SeqCst)
    }

    pub fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    pub fn begin_phase(&self) {
        self.ending.store(false, Ordering::SeqCst);
        self.entries().disturbances.clear();
    }

    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    pub fn count(&self, what: &'static str) {
        *self.entries().counts.entry(what).or_default() += 1;
    }

    pub fn fault(&self, what: &'static str) {
        *self.entries().faults.entry(what).or_default() += 1;
    }

    /// A fault that chaos made.
    pub fn event(&self, what: &'static str) {
        eprintln!("[{:7.1} s] {what}", self.seconds());
        self.fault(what);
    }

    pub fn skipped(&self, text: impl Into<String>) {
        self.entries().skipped.push(text.into());
    }

    pub fn violation(&self, kind: &'static str, text: impl Into<String>) {
        let violation = Violation {
            kind,
            seconds: self.seconds(),
            text: text.into(),
        };
        eprintln!("[{:7.1} s] {kind}: {}", violation.seconds, violation.text);
        let mut entries = self.entries();
        *entries.violations.entry(kind).or_default() += 1;
        if entries.texts.len() < KEPT {
            entries.texts.push(violation);
        }
    }

    /// Keeps the body of an upstream request, by its number.
    pub fn evidence(&self, request: usize, body: &[u8]) {
        let Some(dir) = &self.evidence else { return };
        let file = dir.join(format!("{:.0}s-request-{request}.json", self.seconds()));
        if let Err(error) = std::fs::write(&file, body) {
            eprintln!("{}: {error}", file.display());
        }
    }

    pub fn disturb(&self, kind: Disturbance) {
        self.entries().disturbances.push((kind, Instant::now(), None));
    }

    pub fn calm(&self, kind: Disturbance) {
        let mut entries = self.entries();
        let open = entries.disturbances.iter_mut().rev();
        for (_, _, end) in open.filter(|(of, _, end)| *of == kind && end.is_none()) {
            *end = Some(Instant::now());
        }
    }

    /// Whether one of these kinds lasted at some time since `since`.
    pub fn was_disturbed(&self, kinds: &[Disturbance], since: Instant) -> bool {
        let entries = self.entries();
        let mut all = entries.disturbances.iter().rev();
        all.any(|(kind, _, end)| kinds.contains(kind) && end.is_none_or(|end| end + AFTER >= since))
    }

    /// Whether one of these kinds has occurred since the phase began.
    pub fn has_been(&self, kinds: &[Disturbance]) -> bool {
        let entries = self.entries();
        entries.disturbances.iter().any(|(kind, ..)| kinds.contains(kind))
    }
}
