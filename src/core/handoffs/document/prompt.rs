//! Sections of a carry-over prompt by heading, their lists, and the next action that it names.

use std::collections::HashSet;

use crate::text::prose::{list_item, one_line, without_any};
use crate::work::SeenStatement;

/// A heading with the lines below it. The first section has no heading.
pub(super) struct PromptSection<'p> {
    heading: String,
    lines: Vec<&'p str>,
}

/// Divides a prompt into sections. A heading begins with `#`, is all bold, or is a line that ends with `:`.
pub(super) fn sections(prompt: &str) -> Vec<PromptSection<'_>> {
    let mut all = vec![PromptSection {
        heading: String::new(),
        lines: Vec::new(),
    }];
    let mut code = false;
    for line in prompt.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            code ^= true;
            continue;
        }
        // A `#` in a code block is a comment or output, not a heading.
        if code {
            continue;
        }
        if let Some(heading) = heading(trimmed) {
            all.push(PromptSection {
                heading: heading.to_lowercase(),
                lines: Vec::new(),
            });
        } else if let Some(last) = all.last_mut() {
            last.lines.push(trimmed);
        }
    }
    all
}

/// Maximum number of words of a heading that is a line. A longer line is a sentence that happens to end with a colon.
const MAX_HEADING_WORDS: usize = 14;

fn heading(line: &str) -> Option<&str> {
    if line.starts_with('#') {
        return Some(line.trim_start_matches('#').trim().trim_end_matches(':'));
    }
    let bold = line.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    if let Some(bold) = bold.filter(|text| !text.is_empty() && !text.contains("**")) {
        return Some(bold.trim_end_matches(':'));
    }
    let alone = line
        .strip_suffix(':')
        .filter(|text| text.split_whitespace().count() <= MAX_HEADING_WORDS && !text.contains(". "));
    alone.filter(|text| !text.is_empty() && list_item(text).is_none())
}

/// The text of an item: `- text`, `1. text`, `1) text`, `- [ ] text`.
pub(super) fn item(line: &str) -> Option<&str> {
    list_item(line).map(|text| without_any(text, &["[ ] ", "[-] "]))
}

impl<'p> PromptSection<'p> {
    /// Whether the heading contains one of these words.
    pub(super) fn is_about(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.heading.contains(word))
    }

    /// The list items of the section, or its lines if it has none.
    pub(super) fn items(&self) -> Vec<&'p str> {
        let lines = self.lines.iter().copied();
        let listed: Vec<_> = lines.clone().filter_map(item).collect();
        match listed.is_empty() {
            true => lines.filter(|line| !line.is_empty()).collect(),
            false => listed,
        }
    }

    /// The first paragraph of prose: lines that are neither items nor tags.
    pub(super) fn paragraph(&self) -> String {
        let prose = |line: &&&str| !(line.is_empty() || line.starts_with('<') && line.ends_with('>'));
        let lines = self
            .lines
            .iter()
            .skip_while(|line| !prose(line))
            .take_while(prose);
        let text: Vec<&str> = lines.map(|line| item(line).unwrap_or(line)).collect();
        text.join(" ")
    }
}

/// Maximum size of a sentence or an item in bytes.
pub(super) const SENTENCE: usize = 400;

/// Items below headings with one of these words.
pub(super) fn listed(sections: &[PromptSection<'_>], words: &[&str]) -> Vec<String> {
    let about = sections.iter().filter(|section| section.is_about(words));
    let items = about
        .flat_map(PromptSection::items)
        .map(|item| one_line(item, SENTENCE));
    items
        .filter(|item| item.chars().any(char::is_alphanumeric) && !is_none(item))
        .collect()
}

/// Whether an item only states that the list is empty.
fn is_none(item: &str) -> bool {
    let word = item.trim_end_matches('.').to_lowercase();
    matches!(
        word.as_str(),
        "none" | "n/a" | "nothing" | "no" | "none known" | "none yet" | "-"
    )
}

/// Observed statements and items of the prompt, each once.
pub(super) fn merged(statements: &[SeenStatement], prompt: Vec<String>) -> Vec<SeenStatement> {
    let prompt = prompt.into_iter().map(statement);
    let mut known = HashSet::new();
    let all = statements.iter().cloned().chain(prompt);
    all.filter(|stated| known.insert(stated.text.to_lowercase()))
        .collect()
}

/// An item of a prompt. Drafts without a model append the number of its turn.
fn statement(item: String) -> SeenStatement {
    let turn = || {
        let (text, turn) = item.strip_suffix(')')?.rsplit_once(" (turn ")?;
        Some((text, turn.parse().ok()?))
    };
    let (text, turn) = turn().unwrap_or((&item, 0));
    SeenStatement::new(text, turn)
}

/// Headings above the next step.
const HEADINGS: [&str; 7] = [
    "next step",
    "next action",
    "first step",
    "next up",
    "what to do next",
    "steps",
    "next",
];

/// Words before the next step on its own line, in lower case.
const BEGINS: [&str; 8] = [
    "next:",
    "next step:",
    "next steps:",
    "next action:",
    "first step:",
    "start by ",
    "start with ",
    "begin by ",
];

/// The first step that the prompt names.
pub(super) fn next_action(prompt: &str, sections: &[PromptSection<'_>]) -> Option<String> {
    inline(prompt).or_else(|| under_heading(sections))
}

fn under_heading(sections: &[PromptSection<'_>]) -> Option<String> {
    let named = |heading: &&str| sections.iter().find(|section| section.is_about(&[heading]));
    // `HEADINGS` is in order of precedence, because `next` matches the most headings.
    let mut sections = HEADINGS.iter().filter_map(named);
    let step = sections.find_map(|section| section.items().into_iter().next());
    step.map(plain).filter(|step| !step.is_empty())
}

/// Finds `Next: …` at the start of a line or of a sentence.
fn inline(prompt: &str) -> Option<String> {
    prompt.lines().find_map(|line| {
        let line = line.trim();
        let line = item(line).unwrap_or(line).trim_start_matches('*');
        starts(line).or_else(|| {
            let mut sentences = line.match_indices(". ").map(|(at, dot)| &line[at + dot.len()..]);
            sentences.find_map(starts)
        })
    })
}

fn starts(text: &str) -> Option<String> {
    let begins = BEGINS.iter().find(|begins| {
        let head = text.get(..begins.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(begins))
    })?;
    // A label does not belong to the step, but the verb of `Start by …` does.
    let rest = match begins.ends_with(':') {
        true => &text[begins.len()..],
        false => text,
    };
    let rest = plain(rest);
    (!rest.is_empty()).then_some(rest)
}

fn plain(text: &str) -> String {
    text.trim().trim_matches('*').trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_may_be_a_line_of_many_words() {
        let prompt = "Decisions:\n- Use SQLite.\n\nWhat the model said last in this session was:\nI look at it next.\n\n\
                      We use hooks. They are:\n- one";
        assert_eq!(listed(&sections(prompt), &["decision"]), ["Use SQLite."]);
        assert_eq!(sections(prompt).len(), 3);
    }
}

#[cfg(test)]
mod next_action_tests {
    use super::super::prompt::sections;
    use super::*;

    #[test]
    fn the_first_step_is_found_however_it_is_written() {
        for (prompt, step) in [
            (
                "Goal: skip BOMs. Done: survey. Next: edit reader.rs, then run the tests.",
                Some("edit reader.rs, then run the tests."),
            ),
            (
                "# Goal\nx\n\n## Next steps\n1. Write the parser\n2. Test it",
                Some("Write the parser"),
            ),
            ("**Next:** wire the exporter", Some("wire the exporter")),
            ("## Task\nSteps:\n1. Write step_a\n", Some("Write step_a")),
            ("Start by reading src/a.rs.", Some("Start by reading src/a.rs.")),
            ("Next steps:\n- [ ] one\n- [ ] two", Some("one")),
            ("All is done. The next reader has nothing to do.", None),
        ] {
            assert_eq!(
                next_action(prompt, &sections(prompt)).as_deref(),
                step,
                "{prompt}"
            );
        }
    }
}
