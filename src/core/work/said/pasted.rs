//! Pasted text: output of programs, code, and documents such as a model's answer or the template of a command.

use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::rule::saying;
use crate::text::phrases::{Beginnings, Wordings};
use crate::text::table;
use crate::work::requests;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct PasteWords {
    pub(super) own_tags: Vec<&'static str>,
    pub(super) buttons: Beginnings,
    pub(super) introduces: Wordings,
    symbols: Beginnings,
    levels: Vec<&'static str>,
    printed: Beginnings,
    runs: Wordings,
    commands: Beginnings,
    prompts: Beginnings,
    templates: Wordings,
    addresses: Wordings,
}

pub(super) static WORDS: LazyLock<PasteWords> = LazyLock::new(|| table::read(include_str!("pastes.toml")));

/// Maximum size of a typed word in bytes.
const MAX_WORD_BYTES: usize = 250;

/// Number of lines above which a message may be a pasted document.
const MAX_TYPED_LINES: usize = 40;

/// Minimum number of lines that look like a model's answer, or like code. Users rarely format their words.
const MIN_MARKED: usize = 4;

/// Minimum number of words of a template.
const MIN_TEMPLATE: usize = 2;

/// Minimum number of orders in a brief.
const MIN_ORDERS: usize = 3;

/// Minimum number of headings below the title that a document begins with.
const MIN_HEADINGS: usize = 2;

/// Minimum number of lines with a tab at their end, as in a table that was copied from a page.
const MIN_ROWS: usize = 3;

/// Spaces at the end of a line that was copied from a terminal, which fills each line up to its width.
const PADDING: &str = "        ";

/// A line of a message, with its range.
type Line<'t> = (Range<usize>, &'t str);

/// The ranges of `text` that seem to be pasted: output and code, and a document.
pub(super) fn pasted(text: &str) -> Vec<Range<usize>> {
    let mut at = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        let start = at;
        at += line.len();
        (start..at, line.trim())
    });
    let lines: Vec<Line<'_>> = lines.collect();
    let found = [output(text, &lines), code(&lines), document(text, &lines)];
    found.into_iter().flatten().collect()
}

/// From the first to the last line that a program printed.
fn output(text: &str, lines: &[Line<'_>]) -> Option<Range<usize>> {
    let has_rows = text.matches("\t\n").take(MIN_ROWS).count() == MIN_ROWS;
    let is_output = |(range, line): &Line<'_>| {
        let whole = text[range.clone()].trim_end_matches('\n');
        is_printed(line) || whole.ends_with(PADDING) || has_rows && whole.ends_with('\t')
    };
    let first = lines.iter().position(is_output)?;
    let last = lines.iter().rposition(is_output)?;
    // The command before its output may be wrapped.
    let blank = lines[..first].iter().rposition(|(_, line)| line.is_empty());
    let mut above = blank.unwrap_or_default()..first;
    let first = above.find(|at| is_command(lines[*at].1)).unwrap_or(first);
    // In a copy of a terminal, the output of the last command ends with its paragraph.
    let is_terminal = is_prompt(lines[0].1) && is_prompt(lines[last].1);
    let printed = lines[last..]
        .iter()
        .take_while(|(_, line)| is_terminal && !line.is_empty());
    let end = printed.last().unwrap_or(&lines[last]).0.end;
    Some(lines[first].0.start..end)
}

/// From the first to the last line of code.
fn code(lines: &[Line<'_>]) -> Option<Range<usize>> {
    marked(lines, |line| {
        is_code_end(before_paste(line)) || line.ends_with(';')
    })
}

/// From the first to the last of at least [`MIN_MARKED`] lines.
fn marked(lines: &[Line<'_>], is_marked: impl Fn(&str) -> bool) -> Option<Range<usize>> {
    // Most messages have too few lines at all.
    let mut marked = lines
        .iter()
        .filter(|(_, line)| lines.len() >= MIN_MARKED && is_marked(line))
        .map(|(range, _)| range);
    let first = marked.next()?;
    let last = marked.nth(MIN_MARKED - 2)?;
    Some(first.start..marked.next_back().unwrap_or(last).end)
}

/// From the first to the last formatted line of a template, a model's answer, or another document.
///
/// In a long text with headings, everything between the first and the last paragraph counts as pasted, and all of it if it
/// begins with a title.
fn document(text: &str, lines: &[Line<'_>]) -> Option<Range<usize>> {
    let is_heading = |line: &str| line.starts_with('#') && line.contains("# ");
    let is_below = |(_, line): &&Line<'_>| line.starts_with("##");
    if text.starts_with("---\n")
        || WORDS.prompts.begin(text.trim_start())
        || text.starts_with("# ") && lines.iter().filter(is_below).nth(MIN_HEADINGS - 1).is_some()
    {
        return Some(0..text.len());
    }
    // A template ends without words of the user.
    let is_template = WORDS.templates.places_in(text).nth(MIN_TEMPLATE - 1).is_some();
    let is_answer = is_template || marked(lines, is_formatted).is_some();
    let headings = lines.iter().filter(|(_, line)| is_heading(line)).count();
    let is_long = lines.len() > MAX_TYPED_LINES && headings >= 2;
    if !is_answer && !is_long || is_brief(text, lines, is_answer) {
        return None;
    }
    if is_answer {
        let is_part = |(_, line): &&Line<'_>| is_heading(line) || is_formatted(line);
        let first = lines.iter().find(is_part)?.0.start;
        let last = lines.iter().rfind(is_part)?.0.end;
        return Some(first..if is_template { text.len() } else { last });
    }
    let is_blank = |(_, line): &Line<'_>| line.is_empty();
    let first = lines.iter().position(is_blank)?;
    let last = lines.iter().rposition(is_blank)?;
    Some(lines[first].0.start..lines[last].0.end)
}

/// Whether a long text is the user's brief: it has orders, and neither output nor code nor a sign of a model's answer but
/// bold words. Code between fences does not count, unless the text looks like an answer.
fn is_brief(text: &str, lines: &[Line<'_>], is_answer: bool) -> bool {
    let mut is_fenced = false;
    let is_own = |(_, line): &&Line<'_>| {
        is_fenced ^= is_fence(line);
        !is_fenced && !is_fence(line)
    };
    let own: Vec<Line<'_>> = lines.iter().filter(is_own).cloned().collect();
    let is_plain = |(_, line): &Line<'_>| !is_formatted(&line.replace("**", ""));
    let orders = |(_, line): &&Line<'_>| requests::asks(line) || saying(line, &[]).is_some();
    (own.len() == lines.len() || !is_answer)
        && own.iter().all(is_plain)
        && output(text, &own).is_none()
        && code(&own).is_none()
        && own.iter().filter(orders).nth(MIN_ORDERS - 1).is_some()
}

/// Whether a line looks like a model's answer or a template: with bold words, a row of a table, a divider, a pictogram, or an
/// address to the user.
fn is_formatted(line: &str) -> bool {
    let is_table = || line.len() > 2 && line.starts_with('|') && line.ends_with('|') && !line.contains("---");
    let has_cells = || line.matches('\t').nth(1).is_some();
    let is_divider = || line.chars().all(|c| "-=_*⸻─".contains(c)) && line.chars().count() > 2;
    let is_pictogram =
        |c: char| matches!(c, '\u{2705}'..='\u{27bf}' | '\u{1f300}'..='\u{1faff}' | '⭐' | '⚠' | '⚡');
    line.contains("**") && line.matches("**").nth(1).is_some()
        || is_table()
        || has_cells()
        || is_divider()
        || line.starts_with(is_pictogram)
        || WORDS.templates.occur_in(line)
        || WORDS.addresses.occur_in(line)
}

/// Whether a program seems to have printed the line: colors, a leading time or level, a position in a file, a prompt.
fn is_printed(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let bare = first.trim_matches(['[', ']', '(', ')', ':', ',']);
    // `WARN[0000]`
    let level = bare.split('[').next().unwrap_or_default();
    // `Feb 8 21:51:50` begins with a month, and `Date: Sun Feb 8 21:51:50` with a label.
    let has_time = || {
        let mut words = line.split_whitespace().take(5).enumerate();
        line.contains([':', '-'])
            && words.any(|(at, word)| is_time(word.trim_start_matches(['[', '(']), at < 3))
    };
    // `TypeError: x is undefined`, `java.io.IOException: …`
    let is_error = first.ends_with("Error:") || first.ends_with("Exception:");
    // Encoded data: no word is as long.
    let is_encoded = || {
        let is_long = |word: &str| word.len() > MAX_WORD_BYTES && word.is_ascii();
        line.len() > MAX_WORD_BYTES && line.split_whitespace().any(is_long)
    };
    is_error
        || is_encoded()
        || is_pair(line)
        || is_frame(line)
        || WORDS.levels.contains(&level)
        || line.starts_with('[') && WORDS.levels.iter().any(|level| level.eq_ignore_ascii_case(bare))
        || WORDS.printed.begin(line)
        || WORDS.symbols.begin(line)
        || line.starts_with("| ") && !line.ends_with('|')
        || has_colours(line)
        || WORDS.runs.occur_in(line)
        || has_columns(line)
        || is_prompt(line)
        || has_time()
        || is_place(bare)
}

/// Whether a line has columns, as programs align them: `name     size     date`.
fn has_columns(line: &str) -> bool {
    const GAP: &str = "   ";
    let cells = || line.split(GAP).filter(|cell| !cell.trim().is_empty());
    line.contains(GAP) && cells().count() > 2 && !line.contains(|c| c > '\u{2e80}')
}

/// Whether a line begins with the prompt of a shell: `PS C:\work> ls`, `C:\work>ls`, `root@host:~# ls`, `me@host dir % ls`.
fn is_prompt(line: &str) -> bool {
    let line = line.strip_prefix("PS ").unwrap_or(line);
    // The environment of Python: `(base) me@host:~$ ls`.
    let line = line
        .split_once(") ")
        .filter(|_| line.starts_with('('))
        .map_or(line, |(_, line)| line);
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let has_host = first.find('@').is_some_and(|at| at > 0);
    let ends = |word: &str| word.ends_with(['$', '#', '%']);
    line.get(1..3) == Some(":\\") && line.contains('>')
        || has_host && (ends(first) || first.contains('>') || rest.split(' ').nth(1).is_some_and(ends))
}

/// Whether a line is a member of a JSON object (`"name": "value",`), or has two.
fn is_pair(line: &str) -> bool {
    let name = line.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    let is_first = name.is_some_and(|(_, value)| value.trim_start().starts_with(':'));
    const ENDS: &str = "\":";
    is_first || line.contains(ENDS) && before_paste(line).matches(ENDS).nth(1).is_some()
}

/// Whether a line is a command for a shell, and not a sentence about one: `git status shows the page`.
fn is_command(line: &str) -> bool {
    WORDS.commands.begin(line) && (line.contains(['"', '|', '&', ';', '=']) || line.contains(" -"))
}

/// Whether a line is a frame of a stack trace: `at Reader.open(a.js:1:2)`, `render @ page.tsx:81`, `dist/a.js (1:2)`.
fn is_frame(line: &str) -> bool {
    let called = line.strip_prefix("at ").and_then(|rest| rest.split_once('('));
    let placed = line.strip_suffix(')').and_then(|line| line.split_once(" ("));
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let is_placed = |(name, place): (&str, &str)| {
        name.contains('.') && !name.contains(' ') && place.split(':').all(is_number)
    };
    if called.is_some_and(|(name, _)| name.contains('.')) || placed.is_some_and(is_placed) {
        return true;
    }
    let mut words = line.split_whitespace().skip_while(|word| *word != "@");
    line.contains('@') && words.nth(1).is_some_and(is_place)
}

pub(super) fn is_fence(line: &str) -> bool {
    let begins = |fence: &str| line.starts_with(fence);
    // The closing quotes may end a line of the quotation.
    begins("```")
        || begins("~~~")
        || line.trim_matches('"').is_empty() && line.len() == 3
        || line.ends_with("\"\"\"") && !begins("\"\"\"")
}

/// Whether a line ends like code, or continues on the next line of a shell.
pub(super) fn is_code_end(line: &str) -> bool {
    let ends = [
        "{", "{(", "=> (", ");", "};", "})", "},", "],", "/>", "\">", " \\",
    ];
    ends.iter().any(|end| line.ends_with(end))
}

/// The part of a line before a pasted terminal prompt, and of a sentence before HTML or JSON.
pub(super) fn before_paste(line: &str) -> &str {
    /// Minimum number of words of a sentence, which tell it from code.
    const MIN_WORDS: usize = 4;
    let is_sentence = |at: &usize| line[..*at].split_whitespace().count() >= MIN_WORDS;
    // Most lines have none of them.
    if line.is_ascii() && memchr::memchr2(b'<', b'{', line.as_bytes()).is_none() {
        return line;
    }
    let html = line.find(" <").filter(|_| is_code_end(line));
    let code = html.or_else(|| line.find("{\"")).filter(is_sentence);
    let prompt = line.find('❯');
    prompt.or(code).map_or(line, |at| line[..at].trim_end())
}

/// Whether a line has color codes of a terminal. The escape character may be lost.
fn has_colours(line: &str) -> bool {
    line.contains('\u{1b}')
        || line.match_indices('[').any(|(at, _)| {
            let code = line[at + 1..].trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
            code.starts_with('m') && line.as_bytes()[at + 1].is_ascii_digit()
        })
}

/// Whether a word is a time of day, or a date if that counts.
fn is_time(word: &str, may_be_date: bool) -> bool {
    let is_like = |(b, of): (u8, u8)| b == of || of == b'0' && b.is_ascii_digit();
    let fits = |shape: &str| word.len() >= shape.len() && word.bytes().zip(shape.bytes()).all(is_like);
    may_be_date && fits("0000-00-00") || fits("00:00:00")
}

/// Whether a word is a position in a file: `src/a.rs:12`, `src/a.rs:12:5`.
fn is_place(word: &str) -> bool {
    let mut parts = word.split([':', '(', ',']);
    let file = parts.next().unwrap_or_default();
    let line = parts.next().unwrap_or_default();
    file.contains('.') && !file.contains("//") && !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit())
}
