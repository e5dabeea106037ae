//! Quoting, variables and functions in the syntax of each shell.

use serde::Serialize;

/// A shell syntax that baton can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum ShellSyntax {
    /// sh, bash, zsh, dash, ksh
    Sh,
    /// fish
    Fish,
    /// PowerShell
    Powershell,
}

impl ShellSyntax {
    /// Shell of a user whose `$SHELL` has this value.
    fn for_shell(shell: Option<&str>) -> Self {
        let name = shell.and_then(|shell| shell.rsplit('/').next());
        match name {
            Some("fish") => Self::Fish,
            Some("pwsh" | "powershell") => Self::Powershell,
            _ => Self::Sh,
        }
    }

    /// Shell of the user of this process.
    pub(super) fn of_user() -> Self {
        Self::for_shell(std::env::var("SHELL").ok().as_deref())
    }

    /// Quotes a word if the shell needs it.
    pub(super) fn quoted(self, word: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
        // Outside quotes, PowerShell reads `,`, `@` and `%` as operators.
        if !word.is_empty()
            && word.chars().all(plain)
            && !(self == Self::Powershell && word.contains([',', '@', '%']))
        {
            return word.to_owned();
        }
        self.in_quotes(word)
    }

    fn in_quotes(self, word: &str) -> String {
        let inside = match self {
            Self::Sh => word.replace('\'', r"'\''"),
            // Unlike the others, fish reads a backslash as an escape even inside single quotes.
            Self::Fish => word.replace('\\', r"\\").replace('\'', r"\'"),
            Self::Powershell => word.replace('\'', "''"),
        };
        format!("'{inside}'")
    }

    /// Sets a variable for all programs that are started afterwards.
    pub(super) fn export(self, name: &str, value: &str) -> String {
        let value = self.in_quotes(value);
        match self {
            Self::Sh => format!("export {name}={value}"),
            Self::Fish => format!("set -gx {name} {value}"),
            Self::Powershell => format!("$env:{name} = {value}"),
        }
    }

    /// Defines a function that starts a program with these arguments before the user's.
    pub(super) fn function(self, program: &str, arguments: &[String]) -> String {
        let words: Vec<_> = arguments.iter().map(|word| self.in_quotes(word)).collect();
        // Each form calls the program, and not the function of the same name.
        let words = words.join(" ");
        match self {
            Self::Sh => format!("{program}() {{ command {program} {words} \"$@\"; }}"),
            Self::Fish => format!("function {program}; command {program} {words} $argv; end"),
            Self::Powershell => format!(
                "function {program} {{ & (Get-Command -CommandType Application {program})[0] {words} @args }}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_otherwise() {
        assert_eq!(
            ShellSyntax::Sh.quoted("http://127.0.0.1:8787/v1"),
            "http://127.0.0.1:8787/v1"
        );
        assert_eq!(
            ShellSyntax::Sh.quoted("[[handoff-resume:0]]"),
            "'[[handoff-resume:0]]'"
        );
        assert_eq!(ShellSyntax::Sh.quoted(""), "''");
        assert_eq!(ShellSyntax::Sh.quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(ShellSyntax::Fish.quoted(r"it's \n"), r"'it\'s \\n'");
        assert_eq!(ShellSyntax::Powershell.quoted("it's"), "'it''s'");
        assert_eq!(ShellSyntax::Powershell.quoted("@args"), "'@args'");
        assert_eq!(ShellSyntax::Sh.quoted("~/x"), "'~/x'");
    }

    #[test]
    fn variables_and_arguments_are_set_in_each_shell() {
        let arguments = ["-c".to_owned(), "u=\"x\"".to_owned()];
        let shown = [ShellSyntax::Sh, ShellSyntax::Fish, ShellSyntax::Powershell]
            .map(|shell| (shell.export("A", "b c"), shell.function("codex", &arguments)));
        assert_eq!(
            shown[0],
            (
                "export A='b c'".into(),
                "codex() { command codex '-c' 'u=\"x\"' \"$@\"; }".into()
            )
        );
        assert_eq!(
            shown[1],
            (
                "set -gx A 'b c'".into(),
                "function codex; command codex '-c' 'u=\"x\"' $argv; end".into()
            )
        );
        assert_eq!(
            shown[2],
            (
                "$env:A = 'b c'".into(),
                "function codex { & (Get-Command -CommandType Application codex)[0] '-c' 'u=\"x\"' @args }"
                    .into()
            )
        );
    }

    #[test]
    fn the_users_shell_is_known_by_its_path() {
        assert_eq!(ShellSyntax::for_shell(Some("/usr/bin/fish")), ShellSyntax::Fish);
        assert_eq!(ShellSyntax::for_shell(Some("/bin/zsh")), ShellSyntax::Sh);
        assert_eq!(
            ShellSyntax::for_shell(Some("/usr/bin/pwsh")),
            ShellSyntax::Powershell
        );
        assert_eq!(ShellSyntax::for_shell(Some("")), ShellSyntax::Sh);
    }
}
