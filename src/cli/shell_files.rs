//! `baton completions` and `baton man`: files generated from the argument parser.

use std::fs;
use std::path::PathBuf;

use clap::{Args as ClapArgs, CommandFactory};

use clap_complete::Shell;
use clap_mangen::Man;

use super::Args;
use super::exit::{CliResult, Exit};
use super::output::Out;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton completions bash > ~/.local/share/bash-completion/completions/baton
  baton completions zsh > ~/.zfunc/_baton
  baton completions fish > ~/.config/fish/completions/baton.fish")]
pub(super) struct CompletionsArgs {
    /// Shell to print the script for
    shell: Shell,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without a directory, prints the page of `baton` itself.

Examples:
  baton man | man -l -
  baton man ~/.local/share/man/man1")]
pub(super) struct ManArgs {
    /// Write a page for each command into this directory
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(super) fn completions(args: &CompletionsArgs, out: &mut Out) -> CliResult {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "baton", &mut text);
    out.body(&text)
}

pub(super) fn man(args: &ManArgs, out: &mut Out) -> CliResult {
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        Man::new(Args::command()).render(&mut page)?;
        return out.body(&page);
    };
    let written =
        fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Args::command(), directory));
    written.map_err(|error| {
        let message = format!("failed to write {}: {error}", directory.display());
        Exit::CANNOT_CREATE.failure(message)
    })?;
    out.line(format_args!(
        "wrote a page for each command to {}",
        directory.display()
    ))
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    /// Collects the words of each command that the help shows.
    fn paths(command: &Command, path: &[String], found: &mut Vec<Vec<String>>) {
        for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
            let path = [path, &[child.get_name().to_owned()]].concat();
            paths(child, &path, found);
            found.push(path);
        }
    }

    fn all_paths() -> Vec<Vec<String>> {
        let mut found = Vec::new();
        paths(&Args::command(), &[], &mut found);
        assert!(found.contains(&vec!["handoffs".to_owned(), "list".to_owned()]));
        found
    }

    #[test]
    fn every_command_has_a_page_with_its_examples() {
        let dir = tempfile::tempdir().unwrap();
        let args = ManArgs {
            directory: Some(dir.path().to_owned()),
        };
        man(&args, &mut Out::stderr()).unwrap();
        for path in all_paths() {
            let name = format!("baton-{}", path.join("-"));
            let page = fs::read_to_string(dir.path().join(format!("{name}.1")));
            let text = page.unwrap_or_else(|_| panic!("{name} has no page"));
            assert!(
                text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"),
                "{name}"
            );
            let text = text.replace("\\-", "-");
            assert!(text.contains(&name) && text.contains("Examples:"), "{name}");
        }
        let pages = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(pages, all_paths().len() + 1, "one for `baton` itself");
    }

    #[test]
    fn every_command_is_in_the_completions_of_every_shell() {
        for shell in [
            Shell::Bash,
            Shell::Zsh,
            Shell::Fish,
            Shell::PowerShell,
            Shell::Elvish,
        ] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "baton", &mut text);
            let text = String::from_utf8(text).unwrap();
            for path in all_paths() {
                // Each script has the whole path, or the word under its parent.
                let whole = match shell {
                    Shell::Bash => format!(
                        "baton__subcmd__{}",
                        path.join("__subcmd__").replace('-', "__subcmd__")
                    ),
                    Shell::Elvish | Shell::PowerShell => format!("baton;{}", path.join(";")),
                    _ => path.last().unwrap().clone(),
                };
                assert!(text.contains(&whole), "{shell}: {path:?} as {whole}");
            }
        }
    }
}
