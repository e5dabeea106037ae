//! The typed lines of a user's text, without pasted ones.

use std::collections::HashMap;

use super::pasted::{WORDS, before_paste, is_code_end, is_fence, pasted};
use crate::marker::STEM;
use crate::text::prose::list_item;

/// Heading over the user's own words in a message that Codex's editor extension completed.
const OWN_HEADING: &str = "## My request for Codex:";

/// Beginning of Claude Code's message with the model's plan, once the user has accepted it.
const ACCEPTED_PLAN: &str = "Implement the following plan:\n";
/// Beginning of the agent's own line after the plan.
const PLAN_ENDS: &str = "\nIf you need specific details from before exiting plan mode";
/// Words before those that the user added to the plan (2.1.330).
const PLAN_FEEDBACK: &str = "\nUser feedback on this plan: ";

/// The lines that a user typed.
///
/// Excludes an accepted plan, code, quotations, tagged blocks, numbered listings, markers, and everything after a file's heading or an
/// announcement of a paste, unless a list follows. Quoted text may contain the end of a quotation. Therefore code ends with the last fence, and a
/// block with the last closing tag of its name.
pub(crate) fn typed(text: &str) -> Vec<&str> {
    if let Some(added) = added_to_plan(text) {
        return [vec![ACCEPTED_PLAN.trim_end()], typed(added)].concat();
    }
    let text = text.split_once(OWN_HEADING).map_or(text, |(_, own)| own);
    let pasted = pasted(text);
    let has_margin = has_margin(text);
    let closed = closed_tags(text);
    let fences = text.lines().filter(|line| is_fence(line.trim())).count();
    let mut lines = Vec::new();
    let (mut fence, mut at) = (0, 0);
    let (mut block_end, mut is_in_item) = (0, false);
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
            // A quotation may begin at the end of a typed line.
            let own = trimmed.strip_suffix("\"\"\"").filter(|_| fence % 2 == 1);
            lines.extend(own.map(str::trim_end).filter(|own| !own.is_empty()));
            continue;
        }
        // With an odd number of fences the last block is not closed, so everything after it is code.
        let is_fenced = fence > 0 && (fence < fences || fences % 2 == 1);
        if is_fenced || is_untyped(trimmed) {
            continue;
        }
        if let Some(name) = tag(trimmed) {
            // Cline puts tags around the user's own words; the content of other tags is not typed.
            let is_own = WORDS.own_tags.contains(&name);
            let end = closed.get(name).copied().unwrap_or_default();
            if !is_own && end > start {
                block_end = end;
            }
            let inside = inside_tag(trimmed);
            if is_own && !inside.is_empty() {
                lines.push(inside);
            }
            continue;
        }
        // Everything after the heading is the file.
        if is_file_heading(trimmed) && !is_above_own(&text[..start], &text[at..]) {
            break;
        }
        // Indented lines are code, unless they belong to list items.
        is_in_item = is_item(trimmed) || is_in_item && is_indented(line) && is_prose(trimmed);
        let is_code = is_indented(line) && !has_margin && !is_in_item;
        let own = before_paste(trimmed);
        if !is_code && !is_code_end(own) {
            lines.push(own);
        }
        // The announcing line is typed; everything after it is pasted, up to code if that follows.
        if introduces_paste(trimmed, &text[at..]) {
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

/// Whether a message is the model's plan, which the user accepted.
pub(crate) fn is_plan(text: &str) -> bool {
    text.trim_start().starts_with(ACCEPTED_PLAN)
}

/// The words that the user added to a plan when accepting it. `None` for another text.
fn added_to_plan(text: &str) -> Option<&str> {
    let plan = text.trim_start().strip_prefix(ACCEPTED_PLAN)?;
    // The plan itself may contain both lines, so the last one of the agent counts, and the words after it.
    let after = plan.rfind(PLAN_ENDS).map_or("", |at| &plan[at..]);
    Some(after.split_once(PLAN_FEEDBACK).map_or("", |(_, added)| added))
}

/// Whether a line is blank, a quotation, a listing, a marker, or that of a button.
fn is_untyped(line: &str) -> bool {
    line.is_empty() || line.starts_with('>') || is_listing(line) || is_mark(line) || WORDS.buttons.begin(line)
}

/// Whether a line is indented like code.
fn is_indented(line: &str) -> bool {
    line.starts_with("    ") || line.starts_with('\t')
}

/// Whether all lines below the first are indented. Then they were copied from a terminal, and are not code.
fn has_margin(text: &str) -> bool {
    /// Minimum number of such lines.
    const MIN_LINES: usize = 4;
    let lines = text.trim_start().lines().skip(1);
    let mut below = lines.filter(|line| !line.trim().is_empty());
    below.clone().nth(MIN_LINES - 1).is_some() && below.all(is_indented)
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

/// The text of a line after its opening tag, up to the closing one.
fn inside_tag(line: &str) -> &str {
    let inside = line
        .split_once('>')
        .map_or("", |(_, inside)| inside.trim_start_matches('>'));
    let closed = inside.split_once("</");
    closed.map_or(inside, |(inside, _)| inside).trim()
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

/// Whether a line is nothing but a file name, as above the content of a file.
fn is_file_heading(line: &str) -> bool {
    let bare = line.trim_matches(['#', '*', '`', '=', '-', '+', ' ', ':']);
    // An item of a list names a file that the user speaks of.
    bare.is_ascii()
        && list_item(line).is_none()
        && !line.starts_with('@')
        && !bare.contains("://")
        && !bare.contains(char::is_whitespace)
        && bare.rsplit_once('.').is_some_and(|(stem, ending)| {
            !stem.is_empty()
                && (1..=5).contains(&ending.len())
                && ending.bytes().all(|b| b.is_ascii_alphanumeric())
                && !ending.bytes().all(|b| b.is_ascii_digit())
        })
}

/// Whether the next line after a heading is an item of a list, as users write below `src/a.ts` and `Rules for the page:`.
fn is_above_list(below: &str) -> bool {
    let next = below.lines().map(str::trim).find(|line| !line.is_empty());
    next.is_some_and(|next| list_item(next).is_some())
}

/// Whether a file name is not the heading of the file: a list follows, or other names stand next to it.
fn is_above_own(above: &str, below: &str) -> bool {
    let is_path = |line: Option<&str>| line.is_some_and(|line| is_file_heading(line.trim()));
    let is_among_paths = || is_path(above.lines().next_back()) || is_path(below.lines().next());
    is_above_list(below) || is_among_paths()
}

/// Whether a line with a tag follows.
fn is_above_tag(below: &str) -> bool {
    let next = below.lines().map(str::trim).find(|line| !line.is_empty());
    next.and_then(tag).is_some()
}

fn is_item(line: &str) -> bool {
    line.starts_with(['-', '*', '•']) || list_item(line).is_some()
}

/// Whether an indented line reads like a sentence that continues an item of a list.
fn is_prose(line: &str) -> bool {
    line.split_whitespace().nth(2).is_some()
        && line.starts_with(char::is_alphabetic)
        && !line.contains(['{', '}', '=', ';', '<', '>', '('])
}

/// Whether a line announces pasted text, and neither a list nor markup, which ends with its last tag.
fn introduces_paste(line: &str, below: &str) -> bool {
    line.ends_with(':') && WORDS.introduces.occur_in(line) && !is_above_list(below) && !is_above_tag(below)
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
            ("Mend these:\n- src/a.rs\n- src/b.rs\nNever touch c.", 4),
            ("Mend it.\n\n**`src/a.rs`**\n- Never touch b.\n\nThen stop.", 4),
            ("Rules for the file:\n\n- Never touch b.\nThen stop.", 3),
            ("They can log in to view:\n• the hall\nThen stop.", 3),
            ("--- a/b.rs\nNever do that.", 0),
            ("shop/hall.rs\nshop/hall.rs.bak\nNever do that.", 3),
            (
                "The hall, as a snippet:\n<hall>\n<door>never</door>\n</hall>\nThen stop.",
                2,
            ),
            (
                "Paint:\n- the hall\n     Also paint the doors.\n     never();\nThen stop.",
                4,
            ),
            ("Rules:\nNever do that.", 2),
            (
                "Paint it:\n- the hall\n    1. Never the door.\n    2) Ohne Lampe.\n    never();\nThen stop.",
                5,
            ),
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
            (
                "Implement the following plan:\n\n# Plan\n```\nrun\n```\nNever touch it.\n\nIf you need specific details from before exiting plan mode, read it.\n\nUser feedback on this plan: Go on.\nStop at the door.",
                3,
            ),
            (
                "Implement the following plan:\n\nUser feedback on this plan: Never do that.\n\nIf you need specific details from before exiting plan mode, read it.",
                1,
            ),
            ("It prints\n⏺ Bash(ls)\n  ⎿  Never\nWhy?", 2),
            ("It hangs\nFeb 8 21:51:50.720 never\n{\"type\":\"must\"}\nWhy?", 2),
            (
                "The checks fail:\nRunning [/bin/lint run] in [/srv]\nError: src/a.rs:12:5: you must not\nMend it.",
                2,
            ),
            ("Look at this:\n\"\"\"\nNever do that.\n\"\"\"\nMend it.", 2),
            ("Here is the hall \"\"\"\nNever do that.\n\"\"\"\nMend it.", 2),
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
            (
                "Open it with\nhall=https://shop.example.com\ndoor=https://shop.example.org",
                3,
            ),
            ("Take the key.\n请写入.env.local\nThen stop.", 3),
            ("## My request for Codex:\nMend it.", 1),
            ("# Context\nnever\n## My request for Codex:\nMend it.", 1),
            ("How can I resolve this? If you propose a fix, never mind.", 0),
            ("curl -X POST \\\n-H 'Accept: never' \\\nWhy?", 1),
            ("全部读readme.md\nNever do that.", 2),
            ("@docs/hall.md\nNever do that.", 2),
            (
                "The hall\n    has doors.\n    Do not touch lamps/.\n    Never paint.\n    Then stop.",
                5,
            ),
            ("The hall\n    never();\nThen stop.", 2),
            (
                "Make the door like this <div class=\"never\">\n<p>Never.</p>\nThen stop.",
                2,
            ),
            ("me@host hall % ls\nNever found.\n\nWhy?", 1),
            ("(base) me@host:~$ ls\nNever found.\n\nWhy?", 1),
            (
                "It lists\nname     size     date\nnever\nhall     1     2\nWhy?",
                2,
            ),
            ("It logs\nhall> {\"id\":1,\"text\":\"you must\"}\nWhy?", 2),
            (
                "The hall is said to log {\"id\":1,\"text\":\"you must\"}\nWhy?",
                2,
            ),
            ("It logs\nWARN[0000] Use tabs instead.\nWhy?", 2),
            (
                "It fails\n\npython3 -c \"a.write('If it is','must\n  be closed. If not'))\"\n  File \"<string>\", line 1\n\nSyntaxError: never",
                1,
            ),
            (
                "It fails\n\nShop.openDoor\ndist/shop/hall.js (12:3)\nnever\nnode_modules/lamp.js (7:12)",
                2,
            ),
            ("make the hall red (see a.b)\nHall (7) is open.", 2),
            (
                "Mend this:\nlet a = 1;\n// never\nlet b = 2;\nlet c = 3;\nlet d = 4;\nThen stop.",
                2,
            ),
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

    #[test]
    fn a_long_brief_is_typed() {
        let items = "- The hall has a door.\n".repeat(40);
        let brief = |bold: &str, more: &str| {
            format!(
                "Build a hall.\n\n## Door\n- {bold}Lock{bold}: Never close it.\n{items}\n## Lamp\n- {bold}Light{bold}: It must be on.\n\
                 - {bold}Color{bold}: blue.\n- {bold}Size{bold}: 2 m.\n{more}\n\nThen stop."
            )
        };
        let typed_of = |bold: &str, more: &str| typed(&brief(bold, more)).len();
        assert_eq!((typed_of("", ""), typed_of("**", "")), (48, 48));
        // Output, tables and the words of a model show that it is not the user's, and so does code next to bold words.
        let code = "```\nlamp();\n```";
        assert_eq!((typed_of("", code), typed_of("**", code)), (48, 2));
        for more in ["ERROR lamp", "| a | b |", "Let me know if it is on."] {
            assert!(typed_of("", more) < 5 && typed_of("**", more) < 5, "{more}");
        }
    }

    #[test]
    fn of_a_document_the_words_before_and_after_it_are_typed() {
        for (text, kept) in [
            (
                "Take this plan.\n\n| a | b |\n|---|---|\n| c | d |\n| e | f |\n\nNever paint it.\n\nIf you want, I can paint it.\n\nThen stop.",
                &["Take this plan.", "Then stop."][..],
            ),
            (
                "Mend it.\n✅ A hall\n✅ A door\nNever.\n---\n⚠️ A lamp\n\nThen stop.",
                &["Mend it.", "Then stop."],
            ),
            (
                "Hall\tDoor\tLamp\nA\tnever\tB\nC\tmust\tD\nE\tF\tG\nThen stop.",
                &["Then stop."],
            ),
            (
                "Find the hall. Follow this:\n1. You must embody this agent's persona.\n2. Never break character.\nStop.",
                &["Find the hall. Follow this:"],
            ),
            ("---\nname: hall\n---\nNever do that.", &[]),
            (
                "Please analyze this codebase and create a HALL.md file.\nNever do that.",
                &[],
            ),
            // Headings, items and a few bold words are the user's as well.
            (
                "## Hall\n- **Never** paint it.\n- Keep the doors.\n\n## Lamp\n- Never.",
                &[
                    "## Hall",
                    "- **Never** paint it.",
                    "- Keep the doors.",
                    "## Lamp",
                    "- Never.",
                ],
            ),
        ] {
            assert_eq!(typed(text), kept, "{text}");
        }
    }
}
