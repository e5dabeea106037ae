//! Files that hold credentials, by their names: `secret_files.toml`. Their content must never be quoted.

use std::sync::LazyLock;

use serde::Deserialize;

use super::commands;
use super::files::{self, FileChange};
use super::tools::ToolKind;
use crate::text::prose::file_name;
use crate::text::table;

/// Kind of the configured files.
const CONFIGURED: &str = "named in the config";

/// Suffixes of sample files and public keys, which are made to be shown.
const SAMPLES: [&str; 4] = [".example", ".sample", ".template", ".pub"];

/// Commands that write the files in their arguments.
const WRITERS: [&str; 6] = ["cp", "mv", "tee", "touch", "ln", "install"];
/// Options that come before a file to write.
const OUTPUTS: [&str; 4] = ["-o", "-out", "--out", "-keyout"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretRow {
    kind: &'static str,
    #[serde(default)]
    whole: Vec<&'static str>,
    #[serde(default)]
    begins: Vec<&'static str>,
    #[serde(default)]
    ends: Vec<&'static str>,
}

static SECRETS: LazyLock<Vec<SecretRow>> = LazyLock::new(|| table::rows(include_str!("secret_files.toml")));

named! {
    /// Use that a call makes of such a file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum SecretUse {
        Read = "read",
        Written = "written",
        Deleted = "deleted",
        /// A command names the file.
        Used = "used",
    }
}

/// Kind of credentials in a file of this name; `None` for other files. `more` are patterns of further files.
pub fn kind(path: &str, more: &[String]) -> Option<&'static str> {
    let configured = || more.iter().any(|pattern| files::fits(pattern, path));
    known_kind(path).or_else(|| configured().then_some(CONFIGURED))
}

fn known_kind(path: &str) -> Option<&'static str> {
    let name = file_name(path);
    if SAMPLES.iter().any(|end| name.ends_with(end)) {
        return None;
    }
    let begins = |begin: &&str| {
        name.strip_prefix(begin)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '_']))
    };
    let row = SECRETS.iter().find(|row| {
        row.whole.contains(&name)
            || row.begins.iter().any(begins)
            || row
                .ends
                .iter()
                .any(|end| name.ends_with(end) && name.len() > end.len())
    });
    // Key files of ssh have no suffix, but source files have one.
    let is_key = name.starts_with("id_") && !name.contains('.');
    row.map(|row| row.kind).or(is_key.then_some("SSH key"))
}

/// A file with credentials that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    pub path: String,
    /// The kind of credentials.
    pub kind: &'static str,
    pub usage: SecretUse,
}

/// Finds the files with credentials that a call names, among its paths or as words of its command.
pub fn of_call(
    tool: ToolKind,
    paths: &[(String, Option<FileChange>)],
    command: Option<&str>,
    more: &[String],
) -> Vec<SecretFile> {
    /// Maximum number of files reported for a call.
    const MAX_FILES: usize = 8;
    let usage = match tool {
        ToolKind::Delete => SecretUse::Deleted,
        ToolKind::Read => SecretUse::Read,
        tool if tool.changes() => SecretUse::Written,
        _ => SecretUse::Used,
    };
    let paths = paths.iter().map(|(path, _)| (path.as_str(), None));
    // `curl -d @file` and `--key=file` name a file inside a word.
    let cut = |c: char| {
        c.is_whitespace() || matches!(c, '\'' | '"' | '=' | '<' | '>' | ';' | '|' | '(' | ')' | '@')
    };
    let words = command.into_iter().flat_map(|command| {
        let words = command.split(cut).filter(|word| !word.is_empty());
        words.map(move |word| (word, Some(command)))
    });
    let found = paths.chain(words).filter_map(|(path, command)| {
        Some(SecretFile {
            kind: kind(path, more)?,
            path: path.to_owned(),
            usage: match command {
                Some(command) if commands::is_read_only(command) => SecretUse::Read,
                Some(command) if is_written(command, path) => SecretUse::Written,
                _ => usage,
            },
        })
    });
    found.take(MAX_FILES).collect()
}

/// Whether a command writes the file that this word of it names.
fn is_written(command: &str, word: &str) -> bool {
    // `word` is a slice of `command`, so the difference of the pointers is its offset.
    let at = word.as_ptr() as usize - command.as_ptr() as usize;
    let before = command[..at].trim_end_matches(['\'', '"', ' ']);
    // Only the command of the line that has the word decides.
    let step = before.rsplit([';', '|', '&', '\n', '(']).next().unwrap_or(before);
    let mut words = step.split_whitespace();
    before.ends_with('>')
        || words
            .clone()
            .next_back()
            .is_some_and(|last| OUTPUTS.contains(&last))
        || words.next().is_some_and(|first| WRITERS.contains(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_command(command: &str, more: &[String]) -> Vec<SecretFile> {
        of_call(ToolKind::Shell, &[], Some(command), more)
    }

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
            assert!(kind(path, &[]).is_some(), "{path}");
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
            assert!(kind(path, &[]).is_none(), "{path}");
        }
        let names = |command: &str| !of_command(command, &[]).is_empty();
        assert!(names("cat .env | grep KEY") && names("openssl x509 -in tls/a.pem"));
        assert!(names("curl -d @auth.json x") && !names("cargo test auth"));
        let more = ["*.tfvars".to_owned(), "deploy/**".to_owned()];
        assert!(
            kind("infra/prod.tfvars", &more).is_some()
                && kind("deploy/a/keys.txt", &more) == Some(CONFIGURED)
        );
        assert!(!of_command("cat infra/prod.tfvars", &more).is_empty() && kind(".env", &more).is_some());
        assert!(of_command("terraform plan", &more).is_empty() && kind("infra/prod.tf", &more).is_none());
    }

    #[test]
    fn what_a_command_does_with_a_secret_file_is_known() {
        use SecretUse::{Read, Used, Written};
        for (command, path, kind, usage) in [
            ("cat .env | grep KEY", ".env", "environment file", Read),
            ("echo \"KEY=x\" >> .env", ".env", "environment file", Written),
            (
                "cd app && cp .env.example .env",
                ".env",
                "environment file",
                Written,
            ),
            (
                "openssl genrsa -out tls/server.key 2048",
                "tls/server.key",
                "key or certificate",
                Written,
            ),
            (
                "ssh -i ~/.ssh/id_deploy host",
                "~/.ssh/id_deploy",
                "SSH key",
                Used,
            ),
            ("docker run --env-file=.env app", ".env", "environment file", Used),
        ] {
            let path = path.to_owned();
            assert_eq!(
                of_command(command, &[]),
                [SecretFile { path, kind, usage }],
                "{command}"
            );
        }
    }
}
