//! Orders files by age.
//!
//! The time in a file's name decides, not the name: an automatic file's name sorts after every manual one.
//! Names of manual files state only the minute, so the file system's time orders the files of one minute.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use baton_core::handoffs::yaml::names::{self, FileStamp};
use baton_core::handoffs::yaml::time::Time;

const MINUTE: i64 = 60;
const NANOS: u64 = 1_000_000_000;

/// Returns when a file was last written, according to the file system.
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

/// Returns the time in a file's name. For other names, returns when the file was written.
pub(super) fn age(dir: &Path, name: &str) -> FileStamp {
    names::time(name).unwrap_or_else(|| {
        let at = written(&dir.join(name)).map_or(0, |at| at.seconds);
        FileStamp {
            minute: at - at.rem_euclid(MINUTE),
            second: u32::try_from(at.rem_euclid(MINUTE)).ok(),
        }
    })
}

/// Returns the time in a file's name, if it has one.
pub(super) fn named_at(path: &Path) -> Option<Time> {
    let stamp = names::time(path.file_name()?.to_str()?)?;
    Some(Time::of_seconds(
        stamp.minute + i64::from(stamp.second.unwrap_or_default()),
    ))
}

/// Sorts the files of a directory, newest first.
pub(super) fn sort(dir: &Path, files: Vec<String>) -> Vec<String> {
    let mut aged: Vec<_> = files.into_iter().map(|name| (age(dir, &name), name)).collect();
    let mut of_minute: HashMap<i64, usize> = HashMap::new();
    for (named, _) in &aged {
        *of_minute.entry(named.minute).or_default() += 1;
    }
    // Reads the file's time only if two names share a minute: a directory may have thousands of files.
    aged.sort_by_cached_key(|(named, name)| {
        let (within, written) = match of_minute[&named.minute] {
            1 => (0, None),
            _ => within_minute(dir, name, *named),
        };
        std::cmp::Reverse((named.minute, within, written, copy(name), name.clone()))
    });
    aged.into_iter().map(|(_, name)| name).collect()
}

/// Returns the nanoseconds into the file's minute, and when the file was written.
fn within_minute(dir: &Path, name: &str, named: FileStamp) -> (u64, Option<Time>) {
    let written = written(&dir.join(name));
    let second = |second: i64| u64::try_from(second).unwrap_or_default() * NANOS;
    let within = match written {
        Some(at) if at.seconds - at.seconds.rem_euclid(MINUTE) == named.minute => {
            second(at.seconds.rem_euclid(MINUTE)) + u64::from(at.nanos)
        }
        // The file was copied since, or its name has another zone's time: the time on disk does not tell its
        // order.
        _ => second(i64::from(named.second.unwrap_or_default())),
    };
    (within, written)
}

/// Returns the number that distinguishes equal names, as in `…-2.yaml`. 1 without such a number.
fn copy(name: &str) -> usize {
    let stem = name.strip_suffix(names::SUFFIX).unwrap_or(name);
    let number = stem.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(1)
}
