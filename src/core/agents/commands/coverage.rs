//! Coverage of one command by another one: whether the success of a later check settles the failure of an earlier one.

use super::super::command_table::CommandPurpose;
use super::WORDS;
use super::single::purpose;

/// How the success of a later command affects the failure of an earlier one, most certain effect last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coverage {
    /// The later command checks something else, or less.
    No,
    /// The later command may check everything that the earlier one checks.
    Maybe,
    /// The later command checks everything that the earlier one checks.
    Yes,
}

/// Number of leading words of a command, as `name_of` gives it, that name it: `go test`, `npm run lint`.
///
/// The words after them select tests, files or packages.
pub fn head_of(name: &str, of: CommandPurpose) -> usize {
    let ends = name.match_indices(' ').map(|(at, _)| at).take(4);
    let is_whole = |end: &usize| purpose(&name[..*end]).is_some_and(|found| found.of == of);
    let words = |end: usize| name[..end].split(' ').count();
    let whole = || name.split(' ').count();
    ends.filter(is_whole).map(words).next().unwrap_or_else(whole)
}

/// Whether `later` checks what `earlier` checks. Both are commands as `name_of` gives them, with their [`head_of`].
pub fn coverage(later: (&str, usize), earlier: (&str, usize)) -> Coverage {
    let [(later_head, later), (head, earlier)] = [later, earlier].map(selection);
    if later_head != head {
        // `npm test` may run the file of an earlier `vitest run`.
        return match later.is_empty() && !earlier.is_empty() {
            true => Coverage::Maybe,
            false => Coverage::No,
        };
    }
    let added = (0..later.len()).filter(|at| !earlier.contains(&later[*at]));
    let added = added.map(|at| {
        let word = later[at];
        let has_value = later.len() > at + 1 && is_value(&later, at + 1);
        // `-run TestRead` may run `TestReadAll` too.
        let is_shortened = |other: &&str| unquoted(other).starts_with(unquoted(word));
        match is_option(word) {
            true if widens(word) => Coverage::Yes,
            // An unknown option may select less.
            true if !has_value => Coverage::Maybe,
            false if earlier.iter().any(|other| is_above(word, other)) => Coverage::Yes,
            false if is_value(&later, at) && earlier.iter().any(is_shortened) => Coverage::Maybe,
            _ => Coverage::No,
        }
    });
    let is_target = |at: usize| !is_option(later[at]) && !is_value(&later, at);
    let has_target = (0..later.len()).any(is_target);
    let removed = (0..earlier.len()).filter(|at| !later.contains(&earlier[*at]));
    let removed = removed.map(|at| {
        let word = earlier[at];
        match is_option(word) {
            true if widens(word) => Coverage::Maybe,
            true => Coverage::Yes,
            // Another value of the same option is among the added words.
            false if !has_target || is_value(&earlier, at) => Coverage::Yes,
            false if later.iter().any(|wider| is_above(wider, word)) => Coverage::Yes,
            false => Coverage::No,
        }
    });
    added.chain(removed).min().unwrap_or(Coverage::Yes)
}

/// Whether a line may cover an earlier one that begins with the same words.
pub fn may_cover(later: &str, earlier: &str) -> bool {
    purpose(later).is_none_or(|found| {
        let head = head_of(later, found.of);
        coverage((later, head), (earlier, head)) > Coverage::No
    })
}

/// The words that name a command, and those that select tests, files or packages.
fn selection((name, head): (&str, usize)) -> (Vec<&str>, Vec<&str>) {
    let mut all = name.split(' ');
    let head = all.by_ref().take(head).collect();
    let mut words = Vec::new();
    while let Some(word) = all.next() {
        let (option, value) = word.split_once('=').unwrap_or((word, ""));
        match WORDS.limits.contains(&option) {
            true if value.is_empty() => drop(all.next()),
            true => {}
            false if WORDS.verbosity.contains(&word) => {}
            false => words.push(word),
        }
    }
    (head, words)
}

/// Whether the word at this position is an argument that may belong to the option before it.
fn is_value(words: &[&str], at: usize) -> bool {
    let (word, before) = (words[at], at.checked_sub(1).map_or("", |before| words[before]));
    let is_path = word.contains('/') && !word.starts_with(['\'', '"']);
    is_option(before) && !before.contains('=') && !is_option(word) && !is_path
}

fn is_option(word: &str) -> bool {
    word.starts_with('-')
}

fn unquoted(word: &str) -> &str {
    word.trim_matches(['\'', '"'])
}

/// Whether an option makes a command check more.
fn widens(option: &str) -> bool {
    WORDS.widens.iter().any(|word| option.starts_with(word))
}

/// Whether the first word names a directory or a file that has the second one: `./...`, `tests`, `test_a.py`.
fn is_above(wider: &str, word: &str) -> bool {
    let (path, word) = (wider.trim_start_matches("./"), word.trim_start_matches("./"));
    let path = path.trim_end_matches("...").trim_end_matches('/');
    let below = word.strip_prefix(path).filter(|_| !is_option(word));
    below.is_some_and(|below| path.is_empty() && wider.ends_with("...") || below.starts_with(['/', ':']))
}
