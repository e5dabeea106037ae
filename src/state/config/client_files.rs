//! The directory of clients (`server.clients_dir`): one file for each client, with the digest of its key.

use std::path::{Path, PathBuf};
use std::{fs, io};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use baton_core::record::LOCAL;
use baton_core::text::units::hex;

use super::Secret;
use crate::disk::{self, FileAccess};

/// Whether a client may have this name, which is part of a file's name and of log lines.
pub fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    // A leading dot would hide the file.
    !name.is_empty() && name != LOCAL && !name.starts_with('.') && name.chars().all(legal)
}

/// Returns the path of a client's file.
pub fn path(dir: &Path, client: &str) -> PathBuf {
    dir.join(format!("{client}.toml"))
}

/// Returns the files of a directory of clients with the clients' names, sorted by name.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub fn list(dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // Hidden files belong to editors and to platforms that swap whole directories.
        let client = name.strip_suffix(".toml");
        if let Some(client) = client.filter(|client| !client.starts_with('.')) {
            files.push((client.to_owned(), dir.join(&name)));
        }
    }
    files.sort();
    Ok(files)
}

/// Makes a key for a new client, writes its digest to `file`, and returns the key, which is not stored.
///
/// # Errors
/// Returns an error if the file exists, or cannot be written.
pub fn add(file: &Path) -> io::Result<Secret> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    // Some agents check that an API key begins with `sk-`.
    let key = Secret::new(format!("sk-baton-{}", URL_SAFE_NO_PAD.encode(random)));
    let digest = hex(&key.digest());
    let dir = file.parent().unwrap_or(Path::new("."));
    disk::make_dir(dir, FileAccess::Everybody)?;
    let text = format!("# SHA-256 digest of the client's key.\nkey_sha256 = \"{digest}\"\n");
    // Complete when it gets its name, since a running proxy may read it at once. Readable by others, because the proxy
    // may run as another user. The digest of 32 random bytes reveals nothing.
    let named = &mut tempfile::Builder::new();
    let filled = disk::fill(named.prefix(".new-"), dir, text.as_bytes(), FileAccess::Everybody)?;
    if disk::name_new(filled, file)?.is_some() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    Ok(key)
}
