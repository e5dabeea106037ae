//! Reads a repository with git as if it had no configuration.
//!
//! A repository's configuration, attributes and hooks can name programs for git to run and directories
//! elsewhere for git to read. Git therefore gets a private `GIT_DIR`, which baton creates. It contains a
//! configuration and a `HEAD` written by baton, a copy of the index, and nothing else; only the objects are
//! the repository's. A repository that does not fit this model is not read.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::child;
use crate::disk;

/// Maximum bytes of `HEAD`, of a ref, and of a file that names a directory.
const MAX_LINE_BYTES: u64 = 4 * 1024;

/// Maximum bytes of packed refs, of the exclude list, and of the boundary of a shallow clone.
const MAX_LIST_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum bytes of an index that is copied. A million files take about this much.
const MAX_INDEX_BYTES: u64 = 128 * 1024 * 1024;

/// Maximum number of refs between `HEAD` and a commit.
const MAX_REF_CHAIN: usize = 5;

/// Files copied for git in addition to the index. They contain only names and hashes.
const COPIED: &[&str] = &["info/exclude", "shallow"];

/// Repository settings that describe how its file system differs from git's assumptions. Their values are
/// booleans.
const FILE_SYSTEM: &[&str] = &["filemode", "symlinks", "ignorecase", "precomposeunicode"];

/// The empty tree for each hash length: git reads attributes from it, so the repository's attributes have no
/// effect.
const EMPTY_TREES: [(usize, &str, &str); 2] = [
    (40, "sha1", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
    (
        64,
        "sha256",
        "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    ),
];

/// A repository exists but was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotLookedAt;

/// A repository that can be read without running any program it names.
pub(crate) struct GuardedRepository {
    /// Branch that is checked out. Empty if none is.
    pub(crate) branch: String,
    /// Commit that is checked out. Empty if there is none yet.
    pub(crate) head: String,
    /// Directory that queries are about, within the work tree.
    dir: PathBuf,
    work_tree: PathBuf,
    objects: PathBuf,
    /// The private `GIT_DIR`.
    private: TempDir,
    empty_tree: &'static str,
}

/// Directories of a repository.
struct Layout {
    work_tree: PathBuf,
    /// Directory of `HEAD` and the index.
    git_dir: PathBuf,
    /// Directory of objects and refs. Differs from `git_dir` only in linked work trees.
    common: PathBuf,
}

impl GuardedRepository {
    /// Opens the repository that contains a directory. Returns `None` outside of a repository.
    ///
    /// # Errors
    /// Returns an error if reading it would mean reading elsewhere, or if its format is unknown to baton.
    pub(crate) fn open(dir: &Path) -> Result<Option<Self>, NotLookedAt> {
        let Ok(dir) = fs::canonicalize(dir) else {
            return Ok(None);
        };
        let has_one = |dir: &&Path| fs::symlink_metadata(dir.join(".git")).is_ok();
        let Some(work_tree) = dir.ancestors().find(has_one) else {
            return Ok(None);
        };
        Self::new(&dir, work_tree).map(Some).ok_or(NotLookedAt)
    }

    fn new(dir: &Path, work_tree: &Path) -> Option<Self> {
        let layout = Layout::from_work_tree(work_tree)?;
        let (branch, head) = head(&layout)?;
        let objects = layout.common.join("objects");
        // Objects elsewhere, through alternates or links, belong to another repository.
        let is_elsewhere = |path: PathBuf| fs::symlink_metadata(path).is_ok();
        if is_elsewhere(objects.join("info/alternates"))
            || has_links(&objects)?
            || has_links(&objects.join("pack"))?
        {
            return None;
        }
        let rows = EMPTY_TREES.iter();
        let fits = |(len, ..): &&(usize, &str, &str)| head.is_empty() || *len == head.len();
        let (_, format, empty_tree) = rows.clone().find(fits)?;
        let private = TempDir::with_prefix("baton-git-").ok()?;
        fill(private.path(), &layout, &head, format).ok()?;
        Some(Self {
            branch,
            head,
            dir: dir.to_owned(),
            work_tree: layout.work_tree,
            objects,
            private,
            empty_tree,
        })
    }

    /// Formats the branch line of `git status -b`.
    pub(super) fn branch_line(&self) -> String {
        // Git cannot tell the branch itself: the private `HEAD` is detached.
        match (self.branch.as_str(), self.head.as_str()) {
            ("", _) => "## HEAD (no branch)\n".to_owned(),
            (branch, "") => format!("## No commits yet on {branch}\n"),
            (branch, _) => format!("## {branch}\n"),
        }
    }

    /// Runs a git command and returns its output if it succeeds in time.
    pub(crate) fn git(&self, arguments: &[&str], limit: Duration) -> Option<String> {
        let mut command = child::command("git", &self.dir);
        command
            .args(arguments)
            .env("GIT_DIR", self.private.path())
            .env("GIT_WORK_TREE", &self.work_tree)
            .env("GIT_OBJECT_DIRECTORY", &self.objects)
            .env("GIT_INDEX_FILE", self.private.path().join("index"))
            .env("GIT_ATTR_SOURCE", self.empty_tree)
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            // The user's configuration can name programs as well.
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "safe.bareRepository")
            .env("GIT_CONFIG_VALUE_0", "explicit")
            // Missing objects of a partial clone are not fetched over the network.
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_ALLOW_PROTOCOL", "")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_PAGER", "cat")
            // File names containing `*` or brackets are not patterns.
            .env("GIT_LITERAL_PATHSPECS", "1");
        child::output(&mut command, limit)
    }
}

impl Layout {
    /// Finds the directories of a work tree that has a `.git`.
    ///
    /// Merely looking like a repository is not enough: a bare one may be among the files of a clone.
    fn from_work_tree(work_tree: &Path) -> Option<Self> {
        let named = work_tree.join(".git");
        let kind = fs::symlink_metadata(&named).ok()?;
        if kind.is_dir() {
            return Some(Self {
                work_tree: work_tree.to_owned(),
                git_dir: named.clone(),
                common: named,
            });
        }
        let line = first_line(&named)?;
        let git_dir = fs::canonicalize(work_tree.join(line.strip_prefix("gitdir:")?.trim())).ok()?;
        // The directory must belong to the same tree (a submodule), or must name this work tree in turn (a
        // linked one). Otherwise a `.git` file could point git at any repository.
        let mut above = work_tree.ancestors();
        let is_above = above.any(|above| git_dir.starts_with(above.join(".git/modules")));
        let is_mutual = || {
            let back = first_line(&git_dir.join("gitdir"))?;
            (fs::canonicalize(git_dir.join(back.trim())).ok()? == named).then_some(())
        };
        if !is_above && is_mutual().is_none() {
            return None;
        }
        let common = match first_line(&git_dir.join("commondir")) {
            Some(line) => fs::canonicalize(git_dir.join(line.trim())).ok()?,
            None => git_dir.clone(),
        };
        // Otherwise `commondir` would lead to another repository.
        git_dir.starts_with(&common).then(|| Self {
            work_tree: work_tree.to_owned(),
            git_dir,
            common,
        })
    }
}

/// Returns the branch and the commit that are checked out. Either may be empty.
fn head(layout: &Layout) -> Option<(String, String)> {
    let mut value = first_line(&layout.git_dir.join("HEAD"))?;
    let mut branch = String::new();
    for at in 0..MAX_REF_CHAIN {
        let Some(name) = value.strip_prefix("ref:") else {
            return is_hash(&value).then_some((branch, value));
        };
        let name = name.trim().to_owned();
        // Repositories that store refs in another format than files have `refs/heads/.invalid` in their
        // `HEAD`.
        if !is_ref(&name) {
            return None;
        }
        if at == 0 {
            branch = name.strip_prefix("refs/heads/").unwrap_or_default().to_owned();
        }
        let Some(next) = first_line(&layout.common.join(&name)).or_else(|| packed(&layout.common, &name))
        else {
            return Some((branch, String::new()));
        };
        value = next;
    }
    None
}

/// Whether a directory or one of its entries is a link. Returns `None` if the directory does not exist.
fn has_links(dir: &Path) -> Option<bool> {
    if fs::symlink_metadata(dir).ok()?.is_symlink() {
        return Some(true);
    }
    let mut entries = fs::read_dir(dir).ok()?;
    Some(entries.any(|entry| {
        entry
            .and_then(|entry| entry.file_type())
            .is_ok_and(|kind| kind.is_symlink())
    }))
}

/// Looks up a packed ref.
fn packed(common: &Path, name: &str) -> Option<String> {
    let list = read(&common.join("packed-refs"), MAX_LIST_BYTES).ok()?;
    let list = String::from_utf8_lossy(&list);
    let mut rows = list.lines().filter_map(|line| line.split_once(' '));
    rows.find(|(_, named)| *named == name)
        .map(|(hash, _)| hash.to_owned())
}

fn is_hash(text: &str) -> bool {
    let is_format = EMPTY_TREES.iter().any(|(len, ..)| *len == text.len());
    is_format && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a name is a valid ref name (git-check-ref-format), which therefore stays inside the repository's
/// directory.
fn is_ref(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
    name.starts_with("refs/")
        && name.split('/').all(is_part)
        && !name.contains("..")
        && !name.contains(|c: char| c.is_control() || " ~^:?*[\\".contains(c))
}

/// Fills the private directory.
fn fill(private: &Path, layout: &Layout, head: &str, format: &str) -> io::Result<()> {
    for dir in ["refs/heads", "objects", "info"] {
        fs::create_dir_all(private.join(dir))?;
    }
    let head = match head {
        "" => "ref: refs/heads/none",
        hash => hash,
    };
    fs::write(private.join("HEAD"), format!("{head}\n"))?;
    fs::write(private.join("config"), config(&layout.common, format))?;
    match read(&layout.git_dir.join("index"), MAX_INDEX_BYTES) {
        Ok(index) => {
            let copy = private.join("index");
            fs::write(&copy, index)?;
            // Git reads a file again if it changed as late as the index was written. With the time of the copy it
            // would take a file of the same size for unchanged.
            let written = fs::metadata(layout.git_dir.join("index"))?.modified()?;
            let copy = fs::File::options().write(true).open(&copy)?;
            copy.set_modified(written)?;
        }
        // No index: nothing was added yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    for name in COPIED {
        // Without these files git only lists some more names, so a failure to copy one is harmless.
        if let Ok(list) = read(&layout.common.join(name), MAX_LIST_BYTES) {
            fs::write(private.join(name), list)?;
        }
    }
    Ok(())
}

/// Builds the private configuration. From the repository's configuration it takes only the booleans of
/// [`FILE_SYSTEM`].
fn config(common: &Path, format: &str) -> String {
    let mut text = format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tfsmonitor = false\n\tuntrackedCache = false\n\
         \tcommitGraph = false\n\thooksPath = /dev/null\n\tsshCommand = false\n\
         [extensions]\n\tobjectFormat = {format}\n[log]\n\tshowSignature = false\n\
         [protocol]\n\tallow = never\n[diff]\n\tignoreSubmodules = all\n[core]\n"
    );
    let own = read(&common.join("config"), MAX_LIST_BYTES).unwrap_or_default();
    let own = String::from_utf8_lossy(&own).to_ascii_lowercase();
    let mut is_core = false;
    for line in own.lines().map(str::trim) {
        if line.starts_with('[') {
            is_core = line == "[core]";
        } else if let Some((name, value)) = line.split_once('=')
            && is_core
            && let Some(name) = FILE_SYSTEM.iter().find(|known| **known == name.trim())
        {
            let value = value.trim() == "true";
            text.push_str(&format!("\t{name} = {value}\n"));
        }
    }
    text
}

fn first_line(path: &Path) -> Option<String> {
    let text = String::from_utf8(read(path, MAX_LINE_BYTES).ok()?).ok()?;
    text.lines().next().map(|line| line.trim_end().to_owned())
}

/// Reads a regular file of at most `most` bytes. Links are not followed.
fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file: File = disk::open_regular(path, fs::OpenOptions::new().read(true))?;
    let mut contents = Vec::new();
    // One byte more than allowed, to detect a larger file without trusting its reported size.
    file.take(most + 1).read_to_end(&mut contents)?;
    match u64::try_from(contents.len()).is_ok_and(|len| len <= most) {
        true => Ok(contents),
        false => Err(io::Error::other("the file is too large")),
    }
}
