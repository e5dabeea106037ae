//! Finds the next action in the carry-over prompt.

use super::prompt::{PromptSection, item};

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
pub(super) fn of(prompt: &str, sections: &[PromptSection<'_>]) -> Option<String> {
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
            assert_eq!(of(prompt, &sections(prompt)).as_deref(), step, "{prompt}");
        }
    }
}
