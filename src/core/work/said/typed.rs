//! The typed lines of a user's text, without pasted ones.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::marker::STEM;
use crate::text::phrases::{Beginnings, Wordings};
use crate::text::table;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct PasteWords {
    own_tags: Vec<&'static str>,
    buttons: Beginnings,
    introduces: Wordings,
    file_headings: Beginnings,
    symbols: Beginnings,
    levels: Vec<&'static str>,
    printed: Beginnings,
}

static WORDS: LazyLock<PasteWords> = LazyLock::new(|| table::read(include_str!("pastes.toml")));

/// Heading over the user's own words in a message that Codex's editor extension completed.
const OWN_HEADING: &str = "## My request for Codex:";

/// The lines that a user typed.
///
/// Excludes code, quotations, tagged blocks, numbered listings, markers, and everything after a file's heading or an
/// announcement of a paste. Quoted text may contain the end of a quotation. Therefore code ends with the last fence, and a
/// block with the last closing tag of its name.
pub(crate) fn typed(text: &str) -> Vec<&str> {
    let text = text.split_once(OWN_HEADING).map_or(text, |(_, own)| own);
    let pasted = pasted(text);
    let closed = closed_tags(text);
    let fences = text.lines().filter(|line| is_fence(line.trim())).count();
    let mut lines = Vec::new();
    let (mut fence, mut at) = (0, 0);
    let mut block_end = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if start < block_end || pasted.iter().any(|paste| paste.contains(&start)) {
            continue;
        }
        let line = line.trim_end_matches(['\n', '\r']);
        let trimmed = line.trim();
        if is_fence(trimmed) {
            fence += 1;
            continue;
        }
        // With an odd number of fences the last block is not closed, so everything after it is code.
        let is_fenced = fence > 0 && (fence < fences || fences % 2 == 1);
        if is_fenced
            || trimmed.is_empty()
            || trimmed.starts_with('>')
            || is_listing(trimmed)
            || is_mark(trimmed)
            || WORDS.buttons.begin(trimmed)
        {
            continue;
        }
        if let Some(name) = tag(trimmed) {
            // Cline puts tags around the user's own words; the content of other tags is not typed.
            let is_own = WORDS.own_tags.contains(&name);
            let end = closed.get(name).copied().unwrap_or_default();
            if !is_own && end > start {
                block_end = end;
            }
            let inside = trimmed.trim_start_matches(|c| c != '>').trim_start_matches('>');
            let inside = inside
                .split_once("</")
                .map_or(inside, |(inside, _)| inside)
                .trim();
            if is_own && !inside.is_empty() {
                lines.push(inside);
            }
            continue;
        }
        // Everything after the heading is the file.
        if is_file_heading(trimmed) {
            break;
        }
        // Indented lines are code, unless they are list items.
        let is_code = line.starts_with("    ") || line.starts_with('\t');
        if !is_code_end(trimmed) && (!is_code || trimmed.starts_with(['-', '*', '•'])) {
            lines.push(before_prompt(trimmed));
        }
        // The announcing line is typed; everything after it is pasted, up to code if that follows.
        if introduces_paste(trimmed) {
            if fence == fences || fences % 2 == 1 {
                break;
            }
            let before_code = text[at..]
                .split_inclusive('\n')
                .take_while(|line| !is_fence(line.trim()));
            block_end = at + before_code.map(str::len).sum::<usize>();
        }
    }
    lines
}

/// Maximum size of a typed word in bytes.
const MAX_WORD_BYTES: usize = 250;

/// Number of lines above which a message may be a pasted document.
const MAX_TYPED_LINES: usize = 40;

/// Minimum number of lines with bold words in a model's answer. Users rarely emphasize.
const MIN_BOLD: usize = 4;

/// Minimum number of headings below the title that a document begins with.
const MIN_HEADINGS: usize = 2;

/// Minimum number of lines with a tab at their end, as in a table that was copied from a page.
const MIN_ROWS: usize = 3;

/// Spaces at the end of a line that was copied from a terminal, which fills each line up to its width.
const PADDING: &str = "        ";

/// The range of `text` that seems to be pasted.
///
/// The range reaches from the first to the last line that a program printed, or to that with bold words. In a long text with
/// headings, everything between the first and the last paragraph counts as pasted, and all of it if it begins with a title.
fn pasted(text: &str) -> Option<Range<usize>> {
    let mut at = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        let start = at;
        at += line.len();
        (start..at, line.trim())
    });
    let lines: Vec<(Range<usize>, &str)> = lines.collect();
    let has_rows = text.matches("\t\n").take(MIN_ROWS).count() == MIN_ROWS;
    let is_padded = |range: &Range<usize>| {
        let line = text[range.clone()].trim_end_matches('\n');
        line.ends_with(PADDING) || has_rows && line.ends_with('\t')
    };
    let mut printed = lines
        .iter()
        .filter(|(range, line)| is_printed(line) || is_padded(range))
        .map(|(range, _)| range);
    if let Some(first) = printed.next() {
        return Some(first.start..printed.next_back().unwrap_or(first).end);
    }
    let mut bold = lines
        .iter()
        .filter(|(_, line)| line.matches("**").nth(1).is_some());
    if bold.clone().nth(MIN_BOLD - 1).is_some() {
        let (first, last) = (bold.next()?, bold.next_back()?);
        return Some(first.0.start..last.0.end);
    }
    let headings = lines
        .iter()
        .filter(|(_, line)| line.starts_with('#') && line.contains("# "))
        .count();
    let is_below = |(_, line): &&(Range<usize>, &str)| line.starts_with("##");
    if text.starts_with("# ") && lines.iter().filter(is_below).nth(MIN_HEADINGS - 1).is_some() {
        return Some(0..text.len());
    }
    if lines.len() <= MAX_TYPED_LINES || headings < 2 {
        return None;
    }
    let is_blank = |(_, line): &(Range<usize>, &str)| line.is_empty();
    let first = lines.iter().position(is_blank)?;
    let last = lines.iter().rposition(is_blank)?;
    Some(lines[first].0.start..lines[last].0.end)
}

/// Whether a program seems to have printed the line: colors, a leading time or level, a position in a file, a prompt.
fn is_printed(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let bare = first.trim_matches(['[', ']', '(', ')', ':', ',']);
    // `Feb 8 21:51:50` begins with a month, and `Date: Sun Feb 8 21:51:50` with a label.
    let has_time = || {
        let mut words = line.split_whitespace().take(5).enumerate();
        words.any(|(at, word)| is_time(word.trim_start_matches(['[', '(']), at < 3))
    };
    // `TypeError: x is undefined`, `java.io.IOException: …`
    let is_error = first.ends_with("Error:") || first.ends_with("Exception:");
    // Encoded data: no word is as long.
    let is_encoded = || {
        line.split_whitespace()
            .any(|word| word.is_ascii() && word.len() > MAX_WORD_BYTES)
    };
    is_error
        || is_encoded()
        || is_pair(line)
        || is_frame(line)
        || WORDS.levels.contains(&bare)
        || line.starts_with('[') && WORDS.levels.iter().any(|level| level.eq_ignore_ascii_case(bare))
        || WORDS.printed.begin(line)
        || WORDS.symbols.begin(line)
        || line.starts_with("| ") && !line.ends_with('|')
        || has_colours(line)
        || has_run(line)
        || is_prompt(line)
        || has_time()
        || is_place(bare)
        || is_commit(line)
}

/// Whether a line has a run of dots or dashes that fills it: `build ........ ok`.
fn has_run(line: &str) -> bool {
    let mut runs = ["............", "────────────", "════════════", "━━━━━━━━━━━━"].iter();
    runs.any(|run| line.contains(run))
}

/// Whether a line begins with the prompt of a shell: `PS C:\work> ls`, `C:\work>ls`, `root@host:~# ls`.
fn is_prompt(line: &str) -> bool {
    let line = line.strip_prefix("PS ").unwrap_or(line);
    let first = line.split_whitespace().next().unwrap_or_default();
    line.get(1..3) == Some(":\\") && line.contains('>')
        || first.contains('@') && first.contains(':') && first.ends_with(['$', '#'])
}

/// Whether a line is a member of a JSON object: `"name": "value",`.
fn is_pair(line: &str) -> bool {
    let name = line.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    name.is_some_and(|(_, value)| value.trim_start().starts_with(':'))
}

/// Whether a line is a frame of a stack trace: `at Reader.open(a.js:1:2)`, `render @ page.tsx:81`.
fn is_frame(line: &str) -> bool {
    let called = line.strip_prefix("at ").and_then(|rest| rest.split_once('('));
    if called.is_some_and(|(name, _)| name.contains('.')) {
        return true;
    }
    let mut words = line.split_whitespace().skip_while(|word| *word != "@");
    words.nth(1).is_some_and(is_place)
}

/// Whether a line ends like code, or continues on the next line of a shell.
fn is_code_end(line: &str) -> bool {
    let ends = ["{", "{(", "=> (", ");", "};", "})", "},", "],", "/>", " \\"];
    ends.iter().any(|end| line.ends_with(end))
}

/// Whether a line names a commit, as `git log` prints it.
fn is_commit(line: &str) -> bool {
    let hash = line.strip_prefix("commit ").and_then(|rest| rest.get(..40));
    hash.is_some_and(|hash| hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The part of a line before a pasted terminal prompt.
fn before_prompt(line: &str) -> &str {
    line.find('❯').map_or(line, |at| line[..at].trim_end())
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

fn is_fence(line: &str) -> bool {
    let begins = |fence: &str| line.starts_with(fence);
    // The closing quotes may end a line of the quotation.
    begins("```")
        || begins("~~~")
        || line.trim_matches('"').is_empty() && line.len() == 3
        || line.ends_with("\"\"\"") && !begins("\"\"\"")
}

/// The names of all closed tags, each with the position where it is closed last.
fn closed_tags(text: &str) -> HashMap<&str, usize> {
    let mut pieces = text.split("</");
    let mut at = pieces.next().map_or(0, str::len);
    let mut closed = HashMap::new();
    for piece in pieces {
        if let Some((name, _)) = piece.split_once('>') {
            closed.insert(name, at);
        }
        at += "</".len() + piece.len();
    }
    closed
}

/// The name of a tag that opens or closes at the start of a line.
fn tag(line: &str) -> Option<&str> {
    let name = line.strip_prefix("</").or_else(|| line.strip_prefix('<'))?;
    let end = name.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | ':')))?;
    let is_name = end > 0 && name[end..].starts_with(['>', ' ', '/']);
    is_name.then(|| &name[..end])
}

/// Whether a line is from a listing with line numbers: `12→text`, `12 | text`.
fn is_listing(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && (rest.starts_with(['→', '\t', '|']) || rest.starts_with(" |"))
}

/// Whether a line begins with a marker, escaped or not. A seal may begin with `No-`, which would read as a rule.
fn is_mark(line: &str) -> bool {
    let inside = line.trim_start_matches(['-', '*', '•', ' ']).strip_prefix("[[");
    inside.is_some_and(|text| text.trim_start_matches('/').as_bytes().starts_with(STEM))
}

/// Whether a line is nothing but a file name, or one of the usual headings above a file's content.
fn is_file_heading(line: &str) -> bool {
    let bare = line.trim_matches(['#', '*', '`', '=', '-', '+', ' ', ':']);
    let is_path = !bare.is_empty()
        && !bare.contains(char::is_whitespace)
        && bare.rsplit_once('.').is_some_and(|(stem, ending)| {
            !stem.is_empty()
                && (1..=5).contains(&ending.len())
                && ending.bytes().all(|b| b.is_ascii_alphanumeric())
                && !ending.bytes().all(|b| b.is_ascii_digit())
        });
    // `--- End of stack trace ---` is a divider.
    let is_divider = line.ends_with("---") || line.ends_with("===");
    is_path || !is_divider && WORDS.file_headings.begin(&line.to_lowercase())
}

/// Whether a line announces pasted text.
fn introduces_paste(line: &str) -> bool {
    line.ends_with(':') && WORDS.introduces.occur_in(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_typed_is_the_users() {
        let text = "Port it. Never touch the API.\n\n```\nnever in code\n```\n> never quoted\n<file path=\"a\">\nnever in a \
                    file\n</file>\n  12→never listed\n    never indented\n    - in a list\nThen stop.";
        assert_eq!(
            typed(text),
            ["Port it. Never touch the API.", "- in a list", "Then stop."]
        );
        for (pasted, kept) in [
            ("Mend it.\n\nREADME.md\nNever do that.", 1),
            ("Mend it.\n### src/a.rs\nNever do that.", 1),
            ("Here is the log:\nNever do that.", 1),
            ("--- a/b.rs\nNever do that.", 0),
            ("Rules:\nNever do that.", 2),
            (
                "The log has this:\nin this part:\n```\nnever();\n```\nRemove it.",
                2,
            ),
            (
                "<task>\nNever do that.\n</task>\n<environment_details>\nNever.\n</environment_details>",
                1,
            ),
            ("<task>Never do that.</task>", 1),
            ("<b\nNever do that.", 2),
            ("Go on.\n- [[/handoff-resume\\:No-Syrljfxp4i5Lhc5Dd6A]]", 1),
            ("[[/handoff-resume:No-Syrljfxp4i5Lhc5Dd6A]]", 0),
            (
                "It fails:\n2026-01-02T03:04:05Z [err] Never mind.\nat all\n[91mNever[0m\nWhy?",
                2,
            ),
            ("Mend it.\nsrc/a.rs:12:5: you must not\nINFO never", 1),
            ("Use [1] and (2) as in a.b: see 10:30.", 1),
            (
                "Implement the following plan:\n\n# Plan\nNever touch it.\n\nIf you need more, read the transcript.",
                1,
            ),
            ("It prints\n⏺ Bash(ls)\n  ⎿  Never\nWhy?", 2),
            ("It hangs\nFeb 8 21:51:50.720 never\n{\"type\":\"must\"}\nWhy?", 2),
            (
                "The checks fail:\nRunning [/bin/lint run] in [/srv]\nError: src/a.rs:12:5: you must not\nMend it.",
                2,
            ),
            ("Look at this:\n\"\"\"\nNever do that.\n\"\"\"\nMend it.", 2),
            ("Look at this:\n\"\"\"\nNever do that.\"\"\"\nMend it.", 2),
            (
                "It says\nHere is why:                    \n  Never do that.\n  Stop.                    \nMend it.",
                2,
            ),
            (
                "It logs\n* commit 1234567\n| Author: A\nDate:   Sun Feb 15 15:05:26 2026\nNever.\n| Never.\nMend it.",
                2,
            ),
            ("It fails:\nTypeError: never\nMend it.", 2),
            (
                "It fails:\n   at A.B()\n--- End of trace ---\n   at A.C()\nWhy?",
                2,
            ),
            ("It logs\n\"id\": 7,\n\"state\": \"you must\"\nHide it.", 2),
            (
                "It logs\nrender @ page.tsx:81\nnever\nflush @ react.js:7:12\nMend it.",
                2,
            ),
            ("Do this:\nfor (const x of all) {\nnever(x);\nThen stop.", 2),
            ("Take these:\nOrders\t\nNever\t\nBills\t\nThen stop.", 2),
            ("It hangs\nPS C:\\shop> run\nnever\nroot@hall:~# run\nWhy?", 2),
            (
                "It hangs\nbuild ............. ok\nnever\n[Warning: hall] never\nWhy?",
                2,
            ),
            ("It fails\nshop\\hall.cs(7,12): never\nWhy?", 2),
            ("# Shop\n## Hall\nNever.\n## Door\nNever.", 0),
            ("# Shop\nNever.\n# Hall\nNever.", 4),
            (
                "Take this:\n**A** b\nnever\n**C** d\n**E** f\nnever\n**G** h\nThen stop.",
                2,
            ),
            ("## My request for Codex:\nMend it.", 1),
            ("# Context\nnever\n## My request for Codex:\nMend it.", 1),
            ("How can I resolve this? If you propose a fix, never mind.", 0),
            ("curl -X POST \\\n-H 'Accept: never' \\\nWhy?", 1),
        ] {
            assert_eq!(typed(pasted).len(), kept, "{pasted}: {:?}", typed(pasted));
        }
    }

    #[test]
    fn output_in_a_typed_line_is_not_typed() {
        assert_eq!(
            typed("I ran it and saw ❯ Commit the changes\n  ⎿  Never.\nWhy?"),
            ["I ran it and saw", "Why?"]
        );
    }

    #[test]
    fn of_a_long_document_the_first_and_the_last_paragraph_are_typed() {
        let document = format!(
            "Port it.\n\n# A\n\n{}\n## B\nNever.\n\nThen stop.",
            "- item\n".repeat(50)
        );
        assert_eq!(typed(&document), ["Port it.", "Then stop."]);
    }
}
