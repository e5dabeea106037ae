//! Files that a call or a patch changes, and patterns of paths.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tools::{self, ToolKind};

named! {
    /// Change of a file by a call or a patch.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum FileChange {
        /// The file is new.
        Created = "created",
        /// The file existed.
        Modified = "modified",
        /// The file was deleted.
        Deleted = "deleted",
        /// The file was written, and may have existed.
        Written = "written",
    }
}

/// Line prefixes of a patch that name a file (`apply_patch` of Codex and its relatives).
const PATCHED: [(&str, FileChange); 4] = [
    ("*** Add File: ", FileChange::Created),
    ("*** Update File: ", FileChange::Modified),
    (MOVED, FileChange::Created),
    ("*** Delete File: ", FileChange::Deleted),
];

/// Prefix of the new name for the file that the line before names.
const MOVED: &str = "*** Move to: ";

/// Lists the files that a patch names, including a patch inside a command.
pub fn patched(patch: &str) -> Vec<(String, FileChange)> {
    if !patch.contains("*** ") {
        return Vec::new();
    }
    let mut named: Vec<(String, FileChange)> = Vec::new();
    for line in patch.lines() {
        let found = PATCHED
            .iter()
            .find_map(|(words, change)| Some((words, line.strip_prefix(words)?, *change)));
        let Some((words, path, change)) = found else {
            continue;
        };
        // A moved file no longer exists under its old name.
        if *words == MOVED
            && let Some(from) = named.last_mut()
        {
            from.1 = FileChange::Deleted;
        }
        named.push((path.trim().to_owned(), change));
    }
    named
}

/// Lists the files that a call names, with the change to each.
///
/// `command` is the line of a call that runs commands.
pub fn named(kind: ToolKind, arguments: &Value, command: Option<&str>) -> Vec<(String, Option<FileChange>)> {
    let patch = match kind {
        ToolKind::Patch => tools::patch(arguments),
        // Codex also applies patches through a shell command.
        ToolKind::Shell => command.filter(|command| command.contains("apply_patch")),
        _ => None,
    };
    let patched = patch.map(patched).unwrap_or_default().into_iter();
    if patched.len() > 0 {
        return patched.map(|(path, change)| (path, Some(change))).collect();
    }
    let change = match kind {
        ToolKind::Edit | ToolKind::Patch | ToolKind::Write => Some(FileChange::Modified),
        ToolKind::Delete => Some(FileChange::Deleted),
        _ => None,
    };
    let paths = tools::paths(kind, arguments).into_iter();
    paths.map(|path| (path, change)).collect()
}

/// Whether a path matches a pattern.
///
/// `?` matches one character and `*` any number of them, both without `/`. `**` matches `/` as well. A
/// pattern without `/` applies only to the file's name.
pub fn fits(pattern: &str, path: &str) -> bool {
    let path = match pattern.contains('/') {
        true => path,
        false => path.rsplit('/').next().unwrap_or(path),
    };
    let (pattern, path): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
    // Dynamic programming by rows: `fits[i]` means that the pattern so far matches the first `i` characters
    // of the path. Time is the product of both lengths, whatever the pattern.
    let mut fits = vec![false; path.len() + 1];
    fits[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let deep = pattern[at..].starts_with(&['*', '*']);
        let mut next = vec![false; path.len() + 1];
        match pattern[at] {
            '*' => {
                let mut open = false;
                for (i, begins) in fits.iter().enumerate() {
                    open = *begins || open && (deep || path[i - 1] != '/');
                    next[i] = open;
                }
            }
            one => {
                for (i, c) in path.iter().enumerate() {
                    next[i + 1] = fits[i] && (*c == one || one == '?' && *c != '/');
                }
            }
        }
        at += if deep { 2 } else { 1 };
        // `**/` also matches no directory at all.
        if deep && pattern.get(at) == Some(&'/') {
            let after_slash = |i: usize| i > 0 && next[i - 1] && path[i - 1] == '/';
            next = (0..=path.len()).map(|i| fits[i] || after_slash(i)).collect();
            at += 1;
        }
        fits = next;
    }
    fits[path.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_fit_patterns() {
        for (pattern, path) in [
            ("review*.md", "docs/review-3.md"),
            ("**/review*.md", "review.md"),
            ("**/review*.md", "a/b/review-1.md"),
            ("docs/*.md", "docs/a.md"),
            ("docs/**", "docs/a/b.md"),
            ("a/**/b", "a/x/y/b"),
            ("?.rs", "a.rs"),
        ] {
            assert!(fits(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("docs/*.md", "docs/a/b.md"),
            ("**/review*.md", "a/preview.md"),
            ("*.md", "a.rs"),
            ("?", "ab"),
        ] {
            assert!(!fits(pattern, path), "{pattern} {path}");
        }
        let long = "a/".repeat(5_000);
        assert!(!fits("**/a/**/a/**/b", &long));
    }

    #[test]
    fn patches_name_their_files() {
        let patch = "*** Begin Patch\n*** Update File: src/a.rs\n*** Move to: src/b.rs\n@@\n-x\n+y\n*** Delete File: c\n*** End Patch";
        let files = patched(patch);
        assert_eq!(files[0], ("src/a.rs".to_owned(), FileChange::Deleted));
        assert_eq!(files[1], ("src/b.rs".to_owned(), FileChange::Created));
        assert_eq!(files[2], ("c".to_owned(), FileChange::Deleted));
        assert!(patched("--- a\n+++ b").is_empty());
    }
}
