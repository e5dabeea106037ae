//! `config/baton.toml` describes each key in agreement with its row.

use std::collections::BTreeSet;

use baton_core::brake::BrakePolicy;
use pretty_assertions::assert_eq;

use super::is_key_line;
use crate::config::keys::{self, BRAKE, UPSTREAM};
use crate::config::problem::KeyOrigin;
use crate::config::raw::{Environment, LocatedValue, Raw};
use crate::config::value::ValueResult;
use crate::config::{Config, DEFAULT_TEXT, UpstreamConfig};

/// A key of the documented default.
struct DocumentedKey {
    /// Path of the key, `section.key`.
    path: String,
    is_commented_out: bool,
    /// Comment above the key, or above the key before it.
    comment: String,
    /// Whether no other key is between the comment and this one.
    is_first: bool,
    /// Comment above the key's section.
    section_comment: String,
}

impl DocumentedKey {
    fn is_marked(&self) -> bool {
        [&self.comment, &self.section_comment]
            .iter()
            .any(|comment| comment.ends_with("(restart)"))
    }

    /// Returns the numbers of `(A to B` in the key's comment.
    fn range(&self) -> Option<(f64, f64)> {
        if !self.is_first {
            return None;
        }
        self.comment.match_indices('(').find_map(|(at, _)| {
            let (from, rest) = self.comment[at + 1..].split_once(" to ")?;
            let end = rest.find([')', ';', ',']).unwrap_or(rest.len());
            let to = rest[..end].trim_end_matches(" each");
            Some((number(from)?, number(to)?))
        })
    }
}

/// Parses a number with an optional unit, such as `10`, `0.5` or `64 KiB`.
fn number(text: &str) -> Option<f64> {
    let (digits, unit) = text.split_once(' ').unwrap_or((text, ""));
    let power = ["", "KiB", "MiB", "GiB", "TiB"]
        .iter()
        .position(|known| *known == unit)?;
    Some(digits.parse::<f64>().ok()? * 1024_f64.powi(i32::try_from(power).ok()?))
}

fn documented() -> Vec<DocumentedKey> {
    let (mut section, mut section_comment, mut comment) = (String::new(), String::new(), String::new());
    let (mut keys, mut after_key) = (Vec::new(), true);
    for line in DEFAULT_TEXT.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        if let Some(name) = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim_matches(['[', ']']).to_owned();
            if section.starts_with("upstreams.") {
                section = "upstreams.*".to_owned();
            }
            section_comment = std::mem::take(&mut comment);
        } else if is_key_line(bare) {
            keys.push(DocumentedKey {
                path: format!("{section}.{}", bare.split(" = ").next().unwrap()),
                is_commented_out: line.starts_with('#'),
                comment: comment.clone(),
                is_first: !after_key,
                section_comment: section_comment.clone(),
            });
            after_key = true;
        } else if line.starts_with('#') {
            if std::mem::take(&mut after_key) {
                comment.clear();
            }
            comment = format!("{comment} {bare}");
        } else if line.is_empty() {
            comment.clear();
        }
    }
    keys
}

#[test]
fn every_key_is_there_and_no_other() {
    let found = documented()
        .into_iter()
        .map(|key| (key.path, key.is_commented_out));
    let known: BTreeSet<_> = keys::all().collect();
    assert_eq!(found.collect::<BTreeSet<_>>(), known);
}

#[test]
fn what_needs_a_restart_is_marked() {
    let documented = documented();
    let marked = documented
        .iter()
        .filter(|key| key.is_marked())
        .map(|key| key.path.clone());
    let fixed = keys::single()
        .filter(|(_, key)| key.needs_restart())
        .map(|(path, _)| path);
    assert_eq!(marked.collect::<BTreeSet<_>>(), fixed.collect::<BTreeSet<_>>());
}

fn read(path: &str, number: f64) -> ValueResult<()> {
    let origin = KeyOrigin::File("tests".to_owned());
    let (value, env) = (
        LocatedValue {
            raw: Raw::Number(number.to_string()),
            origin,
        },
        Environment::default(),
    );
    if let Some((_, key)) = keys::single().find(|(known, _)| known == path) {
        return key.read(&mut Config::default_for_tests(), &value, &env);
    }
    if let Some(name) = path.strip_prefix("brake.") {
        let key = BRAKE.iter().find(|key| key.name() == name);
        return key.unwrap().read(&mut BrakePolicy::default(), &value, &env);
    }
    let key = UPSTREAM
        .iter()
        .find(|key| path.ends_with(&format!("*.{}", key.name())));
    key.expect("a key of an upstream")
        .read(&mut UpstreamConfig::default(), &value, &env)
}

/// Checks both ends of each range, and values just beyond.
#[test]
fn ranges_are_those_of_the_rows() {
    let documented = documented();
    let ranges: Vec<_> = documented
        .iter()
        .filter_map(|key| Some((&key.path, key.range()?)))
        .collect();
    assert!(ranges.len() >= 25, "{}", ranges.len());
    for (path, (least, most)) in ranges {
        for (value, is_in) in [
            (least, true),
            (most, true),
            (least - 0.001, false),
            (most + 1.0, false),
        ] {
            assert_eq!(read(path, value).is_ok(), is_in, "{path} = {value}");
        }
    }
}
