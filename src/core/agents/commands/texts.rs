//! Data in a shell line: messages and here-documents. They may name commands that do not run.

use std::borrow::Cow;

use super::single::name_of_program;
use super::steps::bare;

/// Programs that read a here-document as data.
const READERS: [&str; 4] = ["cat", "gh", "git", "tee"];

/// Options with a message, up to its opening quote.
const MESSAGES: [&str; 6] = [" -m \"", " -m '", " -am \"", " -am '", " --body \"", " --body '"];

/// Shortens the data of a line: each quoted here-document for a program that only reads it, and each message of several
/// lines. A message keeps its first line that is not blank.
pub fn without_texts(line: &str) -> Cow<'_, str> {
    // Here-documents and messages have several lines, and most commands have one.
    if !line.contains('\n') {
        return Cow::Borrowed(line);
    }
    let words = replaced(Cow::Borrowed(line), "$(cat <<'", |_, after| {
        let (name, text) = after.split_once("'\n")?;
        let (text, end) = text.split_once(&format!("\n{name}\n"))?;
        Some((first_line(text), end.trim_start().strip_prefix(')')?))
    });
    // PowerShell's form of it.
    let words = replaced(words, "$(@'", |_, after| {
        let (text, end) = after.split_once("\n'@)")?;
        Some((first_line(text), end))
    });
    let inputs = replaced(words, "<<'", |before, after| {
        let command = before.rsplit(['\n', ';', '|', '&']).next().unwrap_or_default();
        let (name, text) = after.split_once('\'')?;
        let (tail, text) = text.split_once('\n')?;
        let is_data = READERS.contains(&name_of_program(bare(command)));
        let close = format!("\n{name}");
        let end = text.split_once(&format!("{close}\n")).map(|(_, end)| end);
        let end = end.or_else(|| text.ends_with(&close).then_some(""))?;
        is_data.then(|| (format!("{tail}\n"), end))
    });
    MESSAGES.into_iter().fold(inputs, |line, opens| {
        let quote = if opens.ends_with('"') { '"' } else { '\'' };
        replaced(line, opens, |_, after| {
            let mut is_escaped = false;
            let at = after.find(|c| {
                let ends = c == quote && !is_escaped;
                is_escaped = c == '\\' && quote == '"' && !is_escaped;
                ends
            })?;
            let (text, end) = after.split_at(at);
            let runs = quote == '"' && (text.contains("$(") || text.replace("\\`", "").contains('`'));
            (text.contains('\n') && !runs).then(|| (format!("{opens}{}", first_line(text)), end))
        })
    })
}

/// A line whose git commands do not name the directory that they run in.
pub fn without_git_directories(line: &str) -> Cow<'_, str> {
    replaced(Cow::Borrowed(line), "git -C ", |_, after| {
        Some(("git ".to_owned(), after.split_once(' ')?.1))
    })
}

/// Replaces each piece that begins with `opens`, if `short` returns a shorter one and the rest of the line.
fn replaced<'l>(
    line: Cow<'l, str>,
    opens: &str,
    short: impl for<'t> Fn(&'t str, &'t str) -> Option<(String, &'t str)>,
) -> Cow<'l, str> {
    let (mut out, mut kept, mut next) = (String::new(), 0, 0);
    while let Some(at) = line[next..].find(opens).map(|at| next + at) {
        next = at + opens.len();
        if let Some((text, end)) = short(&line[..at], &line[next..]) {
            out.push_str(&line[kept..at]);
            out.push_str(&text);
            kept = line.len() - end.len();
            next = kept;
        }
    }
    match kept {
        0 => line,
        _ => Cow::Owned(out + &line[kept..]),
    }
}

/// The first line that is not blank, without characters that a shell interprets.
fn first_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
    first.chars().filter(|c| !"\"'`$\\".contains(*c)).collect()
}
