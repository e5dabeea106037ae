//! The files that a shell line may remove, or restore to an earlier state.

use super::WORDS;
use super::single::{may_hide, without_options};
use super::steps::steps;

/// The paths that a line may remove or restore, relative to an unknown directory. The empty path stands for any file.
pub fn undone_paths(line: &str) -> Vec<String> {
    let cut = |c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '\'' | '"');
    let steps = steps(line);
    let commands: Vec<_> = match may_hide(line) {
        true => vec![line.into()],
        false => steps.iter().map(|step| without_options(step.plain)).collect(),
    };
    let mut undone = Vec::new();
    for command in &commands {
        let words: Vec<&str> = command.split(cut).collect();
        let has = |some: &[&str]| words.iter().any(|word| some.contains(word));
        let mut kept = WORDS.git_keeps.iter();
        if !has(&WORDS.undoes) || kept.any(|row| words.get(1) == Some(&row.name) && has(&row.words)) {
            continue;
        }
        let named = words.iter().position(|word| *word == "--");
        let program = if words[0] == "git" { 2 } else { 1 };
        let paths = words.iter().skip(named.unwrap_or(program));
        match has(&["git"]) && named.is_none() && !has(&["restore", "rm", "mv"]) {
            true => undone.push(String::new()),
            false => undone.extend(paths.filter_map(|word| path(word))),
        }
    }
    undone
}

/// The path that a word names: of a pattern, the directory before it. `None` for an option or a redirection.
fn path(word: &str) -> Option<String> {
    let begins = word.split(['*', '?', '[', '{', '$', '`']).next()?;
    let path = match begins.len() < word.len() {
        true => begins.rsplit_once('/').map_or("", |(directory, _)| directory),
        false => begins.trim_start_matches("../").trim_start_matches("./"),
    };
    let path = if matches!(path, "." | "..") {
        ""
    } else {
        path.trim_end_matches('/')
    };
    let is_path = !word.is_empty() && !word.starts_with('-') && !word.contains(['>', '<']);
    is_path.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_a_command_may_have_changed_back_are_undone() {
        for line in [
            "git checkout -b feature",
            "git switch -c feature",
            "git reset --soft HEAD~1",
            "git reset HEAD src/a.rs",
            "git restore --staged .",
            "git stash list; git status",
            "git stash drop",
            "git clean -n",
            "git merge-base main HEAD",
            "git -C app reset HEAD~1",
            "ls src",
        ] {
            assert_eq!(undone_paths(line), Vec::<String>::new(), "{line}");
        }
        for (line, paths) in [
            ("git checkout -- src/a.rs", vec!["src/a.rs"]),
            ("git checkout main -- './src/a.rs'", vec!["src/a.rs"]),
            ("git restore src/a.rs && git switch -c b", vec!["src/a.rs"]),
            (
                "cd app && rm -rf ../dist src/*.rs 2>/dev/null",
                vec!["dist", "src"],
            ),
            ("git checkout main", vec![""]),
            ("git stash", vec![""]),
            ("git reset --hard", vec![""]),
            ("rm -rf \"$OUT\"", vec![""]),
            ("rm *.rs", vec![""]),
            ("find src -name a.rs -delete", vec!["src", "a.rs"]),
        ] {
            assert_eq!(undone_paths(line), paths, "{line}");
        }
        assert!(undone_paths("for b in x y; do git checkout $b; done").contains(&String::new()));
    }
}
