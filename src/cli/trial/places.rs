//! Locations of the sessions that agents keep.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use baton_core::text::table;
use serde::Deserialize;

/// Maximum depth of the searched directories below a location.
const DEPTH: usize = 8;

/// A row of `places.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceRow {
    agent: String,
    #[serde(default)]
    variable: String,
    home: String,
    directories: Vec<String>,
    ending: String,
    /// Directory of the `.json` files that earlier versions of the agent wrote.
    old: Option<String>,
}

static PLACES: LazyLock<Vec<PlaceRow>> = LazyLock::new(|| table::rows(include_str!("places.toml")));

/// A file that may have sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// Whether it has the format of an earlier version of the agent.
    pub(super) old: bool,
}

/// The directories that are searched for sessions.
pub(super) fn directories(agent: Option<&str>) -> Vec<PathBuf> {
    places(agent).flat_map(PlaceRow::directories).collect()
}

/// The files of one agent, or of all.
pub(super) fn files(agent: Option<&str>) -> Vec<SessionFile> {
    let mut found = Vec::new();
    for place in places(agent) {
        for directory in place.directories() {
            walk(&directory, DEPTH, &[place], &mut found);
        }
    }
    largest_first(found)
}

/// The file at a path that the user gives, or all files below it that may have sessions.
pub(super) fn given(path: &Path) -> std::io::Result<Vec<SessionFile>> {
    let about = std::fs::metadata(path)?;
    if about.is_file() {
        let (path, bytes, old) = (path.to_owned(), about.len(), false);
        return Ok(vec![SessionFile { path, bytes, old }]);
    }
    let mut found = Vec::new();
    walk(path, DEPTH, &places(None).collect::<Vec<_>>(), &mut found);
    Ok(largest_first(found))
}

fn places(agent: Option<&str>) -> impl Iterator<Item = &'static PlaceRow> {
    let all = PLACES.iter();
    all.filter(move |place| agent.is_none_or(|agent| agent == place.agent))
}

impl PlaceRow {
    fn directories(&self) -> Vec<PathBuf> {
        let given = std::env::var_os(&self.variable).filter(|dir| !dir.is_empty());
        let home = || Some(directories::BaseDirs::new()?.home_dir().join(&self.home));
        let directory = given.map(PathBuf::from).or_else(home).unwrap_or_default();
        self.directories.iter().map(|name| directory.join(name)).collect()
    }

    /// Whether a session file comes from an earlier version; `None` if it is not a session file.
    fn is_old(&self, path: &Path) -> Option<bool> {
        let text = path.to_string_lossy();
        let is_old = |directory: &String| text.contains(directory.as_str()) && text.ends_with(".json");
        match text.ends_with(&self.ending) {
            true => Some(false),
            false => self.old.as_ref().is_some_and(is_old).then_some(true),
        }
    }
}

/// Collects session files below a directory, without following links.
fn walk(directory: &Path, depth: usize, places: &[&PlaceRow], found: &mut Vec<SessionFile>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        // A link is neither a file nor a directory here, because it is not followed.
        let Ok(about) = entry.metadata() else { continue };
        let (path, bytes) = (entry.path(), about.len());
        if about.is_dir() && depth > 0 {
            walk(&path, depth - 1, places, found);
        } else if about.is_file()
            // The present format wins if several agents' rows fit the path.
            && let Some(old) = places.iter().filter_map(|place| place.is_old(&path)).min()
        {
            found.push(SessionFile { path, bytes, old });
        }
    }
}

/// Sorts files by size, because the largest take longest to read and should be started first.
fn largest_first(mut found: Vec<SessionFile>) -> Vec<SessionFile> {
    found.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
    found
}
