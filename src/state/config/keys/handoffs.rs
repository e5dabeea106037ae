//! Keys about handoffs, their drafts and documents, and the search of what they cut.

use std::time::Duration;

use super::key::{KeySection, key, optional, put};
use crate::state::config::{
    FreeCutPolicy, HandoffMode, InjectPolicy, PreambleMode, ReviewPolicy, TranscriptDetail,
};
use baton_core::handoffs::carry::CarryScope;
use baton_core::handoffs::draft::DraftMethod;
use baton_core::nudge::{NudgeWording, Windows};

/// Most seal keys: a prompt under an unknown seal is hashed with each of them.
const MOST_KEYS: usize = 16;

/// Minimum length of a seal key: the output size of HMAC-SHA256.
const SEAL_KEY_CHARS: usize = 32;

/// Minimum length of a preamble tag: one or two letters would match a person's own words.
const TAG_CHARS: usize = 3;

/// Shorter patterns would fit most files.
const PATTERN_CHARS: usize = 3;

/// Shorter words would match most sentences.
const MARKER_CHARS: usize = 3;

/// More tokens than any model takes.
const TOKENS: u64 = 1 << 30;

pub(super) const HANDOFF: KeySection = KeySection {
    name: "handoff",
    keys: &[
        key("mode", |d, v, _| put(&mut d.config.handoff.mode, v.choice(MODES))),
        key("inject", |d, v, _| {
            put(&mut d.config.handoff.inject, v.choice(INJECT))
        }),
        key("transcript", |d, v, _| {
            put(&mut d.config.handoff.transcript, v.choice(TRANSCRIPTS))
        }),
        key("preamble", |d, v, _| {
            put(&mut d.config.handoff.preamble, v.choice(PREAMBLES))
        }),
        key("preamble_tags", |d, v, _| {
            put(&mut d.config.handoff.preamble_tags, v.texts(TAG_CHARS))
        }),
        optional("description", |d, v, _| {
            put(&mut d.config.handoff.description, v.text().map(Some))
        }),
        key("max_chain", |d, v, _| {
            put(&mut d.config.handoff.max_chain, v.count(1, 64))
        }),
        optional("seal_key", |d, v, e| {
            put(
                &mut d.config.handoff.seal_keys,
                v.secrets(e, SEAL_KEY_CHARS, MOST_KEYS),
            )
        }),
        optional("seal_key_dir", |d, v, e| {
            put(&mut d.config.handoff.seal_key_dir, v.path(e).map(Some))
        }),
        key("keepalive_secs", |d, v, _| {
            put(&mut d.config.handoff.keepalive, v.secs(0.1, 120.0))
        }),
        key("retries", |d, v, _| {
            put(&mut d.config.handoff.retries, v.count(0, 10))
        }),
        key("nudge_at", |d, v, _| {
            let thresholds = &mut d.config.handoff.thresholds;
            thresholds.nudge_pays |= v.is_pays();
            match v.is_pays() {
                true => put(&mut thresholds.nudge_at, Ok(0.0)),
                false => put(&mut thresholds.nudge_at, v.share()),
            }
        }),
        key("nudge_tokens", |d, v, _| {
            let thresholds = &mut d.config.handoff.thresholds;
            thresholds.nudge_pays |= v.is_pays();
            match v.is_pays() {
                true => put(&mut thresholds.nudge_tokens, Ok(0)),
                false => put(&mut thresholds.nudge_tokens, v.count(0, TOKENS)),
            }
        }),
        key("nudge_limit", |d, v, _| {
            put(&mut d.config.handoff.nudge_limit, v.flag())
        }),
        key("nudge_wording", |d, v, _| {
            put(&mut d.config.handoff.nudge_wording, v.choice(WORDINGS))
        }),
        optional("subagent_nudge_at", |d, v, _| {
            put(&mut d.config.handoff.subagents.nudge_at, v.share().map(Some))
        }),
        optional("subagent_nudge_tokens", |d, v, _| {
            let place = &mut d.config.handoff.subagents.nudge_tokens;
            put(place, v.count(0, TOKENS).map(Some))
        }),
        key("auto_at", |d, v, _| {
            put(&mut d.config.handoff.thresholds.auto_at, v.share())
        }),
        optional("subagent_auto_at", |d, v, _| {
            put(&mut d.config.handoff.subagents.auto_at, v.share().map(Some))
        }),
        optional("save_dir", |d, v, e| {
            put(&mut d.config.handoff.save_dir, v.path(e).map(Some))
        }),
        key("windows", |d, v, _| {
            put(
                &mut d.config.handoff.windows,
                v.windows(TOKENS).map(Windows::with),
            )
        }),
        key("carry", |d, v, _| {
            put(&mut d.config.handoff.carry, v.choice(CARRY))
        }),
        key("carry_tokens", |d, v, _| {
            put(&mut d.config.handoff.carry_tokens, v.count(0, 10_000))
        }),
        key("review", |d, v, _| {
            put(&mut d.config.handoff.review, v.choice(REVIEWS))
        }),
        key("free", |d, v, _| {
            put(&mut d.config.handoff.free, v.choice(FREE_CUTS))
        }),
        optional("routes", |d, v, _| put(&mut d.config.handoff.routes, v.routes())),
        optional("cache_lifetime_secs", |d, v, _| {
            let lifetime = v.secs(1.0, 86_400.0).map(Some);
            put(&mut d.config.handoff.cache_lifetime, lifetime)
        }),
        key("documents", |d, v, _| {
            put(&mut d.config.documents.enabled, v.flag())
        }),
        key("at_exit", |d, v, _| {
            put(&mut d.config.documents.at_exit, v.flag())
        }),
        optional("dir", |d, v, e| {
            put(&mut d.config.documents.dir, v.path(e).map(Some))
        }),
        optional("git_dir", |d, v, e| {
            put(&mut d.config.documents.git_dir, v.path(e).map(Some))
        }),
        optional("topic", |d, v, _| {
            put(&mut d.config.documents.topic, v.text().map(Some))
        }),
        key("verdict_paths", |d, v, _| {
            put(&mut d.config.documents.verdict_paths, v.texts(PATTERN_CHARS))
        }),
        key("archive_days", |d, v, _| {
            let days = v.days(0.0, 3650.0);
            put(
                &mut d.config.documents.archive_after,
                days.map(|days| Some(days).filter(|days| !days.is_zero())),
            )
        }),
        key("keep_files", |d, v, _| {
            put(&mut d.config.documents.keep_files, v.count(1, 100_000))
        }),
        key("assumption_words", |d, v, _| {
            put(&mut d.config.documents.assumption_words, v.texts(MARKER_CHARS))
        }),
    ],
};

pub(super) const COMMANDS: KeySection = KeySection {
    name: "commands",
    keys: &[key("prefix", |d, v, _| {
        put(&mut d.config.commands.prefix, v.prefix())
    })],
};

pub(super) const DRAFT: KeySection = KeySection {
    name: "draft",
    keys: &[
        optional("git_dir", |d, v, e| {
            put(&mut d.config.draft.git_dir, v.path(e).map(Some))
        }),
        key("markers", |d, v, _| {
            put(&mut d.config.draft.markers, v.texts(MARKER_CHARS))
        }),
        key("facts_tokens", |d, v, _| {
            put(&mut d.config.draft.facts_tokens, v.count(500, 100_000))
        }),
        key("bundle_tokens", |d, v, _| {
            put(&mut d.config.draft.bundle_tokens, v.count(500, 100_000))
        }),
        key("method", |d, v, _| {
            put(&mut d.config.draft.method, v.choice(METHODS))
        }),
        optional("model", |d, v, _| {
            put(&mut d.config.draft.model, v.text().map(Some))
        }),
        key("max_tokens", |d, v, _| {
            put(&mut d.config.draft.max_tokens, v.count(1024, 1_000_000))
        }),
        key("timeout_secs", |d, v, _| {
            put(&mut d.config.draft.timeout, v.secs(1.0, 3600.0))
        }),
        optional("prompts_dir", |d, v, e| {
            put(&mut d.config.draft.prompts_dir, v.path(e).map(Some))
        }),
        key("expire_hours", |d, v, _| {
            let hours = v.count::<u64>(1, 8760);
            put(
                &mut d.config.draft.expires,
                hours.map(|hours| Duration::from_secs(hours * 3600)),
            )
        }),
        key("secret_files", |d, v, _| {
            put(&mut d.config.draft.secret_files, v.texts(PATTERN_CHARS))
        }),
    ],
};

pub(super) const RECALL: KeySection = KeySection {
    name: "recall",
    keys: &[
        key("enabled", |d, v, _| put(&mut d.config.recall.enabled, v.flag())),
        key("per_turn", |d, v, _| {
            put(&mut d.config.recall.per_turn, v.count(1, 100))
        }),
    ],
};

const FREE_CUTS: &[(&str, FreeCutPolicy)] = &[
    ("off", FreeCutPolicy::Off),
    ("ask", FreeCutPolicy::Ask),
    ("on", FreeCutPolicy::On),
];
const REVIEWS: &[(&str, ReviewPolicy)] = &[
    ("never", ReviewPolicy::Never),
    ("manual", ReviewPolicy::Manual),
    ("always", ReviewPolicy::Always),
];
const METHODS: &[(&str, DraftMethod)] = &[
    ("oneshot", DraftMethod::Oneshot),
    ("bundle", DraftMethod::Bundle),
    ("local", DraftMethod::Local),
];
const MODES: &[(&str, HandoffMode)] = &[("continue", HandoffMode::Continue), ("stop", HandoffMode::Stop)];
const INJECT: &[(&str, InjectPolicy)] = &[
    ("auto", InjectPolicy::Auto),
    ("always", InjectPolicy::Always),
    ("never", InjectPolicy::Never),
    ("shadow", InjectPolicy::Shadow),
];
const TRANSCRIPTS: &[(&str, TranscriptDetail)] = &[
    ("full", TranscriptDetail::Full),
    ("sentinel", TranscriptDetail::Sentinel),
];
const WORDINGS: &[(&str, NudgeWording)] =
    &[("numbers", NudgeWording::Numbers), ("plain", NudgeWording::Plain)];
const CARRY: &[(&str, CarryScope)] = &[
    ("all", CarryScope::All),
    ("rules", CarryScope::Rules),
    ("off", CarryScope::Off),
];
const PREAMBLES: &[(&str, PreambleMode)] = &[("keep", PreambleMode::Keep), ("drop", PreambleMode::Drop)];
