//! Keys under the names that the previous version had: they are read as the new ones, and reported.

use super::problem::{KeyOrigin, Problem, ProblemKind};
use super::raw::{LocatedValue, Raw, RawEntry};

/// The section of older versions whose keys are in `handoff` now.
const OLD_SECTION: &str = "packets";
const NEW_SECTION: &str = "handoff";

/// Keys that have another name in the new section.
const RENAMED: &[(&str, &str)] = &[("enabled", "documents")];

/// Keys of what is an example now, and the variables that it reads instead.
const OF_EXAMPLES: &[(&str, &str)] = &[
    ("agent_mail_url", "AGENT_MAIL_URL (examples/agent-mail)"),
    ("agent_mail_token", "AGENT_MAIL_TOKEN (examples/agent-mail)"),
    ("agent_mail_agents", "AGENT_MAIL_AGENTS (examples/agent-mail)"),
];

/// A key that was set under its old name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct OldKey {
    /// The place where it is set.
    pub origin: KeyOrigin,
    /// The name that was used.
    pub old: String,
    /// Its name now.
    pub new: String,
}

impl std::fmt::Display for OldKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { origin, old, new } = self;
        write!(
            f,
            "{origin}: `{old}` is `{new}` now; the old name will be removed in the next version"
        )
    }
}

/// The entries of one layer with the old keys under their new names.
pub(super) fn renamed(
    entries: &[RawEntry],
    found: &mut Vec<OldKey>,
    problems: &mut Vec<Problem>,
) -> Vec<RawEntry> {
    let mut layer = entries.to_vec();
    layer.retain(|entry| old_table(entry).is_none());
    for table in entries.iter().filter_map(old_table) {
        for old in table {
            let new = RENAMED
                .iter()
                .find(|(name, _)| *name == old.key)
                .map_or(old.key.as_str(), |(_, new)| new);
            let names = (
                format!("{OLD_SECTION}.{}", old.key),
                format!("{NEW_SECTION}.{new}"),
            );
            if let Some(other) = set_in(entries, new) {
                problems.push(Problem {
                    kind: ProblemKind::Conflict,
                    origin: old.key_origin.clone(),
                    key: names.0.clone(),
                    message: format!(
                        "`{}` is set too ({other}), and is the new name of the same key",
                        names.1
                    ),
                    help: Some(format!("delete `{}`", names.0)),
                });
                continue;
            }
            found.push(OldKey {
                origin: old.key_origin.clone(),
                old: names.0,
                new: names.1,
            });
            layer.push(in_new_section(old, new));
        }
    }
    layer.retain_mut(|entry| keep_without_examples(entry, found));
    layer
}

/// Takes keys out that examples have now; a section that had nothing else goes too.
fn keep_without_examples(section: &mut RawEntry, found: &mut Vec<OldKey>) -> bool {
    let Raw::Table(table) = &mut section.value.raw else {
        return true;
    };
    if section.key != NEW_SECTION {
        return true;
    }
    let before = table.len();
    table.retain(|entry| {
        let moved = OF_EXAMPLES.iter().find(|(name, _)| *name == entry.key);
        found.extend(moved.map(|(name, new)| OldKey {
            origin: entry.key_origin.clone(),
            old: format!("{NEW_SECTION}.{name}"),
            new: (*new).to_owned(),
        }));
        moved.is_none()
    });
    !table.is_empty() || before == 0
}

/// The keys of the old section. Another type is left to the reader of sections, which reports it.
fn old_table(entry: &RawEntry) -> Option<&[RawEntry]> {
    match &entry.value.raw {
        Raw::Table(table) if entry.key == OLD_SECTION => Some(table),
        _ => None,
    }
}

/// The place where a layer sets this key of the new section.
fn set_in<'a>(entries: &'a [RawEntry], key: &str) -> Option<&'a KeyOrigin> {
    let sections = entries.iter().filter(|entry| entry.key == NEW_SECTION);
    let mut keys = sections.flat_map(|section| match &section.value.raw {
        Raw::Table(table) => table.as_slice(),
        _ => &[],
    });
    keys.find(|entry| entry.key == key).map(|entry| &entry.key_origin)
}

fn in_new_section(old: &RawEntry, new: &str) -> RawEntry {
    let key = RawEntry {
        key: new.to_owned(),
        ..old.clone()
    };
    RawEntry {
        key: NEW_SECTION.to_owned(),
        key_origin: old.key_origin.clone(),
        value: LocatedValue {
            raw: Raw::Table(vec![key]),
            origin: old.value.origin.clone(),
        },
    }
}
