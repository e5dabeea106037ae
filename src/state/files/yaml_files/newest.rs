//! The order of files by age: by the time in the name, not by the name, since an automatic file's name sorts after
//! every manual one. Names of manual files have minutes alone, so files of one minute are ordered by when they were
//! written.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use baton_core::handoffs::yaml::names::{self, FileStamp};
use baton_core::handoffs::yaml::time::Time;

const MINUTE: i64 = 60;
const NANOS: u64 = 1_000_000_000;

/// When a file was last written, by the file system.
pub(super) fn written(path: &Path) -> Option<Time> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    Some(time_of(modified))
}

pub(super) fn time_of(at: SystemTime) -> Time {
    match at.duration_since(UNIX_EPOCH) {
        Ok(since) => Time {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: since.subsec_nanos(),
        },
        Err(_) => Time::of_seconds(0),
    }
}

/// The time in a file's name; of other names, when it was written.
pub(super) fn age(dir: &Path, name: &str) -> FileStamp {
    names::time(name).unwrap_or_else(|| {
        let at = written(&dir.join(name)).map_or(0, |at| at.seconds);
        FileStamp {
            minute: at - at.rem_euclid(MINUTE),
            second: u32::try_from(at.rem_euclid(MINUTE)).ok(),
        }
    })
}

/// Sorts files of a directory, newest first.
pub(super) fn sort(dir: &Path, files: Vec<String>) -> Vec<String> {
    let mut aged: Vec<_> = files.into_iter().map(|name| (age(dir, &name), name)).collect();
    let mut of_minute: HashMap<i64, usize> = HashMap::new();
    for (named, _) in &aged {
        *of_minute.entry(named.minute).or_default() += 1;
    }
    // The file system is asked only for those that the names leave open.
    aged.sort_by_cached_key(|(named, name)| {
        let (within, written) = match of_minute[&named.minute] {
            1 => (0, None),
            _ => within_minute(dir, name, *named),
        };
        std::cmp::Reverse((named.minute, within, written, copy(name), name.clone()))
    });
    aged.into_iter().map(|(_, name)| name).collect()
}

/// Nanoseconds into a file's minute, and when it was written.
fn within_minute(dir: &Path, name: &str, named: FileStamp) -> (u64, Option<Time>) {
    let written = written(&dir.join(name));
    let second = |second: i64| u64::try_from(second).unwrap_or_default() * NANOS;
    let within = match written {
        Some(at) if at.seconds - at.seconds.rem_euclid(MINUTE) == named.minute => {
            second(at.seconds.rem_euclid(MINUTE)) + u64::from(at.nanos)
        }
        // It was copied since, or its name has the time of another zone.
        _ => second(i64::from(named.second.unwrap_or_default())),
    };
    (within, written)
}

/// The number of a name that was taken: `…-2.yaml`.
fn copy(name: &str) -> usize {
    let stem = name.strip_suffix(names::SUFFIX).unwrap_or(name);
    let number = stem.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(1)
}
