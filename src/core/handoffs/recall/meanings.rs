//! Synonyms in software, as a small general table.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::stem::stem;

/// Each row: words that one person says where another says one of the others. General ones, and those of programming;
/// none of any one project.
const ALIKE: &[&str] = &[
    "timeout expiry expire ttl lifetime deadline lifespan",
    "limit maximum max cap bound threshold ceiling quota most largest biggest",
    "minimum min least floor smallest",
    "error failure fail exception fault broken problem complain wrong",
    "crash panic abort die",
    "bug defect issue",
    "decide decision choose choice chose chosen pick select settle agree",
    "want wish prefer preference like request insist require demand need",
    "ask permission permit consent approve approval confirm allow",
    "delete remove drop erase purge discard clear",
    "create add introduce generate make",
    "change modify edit update alter revise switch adjust replace touch",
    "database db storage store persistence",
    "directory folder dir",
    "config configuration configure setting option",
    "environment env",
    "user person people customer client account",
    "password secret credential passphrase",
    "login signin authenticate authentication auth session",
    "test spec suite",
    "check verify validate validation assert",
    "build compile compilation",
    "deploy release ship publish rollout",
    "repository repo",
    "function method procedure routine",
    "parameter argument arg param",
    "retry attempt tries repeat",
    "wait delay pause sleep backoff interval",
    "size length big large width",
    "count number amount many",
    "host server machine",
    "url endpoint address link uri route",
    "port address",
    "dependency package library crate module",
    "slow latency performance speed fast",
    "memory ram heap",
    "parallel concurrent concurrency thread worker simultaneous",
    "log logging trace",
    "message text wording word",
    "start begin launch boot startup",
    "stop end finish halt kill terminate shutdown",
    "reason why because cause rationale",
    "find search look locate lookup",
    "where path location file live",
    "old previous former earlier",
    "forbidden never prohibit avoid disallow forbid untouched",
    "format layout style formatting",
    "email mail",
    "copy duplicate clone",
    "backup snapshot",
    "page screen view",
    "migrate migration move",
    "rename name call",
    "second seconds secs sec",
    "millisecond milliseconds ms millis",
    "minute minutes mins",
    "megabyte megabytes mb",
    "keep retain retention preserve",
    "accept permit",
    "deny reject refuse denied",
    "queue backlog broker",
    "event message",
    "schedule cron timer nightly job",
    "colour color",
    "picture image icon photo",
    "documentation docs readme manual",
    "command cli invocation",
    "script job task",
    "column field attribute",
    "row record entry",
    "table relation schema",
    "review approve approval",
    "encrypt encryption cipher",
    "compress compression gzip zip",
    "engine backend implementation",
    "import importer ingest load",
    "export dump",
    "label tag mark",
    "fixture sample",
    "data input",
];

/// The stems of words that mean much the same as the word of this stem.
pub(super) fn like(of: &str) -> impl Iterator<Item = &'static str> {
    static ROWS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
        let mut rows: HashMap<String, Vec<String>> = HashMap::new();
        for row in ALIKE {
            let stems: Vec<String> = row.split_whitespace().map(stem).collect();
            for stem in &stems {
                let others = rows.entry(stem.clone()).or_default();
                others.extend(stems.iter().filter(|other| *other != stem).cloned());
            }
        }
        rows.values_mut().for_each(|others| {
            others.sort();
            others.dedup();
        });
        rows
    });
    ROWS.get(of).into_iter().flatten().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings_are_found_by_any_form_of_a_word() {
        let all: Vec<_> = like(&stem("expires")).collect();
        assert!(all.contains(&stem("timeout").as_str()), "{all:?}");
        assert_eq!(like("xyzzy").count(), 0);
    }
}
