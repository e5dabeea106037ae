//! The directory of clients (`server.clients_dir`): one file for each client, with the digest of its key.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Secret;

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
        if let Some(client) = name
            .strip_suffix(".toml")
            .filter(|client| !client.starts_with('.'))
        {
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
    let digest: String = key.digest().iter().map(|byte| format!("{byte:02x}")).collect();
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    // Readable by others, because the proxy may run as another user. The digest of 32 random bytes reveals nothing.
    let mut file = fs::File::create_new(file)?;
    writeln!(
        file,
        "# SHA-256 digest of the client's key.\nkey_sha256 = \"{digest}\""
    )?;
    file.sync_all()?;
    Ok(key)
}
