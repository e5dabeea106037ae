//! Files that hold credentials, by their names, and the files that a patch changes.

/// Names of files, and what they end or begin with.
const WHOLE: [&str; 10] = [
    ".envrc",
    "auth.json",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".git-credentials",
    "credentials",
    "credentials.json",
    "secrets.yaml",
];
const ENDS: [&str; 5] = [".pem", ".key", ".p12", ".pfx", ".keystore"];
const BEGINS: [&str; 5] = ["id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", ".env"];
/// What is written to be shown.
const SAMPLES: [&str; 4] = [".example", ".sample", ".template", ".pub"];

/// Whether a file of this name holds credentials, so that nothing of it may be quoted.
pub fn is_secret(path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let rest = |begin: &str| {
        let rest = name.strip_prefix(begin)?;
        Some(rest.is_empty() || rest.starts_with(['.', '-', '_']))
    };
    !SAMPLES.iter().any(|end| name.ends_with(end))
        && (WHOLE.contains(&name)
            || ENDS.iter().any(|end| name.ends_with(end) && name.len() > end.len())
            // Keys of ssh have no suffix, and files of code have.
            || name.starts_with("id_") && !name.contains('.')
            || BEGINS.iter().any(|begin| rest(begin) == Some(true)))
}

/// Whether a command names such a file.
pub fn names_secret(command: &str) -> bool {
    let words = command.split(|c: char| {
        c.is_whitespace() || matches!(c, '\'' | '"' | '=' | '<' | '>' | ';' | '|' | '(' | ')' | '@')
    });
    words.into_iter().any(is_secret)
}

/// What a patch does to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Created,
    /// It was there.
    Modified,
    /// It is gone.
    Deleted,
}

/// Lines of a patch that name a file (`apply_patch` of Codex and its kin).
const PATCHED: [(&str, Change); 4] = [
    ("*** Add File: ", Change::Created),
    ("*** Update File: ", Change::Modified),
    ("*** Move to: ", Change::Created),
    ("*** Delete File: ", Change::Deleted),
];

/// The files that a patch names, also one inside of a command.
pub fn patched(patch: &str) -> Vec<(String, Change)> {
    if !patch.contains("*** ") {
        return Vec::new();
    }
    let named = patch.lines().filter_map(|line| {
        let found = PATCHED
            .iter()
            .find_map(|(words, change)| Some((line.strip_prefix(words)?, *change)));
        found.map(|(path, change)| (path.trim().to_owned(), change))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_credentials_are_known_by_name() {
        for path in [
            "/app/.env",
            ".env.local",
            "~/.ssh/id_ed25519",
            "a/auth.json",
            "tls/server.pem",
            "id_rsa_work",
            "/root/.ssh/id_of_bot",
        ] {
            assert!(is_secret(path), "{path}");
        }
        for path in [
            ".env.example",
            "id_rsa.pub",
            "src/auth.rs",
            ".envrc.md",
            "environment",
            "id_mapping.rs",
            ".pem",
        ] {
            assert!(!is_secret(path), "{path}");
        }
        assert!(names_secret("cat .env | grep KEY") && names_secret("openssl x509 -in tls/a.pem"));
        assert!(names_secret("curl -d @auth.json x") && !names_secret("cargo test auth"));
    }

    #[test]
    fn patches_name_their_files() {
        let patch = "*** Begin Patch\n*** Update File: src/a.rs\n*** Move to: src/b.rs\n@@\n-x\n+y\n*** Delete File: c\n*** End Patch";
        let files = patched(patch);
        assert_eq!(files[0], ("src/a.rs".to_owned(), Change::Modified));
        assert_eq!(files[1], ("src/b.rs".to_owned(), Change::Created));
        assert_eq!(files[2], ("c".to_owned(), Change::Deleted));
        assert!(patched("--- a\n+++ b").is_empty());
    }
}
